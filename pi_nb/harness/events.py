"""What the harness tells besides the events of the loop."""

from __future__ import annotations

from typing import Literal

from pi_nb.loop.events import Event
from pi_nb.models.types import Model, ThinkingLevel


class QueueUpdate(Event):
    """The lengths of the queues after one of them changed."""

    type: Literal["queue_update"] = "queue_update"
    steer: int
    follow_up: int
    next_turn: int


class SavePoint(Event):
    """A turn and the changes that waited for its end are written."""

    type: Literal["save_point"] = "save_point"
    had_pending: bool


class Settled(Event):
    """The harness is idle again. The last event of a run, but for `abort`."""

    type: Literal["settled"] = "settled"


class AbortEvent(Event):
    """An aborted run is over; the numbers are the queued messages that the abort cleared."""

    type: Literal["abort"] = "abort"
    steer: int
    follow_up: int


class RetryScheduled(Event):
    """A request failed in a way that may pass; it is asked again after `delay` seconds."""

    type: Literal["retry_scheduled"] = "retry_scheduled"
    attempt: int
    """The number of the attempt that will be made, from 2."""
    delay: float
    error_message: str = ""


class RetryAttemptStart(Event):
    type: Literal["retry_attempt_start"] = "retry_attempt_start"
    attempt: int


class RetryFinished(Event):
    """No further attempt is made. `success`: the last one was answered."""

    type: Literal["retry_finished"] = "retry_finished"
    attempt: int
    success: bool


class ModelUpdate(Event):
    type: Literal["model_update"] = "model_update"
    model: Model
    previous: Model


class ThinkingLevelUpdate(Event):
    type: Literal["thinking_level_update"] = "thinking_level_update"
    level: ThinkingLevel
    previous: ThinkingLevel


class ToolsUpdate(Event):
    """Tools were registered, or others became active."""

    type: Literal["tools_update"] = "tools_update"
    tools: tuple[str, ...]
    active: tuple[str, ...]


class SessionCompact(Event):
    """The branch was compacted: an entry, or edits alone, are written."""

    type: Literal["session_compact"] = "session_compact"
    entry_id: str | None
    """The compaction; None for a plan that only edits."""
    trigger: str = "manual"
    """`manual`, `threshold`, `overflow`."""
    written_by: str = ""
    before: int = 0
    """Tokens, as far as known."""
    after: int = 0
    """Tokens of the next request, estimated."""


class AutoCompaction(Event):
    """A decision about compacting by itself, and why."""

    type: Literal["auto_compaction"] = "auto_compaction"
    trigger: Literal["threshold", "overflow"]
    decision: Literal["begins", "done", "off", "declined", "nothing", "failed", "stopped"]
    """`begins`, then one of the others. `stopped`: it will not be tried again before the next
    prompt."""
    why: str
    tokens: int
    """Of the next request, as far as known."""
    limit: int
    """Tokens where the context is full."""


class SummaryUpdate(Event):
    """A piece of a summary's text arrived, while a context is compacted by itself."""

    type: Literal["summary_update"] = "summary_update"
    delta: str
    piece: int = 1
    pieces: int = 1
    """A long history is read in so many pieces, each a request."""


class SessionTree(Event):
    """The leaf moved. `leaf_id` None: to before the first entry."""

    type: Literal["session_tree"] = "session_tree"
    leaf_id: str | None
    previous: str | None
    summary_entry_id: str | None = None
    """The summary of the branch that was left, where one was written."""
