"""What the loop and the harness tell, in order. Frozen, tagged, snake_case here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import PrivateAttr

from pi_nb.messages import AgentMessage, AssistantMessage, ToolResultMessage
from pi_nb.models.types import StreamEvent
from pi_nb.wire import Wire

from .types import ToolResult


class Event(Wire):
    """The base of everything a subscriber is told."""

    type: str


class AgentStart(Event):
    type: Literal["agent_start"] = "agent_start"


class TurnStart(Event):
    type: Literal["turn_start"] = "turn_start"


class MessageStart(Event):
    type: Literal["message_start"] = "message_start"
    message: AgentMessage


class MessageUpdate(Event):
    """A piece of the assistant's message arrived."""

    type: Literal["message_update"] = "message_update"
    event: StreamEvent
    _message: Callable[[], AssistantMessage] = PrivateAttr()

    @classmethod
    def of(cls, event: StreamEvent, message: Callable[[], AssistantMessage]) -> MessageUpdate:
        update = cls.model_construct(type="message_update", event=event)
        update._message = message
        return update

    @property
    def message(self) -> AssistantMessage:
        """The message as far as it has come *when asked*; building it costs its length."""
        return self._message()


class MessageEnd(Event):
    """The message is complete, and on disk where the owner keeps a session."""

    type: Literal["message_end"] = "message_end"
    message: AgentMessage


class ToolStart(Event):
    type: Literal["tool_execution_start"] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any]


class ToolUpdate(Event):
    """How far a running call has come."""

    type: Literal["tool_execution_update"] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    partial: ToolResult


class ToolEnd(Event):
    """A tool call is over, well or badly. Sent when it finishes, not in call order."""

    type: Literal["tool_execution_end"] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool
    """The model will see ``result`` as a failure. The run goes on."""


class TurnEnd(Event):
    """One answer and the results of its calls are complete."""

    type: Literal["turn_end"] = "turn_end"
    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...] = ()


class AgentEnd(Event):
    """The run is over. `messages` are those it added."""

    type: Literal["agent_end"] = "agent_end"
    messages: tuple[AgentMessage, ...] = ()
    reason: str = "done"
    """`done`, `terminated`, `budget`, `error`, `aborted`."""
