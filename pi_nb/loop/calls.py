"""Run the tool calls of one message: every call gets exactly one result, whatever happens.

    parallel    start start ... end end (as they finish) ... results in call order
    sequential  start end result, one call after another

Hooks are asked one call at a time, before anything of the batch runs. After an abort no
further hook or tool is started; what runs is told, then cancelled, then left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pi_nb.abort import Aborted, AbortSignal
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
    updates: dict[str, ToolResult] = field(default_factory=dict)
    wake: asyncio.Event = field(default_factory=asyncio.Event)


Job = Callable[[], Awaitable[ToolResult]]


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
    for call in calls:
        await _started(batch, call)
        ready = await _prepare(batch, call)
        if isinstance(ready, ToolResult):
            result = ready
        else:
            async for _, done in _run(batch, {call.id: (call, ready)}):
                result = await _reviewed(batch, call, done)
        await _ended(batch, call, result)
        results.append(await _told(batch, call, result))
    return results


async def _parallel(batch: _Batch, calls: Sequence[ToolCall]) -> list[Finished]:
    # Keyed by place, not by id: some servers give every call of a message the same id.
    results: dict[str, ToolResult] = {}
    jobs: dict[str, tuple[ToolCall, Job]] = {}
    for place, call in enumerate(calls):
        await _started(batch, call)
        ready = await _prepare(batch, call)
        if isinstance(ready, ToolResult):
            results[str(place)] = ready
        else:
            jobs[str(place)] = (call, ready)
    if batch.signal.aborted:  # a hook of a later call stopped the run: nothing was started
        results.update(dict.fromkeys(jobs, _not_run(batch.signal)))
        jobs.clear()
    for key in sorted(results, key=int):
        await _ended(batch, calls[int(key)], results[key])
    async for key, done in _run(batch, jobs):
        results[key] = await _reviewed(batch, jobs[key][0], done)
        await _ended(batch, jobs[key][0], results[key])
    return [await _told(batch, call, results[str(place)]) for place, call in enumerate(calls)]


async def _prepare(batch: _Batch, call: ToolCall) -> ToolResult | Job:
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
    checked = check_arguments(tool.spec.parameters, call.arguments)
    if isinstance(checked, Err):
        return _failure(f"The arguments of {call.name} do not fit. {checked.error}")
    try:
        blocked = await batch.host.before_call(call, tool, checked.value)
    except Aborted:
        return _not_run(batch.signal)
    except Exception as error:
        return _failure(f"A hook before this call failed: {error}")
    if blocked is not None:
        return _failure(blocked.reason)
    if batch.signal.aborted:
        return _not_run(batch.signal)
    arguments = checked.value
    return lambda: tool.execute(arguments, _context(batch, call))


def _context(batch: _Batch, call: ToolCall) -> ToolContext:
    loop = asyncio.get_running_loop()

    def keep(partial: ToolResult) -> None:
        batch.updates[call.id] = partial
        batch.wake.set()

    def update(partial: ToolResult) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(keep, partial)

    return ToolContext(
        call_id=call.id,
        tool_name=call.name,
        signal=batch.signal,
        update=update,
        on_main=batch.host.on_main,
        state=batch.host.tool_state,
    )


async def _run(
    batch: _Batch, jobs: Mapping[str, tuple[ToolCall, Job]]
) -> AsyncIterator[tuple[str, ToolResult]]:
    """Run jobs side by side and give their results as they come, updates emitted between.

    All events leave from here, one at a time, so that subscribers see one order.
    """
    if not jobs:
        return
    loop = asyncio.get_running_loop()
    tasks = {asyncio.create_task(_guarded(job)): key for key, (_, job) in jobs.items()}
    names = {call.id: call.name for call, _ in jobs.values()}
    for task in tasks:
        task.add_done_callback(lambda _: batch.wake.set())
    forget = batch.signal.on_abort(lambda: loop.call_soon_threadsafe(batch.wake.set))
    told: float | None = None
    try:
        while tasks:
            await _wait(batch.wake, None if told is None else told + TELL - loop.time())
            batch.wake.clear()
            while batch.updates:
                call_id, partial = batch.updates.popitem()
                await batch.host.emit(
                    ToolUpdate(
                        tool_call_id=call_id, tool_name=names.get(call_id, ""), partial=partial
                    )
                )
            for task in [task for task in tasks if task.done()]:
                yield tasks.pop(task), task.result()
            if batch.signal.aborted:
                told = loop.time() if told is None else told
                if loop.time() >= told + TELL:
                    for key, left in await _leave(tasks, batch.signal):
                        yield key, left
                    return
    finally:
        forget()
        for task in tasks:
            task.cancel()


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(None if seconds is None else max(seconds, 0)):
            await event.wait()
    except TimeoutError:
        pass


async def _leave(
    tasks: dict[asyncio.Task[ToolResult], str], signal: AbortSignal
) -> list[tuple[str, ToolResult]]:
    """Cancel what still runs; what does not end is left behind, and its result says so."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=LEAVE)
    results = []
    for task, key in tasks.items():
        if task.done() and not task.cancelled():
            results.append((key, task.result()))
        elif task.done():
            results.append((key, _failure(f"Stopped while it ran: {signal.reason}.")))
        else:
            results.append(
                (
                    key,
                    _failure(
                        f"Told to stop ({signal.reason}), but it did not end in time. It was "
                        "left behind and may still be running; what it returns is thrown away."
                    ),
                )
            )
    tasks.clear()
    return results


async def _guarded(job: Job) -> ToolResult:
    """A tool's exception is its result."""
    try:
        return await job()
    except Aborted as stopped:
        return _failure(f"Stopped while it ran: {stopped}.")
    except Exception as error:
        return _failure(str(error) or type(error).__name__)


async def _reviewed(batch: _Batch, call: ToolCall, result: ToolResult) -> ToolResult:
    try:
        return await batch.host.after_call(call, result)
    except Exception as error:
        return _failure(f"A hook after this call failed: {error}", details=result.details)


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


def _not_run(signal: AbortSignal) -> ToolResult:
    return _failure(f"Not run: {signal.reason}.")
