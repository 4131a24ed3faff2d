"""The loop's side of a harness: what is written, told and asked while a run goes on.

`State` is what both sides share; `Host` is what `loop.run` talks to. The public side, with
the operations and the setters, is `harness`.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.calls import Blocked
from pi_nb.loop.events import Event, MessageEnd, TurnEnd
from pi_nb.loop.run import Turn
from pi_nb.loop.types import AgentTool, ExecutionMode, OnMain, ToolResult
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    ToolCall,
    UserMessage,
    convert_to_llm,
    text_of,
)
from pi_nb.models.pairing import Change, pair
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.types import ChatModel, Model, Request, RequestOptions, ThinkingLevel
from pi_nb.result import PiError
from pi_nb.session.entries import MessageEntry
from pi_nb.session.session import Session
from pi_nb.text import scrub

from .approval import Approval, ApprovalRequest
from .checkpoints import Checkpoints, bring_back, changes
from .events import SavePoint
from .history import History
from .hooks import BeforeAgentStart, Hooks, StartPatch, ToolCallHook, ToolResultHook
from .limits import Limits, Spent, reached
from .operations import Journal
from .queues import PendingWrites, QueueName, Queues
from .requests import KEPT, SentRequest
from .steps import Gate
from .turn import Phase, PromptContext, SystemPrompt, written

log = logging.getLogger("pi_nb")

T = TypeVar("T")

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
    limits: Limits = field(default_factory=Limits)
    hooks: Hooks = field(default_factory=Hooks)
    pending: PendingWrites = field(default_factory=PendingWrites)
    subscribers: list[Subscriber] = field(default_factory=list)
    phase: Phase = "idle"
    signal: AbortSignal = field(default_factory=AbortSignal)
    spent: Spent = field(default_factory=Spent)
    """By the present or last run."""
    spent_by_session: Spent | None = None
    """Counted when a limit first asks for it, and from then on."""
    prompt_of_run: str | None = None
    """What a `before_agent_start` hook put in the place of the system prompt."""
    prompt_of_turn: str | None = None
    """The system prompt of the first turn, where such a hook was shown it already."""
    gate: Gate | None = None
    """Where a stepped run waits before each action; None: nothing waits."""
    last_prompt: str = ""
    """The system prompt of the last turn."""
    incoming: Sequence[AgentMessage] = ()
    """Messages that the turn that begins puts in, and that are not on disk yet."""
    late: set[asyncio.Future[Any]] = field(default_factory=set)
    """Subscribers that take their time over a piece of a text."""
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

    def tell_soon(self, event: Event) -> None:
        """Tell those subscribers that answer at once; for what arrives piece by piece."""
        for subscriber in tuple(self.subscribers):
            with logged(f"a subscriber to {event.type}"):
                answer = subscriber(event)
                if inspect.iscoroutine(answer):
                    self.late.add(task := asyncio.ensure_future(answer))
                    task.add_done_callback(self.late.discard)

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
        self.journal = Journal(state.session, state.lane)
        self.requests: deque[SentRequest] = deque(maxlen=KEPT)
        self.checkpoints: Checkpoints | None = None
        self.retry: RetryPolicy | None = None
        self.before_turn: Callable[[Turn], Awaitable[None]] | None = None
        """Makes room for the request of a turn."""
        self._refused: PiError | None = None

    async def begin(
        self, message: UserMessage, cell: Mapping[str, Any] | None
    ) -> Sequence[AgentMessage]:
        """Put the run on record and ask the `before_agent_start` hooks; returns what they add.

        Raises:
            PiError: `hook`.
        """
        state = self._state
        intent: dict[str, Any] = {"kind": "run", "originalPrompt": text_of(message.content)}
        if cell is not None:
            intent |= {"cell": dict(cell), "settings": await self.settings()}
        await self.journal.begin(intent)
        state.spent = Spent()
        if state.limits.of_session and state.spent_by_session is None:
            state.spent_by_session = Spent()
            state.spent_by_session.add(_answers(state.session))
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

    async def settings(self) -> dict[str, Any]:
        """What an answer depends on besides the conversation, small enough for a record.

        Raises:
            Exception: what a system prompt that is a function raises.
        """
        state = self._state
        prompt = await written(state.system_prompt, state.prompt_context())
        return {
            "model": str(state.model.model),
            "thinkingLevel": state.thinking_level,
            "tools": list(state.active),
            "systemPrompt": hashlib.sha256(scrub(prompt).encode()).hexdigest()[:16],
        }

    async def clear_up(self, error: BaseException | None) -> None:
        """An operation is over. Messages that wait go before the next prompt, changes that
        wait are written, and then its end.

        Raises:
            PiError: a change cannot be written; where the operation failed, it is logged.
        """
        state = self._state
        returned = bool(state.taken)
        state.queues.put_back(state.taken)
        state.taken = []
        if state.queues.leave_for_next_turn() or returned:
            await state.tell(state.queues.update())
        if error is None:
            await state.pending.flush()
            await self.journal.finish("aborted" if state.signal.aborted else "completed")
            return
        # It must not hide the error that ended the operation.
        with logged("what waited for the end of a failed run"):
            await state.pending.flush()
        with logged("the record of a failed run"):
            await self.journal.finish("failed", error)

    async def emit(self, event: Event) -> None:
        """Write what the event says, then tell it."""
        state, entry = self._state, None
        if state.gate is not None:
            await state.gate.before(event, state.signal)
        if isinstance(event, MessageEnd):
            entry = await state.session.append_message(event.message, lane=state.lane)
            if isinstance(event.message, AssistantMessage):
                self.journal.answered(entry.id)
                for spent in filter(None, (state.spent, state.spent_by_session)):
                    spent.add((event.message,))
            state.taken = [taken for taken in state.taken if taken is not event.message]
        await state.tell(event)
        if state.gate is not None:
            state.gate.after(event, entry)
        if isinstance(event, TurnEnd):
            await state.tell(SavePoint(had_pending=await state.pending.flush()))
            self.unless_refused(None)

    async def turn(self) -> Turn:
        """The settings of the turn that begins. They stay as they are until its end."""
        state = self._state
        tools = (state.tools[name] for name in state.active)
        turn = Turn(
            model=state.model,
            system_prompt=await self._system_prompt(),
            tools=tuple(tools if state.gate is None else map(state.gate.stepped, tools)),
            options=state.options.having(thinking_level=state.thinking_level),
            mode=state.mode,
        )
        if self.before_turn is not None:
            await self.before_turn(turn)
        state.incoming = ()
        return turn

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
            prompt = await unless_aborted(
                written(state.system_prompt, state.prompt_context()), state.signal
            )
        except Aborted:
            return ""
        missing = state.session.missing
        if not missing:
            return prompt
        # The conversation shows how they were used; the model must not go on with that.
        gone = f"These tools were used earlier and are not there any more: {', '.join(missing)}."
        return f"{prompt}\n\n{gone}" if prompt else gone

    async def request(self, turn: Turn) -> Request:
        """The question of a turn: the branch, the `context` hooks, converted and paired."""
        state = self._state
        if state.gate is not None:
            await state.gate.before_request(turn.model.model, state.signal)
        items = state.session.context(state.lane).items
        if state.hooks.any("context"):
            messages = await state.hooks.context([item.message for item in items])
            paired = pair(convert_to_llm(messages), turn.model.model)
        else:
            paired = self._history.paired(items, turn.model.model)
        request = Request(
            system_prompt=turn.system_prompt,
            messages=paired.messages,
            tools=tuple(tool.spec for tool in turn.tools),
            options=turn.options,
        )
        model = turn.model.model
        request = await state.hooks.request(request, model)
        if state.hooks.any("before_provider_payload"):
            shown = request.options.having(on_payload=partial(self.payload, model))
            request = request.having(options=shown)
        self.note(request, model, paired.changes)
        return request

    def note(
        self, request: Request, model: Model, changes: tuple[Change, ...], purpose: str = "turn"
    ) -> None:
        """A request is about to be sent: keep it beside the one before it of its kind."""
        before = next((sent for sent in reversed(self.requests) if sent.purpose == purpose), None)
        sent = SentRequest.after(before, request, model, changes, purpose)
        self.requests.append(sent)
        if self._state.gate is not None:
            self._state.gate.sent(sent)

    async def payload(self, model: Model, payload: dict[str, Any]) -> dict[str, Any]:
        """Ask the hooks about a body. A stream does not raise, so what one of them raised
        waits for the end of the turn."""
        try:
            return await self._state.hooks.payload(payload, model)
        except PiError as error:
            self._refused = error
            raise

    def unless_refused(self, said: T) -> T:
        """The answer, unless a hook refused its request.

        Raises:
            PiError: `hook`.
        """
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused
        return said

    def over_budget(self) -> bool:
        """Whether a limit ends the run between two turns."""
        state = self._state
        return reached(state.limits, state.spent, state.spent_by_session or Spent()) is not None

    async def moved(
        self, left: str | None, reached: str | None, files: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The leaf moved: the files that the branch it left had changed, and, where they were
        to move too, those that could not."""
        session = self._state.session
        common = session.common_ancestor(left, reached)
        home = f"{self._state.env.cwd if self._state.env else session.cwd}/"
        paths = {change.path.removeprefix(home) for change in changes(session, left, common)}
        failures: list[str] = []
        if files and self.checkpoints is not None:
            failures = await bring_back(session, self.checkpoints, left, reached)
        return tuple(sorted(paths)), tuple(failures)

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
        """Hooks first; then, for a tool that changes things, the approval, on record.

        What may run is on record before it does: a crash later finds that it had begun.
        """
        state = self._state
        blocked = await state.hooks.tool_call(ToolCallHook(call, arguments))
        if blocked is None and tool.changes and not state.signal.aborted:
            blocked = await self._approved(call, tool, arguments)
        if blocked is None and not state.signal.aborted:
            if self.checkpoints is not None:
                await self.checkpoints.before(call, tool, arguments)
            await self.journal.tool_started(call, tool)
        return blocked

    async def _approved(
        self, call: ToolCall, tool: AgentTool, arguments: dict[str, Any]
    ) -> Blocked | None:
        state = self._state
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
        result = await self._state.hooks.tool_result(ToolResultHook(call, result))
        if self.checkpoints is not None:
            result = await self.checkpoints.after(call, result)
        return result

    @property
    def on_main(self) -> OnMain:
        return self._state.on_main

    @property
    def tool_state(self) -> Mapping[str, Any]:
        """What tools may reach through their `ToolContext`: `env`, `session`, `harness`."""
        return self._tool_state


def _answers(session: Session) -> Iterator[AgentMessage]:
    for entry in session.entries():
        if isinstance(entry, MessageEntry):
            yield entry.message


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
