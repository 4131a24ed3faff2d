"""What ls, find and grep have in common: the folder they look into, and how they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pi_nb.env.types import ExecutionEnv, FileError, FileInfo
from pi_nb.loop.types import ToolResult, answer
from pi_nb.result import Err, Ok, Result
from pi_nb.text import count, visible

from .paths import as_shown, find

MAX_BYTES = 50_000
"""Bytes of an answer, its notes apart."""


class Lines:
    """The lines of an answer, within a number and within `MAX_BYTES`."""

    def __init__(self, most: int) -> None:
        self.lines: list[str] = []
        self.full = False
        """A line came for which there was no room."""
        self._most = most
        self._room = MAX_BYTES

    def add(self, line: str) -> bool:
        """Whether it was taken."""
        size = len(line.encode()) + 1
        if len(self.lines) >= self._most or size > self._room:
            self.full = True
            return False
        self.lines.append(line)
        self._room -= size
        return True


async def place_of(env: ExecutionEnv, path: str) -> Result[FileInfo, ToolResult]:
    """What is to be searched, its path resolved; or the refusal for the model."""
    found = await find(env, path)
    if isinstance(found, Err):
        return Err(answer(f"Could not search: {visible(str(found.error))}", is_error=True))
    # One that ends in a link is meant as what it leads to.
    real = await env.info(env.resolve(found.value.path))
    return real if isinstance(real, Ok) else found


def not_a_folder(env: ExecutionEnv, place: FileInfo) -> ToolResult:
    """The refusal where a folder is needed."""
    return answer(f"{visible(as_shown(env, place.path))} is not a folder.", is_error=True)


def below(folder: str, path: str) -> str:
    """A path inside a folder, relative to it."""
    return path[len(folder.rstrip("/")) + 1 :]


def not_listed(unreadable: Sequence[FileError]) -> list[str]:
    """A note of folders that could not be listed."""
    if not unreadable:
        return []
    first = visible(str(unreadable[0]))
    return [f"{count(len(unreadable), 'folder')} could not be read, first: {first}."]


def relative_to(env: ExecutionEnv, folder: str) -> list[str]:
    """A note of what the paths are relative to, where that is not the working folder."""
    if folder == env.resolve(env.cwd):
        return []
    return [f"Paths are relative to {visible(as_shown(env, folder))}."]


def listed(lines: Sequence[str], notes: Sequence[str], details: Mapping[str, object]) -> ToolResult:
    """The answer: lines, then what is to be known about them in brackets."""
    parts = ["\n".join(lines)] if lines else []
    if notes:
        parts.append(f"[{' '.join(notes)}]")
    return answer("\n\n".join(parts), details=dict(details))
