"""The loop's side of a harness: what is written, told and asked while a run goes on.

`State` is what both sides share; `Host` is what `loop.run` talks to. The public side, with
the operations and the setters, is `harness`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.calls import Blocked
from pi_nb.loop.events import Event, MessageEnd, TurnEnd
from pi_nb.loop.run import Turn
from pi_nb.loop.types import AgentTool, ExecutionMode, OnMain, ToolResult
from pi_nb.messages import AgentMessage, ToolCall, UserMessage, convert_to_llm
from pi_nb.models.pairing import pair
from pi_nb.models.types import ChatModel, Request, RequestOptions, ThinkingLevel
from pi_nb.session.session import Session

from .approval import Approval, ApprovalRequest
from .events import SavePoint
from .history import History
from .hooks import BeforeAgentStart, Hooks, StartPatch, ToolCallHook, ToolResultHook
from .queues import PendingWrites, QueueName, Queues
from .turn import Phase, PromptContext, SystemPrompt, written

log = logging.getLogger("pi_nb")

Subscriber = Callable[[Event], Any]


@dataclass(slots=True)
class State:
    """What a harness holds besides its session. Belongs to one event loop."""

    session: Session
    lane: str
    env: ExecutionEnv | None
    model: ChatModel
    tools: dict[str, AgentTool]
    active: tuple[str, ...]
    thinking_level: ThinkingLevel
    system_prompt: SystemPrompt
    options: RequestOptions
    mode: ExecutionMode
    approval: Approval
    queues: Queues
    on_main: OnMain
    hooks: Hooks = field(default_factory=Hooks)
    pending: PendingWrites = field(default_factory=PendingWrites)
    subscribers: list[Subscriber] = field(default_factory=list)
    phase: Phase = "idle"
    signal: AbortSignal = field(default_factory=AbortSignal)
    prompt_of_run: str | None = None
    """What a `before_agent_start` hook put in the place of the system prompt."""
    prompt_of_turn: str | None = None
    """The system prompt of the first turn, where such a hook was shown it already."""
    taken: list[UserMessage] = field(default_factory=list)
    """Messages that the run took out of the queues and that are not on disk yet."""

    def take(self, name: QueueName) -> list[UserMessage]:
        """Messages of a queue for the run. They come back if it fails before it wrote them."""
        messages = self.queues.take(name)
        self.taken += messages
        return messages

    async def tell(self, event: Event) -> None:
        """Tell the subscribers, one after another."""
        for subscriber in tuple(self.subscribers):
            with logged(f"a subscriber to {event.type}"):
                answer = subscriber(event)
                if inspect.isawaitable(answer):
                    await answer

    def prompt_context(self) -> PromptContext:
        return PromptContext(
            model=self.model.model,
            thinking_level=self.thinking_level,
            tools=self.active,
            cwd=self.env.cwd if self.env else self.session.cwd,
            session=self.session,
        )


class Host:
    """What the loop of one harness talks to: a `LoopHost` over a `State`."""

    def __init__(self, state: State, tool_state: Mapping[str, Any]) -> None:
        self._state = state
        self._tool_state = tool_state
        self._history = History()

    async def begin(self, message: UserMessage) -> Sequence[AgentMessage]:
        """Ask the `before_agent_start` hooks; returns the messages that they add.

        Raises:
            PiError: `hook`.
        """
        state = self._state
        state.prompt_of_run = state.prompt_of_turn = None
        if not state.hooks.any("before_agent_start"):
            return ()

        async def ask() -> StartPatch:
            prompt = await written(state.system_prompt, state.prompt_context())
            state.prompt_of_turn = prompt
            return await state.hooks.start(BeforeAgentStart(message, prompt))

        try:
            patch = await unless_aborted(ask(), state.signal)
        except Aborted:
            return ()  # the run begins all the same, and says that it was stopped
        state.prompt_of_run = patch.system_prompt
        return patch.messages

    async def clear_up(self, *, failed: bool) -> None:
        """An operation is over. Messages that wait go before the next prompt, changes that
        wait are written.

        Raises:
            PiError: a change cannot be written; where the operation `failed`, it is logged.
        """
        state = self._state
        returned = bool(state.taken)
        state.queues.put_back(state.taken)
        state.taken = []
        if state.queues.leave_for_next_turn() or returned:
            await state.tell(state.queues.update())
        if not failed:
            await state.pending.flush()
            return
        # It must not hide the error that ended the operation.
        with logged("what waited for the end of a failed run"):
            await state.pending.flush()

    async def emit(self, event: Event) -> None:
        """Write what the event says, then tell it."""
        state = self._state
        if isinstance(event, MessageEnd):
            await state.session.append_message(event.message, lane=state.lane)
            state.taken = [taken for taken in state.taken if taken is not event.message]
        await state.tell(event)
        if isinstance(event, TurnEnd):
            await state.tell(SavePoint(had_pending=await state.pending.flush()))

    async def turn(self) -> Turn:
        """The settings of the turn that begins. They stay as they are until its end."""
        state = self._state
        return Turn(
            model=state.model,
            system_prompt=await self._system_prompt(),
            tools=tuple(state.tools[name] for name in state.active),
            options=state.options.having(thinking_level=state.thinking_level),
            mode=state.mode,
        )

    async def _system_prompt(self) -> str:
        state = self._state
        known, state.prompt_of_turn = state.prompt_of_turn, None
        if state.prompt_of_run is not None:
            return state.prompt_of_run
        if known is not None:
            return known
        if state.signal.aborted:
            return ""  # the turn only says that the run stopped
        try:
            return await unless_aborted(
                written(state.system_prompt, state.prompt_context()), state.signal
            )
        except Aborted:
            return ""

    async def request(self, turn: Turn) -> Request:
        """The question of a turn: the branch, the `context` hooks, converted and paired."""
        state = self._state
        items = state.session.context(state.lane).items
        if state.hooks.any("context"):
            messages = await state.hooks.context([item.message for item in items])
            paired = pair(convert_to_llm(messages), turn.model.model)
        else:
            paired = self._history.paired(items, turn.model.model)
        return Request(
            system_prompt=turn.system_prompt,
            messages=paired.messages,
            tools=tuple(tool.spec for tool in turn.tools),
            options=turn.options,
        )

    async def steering(self) -> Sequence[AgentMessage]:
        return await self._drain("steer")

    async def follow_ups(self) -> Sequence[AgentMessage]:
        return await self._drain("follow_up")

    async def _drain(self, name: QueueName) -> Sequence[AgentMessage]:
        taken = self._state.take(name)
        if taken:
            await self._state.tell(self._state.queues.update())
        return taken

    async def before_call(
        self, call: ToolCall, tool: AgentTool, arguments: dict[str, Any]
    ) -> Blocked | None:
        """Hooks first; then, for a tool that changes things, the approval, on record."""
        state = self._state
        blocked = await state.hooks.tool_call(ToolCallHook(call, arguments))
        if blocked is not None or not tool.changes or state.signal.aborted:
            return blocked
        decision = await state.approval.decide(ApprovalRequest(call, tool, arguments))
        await state.session.record(
            "approval",
            lane=state.lane,
            toolCallId=call.id,
            decision="allowed" if decision.allowed else "denied",
            by=decision.by,
        )
        return None if decision.allowed else Blocked(decision.reason or "The user said no.")

    async def after_call(self, call: ToolCall, result: ToolResult) -> ToolResult:
        return await self._state.hooks.tool_result(ToolResultHook(call, result))

    @property
    def on_main(self) -> OnMain:
        return self._state.on_main

    @property
    def tool_state(self) -> Mapping[str, Any]:
        """What tools may reach through their `ToolContext`: `env`, `session`, `harness`."""
        return self._tool_state


class logged:
    """Log what is raised inside, and go on: it must not end what it belongs to."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: Any, _trace: Any) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        log.error("%s failed", self._what, exc_info=error)
        return True
