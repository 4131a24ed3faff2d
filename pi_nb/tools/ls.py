"""ls: what is in one folder, all of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pi_nb.env.ignore import NEVER, Ignore
from pi_nb.env.types import ExecutionEnv, FileInfo
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.result import Err
from pi_nb.text import count, visible

from .search_folder import Lines, listed, not_a_folder, place_of

MAX_ENTRIES = 500

_DESCRIPTION = (
    "List a folder, by name, hidden names too; a folder ends in /, a symlink in @. Says which of "
    f"them find and grep pass over. At most {MAX_ENTRIES} entries."
)


def ls_tool(env: ExecutionEnv) -> AgentTool:
    """The tool `ls` on an environment."""

    @tool(description=_DESCRIPTION, label="List")
    async def ls(
        context: ToolContext,
        path: Annotated[str, "the folder"] = ".",
        limit: Annotated[int, Field(ge=1, le=MAX_ENTRIES, description="entries")] = MAX_ENTRIES,
    ) -> ToolResult:
        found = await place_of(env, path)
        if isinstance(found, Err):
            return found.error
        folder = found.value
        if folder.kind != "directory":
            return not_a_folder(env, folder)
        children = await env.list_dir(folder.path, signal=context.signal)
        context.signal.raise_if_aborted()
        if isinstance(children, Err):
            return answer(f"Could not list: {visible(str(children.error))}", is_error=True)
        lines = Lines(limit)
        for child in children.value:
            if not lines.add(_shown(child)):
                break
        notes = await _passed_over(env, folder.path, children.value[: len(lines.lines)])
        if not children.value:
            notes.append("The folder is empty.")
        if lines.full:
            total = count(len(children.value), "entry", "entries")
            notes.insert(0, f"The first {len(lines.lines):,} of {total}. Use find for the rest.")
        return listed(lines.lines, notes, {"entries": len(children.value), "truncated": lines.full})

    return ls


def _shown(child: FileInfo) -> str:
    return visible(child.name) + ("@" if child.link else "/" if child.kind == "directory" else "")


async def _passed_over(env: ExecutionEnv, folder: str, children: list[FileInfo]) -> list[str]:
    """Which of them are ignored. Told and not hidden: who asks for a folder sees what is there."""
    above = await Ignore.at(env, folder)
    ignore = await above.within(env, folder, {child.name for child in children})
    names = [
        _shown(child)
        for child in children
        if child.name in NEVER
        or ignore.ignores(child.path, is_folder=child.kind == "directory" and not child.link)
    ]
    if not names:
        return []
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return [f"Ignored by find and grep: {', '.join(names[:10])}{more}."]
