"""edit: replace pieces of a file and leave every other byte as it is."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from pydantic import BaseModel, Field

from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolResult, answer
from pi_nb.result import Err
from pi_nb.text import count

from .diff import change_of
from .paths import as_shown, find
from .replace import Replacement, replace
from .write_queue import turn

# Other names under which models send the two texts of an edit.
_OLD = ("old", "old_text", "oldText", "old_string", "oldString")
_NEW = ("new", "new_text", "newText", "new_string", "newString")

LARGEST = 20 * 1024 * 1024
"""Bytes of a file that is edited at most; it is held in memory several times over."""


class Edit(BaseModel):
    old: Annotated[str, Field(description="the text that is there, exactly, and only once")]
    new: Annotated[str, Field(description="the text in its place")]


def edit_tool(env: ExecutionEnv) -> AgentTool:
    """The tool `edit` on an environment."""

    @tool(label="Edit", changes=True, prepare=as_edits)
    async def edit(
        path: Annotated[str, "the file"],
        edits: Annotated[list[Edit], Field(min_length=1)],
    ) -> ToolResult:
        """Replace pieces of a text file. All of them refer to the file as it is now, must not
        overlap, and are made together or not at all."""
        async with turn(env, path):
            found = await find(env, path)
            if isinstance(found, Err):
                return answer(f"Could not edit: {found.error}", is_error=True)
            file = found.value
            if file.size > LARGEST:
                return answer(
                    f"Could not edit: {as_shown(env, file.path)} has {file.size:,} bytes, and at "
                    f"most {LARGEST:,} are edited. Use bash, for example with sed.",
                    is_error=True,
                )
            before = await env.read_text(file.path)
            if isinstance(before, Err):
                return answer(f"Could not edit: {before.error}", is_error=True)
            wanted = [Replacement(one.old, one.new) for one in edits]
            # A large text takes its time, and the loop has others to serve.
            after = await asyncio.to_thread(replace, before.value, wanted)
            name = as_shown(env, file.path)
            if isinstance(after, Err):
                return answer(f"{name} was not changed.\n{after.error}", is_error=True)
            written = await env.write_text(file.path, after.value)
            if isinstance(written, Err):
                return answer(f"Could not edit: {written.error}", is_error=True)
        shown = env.resolve(file.path)
        change = await asyncio.to_thread(change_of, shown, before.value, after.value)
        places = count(len(edits), "place")
        return answer(f"Changed {name} in {places}.", details=change.to_wire())

    return edit


def as_edits(arguments: dict[str, Any]) -> dict[str, Any]:
    """One shape of the shapes that models send: `path`, and a list of `old` and `new` (F-05)."""
    made = dict(arguments)
    edits = made.get("edits")
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except (ValueError, RecursionError):
            return made
    if isinstance(edits, dict):
        edits = [edits]
    if isinstance(edits, list):
        made["edits"] = [_as_edit(one) for one in edits]
    elif edits is None and isinstance(one := _as_edit(made), dict) and "old" in one:
        made["edits"] = [{"old": one["old"], "new": one.get("new", "")}]
    return made


def _as_edit(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    made = dict(one)
    for name, others in (("old", _OLD), ("new", _NEW)):
        given = next((other for other in others if other in made), None)
        if given is not None:
            made[name] = made.pop(given)
    return made
