"""One branch as a compaction looks at it: what a model sees there, and what that weighs.

Weights are sums from the newest entry backwards and are made as far as they are asked for,
once: a plan that keeps the newest hundred entries costs a hundred estimates, however long
the branch, and a thousand plans of the same branch cost no more.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pi_nb.messages import CompactionSummaryMessage
from pi_nb.session.context import ContextItem, build_session_context, shown
from pi_nb.session.entries import CompactionEntry, ContextEditEntry, Entry
from pi_nb.session.filters import BOOKKEEPING
from pi_nb.session.session import Session
from pi_nb.tokens import PI, Estimate, Estimator, measured, reported_by

from .pins import pinned

SILENT = BOOKKEEPING | {"context_edit"}
"""Types of entries that show nothing of their own."""


@dataclass(slots=True)
class Branch:
    """A branch from its root to its leaf.

    `items` is the context at the leaf (rules 1 to 4): edited, and from the newest compaction
    on. What older compactions stand for is not in it.
    """

    items: Sequence[ContextItem]
    leaf: str | None
    believed_from: int
    """The first item that usage is believed of; see `SessionContext`."""
    read: Callable[[str], Entry]
    above: Callable[[str], str | None]
    """The parent of an entry."""
    type_of: Callable[[str], str]
    estimator: Estimator = PI
    pins: frozenset[str] = frozenset()
    """Entries of the branch that are never summarised away or left out; see `pins`."""
    fixed: int = 0
    """Tokens of the system prompt and the tools, where they are known: what the next request
    holds besides the items, as long as no provider measured it."""
    number: Callable[[str], int] = lambda entry_id: 0
    """The place of an entry in its file, from 1; 0 where there is no file."""
    is_own: Callable[[str], bool] = lambda entry_id: False
    """Whether an entry is bookkeeping of ours, which stands in the tree of a v3 file."""
    _sums: array[int] = field(
        default_factory=lambda: array("q", [0]), init=False, repr=False, compare=False
    )
    """The weight of the newest 0, 1, 2, ... items."""
    _begins: CompactionEntry | Literal["not looked"] | None = field(
        default="not looked", init=False, repr=False, compare=False
    )
    _start: int = field(default=-1, init=False, repr=False, compare=False)
    _size: Estimate | None = field(default=None, init=False, repr=False, compare=False)
    _pinned: list[int] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls, session: Session, lane: str = "main", estimator: Estimator = PI, fixed: int = 0
    ) -> Branch:
        """The branch of a session's lane, as it is now."""
        context = session.context(lane)
        return cls(
            items=context.items,
            leaf=session.tip(lane),
            believed_from=context.believed_from,
            read=session.entry,
            above=session.parent_id,
            type_of=session.type_of,
            estimator=estimator,
            fixed=fixed,
            pins=pinned(session, lane),
            number=session.number,
            is_own=session.is_own,
        )

    @classmethod
    def from_entries(
        cls, entries: Iterable[Entry], estimator: Estimator = PI, pins: Iterable[str] = ()
    ) -> Branch:
        """A branch given from its root to its leaf."""
        known = {entry.id: entry for entry in entries}
        ids = list(known)
        parents = dict(zip(ids[1:], ids, strict=False))
        context = build_session_context(known.values())
        return cls(
            items=context.items,
            leaf=ids[-1] if ids else None,
            believed_from=context.believed_from,
            read=known.__getitem__,
            above=parents.get,
            type_of=lambda entry_id: known[entry_id].type,
            estimator=estimator,
            pins=frozenset(pins),
        )

    @property
    def size(self) -> Estimate:
        """What the next request holds. Where no provider measured it: the items, and `fixed`."""
        if self._size is None:
            self._size = self._measured()
        return self._size

    def _measured(self) -> Estimate:
        for place in range(len(self.items) - 1, self.believed_from - 1, -1):
            if reported := reported_by(self.items[place].message):
                return measured(reported, self.weight(place + 1))
        return Estimate(self.weight(0) + self.fixed, self.estimator.source)

    @property
    def mark(self) -> str | None:
        """The newest entry that matters to what a model sees: while it is the same, so is the
        branch. Settings, labels and bookkeeping do not count."""
        entry_id = self.leaf
        while entry_id is not None and self.type_of(entry_id) in SILENT - {"context_edit"}:
            entry_id = self.above(entry_id)
        return entry_id

    def shown_as(self, entry_id: str) -> ContextItem | None:
        """What an entry of the branch shows as the edits have it, also where a summary stands
        for it now; None where it shows nothing. Costs the way from the leaf to it."""
        read = [self.read(entry_id)]
        above = self.leaf
        while above is not None and above != entry_id:
            if self.type_of(above) == "context_edit":
                edit = self.read(above)
                if isinstance(edit, ContextEditEntry) and edit.target_id == entry_id:
                    read.append(edit)
                    break
            above = self.above(above)
        return next(iter(shown(read)), None)

    @property
    def compaction(self) -> CompactionEntry | None:
        """The newest compaction of the branch: what the context begins with."""
        if self._begins == "not looked":
            self._begins = self._beginning()
        return self._begins

    def _beginning(self) -> CompactionEntry | None:
        if self.items and isinstance(self.items[0].message, CompactionSummaryMessage):
            entry = self.read(self.items[0].entry_id)
            return entry if isinstance(entry, CompactionEntry) else None
        return None

    @property
    def lost_kept(self) -> bool:
        """Whether the newest compaction names a first kept entry that is not above it: nothing
        older than it is then kept (C-51). Costs the length of the branch."""
        compaction = self.compaction
        if compaction is None or compaction.retained_tail is not None:
            return False
        above: str | None = compaction.id
        while above is not None and above != compaction.first_kept_entry_id:
            above = self.above(above)
        return above is None

    @property
    def start(self) -> int:
        """The first item that a compaction may summarise: what follows the newest summary."""
        if self._start < 0:
            self._start = 1 if self.compaction is not None else 0
        return self._start

    def weight(self, first: int, last: int | None = None) -> int:
        """Tokens of the items from one place up to, not including, another or the end."""
        total, sums = len(self.items), self._sums
        if len(sums) <= total - first:
            self._more(total - first)
        return sums[total - first] - (0 if last is None else sums[total - last])

    def pinned_weight(self, first: int, last: int) -> int:
        """Tokens of the pinned items among those from one place up to another."""
        if not self.pins:
            return 0
        if self._pinned is None:
            places = range(len(self.items))
            self._pinned = [i for i in places if self.items[i].entry_id in self.pins]
        return sum(self.weight(i, i + 1) for i in self._pinned if first <= i < last)

    def reaches(self, tokens: int) -> int | None:
        """The newest place from which on the items weigh at least so much.

        None: all of them, from `start` on, weigh less.
        """
        most = len(self.items) - self.start
        while len(self._sums) <= most and (self._sums[-1] < tokens or len(self._sums) == 1):
            self._more(len(self._sums))
        count = bisect_left(self._sums, tokens, lo=1)
        return len(self.items) - count if count < len(self._sums) and count <= most else None

    def _more(self, count: int) -> None:
        """Weigh on until the newest `count` items are weighed."""
        weigh, total, sums = self.estimator.weigh, len(self.items), self._sums
        weight = sums[-1]
        for item in reversed(self.items[total - count : total - len(sums) + 1]):
            weight += weigh(item.message)
            sums.append(weight)
