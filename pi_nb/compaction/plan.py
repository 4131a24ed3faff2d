"""What a compaction would do, before any model is asked: free, instant, and open to change.

A plan is a list of operations on a branch. Applied, `Summarise` becomes one `compaction`
entry, `Omit` and `Replace` become `context_edit` entries. It says what stays, what goes and
why, lists every place where the branch may be cut instead, and moves there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pi_nb.html import Html, element, table
from pi_nb.messages import AgentMessage
from pi_nb.result import PiError
from pi_nb.session.context import ContextItem, edited
from pi_nb.session.entries import Replacement
from pi_nb.session.in_words import message_line
from pi_nb.text import count, safe_line

from .assemble import without_extras
from .branch import Branch
from .budget import Budget
from .cut import is_legal, legal_cuts
from .prepare import Preparation, prepare, prepared

SUMMARY_LEAST, SUMMARY_MOST = 200, 2_000
"""Tokens that a summary usually takes; a prediction, not a limit."""


@dataclass(frozen=True, slots=True)
class Summarise:
    """A summary in the place of all that is older than `first_kept_entry_id`."""

    first_kept_entry_id: str
    entry_ids: tuple[str, ...] = ()
    """What the summary stands for, oldest first. A policy may leave it out: it follows."""
    turn_prefix: tuple[str, ...] = ()
    """The beginning of a split turn, which gets a shorter summary of its own."""


@dataclass(frozen=True, slots=True)
class Omit:
    """An entry that the model no longer sees."""

    entry_id: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Other content in the place of an entry's own."""

    entry_id: str
    content: str


Operation = Summarise | Omit | Replace


@dataclass(frozen=True, slots=True)
class NothingToCompact:
    """Why there is no plan. Falsy, so that `if plan:` reads well."""

    why: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"Nothing to compact: {self.why}"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Cut:
    """One legal place to cut: the first entry that would be kept."""

    place: int
    """In the context's items."""
    number: int
    """In the session's outline; 0 where the branch is not a session's."""
    entry_id: str
    text: str
    kept_tokens: int
    splits_turn: bool
    chosen: bool


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """A compaction that nobody has made yet. It belongs to one leaf: later it is stale."""

    branch: Branch
    budget: Budget
    operations: tuple[Operation, ...]
    policy: str = "pi"
    reasons: tuple[str, ...] = ()
    """Why this and no other place, in words."""
    preparation: Preparation | None = None
    """The cut worked out, where the plan has one `Summarise`."""

    @property
    def leaf_id(self) -> str | None:
        """The leaf that it was made for."""
        return self.branch.leaf

    @property
    def tokens_before(self) -> int:
        return self.branch.size.tokens

    @property
    def gone(self) -> Sequence[ContextItem]:
        """What the model will not see any more, oldest first."""
        start = self.branch.start
        end = start if self.preparation is None else self.preparation.cut
        return [*self.branch.items[start:end], *(item for item, _ in self._edited())]

    def _edited(self) -> Iterable[tuple[ContextItem, AgentMessage | None]]:
        """What edits change, and what stands there then: nothing where it is left out."""
        if edits := {operation.entry_id: operation for operation in self.edits}:
            for item in self.branch.items:
                if (operation := edits.get(item.entry_id)) is not None:
                    yield item, after(item.message, operation)

    @property
    def edits(self) -> tuple[Omit | Replace, ...]:
        return tuple(o for o in self.operations if not isinstance(o, Summarise))

    @property
    def summarise(self) -> Summarise | None:
        return next((o for o in self.operations if isinstance(o, Summarise)), None)

    @property
    def pinned(self) -> Sequence[ContextItem]:
        """What goes, and yet has to stand in the summary word for word."""
        return [item for item in self.gone if item.entry_id in self.branch.pins]

    @property
    def freed(self) -> int:
        """Tokens of what goes, by the branch's estimator, less what edits put in its place.
        Below zero where an edit puts more there."""
        freed = 0 if self.preparation is None else freed_by(self.branch, self.preparation.cut)
        weigh = self.branch.estimator.weigh
        for item, instead in self._edited():
            freed += weigh(item.message) - (weigh(instead) if instead is not None else 0)
        return freed

    @property
    def tokens_after(self) -> tuple[int, int]:
        """From least to most what the next request will hold, about."""
        return predicted(self.branch, self.freed, summary=self.preparation is not None)

    def tokens_with(self, summary: int) -> int:
        """What the next request will hold with a summary of so many tokens, estimated."""
        old = self.branch.weight(0, self.branch.start) if self.summarise else 0
        return max(left_of(self.branch, self.freed + old), 0) + summary

    @property
    def previous_summary(self) -> str | None:
        """What an earlier summary said, without what is put around every summary."""
        found = self.preparation.previous_summary if self.preparation else None
        return without_extras(found) if found else None

    @property
    def grows(self) -> bool:
        """Whether the next request may hold more than the one before: a summary is not free,
        and neither is a longer text in the place of an entry."""
        return self.tokens_after[1] > self.tokens_before

    @property
    def cuts(self) -> list[Cut]:
        """Every place that `move` can cut at, oldest first. Empty for a plan without a summary."""
        if self.preparation is None:
            return []
        chosen = self.preparation.cut
        return [self._cut(place, place == chosen) for place in self.places]

    def cuts_near(self, most: int = 5) -> list[Cut]:
        """Of the places to `move` to those nearest to the chosen one, itself among them, oldest
        first. They cost no more than what is shown of them, however long the branch is."""
        places = self.places
        if self.preparation is None:
            return []
        chosen = self.preparation.cut
        at = places.index(chosen)
        first = max(min(at - most // 2, len(places) - most), 0)
        return [self._cut(place, place == chosen) for place in places[first : first + most]]

    @property
    def places(self) -> list[int]:
        """Where in the context's items `move` can cut: legal, and with something older that
        is left to summarise."""
        if self.preparation is None:
            return []
        return [place for place in legal_cuts(self.branch) if place > self.branch.start]

    def _cut(self, place: int, chosen: bool) -> Cut:
        item = self.branch.items[place]
        worked_out = prepared(self.branch, place)
        return Cut(
            place=place,
            number=self.branch.number(item.entry_id),
            entry_id=item.entry_id,
            text=message_line(item.message),
            kept_tokens=self.branch.weight(place),
            splits_turn=worked_out is not None and worked_out.is_split_turn,
            chosen=chosen,
        )

    def move(self, to: str | int) -> Plan:
        """The same plan with its cut elsewhere.

        Args:
            to: The first entry to keep: its id, or its number in the outline.

        Raises:
            PiError: `invalid_argument`: not on the branch, not a place where a history may
                begin (the nearest ones are named), or nothing older would be left.
        """
        if self.preparation is None:
            raise PiError("invalid_argument", "This plan has no cut: it leaves entries out.")
        place = self._place(to)
        if not is_legal(self.branch, place):
            near = [cut for cut in legal_cuts(self.branch) if abs(cut - place) <= 12]
            near = sorted(near, key=lambda cut: abs(cut - place))[:2]
            names = " and ".join(self._name(cut) for cut in sorted(near)) or "none"
            what = message_line(self.branch.items[place].message)
            text = f"A history cannot begin with {safe_line(what, 60)}; legal near it: {names}."
            raise PiError("invalid_argument", text)
        found = prepared(self.branch, place)
        if found is None:
            raise PiError("invalid_argument", "Nothing older than that is left to summarise.")
        reasons = (f"the cut was moved by hand to {self._name(place)}",)
        # An edit of what is summarised now would be of no use, and counted twice.
        gone = {item.entry_id for item in self.branch.items[:place]}
        edits = (edit for edit in self.edits if edit.entry_id not in gone)
        operations = (as_operation(found), *edits)
        return replace(self, operations=operations, reasons=reasons, preparation=found)

    def _place(self, to: str | int) -> int:
        for place, item in enumerate(self.branch.items):
            if item.entry_id == to or self.branch.number(item.entry_id) == to:
                return place
        raise PiError("invalid_argument", f"{to!r} is not in the context of this branch.")

    def name(self, entry_id: str) -> str:
        """What an entry is called here: its row in the outline, else its id."""
        number = self.branch.number(entry_id)
        return f"row {number}" if number else entry_id

    def _name(self, place: int) -> str:
        return self.name(self.branch.items[place].entry_id)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what a record keeps, and what a table is made of."""
        found = self.preparation
        low, high = self.tokens_after
        return {
            "policy": self.policy,
            "leafId": self.leaf_id,
            "firstKeptEntryId": found.first_kept_entry_id if found else None,
            "isSplitTurn": bool(found and found.is_split_turn),
            "summarise": list(self.summarise.entry_ids) if self.summarise else [],
            "turnPrefix": list(self.summarise.turn_prefix) if self.summarise else [],
            "edits": [_edit(operation) for operation in self.edits],
            "pins": sorted(item.entry_id for item in self.pinned),
            "tokensBefore": self.tokens_before,
            "tokensSource": self.branch.size.source,
            "tokensAfter": [low, high],
            "grows": self.grows,
            "window": self.budget.window,
            "reserve": self.budget.reserved,
            "keep": self.budget.kept,
            "reasons": list(self.reasons),
        }

    # --- to look at ---------------------------------------------------------------------

    def _facts(self) -> list[tuple[str, str]]:
        low, high = self.tokens_after
        branch, found = self.branch, self.preparation
        after = f"≈{low:,}" if low == high else f"≈{low:,} to {high:,}"
        rows = [("policy", self.policy), ("before", str(branch.size)), ("after", after)]
        if found is not None:
            kept = len(branch.items) - found.cut
            gone = len(found.history) + len(found.turn_prefix)
            rows.append(("kept", f"{count(kept, 'message')}, ≈{branch.weight(found.cut):,} tokens"))
            rows.append(("summarised", f"{count(gone, 'message')}, ≈{self.freed:,} tokens"))
            first = message_line(branch.items[found.cut].message)
            rows.append(("first kept", f"{self._name(found.cut)}, {safe_line(first, 60)}"))
            if found.turn_prefix:
                split = len(found.turn_prefix)
                what = "message gets a summary of its own"
                if split > 1:
                    what = f"{split:,} messages get a summary of their own"
                rows.append(("split turn", f"its first {what}"))
        if self.edits:
            rows.append(
                ("edited", f"{count(len(self.edits), 'entry', 'entries')} left out or replaced")
            )
        if self.pinned:
            rows.append(("pinned", f"{count(len(self.pinned), 'entry', 'entries')} word for word"))
        if self.grows:
            how = "is" if low > self.tokens_before else "may be"
            rows.append(("caution", f"the next request {how} larger than this one"))
        if branch.lost_kept:
            lost = "the last compaction keeps from an entry that is not above it: nothing is kept"
            rows.append(("caution", lost))
        return [*rows, *(("because", reason) for reason in self.reasons)]

    def __str__(self) -> str:
        rows = self._facts()
        width = max(len(name) for name, _ in rows)
        return "\n".join(
            [
                "Plan of a compaction (nothing was asked, nothing is written)",
                *(f"  {name.ljust(width)}  {text}" for name, text in rows),
            ]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = element("p", element("strong", "Plan of a compaction"), ", nothing is written yet")
        return str(Html(str(head) + str(table(("", ""), self._facts()))))


def as_operation(found: Preparation) -> Summarise:
    """A cut as the operation that it means."""
    return Summarise(
        first_kept_entry_id=found.first_kept_entry_id,
        entry_ids=tuple([item.entry_id for item in found.history]),
        turn_prefix=tuple([item.entry_id for item in found.turn_prefix]),
    )


def after(message: AgentMessage, operation: Omit | Replace) -> AgentMessage | None:
    """What an edit makes of a message; None where it leaves it out."""
    if isinstance(operation, Omit):
        return None
    return edited(message, Replacement(content=operation.content))


def freed_by(branch: Branch, cut: int) -> int:
    """Tokens that go where a branch is cut: pinned words stay, in the summary."""
    gone = branch.weight(branch.start, cut)
    return gone - branch.pinned_weight(branch.start, cut)


def left_of(branch: Branch, gone: int) -> int:
    """What the next request holds without so many tokens of a branch, estimated.

    What a provider measured holds the prompt and the tools too, and those stay. Where it
    measured less than the messages alone are estimated at, the estimator weighs too much, and
    what stays by as much as what goes.
    """
    measured, estimated = branch.size.tokens, branch.weight(0)
    if measured >= estimated or estimated <= 0:
        return measured - gone
    return round((estimated - gone) * measured / estimated)


def predicted(branch: Branch, freed: int, *, summary: bool) -> tuple[int, int]:
    """From least to most what is left of a branch after so much went, with a new summary in
    the place of the old one or without."""
    rest = left_of(branch, freed + (branch.weight(0, branch.start) if summary else 0))
    return (rest + SUMMARY_LEAST, rest + SUMMARY_MOST) if summary else (rest, rest)


def plan_compaction(branch: Branch, budget: Budget) -> Plan | NothingToCompact:
    """Cut the branch so that about `budget.kept` tokens stay: the policy `pi`."""
    found = prepare(branch, budget.kept)
    if found is None:
        return NothingToCompact(why_not(branch))
    return Plan(
        branch=branch,
        budget=budget,
        operations=(as_operation(found),),
        reasons=tuple(_reasons(found, budget)),
        preparation=found,
    )


def why_not(branch: Branch) -> str:
    """Why a branch has nothing to compact."""
    if branch.leaf is None or not branch.items:
        return "there is no message yet."
    if branch.type_of(branch.leaf) == "compaction":
        return "the branch ends in a compaction."
    if len(branch.items) == branch.start:
        return "nothing was said since the last compaction."
    weight = branch.weight(branch.start)
    return f"all of it, ≈{weight:,} tokens, is within what is kept."


def _reasons(found: Preparation, budget: Budget) -> Iterable[str]:
    branch = found.branch
    kept = branch.weight(found.cut)
    yield f"the newest messages up to {budget.kept:,} tokens stay, here ≈{kept:,}"
    reached = branch.reaches(budget.kept)
    if reached is None:
        yield "everything weighs less than that, so the first place where a history may begin"
    elif found.cut < reached:
        yield "moved back: what is newer are results, and a result is not parted from its call"
    elif found.cut > reached:
        yield "moved on to the next place where a history may begin"
    if found.is_split_turn:
        yield "the cut falls inside a turn, whose beginning is summarised by itself"


def _edit(operation: Omit | Replace) -> dict[str, Any]:
    if isinstance(operation, Omit):
        return {"entryId": operation.entry_id, "replacement": None}
    return {"entryId": operation.entry_id, "replacement": {"content": operation.content}}
