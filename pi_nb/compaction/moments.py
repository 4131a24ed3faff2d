"""What of a branch was sent at each of its moments: one pass, however many moments there are.

An entry that shows something gets a short name: messages are m1, m2, ..., branch summaries
bs1, ..., compactions cmp1, .... A compaction or an edit makes a moment before it and one after
it, and the last moment is now. What is sent at any of them is what `build_session_context`
says of the branch up to there; only the weights are summed up on the way, and states are
worked out when they are asked for.

    m1 m2 m3 m4 m5 cmp1 m6 m7          cmp1 keeps m4
    ------------- before the first compaction: m1 ... m5
    ------------------ after it: cmp1's summary, m4, m5
    ------------------------ now: cmp1's summary, m4 ... m7
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pi_nb.messages import (
    AgentMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    SystemMessage,
)
from pi_nb.result import PiError
from pi_nb.session.context import build_session_context, edited, shown
from pi_nb.session.entries import (
    CompactionEntry,
    ContextEditEntry,
    Entry,
    MessageEntry,
    Replacement,
)
from pi_nb.session.in_words import entry_line, message_line
from pi_nb.session.reader import SessionReader
from pi_nb.text import safe_line
from pi_nb.tokens import Estimate, Estimator, measured, reported_by

State = Literal["sent", "replaced", "summarised", "left out", "not sent"]
"""`sent` as it stands in the log; `replaced`, sent with the content that an edit gave it;
`summarised`, a summary stands for it; `left out` by an edit; `not sent`, an older compaction."""

Why = Literal["before", "compaction", "edit", "now", "at"]
"""What makes a moment one: what is about to happen, what just happened, or that it was asked
for."""

KINDS = {
    "user": "user",
    "assistant": "assistant",
    "toolResult": "tool result",
    "bashExecution": "command",
    "custom": "custom message",
    "branchSummary": "branch summary",
    "compactionSummary": "summary",
}
"""The role of a message in words."""


def kind_of(message: AgentMessage) -> str:
    """The kind of a message in words; `unknown` where its role is not ours."""
    return KINDS.get(message.role, "unknown")


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry that shows something, as the log has it."""

    entry_id: str
    number: int
    """In the session's outline."""
    name: str
    """Short, and unique on the branch: `m4`, `bs1`, `cmp2`."""
    kind: str
    text: str
    """One line."""
    tokens: int
    """By the estimator; of a compaction, its summary and the messages that it carries."""
    tail: int = 0
    """Messages that a compaction carries instead of keeping entries."""

    @property
    def is_compaction(self) -> bool:
        return self.kind == "summary"

    @property
    def sent_as(self) -> str:
        """What stands in a request for it: of a compaction, its summary."""
        return f"summary{self.name.removeprefix('cmp')}" if self.is_compaction else self.name


class Edited(NamedTuple):
    """What an edit makes of an entry."""

    place: int
    """Of the edit, on the branch."""
    tokens: int | None
    """None: it is left out."""
    text: str


class Boundary(NamedTuple):
    """A compaction among what is shown."""

    place: int
    """On the branch."""
    item: int
    first: int
    """The first item that it keeps; `item` where it keeps none."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A prefix of the branch, and what it sends."""

    why: Why
    at: int
    """How many entries of the branch are there."""
    shown: int
    """How many of them show something."""
    compactions: int
    sent: int
    """Tokens by the estimator."""
    log: int
    """Tokens of everything that is shown, whether it is sent or not."""
    size: Estimate
    """The next request as a session measures it, reported usage included."""
    touched: tuple[int, ...] = ()
    """The items that the edits of an `edit` changed."""


@dataclass(slots=True)
class Film:
    """A branch with its moments."""

    ids: Sequence[str]
    estimator: Estimator
    items: list[Shown] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Of each item, its place on the branch."""
    boundaries: list[Boundary] = field(default_factory=list)
    edits: dict[int, list[Edited]] = field(default_factory=dict)
    """By item, oldest first."""
    moments: list[Moment] = field(default_factory=list)

    def boundary(self, moment: Moment) -> Boundary | None:
        """The newest compaction at a moment."""
        return self.boundaries[moment.compactions - 1] if moment.compactions else None

    def edit(self, item: int, before: int) -> Edited | None:
        """The edit of an item that is in force where the branch has so many entries."""
        found = self.edits.get(item)
        if not found:
            return None
        newest = bisect_left(found, before, key=lambda edit: edit.place) - 1
        return found[newest] if newest >= 0 else None

    def is_there(self, item: int, before: int) -> bool:
        """Whether no edit leaves it out where the branch has so many entries."""
        edit = self.edit(item, before)
        return edit is None or edit.tokens is not None

    def states(self, moment: Moment) -> list[tuple[State, str]]:
        """The state of each item that is there at a moment, and what put it there.

        The second is the name of the compaction that took a `summarised` item away, the last
        time that one did; empty for the other states.
        """
        newest = self.boundary(moment)
        if newest is None:
            states: list[tuple[State, str]] = [("sent", "")] * moment.shown
            return self._with_edits(states, moment, 0)
        states = self._taken(moment)
        states += [("sent", "")] * (moment.shown - len(states))
        self._with_edits(states, moment, newest.first)
        for boundary in self.boundaries[: moment.compactions - 1]:
            states[boundary.item] = ("not sent", "")
        return states

    def sent(self, moment: Moment) -> list[int]:
        """The items that are sent at a moment, in the order of the request."""
        newest = self.boundary(moment)
        first, summary = (newest.first, newest.item) if newest else (0, -1)
        rest = (i for i in range(first, moment.shown) if not self.items[i].is_compaction)
        order = [summary, *rest] if newest else [*rest]
        return [i for i in order if i not in self.edits or self.is_there(i, moment.at)]

    def _taken(self, moment: Moment) -> list[tuple[State, str]]:
        """The states of what the newest compaction does not keep.

        Of what a compaction keeps, a later one may keep less or more. An item is gone since the
        first compaction from which on none kept it; where that is so ends later with each.
        """
        made = self.boundaries[: moment.compactions]
        ends = [boundary.first for boundary in made]
        for place in range(len(ends) - 2, -1, -1):
            ends[place] = min(ends[place], ends[place + 1])
        states: list[tuple[State, str]] = []
        for boundary, end in zip(made, ends, strict=True):
            begin = len(states)
            states += [("summarised", self.items[boundary.item].name)] * (end - begin)
            for item in self._edited_items(begin, end):
                if not self.is_there(item, boundary.place):
                    states[item] = ("left out", "")
        return states

    def _with_edits(
        self, states: list[tuple[State, str]], moment: Moment, first: int
    ) -> list[tuple[State, str]]:
        for item in self._edited_items(first, moment.shown):
            if self.edit(item, moment.at) is not None:
                there = self.is_there(item, moment.at)
                states[item] = ("replaced" if there else "left out", "")
        return states

    def _edited_items(self, begin: int, end: int) -> Iterator[int]:
        """The items between two places that any edit is about."""
        if len(self.edits) < end - begin:
            return (item for item in self.edits if begin <= item < end)
        return (item for item in range(begin, end) if item in self.edits)


def film(session: SessionReader, ids: Sequence[str], estimator: Estimator) -> Film:
    """Go once over a branch, given by the ids of its entries from root to leaf.

    Raises:
        PiError: `session`: a compaction or an edit does not fit its type. Another entry that
            does not is shown as one that cannot be read, and weighs nothing.
    """
    return _Pass(session, ids, estimator).run()


class _Pass:
    """A film while it is made."""

    def __init__(self, session: SessionReader, ids: Sequence[str], estimator: Estimator) -> None:
        self.session = session
        self.film = Film(ids, estimator)
        self.place_of = {entry_id: place for place, entry_id in enumerate(ids)}
        self.item_of: dict[str, int] = {}
        self.messages: list[Sequence[AgentMessage]] = []
        self.names: Counter[str] = Counter()
        self.waiting: dict[str, tuple[int, Replacement | None]] = {}
        """Edits of entries that have not come yet; a file may hold such."""
        self.weights: list[int] = []
        """Of each item, as the newest edit has it."""
        self.reported: list[int] = []
        self.sent = self.log = 0
        self.believed = 0
        """The first item that reported usage is believed of."""
        self.told = -1
        """Items at the newest moment."""

    def run(self) -> Film:
        edits: list[tuple[int, ContextEditEntry]] = []
        for place, entry_id in enumerate(self.film.ids):
            kind = self.session.type_of(entry_id)
            if kind == "context_edit":
                edit = self.session.entry(entry_id)
                if isinstance(edit, ContextEditEntry):
                    edits.append((place, edit))
            elif kind in ("message", "custom_message", "branch_summary", "compaction"):
                entry, messages = self._read(entry_id)
                if entry is not None and not messages:
                    continue  # it shows nothing: a prompt's state, a summary without a word
                self._apply(edits, place)
                if isinstance(entry, CompactionEntry):
                    self._compact(place, entry, messages)
                else:
                    self._show(place, entry_id, entry, messages)
        end = len(self.film.ids)
        self._apply(edits, end)
        self._moment("now", end)
        return self.film

    def _read(self, entry_id: str) -> tuple[Entry | None, Sequence[AgentMessage]]:
        try:
            entry = self.session.entry(entry_id)
        except PiError:
            if self.session.type_of(entry_id) == "compaction":
                raise
            return None, []
        if isinstance(entry, CompactionEntry):
            return entry, build_session_context([entry]).messages
        if isinstance(entry, MessageEntry) and not isinstance(entry.message, SystemMessage):
            return entry, (entry.message,)  # as `shown` has it, for most of a long branch
        return entry, [item.message for item in shown([entry])]

    # --- what entries do ----------------------------------------------------------------

    def _show(
        self, place: int, entry_id: str, entry: Entry | None, messages: Sequence[AgentMessage]
    ) -> int:
        """Take an entry that shows something; returns its item."""
        film, item = self.film, len(self.film.items)
        kind = kind_of(messages[0]) if messages else "unreadable"
        family = {"summary": "cmp", "branch summary": "bs"}.get(kind, "m")
        self.names[family] += 1
        tokens = sum(map(film.estimator.weigh, messages))
        text = "[cannot be read]" if entry is None else entry_line(entry)
        name = f"{family}{self.names[family]}"
        number = self.session.number(entry_id)
        tail = max(len(messages) - 1, 0)
        film.items.append(Shown(entry_id, number, name, kind, text, tokens, tail))
        film.places.append(place)
        self.item_of[entry_id] = item
        self.messages.append(messages)
        self.weights.append(tokens)
        self.reported.append(reported_by(messages[0]) if messages else 0)
        self.sent += tokens
        self.log += tokens
        if (early := self.waiting.pop(entry_id, None)) is not None:
            self._edit(item, *early)
        return item

    def _compact(
        self, place: int, entry: CompactionEntry, messages: Sequence[AgentMessage]
    ) -> None:
        film = self.film
        self._moment("before", place)
        item = self._show(place, entry.id, entry, messages)
        kept = self.place_of.get(entry.first_kept_entry_id, place)
        first = item
        if entry.retained_tail is None and kept < place:
            first = bisect_left(film.places, kept)
        film.boundaries.append(Boundary(place, item, first))
        stays = (i for i in range(first, item) if not film.items[i].is_compaction)
        self.sent = self.weights[item] + sum(self.weights[i] for i in stays)
        self.believed = item + 1
        self._moment("compaction", place + 1)

    def _apply(self, edits: list[tuple[int, ContextEditEntry]], upto: int) -> None:
        """Take the edits that follow one another; together they make one moment."""
        if not edits:
            return
        targets = [self.item_of.get(edit.target_id) for _, edit in edits]
        felt = {item for item in targets if item is not None and self._is_sent(item)}
        if felt:
            self._moment("before", edits[0][0])
        self.believed = len(self.film.items)
        for (place, edit), item in zip(edits, targets, strict=True):
            if item is None:
                self.waiting[edit.target_id] = (place, edit.replacement)
            else:
                self._edit(item, place, edit.replacement)
        if felt:
            self._moment("edit", edits[-1][0] + 1, tuple(sorted(felt)))
        edits.clear()

    def _edit(self, item: int, place: int, replacement: Replacement | None) -> None:
        tokens: int | None = None
        text = "[left out]"
        if replacement is not None:
            new = [edited(message, replacement) for message in self.messages[item]]
            tokens = sum(map(self.film.estimator.weigh, new))
            text = _line(new[0])
        self.film.edits.setdefault(item, []).append(Edited(place, tokens, text))
        if self._is_sent(item):
            self.sent += (tokens or 0) - self.weights[item]
        self.weights[item] = tokens or 0

    def _is_sent(self, item: int) -> bool:
        """Whether it is among what is sent, unless an edit leaves it out."""
        if not self.film.boundaries:
            return True
        newest = self.film.boundaries[-1]
        if self.film.items[item].is_compaction:
            return item >= newest.item
        return item >= newest.first

    # --- moments ------------------------------------------------------------------------

    def _moment(self, why: Why, at: int, touched: tuple[int, ...] = ()) -> None:
        """Note a moment, unless the newest one shows the same."""
        film = self.film
        count = len(film.items)
        if why in ("before", "now") and count == self.told:
            return
        self.told = count
        made = len(film.boundaries)
        film.moments.append(
            Moment(why, at, count, made, self.sent, self.log, self._size(), touched)
        )

    def _size(self) -> Estimate:
        """As `context_size` has it: the newest usage that is believed, and what came since."""
        since = 0
        for item in range(len(self.weights) - 1, self.believed - 1, -1):
            left_out = (found := self.film.edits.get(item)) and found[-1].tokens is None
            if self.reported[item] and not left_out:
                return measured(self.reported[item], since)
            since += self.weights[item]
        return Estimate(self.sent, self.film.estimator.source)


def _line(message: AgentMessage) -> str:
    if isinstance(message, BranchSummaryMessage | CompactionSummaryMessage):
        return f"[{kind_of(message)}] {safe_line(message.summary)}"
    return message_line(message)
