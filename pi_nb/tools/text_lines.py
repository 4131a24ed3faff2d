"""The lines of a file of any size as text, a chunk at a time.

UTF-8 with or without a byte order mark, and UTF-16 with one; what is neither is not read.
Lines end at a line feed, a carriage return before it being left out; a lone one stays inside
its line.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator

from pi_nb.abort import AbortSignal
from pi_nb.env.types import FileError, FileSystem
from pi_nb.result import Err, Ok, Result

from .content import HEAD, kind_of

_CHUNK = 524_288


class NotText(Exception):
    """The file is no text."""


async def text_of_file(
    env: FileSystem, path: str, signal: AbortSignal
) -> AsyncIterator[tuple[Result[str, FileError], bool]]:
    """The file's text in pieces, cut anywhere, each with whether it is the last.

    Raises:
        NotText: before the first piece.
        Aborted: the signal is set.
    """
    decoder: codecs.IncrementalDecoder | None = None
    at = 0
    while True:
        chunk = await env.read_bytes(path, offset=at, limit=_CHUNK, signal=signal)
        signal.raise_if_aborted()
        if isinstance(chunk, Err):
            yield chunk, True
            return
        data = chunk.value
        if decoder is None:
            kind = kind_of(data[:HEAD])
            if kind not in ("text", "utf-16"):
                raise NotText
            encoding = "utf-16" if kind == "utf-16" else "utf-8-sig"
            decoder = codecs.getincrementaldecoder(encoding)("replace")
        at += len(data)
        # Shorter than asked is the end: a second question for each small file would be dear.
        last = len(data) < _CHUNK
        yield Ok(decoder.decode(data, last)), last
        if last:
            return


class Splitter:
    """Makes lines of pieces of text. Of a line longer than `longest` the beginning is kept."""

    def __init__(self, longest: int) -> None:
        self.cut = 0
        """Lines that were cut."""
        self._longest = longest
        self._line = ""
        self._lost = False

    def lines(self, text: str, *, last: bool) -> list[str]:
        """The lines that are complete now; with `last` also one without an end."""
        first, *pieces = text.split("\n")
        done: list[str] = []
        self._extend(first)
        for piece in pieces:
            done.append(self._line.removesuffix("\r"))
            self._end()
            self._extend(piece)
        if last and self._line:
            done.append(self._line)
            self._end()
        return done

    def skip(self, text: str, wanted: str) -> int | None:
        """How many lines end in the text, if none of them holds `wanted`; else None, undone."""
        if wanted in self._line + text:
            return None
        before, newline, rest = text.rpartition("\n")
        if newline:
            self._end()
        self._extend(rest)
        return before.count("\n") + len(newline)

    def _extend(self, text: str) -> None:
        room = self._longest - len(self._line)
        self._lost |= len(text) > room
        self._line += text[: max(room, 0)]

    def _end(self) -> None:
        self.cut += self._lost
        self._line, self._lost = "", False
