"""What the next request holds, by kind, in the order of the request, and what is left free.

The parts are estimates. Where a provider reported the size of the branch, the total is that,
and the difference is a row of its own: no part is bent to fit.

    system prompt | tools | summary | user | assistant | ... | unaccounted | free | reserve
    ------------------------- used --------------------------------------- ^
                                                          the trigger line: window - reserve
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pi_nb.html import Html, element, table
from pi_nb.models.types import ToolSpec
from pi_nb.tokens import Estimate

from .branch import Branch
from .budget import Budget
from .composing import KINDS, NOT_SENT, Item, Weighed
from .frames import as_frame

UNACCOUNTED = "unaccounted"
"""What a provider reported beyond the estimates; below zero where they were too high."""
LARGEST = 5
"""Largest items that are shown."""
_BAR = 20
"""Characters of the widest bar: the whole window."""


class Part(NamedTuple):
    """One kind of content."""

    kind: str
    tokens: int
    share: float
    """Of the window."""
    items: int
    """Messages, sections or tools; an assistant's message with thinking counts in both."""
    source: str
    """Where the number comes from: an estimator, `provider`, or the budget."""


@dataclass(frozen=True, slots=True, repr=False)
class Composition:
    """A context by its parts. Print it, or take `parts` and `largest`."""

    parts: tuple[Part, ...]
    """What is used, in the order of the request, kinds without content included."""
    total: Estimate
    """What the next request holds: the sum of the parts."""
    budget: Budget
    largest: tuple[Item, ...]
    """The largest first."""
    keep_from: Item | None
    """The oldest of the newest messages that fill `budget.kept`; None where all are within it."""

    @classmethod
    def of(
        cls,
        branch: Branch,
        budget: Budget,
        *,
        system_prompt: str | Mapping[str, str] = "",
        tools: Sequence[ToolSpec] = (),
        largest: int = LARGEST,
    ) -> Composition:
        """Compose what a branch sends next.

        Args:
            system_prompt: A text, or its sections by name; those called `skills` and
                `context files` have a row of their own. Left out, it is in `unaccounted` where
                a provider reported the total, and else not counted.
            tools: What a model would be told of; left out, as the prompt.
            largest: How many items are named.
        """
        weighed = Weighed(branch, system_prompt, tools)
        window, source = budget.window, branch.estimator.source
        found = [
            (kind, weighed.tokens[kind], weighed.counts[kind], source)
            for kind in (*KINDS, NOT_SENT)
            if kind != NOT_SENT or weighed.counts[kind]
        ]
        total = Estimate(sum(weighed.tokens.values()), source)
        if (size := branch.size).reported:
            found.append((UNACCOUNTED, size.tokens - total.tokens, 0, size.source))
            total = size
        keep = branch.reaches(budget.kept)
        return cls(
            parts=tuple(Part(kind, n, n / window, items, by) for kind, n, items, by in found),
            total=total,
            budget=budget,
            largest=tuple(map(weighed.item, weighed.largest(largest))),
            keep_from=None if keep is None else weighed.item(weighed.of_message(keep)),
        )

    @property
    def free(self) -> int:
        """Tokens up to the trigger line."""
        return max(self.budget.limit - self.total.tokens, 0)

    @property
    def reserve(self) -> int:
        """What is left of the reserve."""
        return max(self.budget.window - max(self.total.tokens, self.budget.limit), 0)

    @property
    def over(self) -> int:
        """Tokens beyond the trigger line: above zero, a compaction is due."""
        return max(self.total.tokens - self.budget.limit, 0)

    def rows(self) -> tuple[Part, ...]:
        """The parts, and after them `free` and `reserve`: together the window, unless more is
        used than it holds."""
        window = self.budget.window
        rest = (("free", self.free), ("reserve", self.reserve))
        return (*self.parts, *(Part(kind, n, n / window, 0, "budget") for kind, n in rest))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the names of session files."""
        return {
            "window": self.budget.window,
            "reserve": self.budget.reserved,
            "keep": self.budget.kept,
            "trigger": self.budget.limit,
            "tokens": self.total.tokens,
            "tokensSource": self.total.source,
            "reported": self.total.reported,
            "over": self.over,
            "keepFromEntryId": self.keep_from.entry_id if self.keep_from else None,
            "rows": [row._asdict() for row in self.rows()],
            "largest": [
                {
                    "entryId": item.entry_id,
                    "number": item.number,
                    "kind": item.kind,
                    "tokens": item.tokens,
                    "text": item.text,
                }
                for item in self.largest
            ],
        }

    def to_frame(self) -> Any:
        """The rows as a pandas `DataFrame`: kind, tokens, share, items, source.

        Raises:
            PiError: `invalid_state`: pandas is not installed.
        """
        return as_frame([row._asdict() for row in self.rows()])

    # --- to look at ---------------------------------------------------------------------

    def _shown(self) -> list[Part]:
        """Rows that say something; free and reserve always do."""
        return [row for row in self.rows() if row.tokens or row.items or row.source == "budget"]

    def _title(self) -> str:
        window = self.budget.window
        share = self.total.tokens / window
        return f"Context: {self.total} of {window:,} tokens, {_percent(share)}"

    def _lines(self) -> Iterator[str]:
        budget = self.budget
        due = f", passed by {self.over:,}" if self.over else f", {self.free:,} from here"
        yield (
            f"Trigger line: {budget.limit:,} (window {budget.window:,} - reserve "
            f"{budget.reserved:,}){due}."
        )
        where = "everything is within it"
        if self.keep_from is not None:
            named = f"row {self.keep_from.number} " if self.keep_from.number else ""
            where = f"about from {named}({self.keep_from.text})"
        yield f"Keep line: the newest {budget.kept:,} stay in a compaction, {where}."
        for part in self.parts:
            if part.kind == UNACCOUNTED and part.tokens:
                yield _why(part.tokens, self.parts)

    def __str__(self) -> str:
        cells = [_cells(row) for row in self._shown()]
        body = _aligned([(*_HEAD, ""), *cells], texts=(0, 4, 5))
        named = [(_row(item), item.kind, f"{item.tokens:,}", item.text) for item in self.largest]
        largest = ["", "Largest, by their row:", *_aligned(named, texts=(1, 3))] if named else []
        return "\n".join([self._title(), *body, *self._lines(), *largest])

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        rows = [_cells(row)[:-1] for row in self._shown()]
        tables = [table(_HEAD, rows, texts=(0, 4))]
        if self.largest:
            named = [(_row(i), i.kind, f"{i.tokens:,}", i.text) for i in self.largest]
            tables.append(table(_LARGEST_HEAD, named, texts=(1, 3)))
        lines = [piece for line in self._lines() for piece in (line, element("br"))]
        title = element("p", element("strong", self._title()))
        return Html(title + tables[0] + element("p", *lines[:-1]) + "".join(tables[1:]))


# --- cells --------------------------------------------------------------------------------


def _percent(share: float) -> str:
    """One digit after the point, and no minus before a nought."""
    return f"{round(share, 3) + 0.0:.1%}"


_HEAD = ("", "tokens", "share", "items", "source")
_LARGEST_HEAD = ("row", "largest", "tokens", "")


def _why(tokens: int, parts: Sequence[Part]) -> str:
    """What stands behind the difference, as far as it can be known."""
    if tokens < 0:
        return "Unaccounted below zero: the estimates are higher than what was reported."
    missing = {part.kind for part in parts if part.kind in KINDS[:2] and not part.items}
    if missing:
        names = " and ".join(kind for kind in KINDS[:2] if kind in missing)
        return f"Unaccounted: what was reported beyond the estimates, {names} included."
    return "Unaccounted: what was reported beyond the estimates."


def _row(item: Item) -> str:
    return str(item.number) if item.number else "-"


def _cells(row: Part) -> tuple[str, ...]:
    items = f"{row.items:,}" if row.items else ""
    bar = "█" * round(min(max(row.share, 0), 1) * _BAR)
    if row.kind in ("free", "reserve"):
        bar = bar.replace("█", "░" if row.kind == "free" else "▒")
    return (row.kind, f"{row.tokens:,}", _percent(row.share), items, row.source, bar)


def _aligned(rows: Sequence[Sequence[str]], texts: Sequence[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place in texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
