"""What no model has answered yet stays word for word, whatever a policy says (C-47).

u a t a | u a t t          the last answer's calls have results that nobody answered:
            ^ from here on     the answer and its results stay
u a | u                    a prompt that was not answered stays
"""

from __future__ import annotations

from dataclasses import replace

from pi_nb.messages import AssistantMessage

from .branch import Branch
from .cut import is_legal
from .plan import NothingToCompact, Omit, Plan, as_operation
from .prepare import prepared


def open_from(branch: Branch) -> int:
    """The first item that a request is still to answer, its length where there is none."""
    total = len(branch.items)
    for place in range(total - 1, -1, -1):
        said = branch.items[place].message
        if isinstance(said, AssistantMessage) and _answers(said):
            return place if said.tool_calls and place < total - 1 else place + 1
    return branch.start


def _answers(said: AssistantMessage) -> bool:
    """Whether a reply answers anything: one that failed does not, nor one that says nothing,
    as where a server cut the prompt in silence (C-41)."""
    if said.stop_reason in ("error", "aborted"):
        return False
    return bool(said.tool_calls or said.text.strip())


def keeping_unanswered(plan: Plan) -> Plan | NothingToCompact:
    """The plan with its cut moved back to before what nobody has answered, if it lies later."""
    branch, found = plan.branch, plan.preparation
    first = open_from(branch)
    waiting = {item.entry_id for item in branch.items[first:]}
    if any(isinstance(o, Omit) and o.entry_id in waiting for o in plan.operations):
        kept = [o for o in plan.edits if not (isinstance(o, Omit) and o.entry_id in waiting)]
        operations = (*kept, plan.summarise) if plan.summarise else tuple(kept)
        plan = replace(plan, operations=operations)
    if found is None or found.cut <= first:
        return plan if plan.operations else NothingToCompact("all of it waits for an answer.")
    places = range(min(first, len(branch.items) - 1), branch.start - 1, -1)
    cut = next((place for place in places if is_legal(branch, place)), None)
    moved = None if cut is None else prepared(branch, cut)
    if moved is None:
        return NothingToCompact("no model has answered yet what could be summarised.")
    return replace(
        plan,
        operations=(as_operation(moved), *plan.edits),
        preparation=moved,
        reasons=(*plan.reasons, "moved back: what no model has answered yet stays word for word"),
    )
