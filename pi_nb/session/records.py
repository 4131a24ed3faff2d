"""The lines of a session that are not entries: header, lane moves, facts, records.

Records say how the harness got where it is (a run began, a call was approved). They are
no part of the conversation and stand in no tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from pi_nb.messages import Usage
from pi_nb.wire import Wire


class Header(Wire):
    """The first line. `created_at` is in milliseconds; `cwd` is where the agent works."""

    version: int = 4
    id: str
    created_at: int = Field(ge=0)
    cwd: str
    parent_session_id: str | None = None
    legacy_parent_session_path: str | None = None
    metadata: dict[str, Any] | None = None


class LaneMove(Wire):
    """The leaf of `lane` is now `leaf_id`; None is the place before every root."""

    lane: str
    leaf_id: str | None


class NameFact(Wire):
    """The session's name; None takes it away."""

    fact: Literal["name"] = "name"
    name: str | None = None


class LabelFact(Wire):
    """A label on an entry; None takes it away."""

    fact: Literal["label"] = "label"
    target_id: str
    label: str | None = None


class Record(Wire):
    """The base of all records. `id` and `timestamp` (ms) are given when it is written."""

    type: str
    id: str = ""
    lane: str = "main"
    timestamp: int = 0


class OperationStarted(Record):
    """A run, a compaction or a navigation began at `source_leaf_id`.

    `intent` has a `kind` (`run`, `compaction`, `navigation`) and what was asked for.
    """

    type: Literal["operation_started"] = "operation_started"
    source_leaf_id: str | None = None
    intent: dict[str, Any]


class OperationFinished(Record):
    """`run_id` is the id of the `OperationStarted` that is over."""

    type: Literal["operation_finished"] = "operation_finished"
    run_id: str
    outcome: str = "completed"
    """`completed`, `aborted`, `failed`, `declined`."""
    error: dict[str, Any] | None = None
    """`code` and `message`, for `failed`."""
    leaf_id: str | None = None
    """Where the lane stood then. Our own field: a run that ended well can be walked again."""


class AbortRequested(Record):
    type: Literal["abort_requested"] = "abort_requested"
    run_id: str | None = None


class StepAttempt(Record):
    """A model is asked; `attempt` counts from 1."""

    type: Literal["step_attempt"] = "step_attempt"
    run_id: str | None = None
    step: str | None = None
    """`assistant`, `compaction`, `branch_summary`."""
    attempt: int = 1
    result_entry_id: str | None = None
    compaction_reason: str | None = None


class ToolStarted(Record):
    type: Literal["tool_started"] = "tool_started"
    run_id: str | None = None
    assistant_entry_id: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    result_entry_id: str | None = None
    replay: str | None = None
    """`never` or `safe`: whether the call may be run again after a crash."""


class QueueEnqueued(Record):
    type: Literal["queue_enqueued"] = "queue_enqueued"
    queue: str | None = None
    """`steer`, `followUp`, `nextRun`."""
    run_id: str | None = None
    target: Any = None


class QueueCancelled(Record):
    type: Literal["queue_cancelled"] = "queue_cancelled"
    entry_id: str | None = None
    run_id: str | None = None


class WriteDeferred(Record):
    type: Literal["write_deferred"] = "write_deferred"
    run_id: str | None = None
    target: Any = None


class UsageRecord(Record):
    """Tokens that were paid for, also where no entry carries them."""

    type: Literal["usage"] = "usage"
    usage: Usage | None = None
    cause: str | None = None
    """`assistant`, `compaction`, `branch_summary`, `tool`, `hook`, `adjustment`."""
    run_id: str | None = None
    entry_id: str | None = None
    details: Any = None


class ProposalRecord(Record):
    """A planned compaction and what became of it: `open`, `applied`, `discarded`."""

    type: Literal["proposal"] = "proposal"
    proposal_id: str | None = None
    plan: Any = None
    summary: Any = None
    state: str | None = None


class ApprovalRecord(Record):
    """Who let a tool call run, or did not."""

    type: Literal["approval"] = "approval"
    tool_call_id: str | None = None
    decision: Any = None
    by: str | None = None


RECORD_TYPES: dict[str, type[Record]] = {
    "operation_started": OperationStarted,
    "operation_finished": OperationFinished,
    "abort_requested": AbortRequested,
    "step_attempt": StepAttempt,
    "tool_started": ToolStarted,
    "queue_enqueued": QueueEnqueued,
    "queue_cancelled": QueueCancelled,
    "write_deferred": WriteDeferred,
    "usage": UsageRecord,
    "proposal": ProposalRecord,
    "approval": ApprovalRecord,
}


def read_record(data: Mapping[str, Any]) -> Record:
    """A record from its wire form, as the class of its type; `Record` for an unknown type.

    Raises:
        pydantic.ValidationError: the fields do not fit the type.
    """
    return RECORD_TYPES.get(str(data.get("type")), Record).model_validate(data)
