"""Which entry follows which: ids and links, no bodies, no recursion.

Links are rows in a few arrays, so that a hundred thousand entries cost some twenty
megabytes and a branch of that depth is an ordinary one. Several roots are allowed.

    row      0    1   2   3        row 0 is no entry: it stands above all roots
    id            a   b   c
    parent        0   1   1        first and next link the children of a row in file order
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence


class Tree:
    """A forest of ids. Entries are added once and never change; a parent may come later
    in the file only where a whole file is taken in by `load`.

    What links children and counts depths is made when it is first asked for: opening a
    file needs neither.
    """

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
        return row

    def load(self, rows: dict[str, int], parents: array[int]) -> None:
        """Take in a whole file at once, into a tree without entries.

        Args:
            rows: Ids to rows, in order: 1, 2, 3, ... It is kept, not copied.
            parents: The row of each parent, 0 for none, in the same order; no cycles.

        Raises:
            ValueError: the tree has entries.
        """
        if self._rows:
            raise ValueError("the tree has entries")
        self._ids += rows
        self._rows = rows
        self._parent += parents

    def _link(self) -> None:
        """Link the rows that came since the last time to their parents."""
        known, total = len(self._depth), len(self._ids)
        if known == total:
            return
        for column in (self._depth, self._first, self._last, self._next):
            column.frombytes(bytes(column.itemsize * (total - known)))
        parents, depth = self._parent, self._depth
        first, last, following = self._first, self._last, self._next
        for row in range(known, total):
            above = parents[row]
            if depth[above] or not above:
                depth[row] = depth[above] + 1
            else:
                self._count(row)
            if last[above]:
                following[last[above]] = row
            else:
                first[above] = row
            last[above] = row

    def _count(self, row: int) -> None:
        """The depth of a row whose parent comes later in the file."""
        way = []
        while row and not self._depth[row]:
            way.append(row)
            row = self._parent[row]
        for step in reversed(way):
            self._depth[step] = self._depth[self._parent[step]] + 1

    def row(self, id: str | None) -> int:
        """The row of an id; 0 for None.

        Raises:
            KeyError: the id is not there.
        """
        return 0 if id is None else self._rows[id]

    @property
    def ids(self) -> Sequence[str]:
        """Ids by row; what stands at row 0 is no id."""
        return self._ids

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
        self._link()
        return self._depth[self.row(id)]

    def children(self, id: str | None) -> list[str]:
        """What follows an entry, in file order; the roots for None."""
        self._link()
        found = []
        row = self._first[self.row(id)]
        while row:
            found.append(self._ids[row])
            row = self._next[row]
        return found

    def order(self) -> tuple[list[int], list[int]]:
        """Every entry before what follows it, siblings in file order, as one walks down.

        Returns:
            The rows in that order, and for each the place in it of what it follows; -1 for a
            root.
        """
        self._link()
        rows: list[int] = []
        above: list[int] = []
        first, following = self._first, self._next
        pending = [(first[0], -1)]
        while pending:
            row, parent = pending.pop()
            while row:
                if following[row]:
                    pending.append((following[row], parent))
                above.append(parent)
                parent = len(rows)
                rows.append(row)
                row = first[row]
        return rows, above

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
        self._link()
        left, right = self.row(one), self.row(other)
        while left != right:
            if self._depth[left] >= self._depth[right]:
                left = self._parent[left]
            else:
                right = self._parent[right]
        return self.id_at(left)
