"""What of a branch that is left goes into its summary.

Files do not branch with the tree, and what was learnt on one road may matter on another:
the summary of a branch that is left stands where the new one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pi_nb.messages import AgentMessage, ToolResultMessage
from pi_nb.session.context import ContextItem, shown
from pi_nb.session.entries import BranchSummaryEntry, CompactionEntry, Entry
from pi_nb.tokens import estimate_tokens

from .files import Files, files_of

ROOM_FOR_SUMMARIES = 0.9
"""A summary met on the way is taken whole while less than this of the budget is used."""


@dataclass(frozen=True, slots=True)
class LeftBranch:
    """What of a left branch is to be summarised, oldest first."""

    items: Sequence[ContextItem]
    tokens: int
    files: Files


def prepare_branch(
    entries: Iterable[Entry],
    budget: int = 0,
    weigh: Callable[[AgentMessage], int] = estimate_tokens,
) -> LeftBranch:
    """Take the newest of a branch that fits a budget (rules 12 and 13).

    Args:
        entries: What is left, oldest first: from after the entry that both branches share.
        budget: Tokens; 0 takes everything.
    """
    left = list(entries)
    by_id = {entry.id: entry for entry in left}
    known = [e.details for e in left if isinstance(e, BranchSummaryEntry) and not e.from_hook]
    taken: list[ContextItem] = []
    reached: list[AgentMessage] = []
    tokens = 0
    for item in reversed(list(shown(left))):
        reached.append(item.message)
        if isinstance(item.message, ToolResultMessage):
            continue
        weight = weigh(item.message)
        if budget and tokens + weight > budget:
            summary = isinstance(by_id[item.entry_id], CompactionEntry | BranchSummaryEntry)
            if summary and tokens < budget * ROOM_FOR_SUMMARIES:
                taken.append(item)
                tokens += weight
            break
        taken.append(item)
        tokens += weight
    return LeftBranch(taken[::-1], tokens, files_of(reached, known))
