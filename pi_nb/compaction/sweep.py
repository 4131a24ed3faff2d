"""Many budgets and policies over one branch at once: where each of them would cut.

No model is asked and nothing is written. The branch is weighed once, whatever the number of
settings; a policy that only chooses a cut is asked for that alone, and what a cut means is
worked out once for each place.

    branch x windows x reserves x keeps x policies --> SweepTable, a row a setting
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from pi_nb.html import Html, element, table
from pi_nb.result import PiError
from pi_nb.text import count, safe_line

from .branch import Branch
from .budget import Budget
from .cut import first_kept, turn_start
from .frames import as_frame
from .plan import NothingToCompact, Plan, freed_by, predicted, why_not
from .policy import CutPolicy, Policy, as_policy

LIMIT = 20
"""Rows that are shown of a table, half of them its last."""


class SweepRow(NamedTuple):
    """What one policy would do within one budget. Sizes are tokens, by the branch's estimator
    where no provider measured them."""

    policy: str
    window: int
    reserve: int
    keep: int
    cut: int
    """The number of the first kept message in the outline; 0 where nothing is cut, or where
    the branch is not a session's."""
    first_kept_entry_id: str | None
    """What the compaction would name; None where nothing is cut."""
    split: bool
    """Whether the cut parts a turn."""
    summarised: int
    """Messages that a summary would stand for."""
    kept: int
    """Messages that stay, a former summary not counted."""
    edited: int
    """Messages that stay with other content, or are left out."""
    summarised_tokens: int
    kept_tokens: int
    before: int
    after_least: int
    after_most: int
    freed: int
    nothing: str
    """Why there is no plan; empty where there is one."""


@dataclass(frozen=True, slots=True, repr=False)
class SweepTable(Sequence[SweepRow]):
    """One row for each setting, in the order they were asked for. Print it, or take the rows."""

    rows: tuple[SweepRow, ...]
    source: str
    """Where the number before comes from."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[SweepRow]:
        return iter(self.rows)

    @property
    def cuts(self) -> int:
        """How many different places they would cut at."""
        return len({row.first_kept_entry_id for row in self.rows} - {None})

    def to_dict(self) -> dict[str, list[Any]]:
        """Column name to values: what a frame or a file is made of."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(SweepRow._fields)
        return {name: list(values) for name, values in zip(SweepRow._fields, columns, strict=True)}

    def to_frame(self) -> Any:
        """The rows as a pandas `DataFrame`.

        Raises:
            PiError: `invalid_state`: pandas is not installed.
        """
        return as_frame(self.to_dict())

    def text(self, limit: int | None = LIMIT) -> str:
        """The table as text: at most `limit` rows, the first and the last; None shows all.

        Raises:
            PiError: `invalid_argument`: a limit below 1.
        """
        head, last = self._parts(limit)
        cells = [_HEAD, *map(_cells, head), *map(_cells, last)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in cells]
        if left := len(self) - len(head) - len(last):
            lines.insert(1 + len(head), f"  ... {count(left, 'more row')}")
        return "\n".join([self._title(), *lines, *self._notes()])

    def to_html(self, limit: int | None = LIMIT) -> Html:
        """The same as a semantic table.

        Raises:
            PiError: `invalid_argument`: a limit below 1.
        """
        head, last = self._parts(limit)
        rows: list[Sequence[object]] = [_cells(row) for row in head]
        if left := len(self) - len(head) - len(last):
            rows.append([f"... {count(left, 'more row')}", *[""] * (len(_HEAD) - 1)])
        rows += [_cells(row) for row in last]
        title = element("p", element("strong", self._title()))
        notes = [str(element("p", note)) for note in self._notes()]
        return Html("".join([str(title), str(table(_HEAD, rows)), *notes]))

    def _parts(self, limit: int | None) -> tuple[Sequence[SweepRow], Sequence[SweepRow]]:
        if limit is not None and limit < 1:
            text = f"a limit is 1 or more, or None, not {limit}"
            raise PiError("invalid_argument", text)
        if limit is None or len(self.rows) <= limit:
            return self.rows, ()
        last = limit // 2
        return self.rows[: limit - last], self.rows[len(self.rows) - last :]

    def _title(self) -> str:
        settings, places = count(len(self), "setting"), count(self.cuts, "place")
        if not self.rows:
            return "No settings were asked for"
        before = f"{self.rows[0].before:,} tokens before ({self.source})"
        return f"{settings} over one branch, cut at {places}; {before}"

    def _notes(self) -> Iterator[str]:
        for why in dict.fromkeys(row.nothing for row in self.rows if row.nothing):
            number = sum(row.nothing == why for row in self.rows)
            yield f"Nothing to compact for {number:,}: {safe_line(why, 200)}"

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(self.to_html())


_HEAD = (
    *("policy", "window", "reserve", "keep", "first kept", "split", "summarised", "kept"),
    *("edited", "kept tokens", "freed", "after"),
)


def _cells(row: SweepRow) -> tuple[str, ...]:
    setting = (row.policy, f"{row.window:,}", f"{row.reserve:,}", f"{row.keep:,}")
    if row.nothing:
        return (*setting, "nothing", *[""] * (len(_HEAD) - len(setting) - 1))
    first = (f"row {row.cut}" if row.cut else row.first_kept_entry_id) or "all kept"
    least, most = f"{row.after_least:,}", f"{row.after_most:,}"
    return (
        *setting,
        first,
        "yes" if row.split else "",
        f"{row.summarised:,}",
        f"{row.kept:,}",
        f"{row.edited:,}" if row.edited else "",
        f"{row.kept_tokens:,}",
        f"{row.freed:,}",
        least if least == most else f"{least} to {most}",
    )


def sweep(
    branch: Branch,
    budgets: Iterable[Budget] | None = None,
    *,
    keeps: Iterable[int | None] = (None,),
    reserves: Iterable[int | None] = (None,),
    windows: Iterable[int] = (200_000,),
    policies: Iterable[str | Policy] = ("pi",),
) -> SweepTable:
    """What each policy would do with a branch within each budget.

    Args:
        budgets: These. None: every combination of the three that follow, in tokens, where
            None is what follows from the window.
        policies: Names, or policies.

    Returns:
        A row for each policy and budget: all budgets of the first policy, then the next.

    Raises:
        PiError: `invalid_argument`: an absurd budget, an unknown policy, or a policy that
            gives what cannot be done.
    """
    if budgets is None:
        grid = product(windows, reserves, keeps)
        asked = [Budget(window, reserve, keep) for window, reserve, keep in grid]
    else:
        asked = list(budgets)
    one_by_one = _Sweep(branch)
    rows = [row for given in policies for row in one_by_one.rows(as_policy(given), asked)]
    return SweepTable(tuple(rows), one_by_one.before.source)


class _Sweep:
    """What is the same for every setting, worked out once."""

    def __init__(self, branch: Branch) -> None:
        # A tuple is looked at faster than the snapshot of a session's list, and often here.
        self._branch = branch = replace(branch, items=tuple(branch.items))
        self.before = branch.size
        self._before = self.before.tokens
        self._weight = branch.weight(branch.start)
        self._why_not = ""
        self._meant: dict[int, tuple[Any, ...]] = {}

    def rows(self, policy: Policy, budgets: Sequence[Budget]) -> Iterator[SweepRow]:
        name, branch = policy.name, self._branch
        by_cut = policy.cut if isinstance(policy, CutPolicy) else None
        for budget in budgets:
            setting = (name, budget.window, budget.reserved, budget.kept)
            if by_cut is None:
                yield self._planned(setting, policy(branch, budget))
            elif (cut := by_cut(branch, budget)) is None:
                self._why_not = self._why_not or why_not(branch)
                yield self._nothing(setting, self._why_not)
            else:
                meant = self._meant.get(cut)
                if meant is None:
                    meant = self._meant[cut] = self._of_cut(cut)
                yield SweepRow(*setting, *meant)

    def _of_cut(self, cut: int) -> tuple[Any, ...]:
        """The rest of a row, for a cut."""
        branch = self._branch
        kept = branch.weight(cut)
        summarised = self._weight - kept
        freed = summarised - branch.pinned_weight(branch.start, cut)
        least, most = predicted(branch, freed, summary=True)
        return (
            branch.number(branch.items[cut].entry_id),
            first_kept(branch, cut),
            turn_start(branch, cut) is not None,
            cut - branch.start,
            len(branch.items) - cut,
            0,
            summarised,
            kept,
            *(self._before, least, most, freed, ""),
        )

    def _planned(
        self, setting: tuple[str, int, int, int], plan: Plan | NothingToCompact
    ) -> SweepRow:
        if isinstance(plan, NothingToCompact):
            return self._nothing(setting, plan.why)
        branch, found = self._branch, plan.preparation
        cut = branch.start if found is None else found.cut
        least, most = plan.tokens_after
        freed, summarised = plan.freed, branch.weight(branch.start, cut)
        edits = freed - (0 if found is None else freed_by(branch, cut))
        return SweepRow(
            *setting,
            cut=0 if found is None else branch.number(branch.items[cut].entry_id),
            first_kept_entry_id=None if found is None else found.first_kept_entry_id,
            split=found is not None and found.is_split_turn,
            summarised=cut - branch.start,
            kept=len(branch.items) - cut,
            edited=len(plan.edits),
            summarised_tokens=summarised,
            kept_tokens=branch.weight(cut) - edits,
            before=self._before,
            after_least=least,
            after_most=most,
            freed=freed,
            nothing="",
        )

    def _nothing(self, setting: tuple[str, int, int, int], why: str) -> SweepRow:
        branch = self._branch
        kept, before = len(branch.items) - branch.start, self._before
        weight = branch.weight(branch.start)
        meant: tuple[Any, ...] = (0, None, False, 0, kept, 0, 0, weight)
        meant += (before, before, before, 0, why)
        return SweepRow(*setting, *meant)
