"""A run performed action by action: for teaching, and for tests.

Three kinds of action make a run: a request, a tool call, the write of a message to the
session. The run stops at a gate before each of them, and a step lets one through.

    | write user | request | write assistant | call | write result | request ...
    ^ paused     ^ after the first step      ^ a call that hooks or approvals refuse is a
                                               step too: it says why nothing ran

What lies between two actions belongs to the step before it; so do the questions whether a
call may run, for they are answered before it comes next. Calls of one message run one after
another, else a stepped run tells, writes and asks what a free one does. An abort opens the
gate: what a stopped run still has to write is written at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.html import Html, table
from pi_nb.js import dumps
from pi_nb.loop.events import Event, MessageEnd, ToolEnd, ToolStart
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import AgentMessage, AssistantMessage, ToolCall
from pi_nb.models.types import Model
from pi_nb.result import PiError
from pi_nb.session.entries import Entry
from pi_nb.session.in_words import call_line, entry_line, message_line
from pi_nb.session.session import Session
from pi_nb.text import count, safe_line

from .requests import SentRequest
from .turn import TurnResult

SHOWN = 12
"""New messages of a request that a step shows; the newest ones."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a run does, or is about to do, and the words for it."""

    kind: Literal["request", "call", "write"]
    words: str

    def __str__(self) -> str:
        return f"{self.kind} {self.words}"


@dataclass(frozen=True, slots=True, repr=False)
class Step:
    """One action that was performed, with what was there before it and after it.

    kind        before                                        after
    `request`   the `SentRequest`                             the `AssistantMessage`
    `call`      the `ToolCall`, arguments as the tool got     the `ToolResult`, hooks applied
    `write`     the `Entry` at the leaf, None: none yet       the `Entry` that was written
    """

    number: int
    """From 1, within the run."""
    action: Action
    before: SentRequest | ToolCall | Entry | None
    after: AssistantMessage | ToolResult | Entry
    next: Action | None = None
    """What the next step will do; None: the run is over."""

    @property
    def kind(self) -> str:
        return self.action.kind

    def _rows(self) -> list[tuple[str, str]]:
        rows: list[tuple[str, str]] = []
        match self.before, self.after:
            case SentRequest() as sent, AssistantMessage() as said:
                rows = [*_sent(sent), ("answer", message_line(said))]
            case ToolCall() as call, ToolResult() as result:
                how = "error" if result.is_error else "ok"
                rows = [
                    ("arguments", safe_line(dumps(call.arguments), 200)),
                    ("result", f"{how}: {safe_line(result.text, 200)}"),
                ]
            case leaf, Entry() as entry:
                before = entry_line(leaf) if isinstance(leaf, Entry) else "no entry yet"
                rows = [("leaf before", before), ("leaf after", entry_line(entry))]
        return [*rows, ("next", str(self.next or "nothing: the run is over"))]

    def __repr__(self) -> str:
        rows = [(f"step {self.number}", str(self.action)), *self._rows()]
        return "\n".join(f"{name:<12} {value}" for name, value in rows)

    def _repr_html_(self) -> Html:
        return table((f"step {self.number}", self.action), self._rows())


def _sent(sent: SentRequest) -> list[tuple[str, str]]:
    """What a request holds; of its messages those that the one before it did not have."""
    messages = sent.request.messages
    known = f", {sent.same} as in the request before" if sent.same else ""
    new = messages[sent.same :]
    rows = [("sent", f"{count(len(messages), 'message')}{known}")]
    if len(new) > SHOWN:
        rows.append(("", f"({len(new) - SHOWN:,} more)"))
    return rows + [("", message_line(message)) for message in new[-SHOWN:]]


class Gate:
    """Where a run waits before each action, and what the actions came to.

    The harness's side of a stepped run. Belongs to the loop of its harness.
    """

    def __init__(self, session: Session) -> None:
        self.done: list[Step] = []
        self.moved = asyncio.Event()
        """Set when an action is done, and when another one is reached."""
        self._session = session
        self._waiting: deque[tuple[Action, asyncio.Event]] = deque()
        self._opened = False
        self._sent: SentRequest | None = None
        self._calls: list[ToolCall] = []
        self._ran: list[ToolCall] = []

    @property
    def next(self) -> Action | None:
        """The action that waits to be let through, the first one where several wait."""
        return self._waiting[0][0] if self._waiting else None

    def let_through(self) -> None:
        """Let the action through that waits; none waits: nothing happens."""
        if self._waiting:
            self._waiting.popleft()[1].set()

    def open(self) -> None:
        """Let everything through, now and from now on."""
        self._opened = True
        while self._waiting:
            self.let_through()

    # --- what the host calls ----------------------------------------------------------

    async def before_request(self, model: Model, signal: AbortSignal) -> None:
        """A request is about to be made up and sent."""
        await self._wait(Action("request", f"to {model}"), signal)

    def sent(self, request: SentRequest) -> None:
        """It is on its way; its step ends with the answer."""
        self._sent = request

    def answered(self, message: AssistantMessage) -> None:
        """An answer came that is no message of the conversation: a summary."""
        if self._sent is not None:
            sent, self._sent = self._sent, None
            self._add(Action("request", f"to {sent.model}"), sent, message)

    def stepped(self, tool: AgentTool) -> AgentTool:
        """The tool, whose calls wait here before they run."""

        async def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            call = ToolCall(id=context.call_id, name=context.tool_name, arguments=arguments)
            await self._wait(_called(call), context.signal)
            if context.signal.aborted:
                return answer(f"Not run: {context.signal.reason}.", is_error=True)
            self._ran.append(call)
            return await tool.execute(arguments, context)

        return replace(tool, execute=execute)

    async def before(self, event: Event, signal: AbortSignal) -> None:
        """An event is about to be written and told."""
        match event:
            case MessageEnd(message=message):
                if self._sent is not None and isinstance(message, AssistantMessage):
                    sent, self._sent = self._sent, None
                    self._add(Action("request", f"to {sent.model}"), sent, message)
                await self._wait(_written(message), signal)
            case ToolStart():
                self._calls.append(
                    ToolCall(id=event.tool_call_id, name=event.tool_name, arguments=event.arguments)
                )
            case ToolEnd() if not _of(self._ran, event):
                # Refused, unknown or unfit: it did not wait where calls begin to run.
                if calls := _of(self._calls, event):
                    await self._wait(_called(calls[0]), signal)

    def after(self, event: Event, entry: Entry | None) -> None:
        """It was told; `entry` is what was written for it."""
        if isinstance(event, ToolEnd):
            begun = _of(self._calls, event)
            call = (_of(self._ran, event) or begun)[0]
            self._calls.remove(begun[0])
            if call in self._ran:
                self._ran.remove(call)
            self._add(_called(call), call, event.result)
        elif isinstance(event, MessageEnd) and entry is not None:
            above = self._session.anchor(entry.parent_id)
            leaf = self._session.entry(above) if above else None
            self._add(_written(event.message), leaf, entry)

    def _add(
        self,
        action: Action,
        before: SentRequest | ToolCall | Entry | None,
        after: AssistantMessage | ToolResult | Entry,
    ) -> None:
        self.done.append(Step(len(self.done) + 1, action, before, after))
        self.moved.set()

    async def _wait(self, action: Action, signal: AbortSignal) -> None:
        if self._opened or signal.aborted:
            return
        place = (action, asyncio.Event())
        self._waiting.append(place)
        self.moved.set()
        try:
            with suppress(Aborted):
                await unless_aborted(place[1].wait(), signal)
        finally:
            if place in self._waiting:
                self._waiting.remove(place)


def _called(call: ToolCall) -> Action:
    return Action("call", call_line(call))


def _written(message: AgentMessage) -> Action:
    return Action("write", message_line(message))


def _of(calls: list[ToolCall], event: ToolEnd) -> list[ToolCall]:
    """The calls with the id of an event; some servers give several the same."""
    return [call for call in calls if call.id == event.tool_call_id]


class SteppedRun:
    """A run that goes on when it is told to. It begins with the first step.

    run = SteppedRun(lambda gate: harness.prompt("...", gate=gate), harness.session)
    """

    def __init__(
        self, ask: Callable[[Gate], Coroutine[Any, Any, TurnResult]], session: Session
    ) -> None:
        self._ask = ask
        self._gate = Gate(session)
        self._task: asyncio.Task[TurnResult] | None = None

    @property
    def paused(self) -> bool:
        """It has begun and is not over."""
        return self._task is not None and not self._task.done()

    @property
    def over(self) -> bool:
        """It has ended, in whatever way."""
        return self._task is not None and self._task.done()

    @property
    def steps(self) -> tuple[Step, ...]:
        """What was done so far, also what nobody stepped through."""
        return tuple(self._gate.done)

    async def step(self) -> Step:
        """Perform the next action, and stop before the one after it.

        Raises:
            PiError: `invalid_state`, the run is over; `busy` at the first step, and whatever
                ends a run of the harness in this way.
        """
        task, gate = self._begun(), self._gate
        if task.done():
            raise PiError("invalid_state", "The stepped run is over.")
        number = len(gate.done)
        await self._until(task, lambda: gate.next is not None)
        gate.let_through()
        await self._until(task, lambda: len(gate.done) > number and gate.next is not None)
        if task.done():
            task.result()
        if len(gate.done) == number:
            raise PiError("invalid_state", "The run ended before it did anything more.")
        gate.done[number] = step = replace(gate.done[number], next=gate.next)
        return step

    async def finish(self) -> TurnResult:
        """Run the rest without stopping. A run that is over gives its result again.

        Raises:
            PiError: what ends a run of the harness in this way.
        """
        task = self._begun()
        self._gate.open()
        return await task

    def _begun(self) -> asyncio.Task[TurnResult]:
        if self._task is None:
            self._task = asyncio.create_task(self._ask(self._gate))
            self._task.add_done_callback(lambda _: self._gate.moved.set())
        return self._task

    async def _until(self, task: asyncio.Task[TurnResult], reached: Callable[[], bool]) -> None:
        while not (task.done() or reached()):
            self._gate.moved.clear()
            await self._gate.moved.wait()
