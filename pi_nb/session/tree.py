"""Which entry follows which: ids and links, no bodies, no recursion.

Links are rows in a few arrays, so that a hundred thousand entries cost some twenty
megabytes and a branch of that depth is an ordinary one. Several roots are allowed.

    row      0    1   2   3        row 0 is no entry: it stands above all roots
    id            a   b   c
    parent        0   1   1        first and next link the children of a row in file order
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator


class Tree:
    """A forest of ids. Entries are added once, after their parents, and never change."""

    def __init__(self) -> None:
        self._ids = [""]
        self._rows: dict[str, int] = {}
        self._parent = array("i", [0])
        self._depth = array("i", [0])
        self._first = array("i", [0])
        self._last = array("i", [0])
        self._next = array("i", [0])

    def add(self, id: str, parent: str | None) -> int:
        """Add an entry and return its row; rows count from 1 in order of adding.

        Raises:
            ValueError: the id is taken.
            KeyError: the parent is not there.
        """
        if id in self._rows:
            raise ValueError(f"the id {id} is taken")
        above = self.row(parent)
        row = len(self._ids)
        self._ids.append(id)
        self._rows[id] = row
        self._parent.append(above)
        self._depth.append(self._depth[above] + 1)
        for column in (self._first, self._last, self._next):
            column.append(0)
        if self._last[above]:
            self._next[self._last[above]] = row
        else:
            self._first[above] = row
        self._last[above] = row
        return row

    def row(self, id: str | None) -> int:
        """The row of an id; 0 for None.

        Raises:
            KeyError: the id is not there.
        """
        return 0 if id is None else self._rows[id]

    def id_at(self, row: int) -> str | None:
        return self._ids[row] if row else None

    def __contains__(self, id: object) -> bool:
        return id in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        """All ids in file order."""
        return iter(self._rows)

    def parent(self, id: str) -> str | None:
        return self.id_at(self._parent[self.row(id)])

    def depth(self, id: str | None) -> int:
        """Entries from the root to this one, both counted; 0 for None."""
        return self._depth[self.row(id)]

    def children(self, id: str | None) -> list[str]:
        """What follows an entry, in file order; the roots for None."""
        found = []
        row = self._first[self.row(id)]
        while row:
            found.append(self._ids[row])
            row = self._next[row]
        return found

    def branch(self, leaf: str | None) -> list[str]:
        """The ids from the root to `leaf`, both included; empty for None."""
        found = []
        row = self.row(leaf)
        while row:
            found.append(self._ids[row])
            row = self._parent[row]
        found.reverse()
        return found

    def common_ancestor(self, one: str | None, other: str | None) -> str | None:
        """The deepest entry on both branches; an entry is on its own branch. None: no such."""
        left, right = self.row(one), self.row(other)
        while left != right:
            if self._depth[left] >= self._depth[right]:
                left = self._parent[left]
            else:
                right = self._parent[right]
        return self.id_at(left)
