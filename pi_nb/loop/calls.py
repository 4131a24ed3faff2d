"""Run the tool calls of one message: every call gets exactly one result, whatever happens.

    parallel    start start ... end end (as they finish) ... results in call order
    sequential  start end result, one call after another

Hooks are asked one call at a time, in a parallel batch before anything of it runs. After an
abort no further call is asked about or started; what runs is told, then cancelled, then left
behind. What a call gave back is still shown to the hooks that may change it: one of them may
be there to take a secret out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.messages import ToolCall, ToolResultMessage
from pi_nb.result import Err
from pi_nb.text import clip

from .events import Event, MessageEnd, MessageStart, ToolEnd, ToolStart, ToolUpdate
from .schema import check_arguments
from .types import AgentTool, ExecutionMode, OnMain, ToolContext, ToolResult, answer

TELL = 0.75
"""Seconds that a running tool has to end by itself after an abort (a shell: TERM to KILL)."""
LEAVE = 0.25
"""Seconds more after it was cancelled, until it is left behind."""
REVIEW = 0.25
"""Seconds that the hooks have, after an abort, to look at what a call gave back."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A hook or a person said no; `reason` is what the model reads."""

    reason: str


class CallHost(Protocol):
    """What a batch needs from whoever owns the loop."""

    async def emit(self, event: Event) -> None: ...

    async def before_call(
        self, call: ToolCall, tool: AgentTool, arguments: dict[str, Any]
    ) -> Blocked | None:
        """Asked before a call runs. An exception makes the call fail with its text."""
        ...

    async def after_call(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """May change what a call that ran gives back. An exception makes the call fail."""
        ...

    @property
    def on_main(self) -> OnMain: ...

    @property
    def tool_state(self) -> Mapping[str, Any]: ...


@dataclass(slots=True)
class _Batch:
    host: CallHost
    tools: Mapping[str, AgentTool]
    signal: AbortSignal
    cut_off: bool
    updates: dict[int, ToolResult] = field(default_factory=dict)
    """The latest news of the calls that run, by place, in the order it came."""
    running: dict[int, ToolCall] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)


Job = Callable[[], Awaitable[ToolResult]]
Jobs = Mapping[int, tuple[ToolCall, Job]]
"""By place in the message, not by id: some servers give every call of one the same id."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of one batch, in call order."""

    messages: tuple[ToolResultMessage, ...]
    terminate: bool
    """Every result of the batch asked for the end of the run."""


async def run_calls(
    calls: Sequence[ToolCall],
    tools: Sequence[AgentTool],
    host: CallHost,
    signal: AbortSignal,
    *,
    mode: ExecutionMode = "parallel",
    cut_off: bool = False,
) -> Outcome:
    """Run the calls of one message and emit everything about them.

    Args:
        cut_off: The message ended at the output limit: nothing runs, every call fails.
    """
    batch = _Batch(host, {tool.name: tool for tool in tools}, signal, cut_off)
    modes = {batch.tools[c.name].mode for c in calls if c.name in batch.tools}
    in_turn = mode == "sequential" or "sequential" in modes
    run = _sequential if in_turn else _parallel
    results = await run(batch, calls)
    messages = tuple(message for message, _ in results)
    return Outcome(messages, bool(results) and all(result.terminate for _, result in results))


Finished = tuple[ToolResultMessage, ToolResult]


async def _sequential(batch: _Batch, calls: Sequence[ToolCall]) -> list[Finished]:
    results: list[Finished] = []
    for place, call in enumerate(calls):
        await _started(batch, call)
        ready = await _prepare(batch, call, place)
        if isinstance(ready, ToolResult):
            result = ready
        else:
            async with aclosing(_run(batch, {place: (call, ready)})) as done:
                async for _, given in done:
                    result = await _reviewed(batch, call, given)
        await _ended(batch, call, result)
        results.append(await _told(batch, call, result))
    return results


async def _parallel(batch: _Batch, calls: Sequence[ToolCall]) -> list[Finished]:
    results: dict[int, ToolResult] = {}
    jobs: dict[int, tuple[ToolCall, Job]] = {}
    for place, call in enumerate(calls):
        await _started(batch, call)
        ready = await _prepare(batch, call, place)
        if isinstance(ready, ToolResult):
            results[place] = ready
        else:
            jobs[place] = (call, ready)
    if batch.signal.aborted:  # a hook of a later call stopped the run: nothing was started
        results.update(dict.fromkeys(jobs, _not_run(batch.signal)))
        jobs.clear()
    for place in sorted(results):
        await _ended(batch, calls[place], results[place])
    async with aclosing(_run(batch, jobs)) as done:
        async for place, given in done:
            results[place] = await _reviewed(batch, calls[place], given)
            await _ended(batch, calls[place], results[place])
    return [await _told(batch, call, results[place]) for place, call in enumerate(calls)]


async def _prepare(batch: _Batch, call: ToolCall, place: int) -> ToolResult | Job:
    """What the call will run, or at once the result that says why it does not run."""
    if batch.signal.aborted:
        return _not_run(batch.signal)
    if batch.cut_off:
        return _failure(
            "The message reached the output limit, so this call may be incomplete and was not "
            "run. Send it again, in smaller steps if it is long."
        )
    if (tool := batch.tools.get(call.name)) is None:
        known = ", ".join(sorted(batch.tools)) or "none"
        return _failure(f"There is no tool named {call.name!r}. Tools: {known}.")
    if call.raw_arguments is not None:
        return _failure(
            "The arguments are no complete JSON object, so the call was not run. "
            f"Received: {clip(call.raw_arguments, 2_000)}"
        )
    try:
        given = tool.prepare(call.arguments) if tool.prepare else call.arguments
        checked = check_arguments(tool.spec.parameters, given)
        if isinstance(checked, Err):
            return _failure(f"The arguments of {call.name} do not fit. {checked.error}")
        arguments = checked.value
        # A hook may wait for a person, who may rather stop the run.
        asked = batch.host.before_call(call, tool, arguments)
        blocked = await unless_aborted(asked, batch.signal)
    except Aborted as stopped:
        return _not_run(batch.signal, str(stopped))
    except asyncio.CancelledError as error:
        return _failure(f"A hook before this call failed: {_stray(error)}")
    except Exception as error:
        return _failure(f"A hook before this call failed: {_words(error)}")
    if blocked is not None:
        return _failure(blocked.reason)
    if batch.signal.aborted:
        return _not_run(batch.signal)
    return lambda: tool.execute(arguments, _context(batch, call, place))


def _context(batch: _Batch, call: ToolCall, place: int) -> ToolContext:
    loop = asyncio.get_running_loop()
    thread = threading.get_ident()

    def keep(partial: ToolResult) -> None:
        if place in batch.running:  # else it is over, and nothing may be told of it any more
            batch.updates[place] = partial
            batch.wake.set()

    def update(partial: ToolResult) -> None:
        _check(partial)
        if threading.get_ident() == thread:
            keep(partial)
        else:
            with suppress(RuntimeError):  # the loop is closed: the run is long over
                loop.call_soon_threadsafe(keep, partial)

    return ToolContext(
        call_id=call.id,
        tool_name=call.name,
        signal=batch.signal,
        update=update,
        on_main=batch.host.on_main,
        state=batch.host.tool_state,
    )


async def _run(batch: _Batch, jobs: Jobs) -> AsyncGenerator[tuple[int, ToolResult], None]:
    """Run jobs side by side and give their results as they come, updates emitted between.

    All events leave from here, one at a time, so that subscribers see one order. Closed
    early, it stops what runs and waits for it no longer than an abort would.
    """
    if not jobs:
        return
    loop = asyncio.get_running_loop()
    batch.running.update({place: call for place, (call, _) in jobs.items()})
    tasks = {asyncio.create_task(_guarded(job)): place for place, (_, job) in jobs.items()}
    for task in tasks:
        task.add_done_callback(lambda _: batch.wake.set())
    forget = batch.signal.on_abort(lambda: loop.call_soon_threadsafe(batch.wake.set))
    told: float | None = None
    try:
        while tasks:
            await _wait(batch.wake, None if told is None else told + TELL - loop.time())
            batch.wake.clear()
            await _emit_updates(batch)
            # As they are now: what ends while a result is dealt with waits for its turn.
            for task in [task for task in tasks if task.done()]:
                place = tasks.pop(task)
                await _emit_updates(batch)
                del batch.running[place]
                yield place, _result_of(task, batch.signal)
            if batch.signal.aborted:
                told = loop.time() if told is None else told
                if loop.time() >= told + TELL:
                    for place, left in await _leave(tasks, batch):
                        yield place, left
                    return
    finally:
        forget()
        if tasks:
            await _leave(tasks, batch)


async def _emit_updates(batch: _Batch) -> None:
    while batch.updates:
        place = next(iter(batch.updates))
        partial = batch.updates.pop(place)
        call = batch.running[place]
        await batch.host.emit(
            ToolUpdate(tool_call_id=call.id, tool_name=call.name, partial=partial)
        )


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(None if seconds is None else max(seconds, 0)):
            await event.wait()
    except TimeoutError:
        pass


async def _leave(
    tasks: dict[asyncio.Task[ToolResult], int], batch: _Batch
) -> list[tuple[int, ToolResult]]:
    """Cancel what still runs; what does not end is left behind, and its result says so."""
    for place in tasks.values():
        batch.running.pop(place, None)
        batch.updates.pop(place, None)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=LEAVE)
    results = [(place, _result_of(task, batch.signal)) for task, place in tasks.items()]
    tasks.clear()
    return results


def _result_of(task: asyncio.Task[ToolResult], signal: AbortSignal) -> ToolResult:
    if not task.done():
        return _failure(
            f"Told to stop ({signal.reason}), but it did not end in time. It was left behind "
            "and may still be running; what it returns is thrown away."
        )
    if task.cancelled():
        return _stopped(signal.reason)
    return task.result()


async def _guarded(job: Job) -> ToolResult:
    """A tool's exception is its result, whatever it is.

    `sys.exit` too, which would end the thread of the loop, and a cancellation that nobody
    asked for, such as that of a future that the tool awaits.
    """
    try:
        return _check(await job())
    except Aborted as stopped:
        return _stopped(str(stopped))
    except asyncio.CancelledError as error:
        return _failure(_stray(error))
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        return _failure(_words(error))


def _check(result: Any) -> ToolResult:
    if not isinstance(result, ToolResult):
        raise TypeError(f"the tool gave {type(result).__name__} instead of a ToolResult")
    return result


def _stray(error: asyncio.CancelledError) -> str:
    """Words for a cancellation that came out of what was awaited.

    Raises:
        CancelledError: it was this very task that was cancelled.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise error
    return "something that it waited for was cancelled"


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


async def _reviewed(batch: _Batch, call: ToolCall, result: ToolResult) -> ToolResult:
    try:
        review = batch.host.after_call(call, result)
        return await unless_aborted(review, batch.signal, grace=REVIEW)
    except Aborted as stopped:
        # The result is not given unreviewed: a hook may be there to take secrets out.
        return _failure(f"Stopped while a hook looked at the result: {stopped}.")
    except asyncio.CancelledError as error:
        return _failure(f"A hook after this call failed: {_stray(error)}")
    except Exception as error:
        return _failure(f"A hook after this call failed: {_words(error)}")


async def _started(batch: _Batch, call: ToolCall) -> None:
    await batch.host.emit(
        ToolStart(tool_call_id=call.id, tool_name=call.name, arguments=call.arguments)
    )


async def _ended(batch: _Batch, call: ToolCall, result: ToolResult) -> None:
    await batch.host.emit(
        ToolEnd(tool_call_id=call.id, tool_name=call.name, result=result, is_error=result.is_error)
    )


async def _told(batch: _Batch, call: ToolCall, result: ToolResult) -> Finished:
    fields: dict[str, Any] = {} if result.details is None else {"details": result.details}
    message = ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=result.content,
        is_error=result.is_error,
        **fields,
    )
    await batch.host.emit(MessageStart(message=message))
    await batch.host.emit(MessageEnd(message=message))
    return message, result


def _failure(text: str, *, details: Any = None) -> ToolResult:
    return answer(text, details=details, is_error=True)


def _stopped(reason: str) -> ToolResult:
    return _failure(f"Stopped while it ran: {reason}.")


def _not_run(signal: AbortSignal, reason: str = "") -> ToolResult:
    return _failure(f"Not run: {reason or signal.reason}.")
