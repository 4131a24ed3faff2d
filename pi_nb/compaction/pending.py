"""A proposal that waits in the log: taken up again, also after a restart.

The log keeps of a proposal its text to the letter and where its plan cut and edited. The plan
is made anew from that, on the branch as it is now: a proposal whose branch moved on since is
none any more, because its text would stand for something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import ValidationError

from pi_nb.messages import Usage
from pi_nb.result import PiError
from pi_nb.session.reader import SessionReader
from pi_nb.session.records import ProposalRecord

from .branch import Branch
from .budget import Budget
from .operations import plan_of
from .plan import Omit, Operation, Replace, Summarise
from .proposal import Proposal
from .summary import Writer


@dataclass(frozen=True, slots=True)
class NoProposal:
    """Why no proposal waits. Falsy, so that `if proposal:` reads well."""

    why: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"No proposal waits: {self.why}"

    __repr__ = __str__


def pending(
    session: SessionReader, lane: str, branch: Branch, budget: Budget
) -> Proposal | NoProposal:
    """The newest proposal of a lane that is neither applied nor discarded, and whose branch is
    where it was planned; else why there is none.

    Its cost is that of reading the session's records once.

    Args:
        branch: The lane's branch as it is now.
        budget: The plan's, which is made anew.
    """
    newest: dict[str, ProposalRecord] = {}
    for record in session.records():
        if isinstance(record, ProposalRecord) and record.lane == lane and record.proposal_id:
            newest.pop(record.proposal_id, None)  # the one that was changed last comes last
            newest[record.proposal_id] = record
    why = "none was made, or it was applied or discarded."
    for record in reversed(newest.values()):
        if record.state != "open":
            continue
        found = _taken_up(session, record, branch, budget)
        if isinstance(found, Proposal):
            return found
        if why.startswith("none"):
            why = found
    return NoProposal(why)


def _taken_up(
    session: SessionReader, record: ProposalRecord, branch: Branch, budget: Budget
) -> Proposal | str:
    """A proposal from its record; else in words why it is none here."""
    kept = record.plan if isinstance(record.plan, Mapping) else {}
    leaf = kept.get("leafId")
    if not isinstance(leaf, str) or leaf not in session:
        return "the newest one was made for another branch."
    if replace(branch, leaf=leaf).mark != branch.mark:
        return "the branch moved on since the newest one was made."
    if not isinstance(record.summary, str):
        return "the newest one has no text on record."
    try:
        policy = kept.get("policy")
        plan = plan_of(
            _operations(kept),
            branch,
            budget,
            policy=policy if isinstance(policy, str) else "unknown",
            reasons=("as it was planned before, taken up again from the log",),
        )
        usage = Usage.model_validate(kept.get("usage") or {})
    except (PiError, ValidationError) as error:
        said = error.message if isinstance(error, PiError) else "what it took cannot be read"
        return f"the newest one does not fit the branch ({said.rstrip('.')})."
    by: Writer = kept["by"] if kept.get("by") in get_args(Writer) else "function"
    model = kept.get("model")
    return Proposal(
        plan=plan,
        text=record.summary,
        by=by,
        model=model if isinstance(model, str) else None,
        usage=usage,
        edited=kept.get("edited") is True,
        id=record.proposal_id or "",
    )


def _operations(kept: Mapping[str, Any]) -> Iterator[Operation]:
    """What a plan did, from its plain data. Anything may stand there: the file is the user's.

    Raises:
        PiError: `invalid_argument`, that is no operation.
    """
    edits = kept.get("edits")
    for edit in edits if isinstance(edits, list) else ():
        yield _edit(edit)
    first = kept.get("firstKeptEntryId")
    if isinstance(first, str):
        yield Summarise(first_kept_entry_id=first)


def _edit(edit: object) -> Operation:
    match edit:
        case {"entryId": str() as entry_id, "replacement": None}:
            return Omit(entry_id)
        case {"entryId": str() as entry_id, "replacement": {"content": str() as content}}:
            return Replace(entry_id, content)
    raise PiError("invalid_argument", "an edit on record is none")
