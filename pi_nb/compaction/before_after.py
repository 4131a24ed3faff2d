"""Before and after a compaction, aligned by entry: what each became, and what that saves.

For one that is in the log, and for a plan with a summary that nobody applied yet. Edits that
stand right before a compaction belong to it: a plan writes them so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple

from pi_nb.html import Html, details, element
from pi_nb.messages import AgentMessage, CompactionSummaryMessage
from pi_nb.result import PiError
from pi_nb.session.context import ContextItem, Step, project
from pi_nb.session.entries import CompactionEntry, ContextEditEntry, Entry
from pi_nb.session.filters import BOOKKEEPING
from pi_nb.session.reader import SessionReader
from pi_nb.text import count, safe_line
from pi_nb.tokens import PI, Estimator

from .aligned import AlignedRow, Became, KindTotal, aligned, by_kind
from .assemble import pinned_words
from .pins import is_pin
from .plan import Omit, Plan, after
from .summary_changes import SectionChange, summary_changes

KEPT = 4
"""Of a longer run of entries that are kept only the ends are listed."""
RUN, ENDS = 12, 4
"""The same for entries that go, and how many of them at each end."""
LINES = 40
"""Lines of a section's change that are drawn."""

_MEANINGS: dict[Became, str] = {
    "updated": "the summary before it, whose place the new one takes",
    "pinned": "it goes, and its words are in the summary",
    "carried": "a message that the compaction holds itself",
    "sent again": "an older compaction had taken it away",
}
"""What is said of rows that do not speak for themselves."""

GONE = frozenset({"summarised", "pinned", "left out", "updated"})


class Folded(NamedTuple):
    """Neighbours that are not listed one by one."""

    rows: int
    became: Became
    before: int
    after: int

    def __str__(self) -> str:
        noun = (f"{self.became} entry", f"{self.became} entries")
        return f"… {count(self.rows, *noun)} (≈{max(self.before, self.after):,})"


@dataclass(frozen=True, slots=True, repr=False)
class BeforeAfter:
    """Two contexts of a branch and what lies between them. A value: it follows nothing."""

    title: str
    rows: tuple[AlignedRow, ...]
    summary: str
    """The new summary; empty where there is none."""
    previous: str | None
    """The summary before it."""
    source: str
    """Of every number of tokens: the estimator's name. The system prompt and the tools are
    in none of them."""
    gone: tuple[ContextItem, ...]
    """What the summary stands for, oldest first, without the summary before it."""
    kept: tuple[AgentMessage, ...]
    """What is sent after beside the summary."""
    counted: int = 0
    """Tokens before, as whoever wrote the compaction counted them, prompt and tools included;
    0 where nobody did."""

    @property
    def before(self) -> int:
        return sum(row.before or 0 for row in self.rows)

    @property
    def after(self) -> int:
        return sum(row.after or 0 for row in self.rows)

    @property
    def delta(self) -> int:
        """Below zero where the next request got smaller."""
        return self.after - self.before

    @property
    def by_kind(self) -> list[KindTotal]:
        return by_kind(self.rows)

    @property
    def sections(self) -> list[SectionChange]:
        """The summary against the one before it; none where there is no summary."""
        return summary_changes(self.previous, self.summary) if self.summary else []

    @property
    def not_mentioned(self) -> Any:
        """What stands in the summarised part and is found verbatim neither in the summary nor
        in what is kept: see `mentions`."""
        # Only for whoever asks: it goes over every word of what is gone.
        finder = import_module("pi_nb.compaction.mentions")
        found = finder.not_mentioned(self.gone, self.summary, self.kept)
        rows = {row.entry_id: row.number for row in self.rows if row.number}
        return replace(found, numbers=rows)

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "source": self.source,
            "before": self.before,
            "after": self.after,
            "delta": self.delta,
            "counted": self.counted,
            "rows": [row.to_dict() for row in self.rows],
            "byKind": [total.to_dict() for total in self.by_kind],
            "sections": [change.to_dict() for change in self.sections],
        }

    # --- to look at ---------------------------------------------------------------------

    def _totals(self) -> str:
        text = f"≈{self.before:,} → ≈{self.after:,} tokens ({_signed(self.delta)})"
        if self.delta >= 0 and self.rows:
            text += ", not smaller"
        return text

    def _remarks(self) -> Iterator[str]:
        seen = {row.became for row in self.rows}
        if said := [f"{name}: {text}" for name, text in _MEANINGS.items() if name in seen]:
            yield "; ".join(said)
        named = "characters / 4 (pi)" if self.source == "pi" else self.source
        yield f"≈tokens: {named}, without the system prompt and the tools"
        if self.counted:
            yield f"its writer counted {self.counted:,} tokens before, with whatever it knew of"

    def __str__(self) -> str:
        lines = [f"{self.title}: {self._totals()}", "", *_row_lines(self.rows)]
        if len(kinds := self.by_kind) > 1:
            lines += ["", *_kind_lines(kinds)]
        if changes := self.sections:
            lines += ["", self._against(), *_change_lines(changes)]
        return "\n".join([*lines, "", *self._remarks()])

    __repr__ = __str__

    def _against(self) -> str:
        first = self.previous is None
        return "The summary, which is the first" if first else "The summary, and the one before it"

    def _repr_html_(self) -> Html:
        parts = [element("p", element("strong", self.title), f": {self._totals()}")]
        parts.append(_table(("#", "before", "after", "delta", "entry"), _row_cells(self.rows)))
        if len(kinds := self.by_kind) > 1:
            cells = ([f"{k.before:,}", f"{k.after:,}", _signed(k.delta), k.kind] for k in kinds)
            parts.append(details("by kind", _table(("before", "after", "delta", "kind"), cells)))
        if changes := self.sections:
            parts.append(details(self._against(), *_change_html(changes)))
        parts += [element("p", element("em", remark)) for remark in self._remarks()]
        return Html("".join(parts))


# --- making it ------------------------------------------------------------------------------


def before_after(
    session: SessionReader,
    compaction: str | int | Entry | None = None,
    lane: str = "main",
    estimator: Estimator = PI,
) -> BeforeAfter:
    """What a compaction that is in the log did to what is sent.

    Args:
        compaction: It, or its id, label or number in the outline; also an edit, which is
            taken with its neighbours. None: the newest compaction of the lane's branch, or
            its newest edit where it has no compaction.

    Raises:
        PiError: `invalid_argument`: no such entry or lane, or it is no compaction and no edit;
            `invalid_state`: nothing of the branch was compacted or edited.
    """
    where = _found(session, compaction, lane)
    ids = session.branch_ids(where.id)
    start = len(ids) - 1
    edits: list[ContextEditEntry] = []
    for place in range(len(ids) - 1, -1, -1):
        entry_id, kind = ids[place], session.type_of(ids[place])
        if kind == "context_edit" and isinstance(edit := session.entry(entry_id), ContextEditEntry):
            edits.append(edit)
            start = place
        elif entry_id != where.id and kind not in BOOKKEEPING:
            break
    # Without roles: they only decide about settings, which nobody looks at here.
    steps = [Step(entry_id, session.type_of(entry_id), None) for entry_id in ids]
    former = project(steps[:start], session.entry).snapshot().items
    later = project(steps, session.entry).snapshot().items
    number = session.number(where.id)
    applied = isinstance(where, CompactionEntry)
    title = f"Before and after {'the compaction' if applied else 'the edits'} at row {number}"
    newest = {edit.target_id: edit.replacement for edit in reversed(edits)}
    pins = {entry_id for entry_id, label in session.labels.items() if is_pin(label)}
    return _made(
        title,
        former,
        later,
        left_out={target for target, new in newest.items() if new is None},
        pins=pins,
        number=session.number,
        estimator=estimator,
        counted=where.tokens_before if isinstance(where, CompactionEntry) else 0,
    )


def before_after_of(plan: Plan, summary: str = "") -> BeforeAfter:
    """What a plan would do to what is sent, with this summary.

    Args:
        summary: As it would be stored; of a plan that only edits it does not count.
    """
    branch = plan.branch
    later: list[ContextItem] = []
    kept: Sequence[ContextItem] = branch.items
    if plan.summarise is not None and plan.preparation is not None:
        stands = CompactionSummaryMessage(summary=summary, tokens_before=plan.tokens_before)
        later.append(ContextItem("", stands))
        kept = branch.items[plan.preparation.cut :]
    edits = {edit.entry_id: edit for edit in plan.edits}
    for item in kept:
        edit = edits.get(item.entry_id)
        message = item.message if edit is None else after(item.message, edit)
        if message is not None:
            later.append(ContextItem(item.entry_id, message))
    return _made(
        "Before and after the plan",
        branch.items,
        later,
        left_out={edit.entry_id for edit in plan.edits if isinstance(edit, Omit)},
        pins=branch.pins,
        number=branch.number,
        estimator=branch.estimator,
    )


def _found(session: SessionReader, wish: str | int | Entry | None, lane: str) -> Entry:
    """The compaction or the last of the edits that is looked at."""
    ids = session.branch_ids(session.tip(lane))
    kinds = [session.type_of(entry_id) for entry_id in ids]
    if wish is None:
        for kind in ("compaction", "context_edit"):
            if kind in kinds:
                return session.entry(ids[len(kinds) - 1 - kinds[::-1].index(kind)])
        raise PiError("invalid_state", "Nothing of this branch was compacted or edited yet.")
    entry = wish if isinstance(wish, Entry) else session.find(str(wish))
    if not isinstance(entry, CompactionEntry | ContextEditEntry):
        what = f"Row {session.number(entry.id)} is no compaction and no edit"
        known = [session.number(i) for i, kind in zip(ids, kinds, strict=True) if kind in _ACTS]
        there = f"those of this branch: {', '.join(map(str, known[-8:]))}" if known else "none here"
        raise PiError("invalid_argument", f"{what}; {there}.")
    if isinstance(entry, ContextEditEntry) and entry.id in ids:
        for place in range(ids.index(entry.id) + 1, len(ids)):
            if kinds[place] in _ACTS:
                entry = session.entry(ids[place])
            if kinds[place] == "compaction" or kinds[place] not in {*_ACTS, *BOOKKEEPING}:
                break
    return entry


_ACTS = ("compaction", "context_edit")


def _made(
    title: str,
    former: Sequence[ContextItem],
    later: Sequence[ContextItem],
    *,
    left_out: set[str],
    pins: Collection[str],
    number: Callable[[str], int],
    estimator: Estimator,
    counted: int = 0,
) -> BeforeAfter:
    old, new = _summary(former), _summary(later)
    fresh = new is not None and (old is None or new[0] != old[0])
    summary = new[1].summary if new is not None and fresh else ""
    stays = {item.entry_id for item in later}
    pinned = {
        item.entry_id
        for item in former
        if item.entry_id in pins and item.entry_id not in stays and pinned_words(item) in summary
    }
    rows = aligned(
        former,
        later,
        left_out=left_out - stays,
        pinned=pinned,
        number=number,
        estimator=estimator,
    )
    gone = {row.entry_id for row in rows if row.became in ("summarised", "pinned")}
    plain = (i for i in former if not isinstance(i.message, CompactionSummaryMessage))
    return BeforeAfter(
        title=title,
        rows=rows,
        summary=summary,
        previous=old[1].summary if old is not None else None,
        source=estimator.source,
        gone=tuple(item for item in plain if item.entry_id in gone),
        kept=tuple(item.message for item in (later[1:] if fresh else later)),
        counted=counted,
    )


def _summary(items: Sequence[ContextItem]) -> tuple[str, CompactionSummaryMessage] | None:
    """The summary that a context begins with, and its entry."""
    if items and isinstance(message := items[0].message, CompactionSummaryMessage):
        return items[0].entry_id, message
    return None


# --- rows -----------------------------------------------------------------------------------


def _folded(rows: Sequence[AlignedRow]) -> Iterator[AlignedRow | Folded]:
    """The rows without the middle of long runs that became the same."""
    for became, run in groupby(rows, key=lambda row: row.became):
        alike = list(run)
        most, ends = (KEPT, 1) if became == "kept" else (RUN, ENDS)
        if len(alike) <= most:
            yield from alike
            continue
        inside = alike[ends:-ends]
        yield from alike[:ends]
        before, after = (sum(getattr(r, side) or 0 for r in inside) for side in ("before", "after"))
        yield Folded(len(inside), became, before, after)
        yield from alike[-ends:]


def _row_lines(rows: Sequence[AlignedRow]) -> Iterator[str]:
    cells = [("#", "before", "after", "delta", "", "")]
    for row in _folded(rows):
        if isinstance(row, Folded):
            cells.append(("", "", "", "", "", str(row)))
            continue
        number = str(row.number or "")
        cells.append((number, *_numbers(row), row.became, row.text))
    widths = [max(len(line[i]) for line in cells) for i in range(5)]
    for line in cells:
        numbers = "  ".join(f"{line[i]:>{widths[i]}}" for i in range(4))
        yield f"  {numbers}  {line[4]:<{widths[4]}}  {line[5]}".rstrip()


def _numbers(row: AlignedRow) -> tuple[str, str, str]:
    before, after = ("-" if n is None else f"{n:,}" for n in (row.before, row.after))
    return before, after, _signed(row.delta)


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "0"


def _kind_lines(kinds: Sequence[KindTotal]) -> Iterator[str]:
    cells = [("before", "after", "delta", "by kind")]
    cells += [(f"{k.before:,}", f"{k.after:,}", _signed(k.delta), k.kind) for k in kinds]
    widths = [max(len(line[i]) for line in cells) for i in range(3)]
    for line in cells:
        yield f"  {'  '.join(f'{line[i]:>{widths[i]}}' for i in range(3))}  {line[3]}"


def _change_lines(changes: Sequence[SectionChange]) -> Iterator[str]:
    for change in changes:
        if not change.changed:
            continue
        same = f" ({count(change.same, 'line')} as before)" if change.same else ""
        yield f"  {change.name}{same}"
        for mark, lines in (("-", change.removed), ("+", change.added)):
            yield from (f"    {mark} {safe_line(line, 200)}" for line in lines[:LINES])
            if len(lines) > LINES:
                yield f"    {mark} … {count(len(lines) - LINES, 'more line')}"
    if unchanged := [change.name for change in changes if not change.changed]:
        yield f"  as before: {', '.join(unchanged)}"


# --- HTML -----------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table whose last column is text, at the left also where a notebook sets it right."""

    def cells(name: str, line: Sequence[object]) -> Html:
        *numbers, last = line
        parts = last if isinstance(last, tuple) else (last,)
        text = element("div", *parts, align="left")
        return element("tr", *(element(name, cell) for cell in (*numbers, text)))

    body = (cells("td", line) for line in rows)
    return element("table", element("thead", cells("th", head)), element("tbody", *body))


def _row_cells(rows: Sequence[AlignedRow]) -> Iterator[Sequence[object]]:
    for row in _folded(rows):
        if isinstance(row, Folded):
            yield "", "", "", "", element("em", str(row))
            continue
        before, after, delta = _numbers(row)
        gone = element("del", before) if row.became in GONE else before
        text = element("strong", row.text) if row.before is None else row.text
        said = (element("em", row.became), " ", text)
        yield row.number or "", gone, after, delta, said


def _change_html(changes: Sequence[SectionChange]) -> Iterator[Html]:
    items = []
    for change in changes:
        if not change.changed:
            continue
        lines = []
        for name, side in (("del", change.removed), ("ins", change.added)):
            lines += [element("li", element(name, line)) for line in side[:LINES]]
            if len(side) > LINES:
                more = f"… {count(len(side) - LINES, 'more line')}"
                lines.append(element("li", element("em", more)))
        same = f" {count(change.same, 'line')} as before" if change.same else ""
        title = (element("strong", change.name), element("em", same))
        items.append(element("li", *title, element("ul", *lines)))
    if unchanged := [change.name for change in changes if not change.changed]:
        items.append(element("li", element("em", f"as before: {', '.join(unchanged)}")))
    yield element("ul", *items)
