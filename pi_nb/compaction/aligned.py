"""Two contexts of one branch side by side, entry by entry: what each became, what it weighs.

Rows follow the request: what is gone, then the new summary that joins it to what is kept.

    before   S1 m4 m5 m6 m7          S1  updated     m4 m5  summarised
    after    S2       m6 m7          S2  new         m6 m7  kept
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pi_nb.messages import AgentMessage, CompactionSummaryMessage
from pi_nb.session.context import ContextItem
from pi_nb.session.in_words import message_line
from pi_nb.text import safe_line
from pi_nb.tokens import Estimator

from .moments import kind_of

Became = Literal[
    "kept",
    "summarised",
    "pinned",
    "left out",
    "replaced",
    "updated",
    "new",
    "carried",
    "sent again",
]
"""`pinned`: it goes, and its words are in the summary; `updated`: the summary before, which the
new one takes the place of; `carried`: a message that the compaction holds itself; `sent again`:
what an older compaction had taken away."""


@dataclass(frozen=True, slots=True)
class AlignedRow:
    """One entry, before and after."""

    entry_id: str
    """Of a new summary that is not applied, empty."""
    number: int
    """In the session's outline; 0 where it has none."""
    kind: str
    became: Became
    text: str
    """One line, of what is sent after where that differs."""
    before: int | None
    """Tokens by the estimator; None: it is not sent."""
    after: int | None

    @property
    def delta(self) -> int:
        return (self.after or 0) - (self.before or 0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "entryId": self.entry_id,
            "number": self.number,
            "kind": self.kind,
            "became": self.became,
            "text": self.text,
            "before": self.before,
            "after": self.after,
            "delta": self.delta,
        }


@dataclass(frozen=True, slots=True)
class KindTotal:
    """Tokens of one kind of message, before and after."""

    kind: str
    before: int
    after: int

    @property
    def delta(self) -> int:
        return self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "before": self.before,
            "after": self.after,
            "delta": self.delta,
        }


def aligned(
    before: Sequence[ContextItem],
    after: Sequence[ContextItem],
    *,
    left_out: Collection[str],
    pinned: Collection[str],
    number: Callable[[str], int],
    estimator: Estimator,
) -> tuple[AlignedRow, ...]:
    """Lay two contexts beside each other.

    Args:
        left_out: The entries that edits between the two left out.
        pinned: Those that go and whose words are in the new summary.
        number: The place of an entry in its session's outline.
    """
    former, later = _keyed(before), _keyed(after)
    there = {key: item.message for key, item in former}
    stays = {key: item.message for key, item in later}
    weigh = estimator.weigh

    def row(item: ContextItem, became: Became, old: int | None, new: int | None) -> AlignedRow:
        kind, text = kind_of(item.message), line(item.message)
        place = number(item.entry_id) if item.entry_id else 0
        return AlignedRow(item.entry_id, place, kind, became, text, old, new)

    def gone(item: ContextItem) -> Became:
        if item.entry_id in left_out:
            return "left out"
        if isinstance(item.message, CompactionSummaryMessage):
            return "updated"
        return "pinned" if item.entry_id in pinned else "summarised"

    above: list[AlignedRow] = []
    below: list[AlignedRow] = []
    for key, item in former:
        weight = weigh(item.message)
        message = stays.get(key)
        rows = below if below or message is not None else above
        if message is None:
            rows.append(row(item, gone(item), weight, None))
        elif message == item.message:
            rows.append(row(item, "kept", weight, weight))
        else:
            changed = ContextItem(item.entry_id, message)
            rows.append(row(changed, "replaced", weight, weigh(message)))
    summaries = {item.entry_id for _, item in later if _is_summary(item)}
    for key, item in later:
        if key in there:
            continue
        became: Became = "sent again"
        if item.entry_id in summaries:
            became = "new" if _is_summary(item) else "carried"
        above.append(row(item, became, None, weigh(item.message)))
    return (*above, *below)


def by_kind(rows: Iterable[AlignedRow]) -> list[KindTotal]:
    """The sums of each kind, in the order in which kinds are met."""
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    for row in rows:
        before[row.kind] += row.before or 0
        after[row.kind] += row.after or 0
    return [KindTotal(kind, before[kind], after[kind]) for kind in before]


def line(message: AgentMessage) -> str:
    """A message on one line; a summary with its beginning."""
    summary = getattr(message, "summary", None)
    if isinstance(summary, str):
        return f"[{kind_of(message)}] {safe_line(summary)}"
    return message_line(message)


def _is_summary(item: ContextItem) -> bool:
    return isinstance(item.message, CompactionSummaryMessage)


def _keyed(items: Sequence[ContextItem]) -> list[tuple[tuple[str, int], ContextItem]]:
    return list(_numbered(items))


def _numbered(items: Sequence[ContextItem]) -> Iterator[tuple[tuple[str, int], ContextItem]]:
    """Each item with its entry and its place among that entry's: a compaction has several."""
    seen: Counter[str] = Counter()
    for item in items:
        yield (item.entry_id, seen[item.entry_id]), item
        seen[item.entry_id] += 1
