"""The loop: a prompt becomes turns until nothing is left to do.

    agent_start
      turn_start  messages that came in  one answer  its calls  turn_end    (again while
        there are results to answer, steering, or follow-ups)
    agent_end

A turn is one request. Once a run is aborted it makes no further request: what is open gets
its result, and one last empty answer with `stopReason="aborted"` says where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.messages import AgentMessage, AssistantMessage
from pi_nb.models.fold import Fold
from pi_nb.models.types import (
    ChatModel,
    End,
    Request,
    RequestOptions,
    StreamEvent,
    UsageUpdate,
)

from .calls import CallHost, Outcome, run_calls
from .events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
    TurnStart,
)
from .types import AgentTool, ExecutionMode

ABORT_GRACE = 1.0
"""Seconds that a model's stream has to end by itself after an abort."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn works with, fixed when it begins."""

    model: ChatModel
    system_prompt: str = ""
    tools: tuple[AgentTool, ...] = ()
    options: RequestOptions = field(default_factory=RequestOptions)
    mode: ExecutionMode = "parallel"


class LoopHost(CallHost, Protocol):
    """Who owns the loop: it keeps the messages, decides the settings, and is told."""

    async def turn(self) -> Turn:
        """The settings of the turn that begins."""
        ...

    async def request(self, turn: Turn) -> Request:
        """The question, from every message told so far."""
        ...

    async def steering(self) -> Sequence[AgentMessage]:
        """Messages to put in before the next request."""
        ...

    async def follow_ups(self) -> Sequence[AgentMessage]:
        """Messages that start over when nothing is left to do."""
        ...

    def over_budget(self) -> bool:
        """Whether a limit ends the run here, between two turns."""
        ...


async def run_loop(
    host: LoopHost, prompts: Sequence[AgentMessage], signal: AbortSignal
) -> AgentEnd:
    """Run until nothing is left to do, emitting everything to `host`.

    Args:
        prompts: Messages that the first turn puts in before its request.

    Returns:
        The last event: the messages that the run added, and why it ended.

    Raises:
        Exception: only what the host's own methods raise.
    """
    added: list[AgentMessage] = []
    incoming: Sequence[AgentMessage] = prompts
    reason: str
    await host.emit(AgentStart())
    while True:
        turn = await host.turn()
        await host.emit(TurnStart())
        for message in incoming:
            await host.emit(MessageStart(message=message))
            await host.emit(MessageEnd(message=message))
        added.extend(incoming)
        reply = await _ask(host, turn, signal)
        added.append(reply)
        batch = Outcome((), False)
        if reply.stop_reason not in ("error", "aborted") and reply.tool_calls:
            batch = await run_calls(
                reply.tool_calls,
                turn.tools,
                host,
                signal,
                mode=turn.mode,
                cut_off=reply.stop_reason == "length",
            )
        added.extend(batch.messages)
        await host.emit(TurnEnd(message=reply, tool_results=batch.messages))
        if reply.stop_reason in ("error", "aborted"):
            reason = reply.stop_reason
            break
        incoming = ()
        if signal.aborted:
            continue  # the next turn makes no request: it only says that the run stopped
        unanswered = bool(batch.messages) and not batch.terminate
        if host.over_budget():
            # What waits to steer or follow stays where it is.
            reason = "budget" if unanswered else "done"
            break
        incoming = await host.steering()
        if not incoming and not unanswered:
            incoming = await host.follow_ups()
        if not incoming and not unanswered:
            reason = "terminated" if batch.terminate else "done"
            break
    end = AgentEnd(messages=tuple(added), reason=reason)
    await host.emit(end)
    return end


async def _ask(host: LoopHost, turn: Turn, signal: AbortSignal) -> AssistantMessage:
    """One request and its answer, told as it arrives. A stream that raises is an error."""
    fold = Fold(turn.model.model, turn.options.thinking_level)
    started = False
    request = None
    if not signal.aborted:
        with suppress(Aborted):
            request = await unless_aborted(host.request(turn), signal)
    if request is None or signal.aborted:
        fold.apply(End(reason="aborted", error_message=signal.reason))
    else:
        async with aclosing(bounded(turn.model, request, signal)) as stream:
            async for event in stream:
                fold.apply(event)
                if isinstance(event, UsageUpdate | End):
                    continue
                if not started:
                    started = True
                    await host.emit(MessageStart(message=fold.message()))
                if event.type != "start":
                    await host.emit(MessageUpdate.of(event, fold.message))
    message = fold.message()
    if not started:
        await host.emit(MessageStart(message=message))
    await host.emit(MessageEnd(message=message))
    return message


async def bounded(
    model: ChatModel, request: Request, signal: AbortSignal
) -> AsyncGenerator[StreamEvent, None]:
    """The model's stream, held to its contract: one `End`, no exception, a bounded abort."""
    end = End(reason="error", error_message="The stream ended early.", failure="cut_off")
    limit = _Limit(signal)
    try:
        async with aclosing(_as_generator(model.stream(request, signal))) as stream:
            while True:
                async with limit.waiting():
                    event = await anext(stream)
                if isinstance(event, End):
                    end = event
                    break
                yield event
    except StopAsyncIteration:
        if signal.aborted:
            end = End(reason="aborted", error_message=signal.reason)
    except (Exception, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # we were cancelled, and not something that the stream waited for
        if signal.aborted:
            end = End(reason="aborted", error_message=signal.reason)
        else:
            text = f"The model's stream failed: {type(error).__name__}: {error}"
            end = End(reason="error", error_message=text)
    finally:
        limit.forget()
    yield end


class _Limit:
    """`ABORT_GRACE` for all that a stream still says after an abort, counted from the abort."""

    def __init__(self, signal: AbortSignal) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline: float | None = None
        self._guard: asyncio.Timeout | None = None
        self.forget = signal.on_abort(lambda: self._loop.call_soon_threadsafe(self._begin))

    def _begin(self) -> None:
        self._deadline = self._loop.time() + ABORT_GRACE
        if self._guard is not None:
            self._guard.reschedule(self._deadline)

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[None, None]:
        """Raises:
        TimeoutError: the time is over.
        """
        try:
            async with asyncio.timeout_at(self._deadline) as self._guard:
                yield
        finally:
            self._guard = None


async def _as_generator(events: AsyncIterator[StreamEvent]) -> AsyncGenerator[StreamEvent, None]:
    """Any iterator as a generator, so that it can be closed when we stop listening."""
    try:
        async for event in events:
            yield event
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
