"""Makes an outline of a session: what passes the filter, what is drawn of it, what each row says.

In this order, because each step costs more for an entry than the one before: the tree is
laid out from the index, lines are looked at where a search or a filter needs them, and only
the bodies of rows that are drawn are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from pi_nb.result import PiError
from pi_nb.text import count, one_line, safe_line

from .context import Step
from .entries import CompactionEntry, ContextEditEntry, Entry
from .filters import BOOKKEEPING, Filter, passes
from .finding import Needle
from .in_words import entry_line, whole_text
from .index import Index
from .layout import TOP, Chain, Kept, Order, chains_in, chains_of, keep, leave_gaps, order_of
from .outline import Outline, Row, State
from .sent import Sent, account, sent, weight

REMEMBERED = 1_024
"""Bodies that are kept while an outline is made: a compaction's account looks at the rows
before it again."""

BEGINNING = 40
"""Characters that a row says of itself before it shows what was found in it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the index knows of a session, as it was when the outline was asked for."""

    order: Order
    labels: Mapping[str, str]
    lanes: Mapping[str, str | None]


def shape_of(index: Index) -> Shape:
    """What an outline is laid out from, taken while nobody writes."""
    return Shape(order_of(index), dict(index.labels), dict(index.lanes))


class Wish(NamedTuple):
    """What is asked of an outline; see `SessionReader.outline`."""

    lane: str
    filter: Filter
    needle: Needle | None
    ids: bool
    fold: bool
    limit: int | None


def make_outline(
    shape: Shape, wish: Wish, read: Callable[[str], Entry], line_of: Callable[[str], bytes]
) -> Outline:
    """Make an outline.

    Args:
        read: An entry with its body; a `PiError` becomes a row that says so.
        line_of: An entry's line as it is in the log.
    """
    making = _Making(shape, wish, lru_cache(REMEMBERED)(read), line_of)
    return making.outline()


class _Making:
    """One outline while it is made. Entries are places in the order of the shape."""

    def __init__(
        self,
        shape: Shape,
        wish: Wish,
        read: Callable[[str], Entry],
        line_of: Callable[[str], bytes],
    ) -> None:
        self._order = shape.order
        self._labels = shape.labels
        self._wish = wish
        self._read = read
        self._line_of = line_of
        self._place_of = {step.id: i for i, step in enumerate(shape.order.steps)}
        self._leaves = {
            lane: self._place_of[leaf] for lane, leaf in shape.lanes.items() if leaf is not None
        }
        self._path = self._branch(self._leaves.get(wish.lane, TOP))
        self._hits: set[int] = set()

    def outline(self) -> Outline:
        wish = self._wish
        filtered = self._filtered()
        kept = filtered if wish.needle is None else self._found(filtered, wish.needle)
        path = set(self._path)
        top = chains_of(kept, path)
        if kept is not filtered:
            self._renumber(top, kept, filtered)
        leave_gaps(top, self._chosen(kept))
        return Outline(
            wish.lane,
            wish.filter,
            len(self._order.steps),
            len(self._hits) if wish.needle is not None else None,
            wish.needle,
            top,
            self._rows(top, kept, filtered, path),
            "fold=False, limit=None" if wish.fold else "limit=None",
        )

    def _branch(self, place: int) -> list[int]:
        """The places from the root to this one."""
        found = []
        while place != TOP:
            found.append(place)
            place = self._order.above[place]
        found.reverse()
        return found

    # --- what there is to see ---------------------------------------------------------

    def _filtered(self) -> Kept:
        """What passes the filter."""
        order = self._order
        branch = (order.steps[place] for place in reversed(self._path))
        leaf = next((step.id for step in branch if step.type not in BOOKKEEPING), None)
        passing = passes(self._wish.filter, self._labels, leaf, self._line_of)
        return keep(order, [passing(step) for step in order.steps])

    def _found(self, filtered: Kept, needle: Needle) -> Kept:
        """Of that, what holds the text, and the branch points that say where it is."""
        order = self._order
        self._hits = {place for place in filtered.places if self._holds(needle, order.steps[place])}
        shown = self._hits | self._partings(filtered)
        return keep(order, [place in shown for place in range(len(order.steps))])

    def _partings(self, kept: Kept) -> set[int]:
        """Where the ways to what was found part; and of each, the last branch point above it."""
        points: set[int] = set()
        leading = set(self._hits)
        for place in reversed(kept.places):
            ways = sum(child in leading for child in kept.children.get(place, ()))
            if ways:
                leading.add(place)
            if ways > 1:
                points.add(place)
        seen: set[int] = set()
        for hit in self._hits:
            place = self._order.above[hit]
            # What is above a place that was seen was seen with it.
            while place != TOP and place not in seen:
                seen.add(place)
                if len(kept.children.get(place, ())) > 1:
                    points.add(place)
                    break
                place = self._order.above[place]
        return points

    def _renumber(self, top: Chain, kept: Kept, filtered: Kept) -> None:
        """Number branches as they are without the search: a row counts its ways like that."""
        above, ranks = self._order.above, {}
        for chain_ in chains_in(top):
            if chain_ is top or not isinstance(place := chain_.items[0], int):
                continue
            point = kept.nearest[above[place]] if above[place] != TOP else TOP
            # Between the two lies what the search left out.
            while (over := above[place]) != TOP and filtered.nearest[over] != point:
                place = filtered.nearest[over]
            siblings = filtered.children[point]
            if point not in ranks:
                ranks[point] = {child: n for n, child in enumerate(siblings, 1)}
            chain_.number, chain_.count = ranks[point][place], len(siblings)

    def _holds(self, needle: Needle, step: Step) -> bool:
        if needle.is_in(self._labels.get(step.id, "")):
            return True
        try:
            return needle.may_be_in(self._line_of(step.id)) and needle.is_said_by(
                self._read(step.id)
            )
        except PiError:
            return False

    # --- what is drawn of it ----------------------------------------------------------

    def _chosen(self, kept: Kept) -> set[int]:
        """The rows to draw: what was found, the end of the lane's branch, the places where
        it branches, the beginning; then the rest of the branch, the newest first."""
        limit = self._wish.limit
        path = [place for place in self._path if kept.nearest[place] == place]
        if self._wish.fold:
            on = {TOP, *path}
            heads = [child for place in on for child in kept.children.get(place, ())]
            places = sorted({*path, *heads, *self._hits})
        else:
            places = list(kept.places)
        if limit is None or len(places) <= limit:
            return set(places)
        allowed = set(places)
        turns = chain.from_iterable(
            (place, *reversed(kept.children[place]))
            for place in reversed(path)
            if len(kept.children.get(place, ())) > 1
        )
        wanted = chain(
            sorted(self._hits, reverse=True),
            path[::-1][: limit // 2],
            islice(turns, limit // 4),
            places[: limit // 8],
            reversed(path),
            places,
        )
        return set(islice(dict.fromkeys(place for place in wanted if place in allowed), limit))

    # --- what a row says --------------------------------------------------------------

    def _rows(self, top: Chain, kept: Kept, filtered: Kept, path: set[int]) -> dict[int, Row]:
        now = self._sent()
        ending: dict[int, list[str]] = defaultdict(list)
        for lane, leaf in self._leaves.items():
            # The nearest thing that was found says nothing of where a lane ends.
            if self._wish.needle is None or kept.nearest[leaf] == leaf:
                ending[kept.nearest[leaf]].append(lane)
        items = (item for chain_ in chains_in(top) for item in chain_.items)
        return {
            item: self._row(
                item,
                now,
                active=item in path,
                branches=len(filtered.children.get(item, ())),
                lanes=tuple(ending.get(item, ())),
            )
            for item in items
            if isinstance(item, int)
        }

    def _sent(self) -> Sent:
        """What is sent at the lane's leaf; nothing where the context cannot be made at all."""
        try:
            return sent([self._order.steps[place] for place in self._path], self._read)
        except PiError:
            return Sent()

    def _row(
        self, place: int, now: Sent, *, active: bool, branches: int, lanes: tuple[str, ...]
    ) -> Row:
        entry_id = self._order.steps[place].id
        state: State = "elsewhere"
        if active:
            state = "kept back" if entry_id not in now.ids else "sent"
        if state == "sent" and entry_id in now.edits:
            state = "edited"
        tokens = None
        try:
            entry = self._read(entry_id)
            words = self._words(place, entry)
            tokens = weight(entry, now.edits if active else {})
        except PiError as error:
            words = f"[cannot be read: {safe_line(error.message)}]"
        return Row(
            self._order.numbers[place],
            entry_id,
            state,
            words,
            tokens,
            self._labels.get(entry_id),
            branches,
            lanes,
            place in self._hits,
            safe_line(entry_id[-8:]) if self._wish.ids else "",
        )

    def _words(self, place: int, entry: Entry) -> str:
        words = entry_line(entry)
        if isinstance(entry, CompactionEntry):
            words = self._compacted(place, entry)
        elif isinstance(entry, ContextEditEntry) and entry.target_id in self._place_of:
            what = "leaves out" if entry.replacement is None else "replaces"
            words = f"[edit: {what} {self._order.numbers[self._place_of[entry.target_id]]}]"
        if self._wish.needle is None or place not in self._hits or self._wish.needle.is_in(words):
            return words
        found = self._wish.needle.excerpt(whole_text(entry))
        return f"{one_line(words, BEGINNING)} » {found}" if found else words

    def _compacted(self, place: int, entry: CompactionEntry) -> str:
        done = account(entry, self._order.upwards(place), self._read)
        before = f"{done.before:,}" if done.before else "?"
        swallowed = count(done.entries, "entry", "entries")
        numbers = f"{before} → ≈{done.after:,} tokens, {swallowed} summarised"
        return f"[compaction: {numbers}] {safe_line(entry.summary)}".rstrip()
