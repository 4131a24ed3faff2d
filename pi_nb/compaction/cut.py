"""Where to cut a branch: the older part to summarise, the newer part to keep.

A cut never falls between a tool call and its result, because providers refuse half of a
pair. Only pure functions: a policy can be studied without a model.

    u a t a | u a t a t a        u user, a assistant, t tool result
              ^ first kept
"""

from __future__ import annotations

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    UserMessage,
)

from .branch import SILENT, Branch

_STARTS = (UserMessage, CustomMessage, BashExecutionMessage, BranchSummaryMessage)
_BEGINS = (*_STARTS, AssistantMessage)


def starts_turn(message: AgentMessage) -> bool:
    """Whether a message begins a turn (rule 10)."""
    return isinstance(message, _STARTS)


def is_legal(branch: Branch, place: int) -> bool:
    """Whether a history may begin with this item: never with a tool result (rule 8).

    What a compaction kept in itself cannot be cut either: it has no entry of its own.
    """
    start, items = branch.start, branch.items
    if not start <= place < len(items):
        return False
    entry_id, message = items[place]
    if start and entry_id == items[0].entry_id:
        return False
    return isinstance(message, _BEGINS)


def legal_cuts(branch: Branch) -> list[int]:
    """Every place where the branch may be cut, oldest first."""
    return [place for place in range(len(branch.items)) if is_legal(branch, place)]


def find_cut_point(branch: Branch, keep_tokens: int) -> int | None:
    """Choose the first item to keep (rule 8).

    Walks back from the newest item until `keep_tokens` are kept, then forward to the next
    place a history may start, or back to the last one if there is none. If all of it weighs
    less, the first place where it may start.

    Args:
        keep_tokens: Estimated tokens to keep; a target, not a limit.

    Returns:
        A place in `branch.items`; None where the branch cannot be cut at all.
    """
    total = len(branch.items)
    reached = branch.reaches(keep_tokens)
    for place in range(branch.start if reached is None else reached, total):
        if is_legal(branch, place):
            return place
    if reached is None:
        return None
    older = range(reached - 1, branch.start - 1, -1)
    return next((place for place in older if is_legal(branch, place)), None)


def turn_start(branch: Branch, cut: int) -> int | None:
    """Where the turn begins that a cut splits; None where it splits none (rule 10).

    Where `first_kept` is an entry that shows nothing, the turn before it counts as split, as
    the original has it: that entry starts no turn, whatever follows it.
    """
    item = branch.items[cut]
    if starts_turn(item.message) and first_kept(branch, cut) == item.entry_id:
        return None
    places = range(cut - 1, branch.start - 1, -1)
    return next((i for i in places if starts_turn(branch.items[i].message)), None)


def first_kept(branch: Branch, cut: int) -> str:
    """The entry that a compaction names as the first one it keeps.

    From the cut back over entries that show nothing in context, such as a change of model
    before a prompt; stops at anything visible and at a compaction (rule 9).
    """
    entry_id = branch.items[cut].entry_id
    visible = branch.items[cut - 1].entry_id if cut else None
    above = branch.above(entry_id)
    while above is not None and above != visible and branch.type_of(above) in SILENT:
        # Our own bookkeeping in a file of pi's is no part of the conversation.
        entry_id = entry_id if branch.is_own(above) else above
        above = branch.above(above)
    return entry_id
