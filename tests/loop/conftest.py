"""A host that remembers: what `run_calls` and `run_loop` tell, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.loop.calls import Blocked
from pi_nb.loop.events import Event, MessageEnd
from pi_nb.loop.run import Turn
from pi_nb.loop.types import AgentTool, OnMain, ToolContext, ToolResult, answer, no_main_thread
from pi_nb.messages import AgentMessage, ToolCall, convert_to_llm
from pi_nb.models.types import ChatModel, Request, ToolSpec


class Recorder:
    """A `LoopHost` in memory. Attributes that are functions may be replaced by a test."""

    def __init__(self, model: ChatModel | None = None, *tools: AgentTool) -> None:
        self.model = model
        self.tools = tools
        self.signal = AbortSignal()
        self.events: list[Event] = []
        self.messages: list[AgentMessage] = []
        self.asked: list[str] = []
        self.steer: list[AgentMessage] = []
        self.follow: list[AgentMessage] = []
        self.on_event: Callable[[Event], Any] = lambda _event: None
        self.before: Callable[[ToolCall], Any] = lambda _call: None
        self.after: Callable[[ToolCall, ToolResult], Any] = lambda _call, result: result
        self.main: OnMain = no_main_thread

    async def emit(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, MessageEnd):
            self.messages.append(event.message)
        await _settled(self.on_event(event))

    async def before_call(
        self, call: ToolCall, tool: AgentTool, arguments: dict[str, Any]
    ) -> Blocked | None:
        self.asked.append(call.id)
        blocked: Blocked | None = await _settled(self.before(call))
        return blocked

    async def after_call(self, call: ToolCall, result: ToolResult) -> ToolResult:
        changed: ToolResult = await _settled(self.after(call, result))
        return changed

    @property
    def on_main(self) -> OnMain:
        return self.main

    @property
    def tool_state(self) -> Mapping[str, Any]:
        return {"env": "the world"}

    async def turn(self) -> Turn:
        assert self.model is not None
        return Turn(model=self.model, tools=self.tools)

    async def request(self, turn: Turn) -> Request:
        return Request(messages=tuple(convert_to_llm(self.messages)))

    async def steering(self) -> Sequence[AgentMessage]:
        taken, self.steer = self.steer, []
        return taken

    async def follow_ups(self) -> Sequence[AgentMessage]:
        taken, self.follow = self.follow, []
        return taken

    def over_budget(self) -> bool:
        return False

    # --- what it saw --------------------------------------------------------------------

    def told(self) -> list[str]:
        """The calls' events as short words: `start a`, `update a`, `end a`, `result a`."""
        words = {
            "tool_execution_start": "start",
            "tool_execution_update": "update",
            "tool_execution_end": "end",
        }
        rows = []
        for event in self.events:
            message = getattr(event, "message", None)
            if event.type in words:
                rows.append(f"{words[event.type]} {event.tool_call_id}")  # type: ignore[attr-defined]
            elif event.type == "message_end" and getattr(message, "role", "") == "toolResult":
                rows.append(f"result {message.tool_call_id}")
        return rows

    def roles(self) -> list[str]:
        return [message.role for message in self.messages]


async def _settled(value: Any) -> Any:
    return await value if hasattr(value, "__await__") else value


@pytest.fixture
def recorder() -> type[Recorder]:
    return Recorder


@pytest.fixture
def make_tool() -> Callable[..., AgentTool]:
    """A tool by its name; its body is a function of the context, by default an echo."""

    def make(name: str, body: Callable[[ToolContext], Any] | None = None, **options: Any) -> Any:
        async def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            if body is None:
                return answer(f"{name} {arguments.get('text', '')}".strip())
            value = await _settled(body(context))
            return answer(value) if isinstance(value, str) else value  # type: ignore[no-any-return]

        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return AgentTool(ToolSpec(name=name, parameters=schema), execute, **options)

    return make
