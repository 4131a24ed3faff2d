"""What is on record of an operation, and how one that a crash cut off is closed.

    operation_started  (tool_started)*  (abort_requested)?  operation_finished

Nothing is continued after a crash: a half answer cannot be, and a tool may have done its
work. The records say how far it came, and recovery writes down what was open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pi_nb.loop.types import AgentTool
from pi_nb.messages import (
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
)
from pi_nb.result import PiError
from pi_nb.session.entries import MessageEntry
from pi_nb.session.records import ToolStarted
from pi_nb.session.session import Session

INTERRUPTED = (
    "Interrupted: the process ended while this call ran. Whether it had an effect is not known."
)
NEVER_BEGUN = "Not run: the process ended before this call began."


class Journal:
    """The records that a harness writes about the operation it is in."""

    def __init__(self, session: Session, lane: str) -> None:
        self._session = session
        self._lane = lane
        self._run_id: str | None = None
        self._answer: str | None = None

    async def begin(self, intent: Mapping[str, Any]) -> None:
        """An operation begins at the lane's leaf; on disk before anything else of it."""
        record = await self._session.record(
            "operation_started",
            lane=self._lane,
            sourceLeafId=self._session.tip(self._lane),
            intent=dict(intent),
        )
        self._run_id, self._answer = record.id, None

    def answered(self, entry_id: str) -> None:
        """The entry whose calls run next."""
        self._answer = entry_id

    async def tool_started(self, call: ToolCall, tool: AgentTool) -> None:
        """A call is about to run: from here on it may have had an effect."""
        await self._session.record(
            "tool_started",
            lane=self._lane,
            runId=self._run_id,
            assistantEntryId=self._answer,
            toolCallId=call.id,
            toolName=call.name,
            replay="never" if tool.changes else "safe",
        )

    async def abort_requested(self) -> None:
        """Somebody asked for the end of what runs."""
        if self._run_id is not None:
            await self._session.record("abort_requested", lane=self._lane, runId=self._run_id)

    async def finish(self, outcome: str, error: BaseException | None = None) -> None:
        """The operation is over: `completed`, `aborted` or `failed`. Without one: nothing."""
        run_id, self._run_id = self._run_id, None
        if run_id is None:
            return
        fields: dict[str, Any] = {}
        if error is not None:
            code = error.code if isinstance(error, PiError) else "unknown"
            fields["error"] = {"code": code, "message": str(error) or type(error).__name__}
        await self._session.record(
            "operation_finished",
            lane=self._lane,
            runId=run_id,
            outcome=outcome,
            leafId=self._session.tip(self._lane),
            **fields,
        )


@dataclass(frozen=True, slots=True)
class Recovered:
    """What `recover` found open and closed."""

    operations: int = 0
    calls: tuple[str, ...] = ()
    """The tools whose calls got a result that says they were interrupted."""

    def __bool__(self) -> bool:
        return bool(self.operations)

    def __str__(self) -> str:
        if not self:
            return "nothing was open"
        said = (
            f"{', '.join(self.calls)}: no result was recorded" if self.calls else "no call was open"
        )
        return f"the last run was cut off; {said}"


async def recover(session: Session, lane: str) -> Recovered:
    """Close what a process that ended left open on a lane.

    Every call of its last answer gets a result, and every open operation its end. A session
    without open operations is left as it is.
    """
    left = [operation for operation in session.open_operations() if operation.lane == lane]
    if not left:
        return Recovered()
    runs = {operation.id for operation in left}
    begun = {
        record.tool_call_id
        for record in session.records()
        if isinstance(record, ToolStarted) and record.run_id in runs
    }
    calls = unanswered(session, lane)
    for call in calls:
        text = INTERRUPTED if call.id in begun else NEVER_BEGUN
        result = ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=(TextContent(text=text),),
            is_error=True,
        )
        await session.append_message(result, lane=lane)
    for operation in left:
        await session.record(
            "operation_finished",
            lane=lane,
            runId=operation.id,
            outcome="failed",
            error={"code": "unknown", "message": "The process ended before the operation did."},
        )
    return Recovered(len(left), tuple(call.name for call in calls))


def unanswered(session: Session, lane: str) -> tuple[ToolCall, ...]:
    """The calls of the lane's last answer that have no result, in call order."""
    answered: set[str] = set()
    entry_id = session.leaf(lane)
    while entry_id is not None:
        entry = session.entry(entry_id)
        message = entry.message if isinstance(entry, MessageEntry) else None
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            if message.stop_reason in ("error", "aborted"):
                return ()  # such a message is not sent, nor are its calls
            return tuple(call for call in message.tool_calls if call.id not in answered)
        elif message is not None:
            return ()
        entry_id = session.parent_id(entry_id)
    return ()
