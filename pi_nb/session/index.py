"""What is known of a session without its bodies: the tree, lanes, facts, and places.

Every format's codec fills one of these while it checks a file, and again after each line
that was written. Bodies stay in the file; a place says where.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
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
        self.own: set[str] = set()
        """Entries that a format without lanes and records keeps ours in (v3)."""
        # Columns by row of the tree; row 0 is no entry.
        self._types = [""]
        self._roles: list[str | None] = [None]
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
        lane: str | None,
        place: Place,
    ) -> None:
        """Add an entry; with a lane it becomes that lane's leaf."""
        self.tree.add(id, parent)
        self._types.append(sys.intern(type))
        self._roles.append(sys.intern(role) if role is not None else None)
        self._offsets.append(place.offset)
        self._lengths.append(place.length)
        self._lines.append(self.lines + 1)
        if lane is not None:
            self.lanes[lane] = id

    def load(
        self,
        rows: dict[str, int],
        parents: array[int],
        *,
        types: list[str],
        roles: list[str | None],
        places: tuple[array[int], array[int]],
        lines: array[int],
        count: int,
    ) -> None:
        """Take in a whole file at once, as columns without row 0; moves no leaf.

        Args:
            rows, parents: As `Tree.load` has them.
            places: Offsets and lengths in bytes.
            lines: The number of each entry's line; `count` is the number of all lines.
        """
        self.tree.load(rows, parents)
        self._types += types
        self._roles += roles
        self._offsets += places[0]
        self._lengths += places[1]
        self._lines += lines
        self.lines = count

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

    def kinds(self, rows: Iterable[int]) -> Iterator[tuple[str, str, str | None]]:
        """Id, type and role of these rows of the tree."""
        ids = self.tree.ids
        return ((ids[row], self._types[row], self._roles[row]) for row in rows)

    def newest(self, type: str) -> str | None:
        """The entry of this type that stands last in the file."""
        for row in range(len(self._types) - 1, 0, -1):
            if self._types[row] == type:
                return self.tree.id_at(row)
        return None

    def place_of(self, id: str) -> Place:
        row = self.tree.row(id)
        return Place(self._offsets[row], self._lengths[row])

    def line_of(self, id: str) -> int:
        return self._lines[self.tree.row(id)]
