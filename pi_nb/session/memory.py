"""A log without a file, for sessions that need not outlive the process."""

from __future__ import annotations

from collections.abc import Iterator

from .index import Place


class MemoryLog:
    """Lines in a list. A place counts lines, not bytes: `offset` is the line's number from 0."""

    def __init__(self, first_line: bytes) -> None:
        self._lines = [first_line]

    def lines(self) -> Iterator[tuple[bytes, Place]]:
        for number, line in enumerate(self._lines):
            yield line, Place(number, len(line))

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        return ((place.offset, line) for line, place in self.lines())

    def read(self, place: Place) -> bytes:
        return self._lines[place.offset]

    def append(self, line: bytes) -> Place:
        self._lines.append(line)
        return Place(len(self._lines) - 1, len(line))

    def close(self) -> None:
        """Nothing to let go of; what was said stays readable."""
