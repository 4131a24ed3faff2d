"""What is known of a session without its bodies: the tree, lanes, facts, and places.

Every format's codec fills one of these while it checks a file, and again after each line
that was written. Bodies stay in the file; a place says where.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from typing import NamedTuple

from .records import Header
from .tree import Tree


class Place(NamedTuple):
    """Where a line lies in its file: bytes from the start, and bytes with its newline."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something odd about a line, counted from 1; `code` is stable, the text is not."""

    line: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.code}: {self.message}"


class Index:
    """One session's structure. It checks nothing: a codec does that before it adds."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.lines = 1
        """Lines so far, the header counted."""
        self.tree = Tree()
        self.lanes: dict[str, str | None] = {"main": None}
        self.name: str | None = None
        self.labels: dict[str, str] = {}
        self.records: list[Place] = []
        self.open_operations: dict[str, Place] = {}
        """Started and not finished, by id."""
        # Columns by row of the tree; row 0 is no entry.
        self._types = [""]
        self._roles: list[str | None] = [None]
        self._timestamps = array("q", [0])
        self._offsets = array("q", [0])
        self._lengths = array("q", [0])
        self._lines = array("i", [0])

    def add_entry(
        self,
        id: str,
        parent: str | None,
        *,
        type: str,
        role: str | None,
        timestamp: int,
        lane: str | None,
        place: Place,
    ) -> None:
        """Add an entry; with a lane it becomes that lane's leaf."""
        self.tree.add(id, parent)
        self._types.append(sys.intern(type))
        self._roles.append(sys.intern(role) if role is not None else None)
        self._timestamps.append(timestamp)
        self._offsets.append(place.offset)
        self._lengths.append(place.length)
        self._lines.append(self.lines + 1)
        if lane is not None:
            self.lanes[lane] = id

    def set_label(self, target: str, label: str | None) -> None:
        if label:
            self.labels[target] = label
        else:
            self.labels.pop(target, None)

    def type_of(self, id: str) -> str:
        return self._types[self.tree.row(id)]

    def role_of(self, id: str) -> str | None:
        """The role of a message entry; None for the other types."""
        return self._roles[self.tree.row(id)]

    def timestamp_of(self, id: str) -> int:
        return self._timestamps[self.tree.row(id)]

    def place_of(self, id: str) -> Place:
        row = self.tree.row(id)
        return Place(self._offsets[row], self._lengths[row])

    def line_of(self, id: str) -> int:
        return self._lines[self.tree.row(id)]
