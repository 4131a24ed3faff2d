"""Server-sent events from bytes, however the network cut them.

Only LF, CR and CRLF end a line; U+2028 and its like are ordinary characters inside JSON
(known fault X-02). A CR at the end of one piece and an LF at the start of the next are one
line end. Lines are decoded whole, so a character split over two pieces is read right.

Comments give no event: that bytes came at all is the sign of life. Fields that serve
reconnection (`id`, `retry`) are not read, because a model's answer is never reconnected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"
_END = re.compile(rb"\r\n|\r|\n")

EVENT_LIMIT = 16 * 1024 * 1024
"""Bytes of one event. What is longer is no answer of a model."""


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: its data lines joined by LF, and its type, empty where none was named."""

    data: str
    event: str = ""


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for an event beyond the limit, whose bytes were thrown away."""

    limit: int


class SseParser:
    """Feed bytes, get events. The pieces in which they come make no difference."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._line = bytearray()
        self._data: list[str] = []
        self._event = ""
        self._size = 0
        self._dropping = False
        self._first = True
        self._skip_lf = False

    def feed(self, chunk: bytes) -> list[SseEvent | TooLong]:
        """Take the next bytes; the events that they complete, in order."""
        found: list[SseEvent | TooLong] = []
        if self._skip_lf and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_lf = False
        at = 0
        for end in _END.finditer(chunk):
            self._grow(chunk[at : end.start()], found)
            self._complete_line(found)
            at = end.end()
        self._grow(chunk[at:], found)
        self._skip_lf = self._skip_lf or (bool(chunk) and chunk.endswith(b"\r"))
        return found

    def close(self) -> list[SseEvent | TooLong]:
        """The stream is over: the event that no blank line ended, if there is one.

        The standard throws it away; servers that forget the last blank line are common,
        and half an event is no JSON, so whoever reads it notices.
        """
        found: list[SseEvent | TooLong] = []
        if self._line:
            self._complete_line(found)
        self._dispatch(found)
        return found

    def _grow(self, piece: bytes, found: list[SseEvent | TooLong]) -> None:
        if self._dropping:
            # Only whether the line is blank matters now: the blank one ends the event.
            self._line[:] = (bytes(self._line) + piece)[:1]
            return
        self._line += piece
        if self._size + len(self._line) > self._limit:
            found.append(TooLong(self._limit))
            self._dropping = True
            self._data, self._event, self._size = [], "", 0
            del self._line[1:]

    def _complete_line(self, found: list[SseEvent | TooLong]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(found)
            return
        if self._dropping or line.startswith(b":"):
            return
        self._size += len(line)
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value

    def _dispatch(self, found: list[SseEvent | TooLong]) -> None:
        if self._data:
            found.append(SseEvent("\n".join(self._data), self._event))
        self._data, self._event, self._size = [], "", 0
        self._dropping = False
