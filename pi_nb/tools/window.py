"""Some lines of a long stream of bytes, without keeping the rest."""

from __future__ import annotations

MAX_LINES = 2_000
MAX_BYTES = 50_000
MAX_LINE = 10_000
"""Bytes of one line that are shown."""


class Window:
    """Collects lines from number `first` on, counted from 1: `lines` of them or `MAX_BYTES`.

    Lines end at byte 0x0A; a carriage return before it is left out. Of a line longer than
    `MAX_LINE` bytes the beginning is kept. It is `full` when it needs no more.
    """

    def __init__(self, first: int, lines: int) -> None:
        self.first = first
        self.lines: list[bytes] = []
        self.cut: dict[int, int] = {}
        """Lines that were cut, by number, and how many bytes they have."""
        self.seen = 0
        """Lines that ended so far, wanted or not."""
        self.full = False
        self.more = False
        """More came than was wanted."""
        self._last = first + min(lines, MAX_LINES) - 1
        self._room = MAX_BYTES
        self._line = bytearray()
        self._length = 0
        """Bytes of the line that has not ended; those of an unwanted one count as one."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Those of unwanted lines are only counted."""
        at = self._passed(data) if self.seen + 1 < self.first else 0
        while at < len(data) and not self.full:
            end = data.find(b"\n", at)
            piece = memoryview(data)[at : end if end >= 0 else len(data)]
            # One more than is shown for a carriage return.
            self._line += piece[: max(MAX_LINE + 1 - len(self._line), 0)]
            self._length += len(piece)
            at += len(piece) + (end >= 0)
            if end >= 0:
                self._end_line()
        self.more = self.more or at < len(data)

    def end(self) -> None:
        """The stream is over; what is left is a line without an end."""
        if self._length and not self.full:
            self._end_line()

    def _passed(self, data: bytes) -> int:
        """Where the first wanted line begins in the data, or their end."""
        missing = self.first - 1 - self.seen
        ends = data.count(b"\n")
        if ends < missing:
            self.seen += ends
            self._length = 0 if data.endswith(b"\n") else 1
            return len(data)
        at = 0
        for _ in range(missing):
            at = data.index(b"\n", at) + 1
        self.seen += missing
        self._length = 0
        return at

    def _end_line(self) -> None:
        number = self.seen + 1
        line = bytes(self._line).removesuffix(b"\r")
        if len(line) > MAX_LINE:
            line = line[: _character(line, MAX_LINE)]
            self.cut[number] = self._length
        self._line.clear()
        self._length = 0
        if number < self.first:
            self.seen = number
        elif len(line) + 1 > self._room:
            self.cut.pop(number, None)
            self.full = self.more = True
        else:
            self.seen = number
            self.lines.append(line)
            self._room -= len(line) + 1
            self.full = number >= self._last


def _character(line: bytes, at: int) -> int:
    """The place, or up to three bytes before it, where a UTF-8 character begins."""
    return next((i for i in range(at, max(at - 4, 0), -1) if line[i] & 0xC0 != 0x80), at)
