"""No compaction at all: what the others are measured against."""

from __future__ import annotations

from dataclasses import dataclass

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.plan import NothingToCompact


@dataclass(frozen=True, slots=True)
class NoCompaction:
    """Never makes room."""

    @property
    def name(self) -> str:
        return "none"

    def __call__(self, branch: Branch, budget: Budget) -> NothingToCompact:
        return NothingToCompact("the policy none never compacts.")
