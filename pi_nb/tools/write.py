"""write: a whole file, new or in the place of another."""

from __future__ import annotations

from typing import Annotated

from pi_nb.env.types import ExecutionEnv, FileInfo
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolResult, answer
from pi_nb.result import Err, Ok
from pi_nb.text import count

from .diff import FileChange, change_of
from .paths import as_shown
from .write_queue import turn

_COMPARED = 2_000_000
"""Bytes of a former file that are read to show what changed."""


def write_tool(env: ExecutionEnv) -> AgentTool:
    """The tool `write` on an environment."""

    @tool(label="Write", changes=True)
    async def write(
        path: Annotated[str, "the file; folders that are missing are made"],
        content: Annotated[str, "all that the file will hold"],
    ) -> ToolResult:
        """Write a file, replacing what was there. For a small change use edit."""
        async with turn(env, path):
            there = await env.info(path)
            before = await _former(env, there.value) if isinstance(there, Ok) else None
            written = await env.write_text(path, content)
        if isinstance(written, Err):
            return answer(f"Could not write: {written.error}", is_error=True)
        absolute = env.resolve(path)
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        size = count(len(content.encode()), "byte")
        if isinstance(there, Err):
            how, change = "Made", change_of(absolute, None, content)
        elif before is None:
            how, change = "Replaced", FileChange(path=absolute)
        else:
            how, change = "Replaced", change_of(absolute, before, content)
        same = " It held the same before." if before == content else ""
        return answer(
            f"{how} {as_shown(env, absolute)}: {count(lines, 'line')}, {size}.{same}",
            details=change.to_wire(),
        )

    return write


async def _former(env: ExecutionEnv, there: FileInfo) -> str | None:
    """What it held; None where that is no text or too much to compare with."""
    if there.size > _COMPARED:
        return None
    former = await env.read_text(there.path)
    return former.value if isinstance(former, Ok) else None
