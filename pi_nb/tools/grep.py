"""grep: lines of files by what they hold, streamed, in bounded time and memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import Field

from pi_nb.abort import AbortSignal
from pi_nb.env.ignore import Walk
from pi_nb.env.types import ExecutionEnv, FileInfo
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.result import Err
from pi_nb.text import count, visible

from .glob import Glob, glob_of
from .pattern import Pattern, pattern_of
from .scan import Scan
from .search_folder import below, listed, not_listed, place_of, relative_to
from .text_lines import NotText, text_of_file

MATCHES = 100
MAX_MATCHES = 1_000
MAX_CONTEXT = 20
MAX_SECONDS = 30.0
"""Then a search ends with what it has."""

_DESCRIPTION = (
    "Search files for lines that match a regular expression (Python's), or hold a text (literal). "
    "Prints path:line: text, paths relative to the searched folder. Passes over .git, "
    "node_modules, what ignore files name, hidden names unless the glob spells the dot, and files "
    "that are no text."
)


def grep_tool(env: ExecutionEnv, *, seconds: float = MAX_SECONDS) -> AgentTool:
    """The tool `grep` on an environment; a search ends after so many seconds."""

    @tool(description=_DESCRIPTION, label="Search")
    async def grep(
        context: ToolContext,
        pattern: Annotated[str, "what a line holds"],
        path: Annotated[str, "the folder or file to search"] = ".",
        glob: Annotated[str | None, "only files of this form, such as *.py or src/**"] = None,
        ignore_case: bool = False,
        literal: Annotated[bool, "the pattern is plain text"] = False,
        context_lines: Annotated[
            int, Field(ge=0, le=MAX_CONTEXT, description="lines before and after each match")
        ] = 0,
        limit: Annotated[int, Field(ge=1, le=MAX_MATCHES, description="matches")] = MATCHES,
    ) -> ToolResult:
        wanted = pattern_of(pattern, literal=literal, ignore_case=ignore_case)
        if isinstance(wanted, Err):
            return answer(wanted.error, is_error=True)
        found = await place_of(env, path)
        if isinstance(found, Err):
            return found.error
        form = glob_of(glob, found.value.path) if glob is not None else None
        if isinstance(form, Err):
            return answer(form.error, is_error=True)
        scan = Scan(
            wanted.value,
            context=context_lines,
            limit=limit,
            deadline=time.monotonic() + seconds,
            signal=context.signal,
        )
        search = _Search(env, wanted.value, scan, context.signal)
        return await search.place(found.value, form.value if form is not None else None)

    return grep


class _Search:
    """One search: the files it goes through, and what is to be said about them."""

    def __init__(
        self, env: ExecutionEnv, pattern: Pattern, scan: Scan, signal: AbortSignal
    ) -> None:
        self._env = env
        self._pattern = pattern
        self._scan = scan
        self._signal = signal
        self._searched = 0
        self._no_text = 0
        self._unreadable: list[str] = []

    async def place(self, place: FileInfo, glob: Glob | None) -> ToolResult:
        """Search a folder, or the one file that was named.

        Raises:
            Aborted: the signal is set.
        """
        if place.kind != "directory":
            await self._file(place, visible(place.name))
            if self._no_text or self._unreadable:
                return answer(" ".join(self._notes()), is_error=True)
            return self._answer(self._notes())
        hidden = glob is not None and glob.hidden
        walk = Walk(self._env, place.path, hidden=hidden, signal=self._signal)
        async for file in _files(walk, glob):
            await self._file(file, visible(below(place.path, file.path)))
            if self._scan.over:
                break
        notes = self._notes() + not_listed(walk.unreadable)
        if self._scan.matches:
            notes += relative_to(self._env, place.path)
        return self._answer(notes)

    async def _file(self, file: FileInfo, name: str) -> None:
        self._scan.begin(name)
        try:
            async for piece, last in text_of_file(self._env, file.path, self._signal):
                if isinstance(piece, Err):
                    self._unreadable.append(visible(str(piece.error)))
                    return
                # In a thread others may run between two lines; within one nobody can.
                await asyncio.to_thread(self._scan.feed, piece.value, last=last)
                self._signal.raise_if_aborted()
                if self._scan.over:
                    break
        except NotText:
            self._no_text += 1
        else:
            self._searched += 1

    def _answer(self, notes: list[str]) -> ToolResult:
        details = {
            "matches": self._scan.matches,
            "files": self._searched,
            "truncated": self._scan.over,
        }
        return listed(self._scan.out.lines, notes, details)

    def _notes(self) -> list[str]:
        scan = self._scan
        notes = [] if scan.matches else ["No match."]
        if scan.late:
            notes.append(f"Ended for its time in file {self._searched}; narrow it with a glob.")
        elif scan.over:
            matches = count(scan.matches, "match", "matches")
            notes.append(f"The first {matches}; there are more. Narrow the pattern or the glob.")
        if scan.cut:
            lines = count(scan.cut, "long line")
            notes.append(f"Of {lines} the first {self._pattern.max_line:,} characters were seen.")
        if self._no_text:
            notes.append(f"{count(self._no_text, 'file')} without text passed over.")
        if self._unreadable:
            number = count(len(self._unreadable), "file")
            notes.append(f"{number} could not be read, first: {self._unreadable[0]}.")
        return notes


async def _files(walk: Walk, glob: Glob | None) -> AsyncIterator[FileInfo]:
    """The files that are meant. A symlink is none: what it leads to is met where it is."""
    async for info in walk:
        if walk.signal is not None:
            walk.signal.raise_if_aborted()
        if info.kind != "file" or info.link:
            continue
        if glob is None or (not glob.folders_only and glob.matches(below(walk.folder, info.path))):
            yield info
