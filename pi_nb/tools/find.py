"""find: files and folders by the form of their path."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pi_nb.env.ignore import Walk
from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.result import Err
from pi_nb.text import visible

from .glob import glob_of
from .search_folder import (
    Lines,
    below,
    listed,
    not_a_folder,
    not_listed,
    place_of,
    relative_to,
)

MAX_RESULTS = 1_000

_DESCRIPTION = (
    "Find files and folders by a glob such as *.py, src/**/*.ts or *.{js,jsx}. A glob without / "
    "is a name at any depth, any other is relative to the searched folder, like the paths that "
    "are printed. Passes over .git, node_modules, what ignore files name, and hidden names unless "
    f"the glob spells the dot. At most {MAX_RESULTS:,} results."
)


def find_tool(env: ExecutionEnv) -> AgentTool:
    """The tool `find` on an environment."""

    @tool(description=_DESCRIPTION, label="Find")
    async def find(
        context: ToolContext,
        pattern: Annotated[str, "the glob"],
        path: Annotated[str, "the folder to search"] = ".",
        limit: Annotated[int, Field(ge=1, le=MAX_RESULTS, description="results")] = MAX_RESULTS,
    ) -> ToolResult:
        found = await place_of(env, path)
        if isinstance(found, Err):
            return found.error
        folder = found.value
        if folder.kind != "directory":
            return not_a_folder(env, folder)
        glob = glob_of(pattern, folder.path)
        if isinstance(glob, Err):
            return answer(glob.error, is_error=True)
        walk = Walk(env, folder.path, hidden=glob.value.hidden, signal=context.signal)
        lines = Lines(limit)
        async for info in walk:
            context.signal.raise_if_aborted()
            name = below(folder.path, info.path)
            is_folder = info.kind == "directory"
            if (
                glob.value.matches(name)
                and (is_folder or not glob.value.folders_only)
                and not lines.add(visible(name) + "/" * is_folder)
            ):
                break
        notes = [] if lines.lines else ["Nothing found."]
        if lines.full:
            notes.append(f"The first {len(lines.lines):,}; there are more. Narrow the glob.")
        if lines.lines:
            notes += relative_to(env, folder.path)
        notes += not_listed(walk.unreadable)
        details = {"results": len(lines.lines), "truncated": lines.full}
        return listed(lines.lines, notes, details)

    return find
