"""A tree laid out in rows: chains stay flat, only a branch point indents what follows it.

No bodies: a hundred thousand entries are laid out from the index alone, and only those
rows that are drawn are read. What is not drawn leaves a gap that says how many rows it is.

    order   0  1  2  3  4  5       entries in the order they are drawn
    above  -1  0  1  0  3  4       each below the entry it follows
    chains  0 ─┬─ 1 2              the tree is cut where it branches
               └─ 3 4 5
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from .context import Step
from .index import Index

DEEPEST = 24
"""Levels of indentation; what branches deeper stays at this one. A tree that forks at every
entry would else take space that grows with the square of its length."""

T = TypeVar("T")

TOP = -1
"""The place above all roots."""


@dataclass(frozen=True, slots=True)
class Order:
    """The entries of a tree as they are drawn: each before what follows it, siblings in file
    order. Everything else speaks of an entry by its place in this order."""

    steps: Sequence[Step]
    above: Sequence[int]
    numbers: Sequence[int]
    """Places in the file, from 1."""

    def upwards(self, place: int) -> Iterator[Step]:
        """An entry, what it follows, and so on up to its root."""
        while place != TOP:
            yield self.steps[place]
            place = self.above[place]


def order_of(index: Index) -> Order:
    """A picture of the tree as it is now."""
    rows, above = index.tree.order()
    return Order([Step(*kind) for kind in index.kinds(rows)], above, rows)


@dataclass(frozen=True, slots=True)
class Kept:
    """The entries that pass a filter, each below the nearest one of them above it (T-12)."""

    places: Sequence[int]
    children: dict[int, list[int]]
    nearest: Sequence[int]
    """Of every entry in the order, the nearest at or above it that is kept; else `TOP`."""


def keep(order: Order, passing: Sequence[bool]) -> Kept:
    """Take the entries out that do not pass; the others keep their order."""
    nearest: list[int] = []
    children: dict[int, list[int]] = defaultdict(list)
    for place, above in enumerate(order.above):
        here = TOP if above == TOP else nearest[above]
        if passing[place]:
            children[here].append(place)
            here = place
        nearest.append(here)
    return Kept([place for place, passed in enumerate(passing) if passed], children, nearest)


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that are not drawn."""

    rows: int


_ONE = Gap(1)


@dataclass(slots=True)
class Chain:
    """Entries that follow each other, up to where the tree branches or stops."""

    level: int
    number: int = 1
    count: int = 1
    """It is branch `number` of `count` at its branch point."""
    active: bool = False
    """The lane's branch goes through it."""
    items: list[int | Gap] = field(default_factory=list)
    inside: list[Chain | Gap] = field(default_factory=list)
    """What is drawn one level deeper, in order."""
    rows: int = 0
    """Rows of it and of all that is inside it, those in gaps too."""


def chains_of(kept: Kept, path: Container[int]) -> Chain:
    """Cut a tree into chains, without recursion; the top one is empty if roots are many.

    Args:
        path: The places on the lane's branch.
    """
    top = Chain(0)
    pending = _grow(kept, TOP, top)
    while pending:
        first, home, number, count = pending.pop()
        chain = Chain(home.level + 1, number, count, first in path, [first])
        home.inside.append(chain)
        # Too deep: what branches off stands beside its chain instead of inside it.
        beside = home if chain.level >= DEEPEST else chain
        pending += [(child, beside, i, of) for child, _, i, of in _grow(kept, first, chain)]
    return top


def _grow(kept: Kept, last: int, chain: Chain) -> list[tuple[int, Chain, int, int]]:
    """Make a chain as long as it is; returns what branches off at its end, last one first."""
    children = kept.children.get(last, [])
    while len(children) == 1:
        chain.items.append(children[0])
        children = kept.children.get(children[0], [])
    count = len(children)
    return [(child, chain, i, count) for i, child in enumerate(children, 1)][::-1]


def chains_in(top: Chain) -> Iterator[Chain]:
    """Every chain, each before what is inside it."""
    pending = [top]
    while pending:
        chain = pending.pop()
        yield chain
        pending += [part for part in reversed(chain.inside) if isinstance(part, Chain)]


def leave_gaps(top: Chain, drawn: Container[int]) -> None:
    """Put gaps where rows are not drawn: one for each run of them, however many branches."""
    hidden: set[int] = set()
    # What is inside comes later, so backwards it is done first.
    for chain in reversed(list(chains_in(top))):
        parts: list[Chain | Gap] = [
            Gap(part.rows) if isinstance(part, Chain) and id(part) in hidden else part
            for part in chain.inside
        ]
        chain.rows = len(chain.items) + sum(part.rows for part in parts)
        chain.items = _merged(
            [item if isinstance(item, Gap) or item in drawn else _ONE for item in chain.items]
        )
        chain.inside = _merged(parts)
        if len(chain.inside) == 1 and isinstance(chain.inside[0], Gap):
            chain.items = _merged([*chain.items, chain.inside.pop()])  # type: ignore[list-item]
        if all(isinstance(item, Gap) for item in chain.items) and not chain.inside:
            hidden.add(id(chain))


def _merged(parts: Sequence[T | Gap]) -> list[T | Gap]:
    """Gaps that stand side by side become one."""
    merged: list[T | Gap] = []
    for part in parts:
        if isinstance(part, Gap) and merged and isinstance(merged[-1], Gap):
            merged[-1] = Gap(merged[-1].rows + part.rows)
        else:
            merged.append(part)
    return merged


def connected(top: Chain) -> Iterator[tuple[str, int | Gap]]:
    """Every row and gap with the lines that tie it to the tree, in order."""
    pending: list[tuple[Chain | Gap, str, str]] = [(top, "", "")]
    while pending:
        part, first, rest = pending.pop()
        if isinstance(part, Gap):
            yield first, part
            continue
        for place, item in enumerate(part.items):
            yield rest if place else first, item
        margin = rest or ("  " if part.items else "")
        inside = [
            (below, margin + tie, margin + line)
            for below in part.inside
            for tie, line in [("└─ ", "   ") if below is part.inside[-1] else ("├─ ", "│  ")]
        ]
        pending += reversed(inside)
