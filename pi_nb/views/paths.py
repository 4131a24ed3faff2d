"""Ways through a session's tree for a page: the order of reading, and where links lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pi_nb.session.reader import SessionReader

DEEPEST = 24
"""Levels that are drawn inside one another; what branches deeper stays at this one."""

# What a fragment can hold as it is. Ids of other programs' files may be anything.
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")


class Anchors:
    """Each entry's number, place in the page, and whether the lane's branch goes through it."""

    def __init__(self, session: SessionReader, lane: str) -> None:
        self._numbers = {entry_id: n for n, entry_id in enumerate(session.entry_ids(), 1)}
        self._active = frozenset(session.branch_ids(lane))

    def number(self, entry_id: str) -> int:
        """The entry's place in the file, from 1; what `goto` takes."""
        return self._numbers[entry_id]

    def anchor(self, entry_id: str) -> str:
        """The `id` of the entry's element: `entry-` and its id, or `row-` and its number."""
        if _PLAIN_ID.fullmatch(entry_id):
            return f"entry-{entry_id}"
        return f"row-{self._numbers[entry_id]}"

    def is_active(self, entry_id: str) -> bool:
        """Whether the entry is on the lane's branch."""
        return entry_id in self._active


@dataclass(frozen=True, slots=True)
class Fork:
    """A branch begins here, one of `count` after `parent` (None: at the root)."""

    number: int
    count: int
    parent: str | None
    first: str
    nested: bool
    """An `End` follows; else it lies too deep to be drawn inside its parent."""


@dataclass(frozen=True, slots=True)
class End:
    """The branch that was begun last and is nested is over."""


def reading_order(session: SessionReader) -> Iterator[str | Fork | End]:
    """Every entry after its parent, one branch after another, in file order of their
    beginnings. Without recursion."""
    pending = _after(None, 0, children(session, None))
    while pending:
        step, level = pending.pop()
        if isinstance(step, Fork | End):
            yield step
            continue
        following = [step]
        while len(following) == 1:
            entry_id = following[0]
            yield entry_id
            following = children(session, entry_id)
        pending += _after(entry_id, level, following)


def children(session: SessionReader, entry_id: str | None) -> list[str]:
    """What follows an entry, without the bookkeeping of ours that v3 has in its tree: in its
    place stands what follows that."""
    pending = session.child_ids(entry_id)[::-1]
    found = []
    while pending:
        child = pending.pop()
        if session.is_own(child):
            pending += session.child_ids(child)[::-1]
        else:
            found.append(child)
    return found


def _after(
    parent: str | None, level: int, following: list[str]
) -> list[tuple[str | Fork | End, int]]:
    """What comes after an entry, last one first; an only child needs no fork."""
    if len(following) == 1:
        return [(following[0], level)]
    nested = level < DEEPEST
    below = level + 1 if nested else level
    steps: list[tuple[str | Fork | End, int]] = []
    for number, child in enumerate(following, 1):
        steps.append((Fork(number, len(following), parent, child, nested), below))
        steps.append((child, below))
        if nested:
            steps.append((End(), below))
    return steps[::-1]
