"""The original's way: one cut, so that about `budget.kept` tokens of the newest stay."""

from __future__ import annotations

from dataclasses import dataclass

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.plan import NothingToCompact, Plan, plan_compaction
from pi_nb.compaction.prepare import cut_to_keep


@dataclass(frozen=True, slots=True)
class Pi:
    """`plan_compaction` as a policy; the default. It has no settings: the budget says it all."""

    @property
    def name(self) -> str:
        return "pi"

    def __call__(self, branch: Branch, budget: Budget) -> Plan | NothingToCompact:
        return plan_compaction(branch, budget)

    def cut(self, branch: Branch, budget: Budget) -> int | None:
        """The cut alone; None where nothing would go."""
        return cut_to_keep(branch, budget.kept)
