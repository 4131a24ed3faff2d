"""A plan made of operations that somebody else thought of, checked before it is believed.

A policy in a cell is code of a moment. What it gives is held against its branch first, so
that a mistake is a sentence here and not a request that a provider refuses later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pi_nb.messages import ToolCall
from pi_nb.result import PiError
from pi_nb.session.context import ContextItem
from pi_nb.text import count, safe_line

from .branch import Branch
from .budget import Budget
from .cut import first_kept, is_legal, legal_cuts
from .pairs import calls_of
from .plan import Omit, Operation, Plan, Replace, Summarise, after, as_operation
from .prepare import Preparation, prepared


def plan_of(
    operations: Iterable[Operation],
    branch: Branch,
    budget: Budget,
    *,
    policy: str,
    reasons: Iterable[str] = (),
) -> Plan:
    """The plan that these operations are.

    Of a `Summarise` the first kept entry alone is needed: what it stands for follows from it.

    Raises:
        PiError: `invalid_argument`, naming the policy: something that is no operation, a cut
            that is not legal, an entry that is not in the branch's context, a pinned entry
            that is edited, half of a pair that is left out, operations in conflict.
    """
    given = tuple(operations)
    try:
        for operation in given:
            if not isinstance(operation, Summarise | Omit | Replace):
                raise _Wrong(f"{type(operation).__name__} is no operation")
        found = _cut([o for o in given if isinstance(o, Summarise)], branch)
        edits = [o for o in given if not isinstance(o, Summarise)]
        places = _edited(edits, branch, 0 if found is None else found.cut)
        _keep_pairs(places, branch.items)
    except _Wrong as wrong:
        text = f"The policy {safe_line(policy)} gave no good plan: {wrong}."
        raise PiError("invalid_argument", text) from None
    return Plan(
        branch=branch,
        budget=budget,
        operations=tuple(
            as_operation(found) if found is not None and isinstance(o, Summarise) else o
            for o in given
        ),
        policy=policy,
        reasons=tuple(reasons),
        preparation=found,
    )


class _Wrong(Exception):
    """What is wrong with the operations, in words."""


def _cut(operations: Sequence[Summarise], branch: Branch) -> Preparation | None:
    if not operations:
        return None
    if len(operations) > 1:
        raise _Wrong(f"it summarises {len(operations)} times; a plan has one cut")
    asked = operations[0]
    place = _place_of_cut(asked.first_kept_entry_id, branch)
    found = prepared(branch, place)
    if found is None:
        name = _name(branch, asked.first_kept_entry_id)
        raise _Wrong(f"nothing older than {name} is left to summarise")
    meant = as_operation(found)
    for what in ("entry_ids", "turn_prefix"):
        said = tuple(getattr(asked, what))
        if said and said != getattr(meant, what):
            name = _name(branch, asked.first_kept_entry_id)
            counted = count(len(getattr(meant, what)), "entry", "entries")
            raise _Wrong(f"its {what} are not the {counted} that a cut at {name} means")
    return found


def _place_of_cut(entry_id: object, branch: Branch) -> int:
    places = [i for i, item in enumerate(branch.items) if item.entry_id == entry_id]
    for place in places:
        if is_legal(branch, place):
            return place
    if places:
        raise _Wrong(f"a history cannot begin with {_name(branch, entry_id)}")
    # What shows nothing may be named too: a change of model just before a prompt is kept.
    for place in legal_cuts(branch):
        if first_kept(branch, place) == entry_id:
            return place
    raise _Wrong(f"{_name(branch, entry_id)} is not in the context of this branch")


def _edited(edits: Sequence[Omit | Replace], branch: Branch, cut: int) -> dict[int, Omit | Replace]:
    """The places of the entries that are edited."""
    wanted: dict[str, Omit | Replace] = {}
    for edit in edits:
        if edit.entry_id in wanted:
            raise _Wrong(f"{_name(branch, edit.entry_id)} is edited twice")
        if edit.entry_id in branch.pins:
            raise _Wrong(f"{_name(branch, edit.entry_id)} is pinned")
        if isinstance(edit, Replace) and not isinstance(edit.content, str):
            kind = type(edit.content).__name__
            raise _Wrong(f"{_name(branch, edit.entry_id)} would be replaced by {kind}, not text")
        wanted[edit.entry_id] = edit
    places: dict[int, Omit | Replace] = {}
    for place, item in enumerate(branch.items if wanted else ()):
        if (asked := wanted.get(item.entry_id)) is None:
            continue
        name = _name(branch, item.entry_id)
        if place < cut:
            raise _Wrong(f"{name} is edited, and stands before the cut")
        if any(branch.items[known].entry_id == item.entry_id for known in places):
            raise _Wrong(f"{name} stands for several messages, and cannot be edited")
        places[place] = asked
    if len(places) < len(wanted):
        there = {branch.items[place].entry_id for place in places}
        missing = next(entry_id for entry_id in wanted if entry_id not in there)
        raise _Wrong(f"{_name(branch, missing)} is not in the context of this branch")
    return places


def _keep_pairs(edits: dict[int, Omit | Replace], items: Sequence[ContextItem]) -> None:
    """Of a call and its results, what has an answer keeps one, and no answer stays alone."""
    if not edits:
        return
    stays: dict[tuple[int, str], bool] = {}
    call: ToolCall
    for result, (place, call) in calls_of(items).items():
        answered = not takes(edits.get(result), items[result], call)
        stays[place, call.id] = stays.get((place, call.id), False) or answered
        if answered and takes(edits.get(place), items[place], call):
            raise _Wrong(f"the call of {safe_line(call.name)} goes, and its result stays")
    for place, call_id in stays:
        if not stays[place, call_id]:
            made = next(c for c in _calls(items[place]) if c.id == call_id)
            if not takes(edits.get(place), items[place], made):
                text = f"the result of {safe_line(made.name)} goes, and its call stays"
                raise _Wrong(f"{text}; a result can be replaced")


def takes(edit: Omit | Replace | None, item: ContextItem, call: ToolCall) -> bool:
    """Whether an edit leaves a call, or the result of one, out of what is sent."""
    if edit is None:
        return False
    left = after(item.message, edit)
    if left is None:
        return True
    calls = getattr(left, "tool_calls", None)
    return calls is not None and call.id not in {c.id for c in calls}


def _calls(item: ContextItem) -> Sequence[ToolCall]:
    return tuple(getattr(item.message, "tool_calls", ()))


def _name(branch: Branch, entry_id: object) -> str:
    """An entry as the outline shows it."""
    if not isinstance(entry_id, str):
        return f"a {type(entry_id).__name__}"
    known = any(item.entry_id == entry_id for item in branch.items)
    number = branch.number(entry_id) if known else 0
    return f"row {number}" if number else safe_line(entry_id, 40)
