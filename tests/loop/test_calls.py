"""The calls of one message: exactly one result each, in order, whatever happens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pi_nb.abort import Aborted
from pi_nb.loop.calls import Blocked, Outcome, run_calls
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import ToolCall, text_of

pytestmark = pytest.mark.anyio

BOUND = 1.5
"""Seconds that an abort may take, all in all (DESIGN 4)."""

Make = Callable[..., AgentTool]


def _calls(*names: str) -> list[ToolCall]:
    """One call a name, its id being `name` and its place: `a0`, `b1`."""
    return [
        ToolCall(id=f"{name}{place}", name=name, arguments={}) for place, name in enumerate(names)
    ]


def _texts(outcome: Outcome) -> list[str]:
    return [text_of(message.content) for message in outcome.messages]


def _errors(outcome: Outcome) -> list[bool]:
    return [message.is_error for message in outcome.messages]


async def _never(_context: ToolContext) -> None:
    await asyncio.Event().wait()


# --- order ----------------------------------------------------------------------------------


async def test_side_by_side_ends_come_as_they_finish_and_results_in_call_order(
    recorder: Any, make_tool: Make
) -> None:
    first_done = asyncio.Event()

    async def slow(_context: ToolContext) -> str:
        await first_done.wait()
        return "slow"

    async def quick(_context: ToolContext) -> str:
        return "quick"

    host = recorder()
    host.on_event = lambda e: first_done.set() if e.type == "tool_execution_end" else None

    outcome = await run_calls(
        _calls("a", "b"), [make_tool("a", slow), make_tool("b", quick)], host, host.signal
    )

    assert host.told() == ["start a0", "start b1", "end b1", "end a0", "result a0", "result b1"]
    assert _texts(outcome) == ["slow", "quick"]


@pytest.mark.parametrize("by", ["the loop's mode", "one tool"])
async def test_one_after_another_each_ends_before_the_next_starts(
    recorder: Any, make_tool: Make, by: str
) -> None:
    mode = None if by == "the loop's mode" else "sequential"
    host = recorder()

    await run_calls(
        _calls("a", "b"),
        [make_tool("a"), make_tool("b", mode=mode)],
        host,
        host.signal,
        mode="sequential" if mode is None else "parallel",
    )

    assert host.told() == ["start a0", "end a0", "result a0", "start b1", "end b1", "result b1"]


async def test_calls_that_share_an_id_have_a_result_each(recorder: Any, make_tool: Make) -> None:
    calls = [ToolCall(id="same", name=name, arguments={}) for name in "abc"]
    host = recorder()

    outcome = await run_calls(calls, [make_tool(name) for name in "abc"], host, host.signal)

    assert _texts(outcome) == ["a", "b", "c"]
    assert host.told().count("end same") == 3


# --- calls that do not run ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ToolCall(id="1", name="nope", arguments={}), "no tool named 'nope'. Tools: a"),
        (ToolCall(id="1", name="a", arguments={"text": [1]}), "`text`: expected string"),
        (
            ToolCall(id="1", name="a", arguments={"text": "hel"}, raw_arguments='{"text": "hel'),
            'Received: {"text": "hel',
        ),
        (ToolCall(id="1", name="a", arguments={}, raw_arguments="{} junk"), "Received: {} junk"),
    ],
    ids=["unknown", "misfit", "cut", "junk"],
)
async def test_a_call_that_cannot_run_is_an_error_with_a_start_and_an_end(
    recorder: Any, make_tool: Make, call: ToolCall, words: str
) -> None:
    """L-05: arguments that were only read in part never run."""
    ran: list[str] = []
    host = recorder()

    outcome = await run_calls(
        [call], [make_tool("a", lambda _: ran.append("a"))], host, host.signal
    )

    assert host.told() == ["start 1", "end 1", "result 1"]
    assert _errors(outcome) == [True]
    assert words in _texts(outcome)[0]
    assert (ran, host.asked) == ([], [])


async def test_a_message_cut_off_at_the_limit_runs_nothing(recorder: Any, make_tool: Make) -> None:
    host = recorder()

    outcome = await run_calls(_calls("a", "a"), [make_tool("a")], host, host.signal, cut_off=True)

    assert _errors(outcome) == [True, True]
    assert "output limit" in _texts(outcome)[0]
    assert host.asked == []


async def test_a_blocked_call_gives_the_reason_and_the_others_run(
    recorder: Any, make_tool: Make
) -> None:
    host = recorder()
    host.before = lambda call: Blocked("not today") if call.id == "a0" else None

    outcome = await run_calls(_calls("a", "a"), [make_tool("a")], host, host.signal)

    assert _texts(outcome) == ["not today", "a"]
    assert _errors(outcome) == [True, False]


@pytest.mark.parametrize(
    ("asked", "expected"), [((True, True), True), ((True, False), False), ((), False)]
)
async def test_the_run_ends_early_only_if_every_result_asks(
    recorder: Any, make_tool: Make, asked: tuple[bool, ...], expected: bool
) -> None:
    names = [f"t{n}_" for n in range(len(asked))]
    tools = [
        make_tool(name, lambda _, wish=wish: answer("x").having(terminate=wish))
        for name, wish in zip(names, asked, strict=True)
    ]
    host = recorder()

    outcome = await run_calls(_calls(*names), tools, host, host.signal)

    assert outcome.terminate is expected


# --- exceptions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ValueError("broken"),
        SystemExit("broken"),
        KeyboardInterrupt("broken"),
        asyncio.CancelledError(),
        ExceptionGroup("broken", [ValueError("x")]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_whatever_a_tool_raises_is_its_result_alone(
    recorder: Any, make_tool: Make, error: BaseException, mode: Any
) -> None:
    def fail(_context: ToolContext) -> None:
        raise error

    host = recorder()

    outcome = await run_calls(
        _calls("bad", "good"),
        [make_tool("bad", fail), make_tool("good")],
        host,
        host.signal,
        mode=mode,
    )

    assert _errors(outcome) == [True, False]
    assert "broken" in _texts(outcome)[0] or "cancelled" in _texts(outcome)[0]


@pytest.mark.parametrize("value", [None, 3, {"content": []}])
async def test_a_tool_that_gives_something_else_fails_its_call(
    recorder: Any, make_tool: Make, value: Any
) -> None:
    host = recorder()

    outcome = await run_calls(_calls("a"), [make_tool("a", lambda _: value)], host, host.signal)

    assert "instead of a ToolResult" in _texts(outcome)[0]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_hook_that_raises_at_one_call_of_three_fails_that_one(
    recorder: Any, make_tool: Make, when: str
) -> None:
    """L-09."""

    def fail(call: ToolCall, result: ToolResult | None = None) -> ToolResult | None:
        if call.id == "a1":
            raise RuntimeError("hook broke")
        return result

    host = recorder()
    setattr(host, when, fail)

    outcome = await run_calls(_calls("a", "a", "a"), [make_tool("a")], host, host.signal)

    assert _errors(outcome) == [False, True, False]
    assert _texts(outcome)[1] == f"A hook {when} this call failed: hook broke"


async def test_a_hook_may_change_an_error_too(recorder: Any, make_tool: Make) -> None:
    """L-09: overrides are honoured for errors."""
    host = recorder()
    host.after = lambda _call, result: result.having(is_error=False, details="seen")

    def fail(_context: ToolContext) -> None:
        raise ValueError("x")

    outcome = await run_calls(_calls("a"), [make_tool("a", fail)], host, host.signal)

    assert _errors(outcome) == [False]
    assert outcome.messages[0].details == "seen"


async def test_a_host_that_fails_in_the_middle_leaves_no_tool_running(
    recorder: Any, make_tool: Make
) -> None:
    stopped: list[str] = []

    async def slow(_context: ToolContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("slow")

    def full_disk(event: Any) -> None:
        if event.type == "tool_execution_end":
            raise OSError("no space")

    host = recorder()
    host.on_event = full_disk

    with pytest.raises(OSError, match="no space"):
        await run_calls(
            _calls("slow", "quick"),
            [make_tool("slow", slow), make_tool("quick")],
            host,
            host.signal,
        )

    assert stopped == ["slow"], "it was stopped before the error went on"


# --- how far it has come -----------------------------------------------------------------------


async def test_news_of_a_call_come_in_order_and_none_after_its_end(
    recorder: Any, make_tool: Make
) -> None:
    late: list[ToolContext] = []
    gone = asyncio.Event()

    async def first(context: ToolContext) -> str:
        for n in range(3):
            context.update(answer(f"{n}"))
            await asyncio.sleep(0)
        context.update(answer("last"))
        late.append(context)
        return "done"

    async def second(_context: ToolContext) -> str:
        await gone.wait()
        late[0].update(answer("too late"))
        await asyncio.sleep(0)
        return "done"

    host = recorder()
    host.on_event = lambda e: gone.set() if e.type == "tool_execution_end" else None

    await run_calls(
        _calls("first", "second"),
        [make_tool("first", first), make_tool("second", second)],
        host,
        host.signal,
    )

    news = [e.partial.text for e in host.events if e.type == "tool_execution_update"]
    assert news == sorted(news), "only the latest matters, but never an older one after it"
    assert news[-1] == "last"
    told = host.told()
    assert "update first0" not in told[told.index("end first0") :]


async def test_news_from_a_thread_arrive_and_late_ones_are_dropped(recorder: Any) -> None:
    contexts: list[ToolContext] = []

    @tool
    def work(context: ToolContext) -> str:
        contexts.append(context)
        context.update(answer("half"))
        return "whole"

    host = recorder()

    outcome = await run_calls(_calls("work"), [work], host, host.signal)
    await asyncio.to_thread(contexts[0].update, answer("late"))
    await asyncio.sleep(0)

    assert host.told() == ["start work0", "update work0", "end work0", "result work0"]
    assert _texts(outcome) == ["whole"]


# --- threads -----------------------------------------------------------------------------------


async def test_a_plain_function_runs_in_a_thread_and_a_main_thread_tool_as_a_job(
    recorder: Any,
) -> None:
    @tool
    def plain() -> str:
        return threading.current_thread().name

    @tool(main_thread=True)
    def job() -> str:
        return "a job"

    async def serve(work: Callable[[], Any]) -> Any:
        return f"{work()} that was served"

    host = recorder()
    host.main = serve

    outcome = await run_calls(_calls("plain", "job"), [plain, job], host, host.signal)

    assert _texts(outcome) == ["pi_nb tool plain", "a job that was served"]


async def test_a_main_thread_tool_fails_in_words_where_nobody_serves(recorder: Any) -> None:
    @tool(main_thread=True)
    def job() -> str:
        return "never"

    host = recorder()

    outcome = await run_calls(_calls("job"), [job], host, host.signal)

    assert _texts(outcome) == ["nobody serves jobs for the main thread here"]
    assert _errors(outcome) == [True]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), StopIteration()])
async def test_a_plain_function_cannot_end_the_loop(recorder: Any, error: BaseException) -> None:
    @tool
    def leave() -> str:
        raise error

    host = recorder()

    outcome = await run_calls(_calls("leave"), [leave], host, host.signal)

    assert _errors(outcome) == [True]


# --- abort ------------------------------------------------------------------------------------


async def test_an_abort_before_the_batch_runs_and_asks_nothing(
    recorder: Any, make_tool: Make
) -> None:
    host = recorder()
    host.signal.abort()

    outcome = await run_calls(_calls("a", "a"), [make_tool("a")], host, host.signal)

    assert _texts(outcome) == ["Not run: aborted by user."] * 2
    assert _errors(outcome) == [True, True]
    assert host.asked == []


async def test_an_abort_in_the_first_of_three_gives_three_results_in_order(
    recorder: Any, make_tool: Make
) -> None:
    """L-01, L-16."""
    host = recorder()

    async def x(context: ToolContext) -> str:
        host.signal.abort()
        raise Aborted("aborted by user")

    ran: list[str] = []
    tools = [make_tool("x", x), *(make_tool(n, lambda _, n=n: ran.append(n)) for n in "yz")]

    outcome = await run_calls(_calls("x", "y", "z"), tools, host, host.signal, mode="sequential")

    assert [m.tool_call_id for m in outcome.messages] == ["x0", "y1", "z2"]
    assert _texts(outcome) == [
        "Stopped while it ran: aborted by user.",
        "Not run: aborted by user.",
        "Not run: aborted by user.",
    ]
    assert _errors(outcome) == [True] * 3
    assert ran == []


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_an_abort_from_a_hook_of_the_first_call_asks_and_runs_nothing_more(
    recorder: Any, make_tool: Make, mode: Any
) -> None:
    """L-10."""
    ran: list[str] = []
    host = recorder()
    host.before = lambda _call: host.signal.abort()

    outcome = await run_calls(
        _calls("a", "a", "a"),
        [make_tool("a", lambda _: ran.append("a"))],
        host,
        host.signal,
        mode=mode,
    )

    assert host.asked == ["a0"]
    assert ran == []
    assert _texts(outcome) == ["Not run: aborted by user."] * 3


async def test_an_abort_from_the_hook_of_the_last_call_stops_those_that_were_let_through(
    recorder: Any, make_tool: Make
) -> None:
    ran: list[str] = []
    host = recorder()
    host.before = lambda call: host.signal.abort() if call.id == "a2" else None

    outcome = await run_calls(
        _calls("a", "a", "a"), [make_tool("a", lambda _: ran.append("a"))], host, host.signal
    )

    assert ran == []
    assert _texts(outcome) == ["Not run: aborted by user."] * 3


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_hook_that_waits_for_a_person_does_not_hold_up_an_abort(
    recorder: Any, make_tool: Make, when: str
) -> None:
    host = recorder()
    asked = asyncio.Event()

    async def ask(*_: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    setattr(host, when, ask)
    batch = asyncio.create_task(run_calls(_calls("a"), [make_tool("a")], host, host.signal))
    await asked.wait()
    begun = time.monotonic()

    host.signal.abort()
    outcome = await batch

    assert time.monotonic() - begun < BOUND
    assert _errors(outcome) == [True]
    assert "aborted by user" in _texts(outcome)[0]


async def _cooperates(context: ToolContext) -> ToolResult:
    await context.signal.wait()
    return answer("half of it", is_error=True)


async def _ignores_everything(_context: ToolContext) -> None:
    await _deaf_for_a_while()


async def _deaf_for_a_while() -> None:
    until = time.monotonic() + 1.3
    while time.monotonic() < until:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(until - time.monotonic())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (_cooperates, "half of it"),
        (_never, "Stopped while it ran: aborted by user."),
        (_ignores_everything, "left behind and may still be running"),
    ],
    ids=["cooperates", "only reacts to cancel", "reacts to nothing"],
)
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_an_abort_inside_a_call_is_bounded(
    recorder: Any, make_tool: Make, body: Any, words: str, mode: Any
) -> None:
    host = recorder()
    begun = asyncio.Event()

    async def noted(context: ToolContext) -> Any:
        begun.set()
        return await body(context)

    batch = asyncio.create_task(
        run_calls(
            _calls("a", "b"),
            [make_tool("a", noted), make_tool("b", noted)],
            host,
            host.signal,
            mode=mode,
        )
    )
    await begun.wait()
    pressed = time.monotonic()

    host.signal.abort()
    outcome = await batch

    assert time.monotonic() - pressed < BOUND
    assert words in _texts(outcome)[0]
    assert [m.tool_call_id for m in outcome.messages] == ["a0", "b1"]
    assert _errors(outcome) == [True, True]


@pytest.mark.slow
async def test_a_function_in_a_thread_that_ignores_the_abort_is_named_as_left_behind(
    recorder: Any,
) -> None:
    go = threading.Event()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool
    def deaf() -> str:
        loop.call_soon_threadsafe(begun.set)
        go.wait(10)
        return "late"

    host = recorder()
    batch = asyncio.create_task(run_calls(_calls("deaf"), [deaf], host, host.signal))
    await begun.wait()
    pressed = time.monotonic()

    host.signal.abort()
    outcome = await batch
    go.set()

    assert time.monotonic() - pressed < BOUND
    assert "thrown away" in _texts(outcome)[0]
    assert _errors(outcome) == [True]


@pytest.mark.slow
async def test_a_call_that_was_done_before_the_abort_keeps_its_result(
    recorder: Any, make_tool: Make
) -> None:
    host = recorder()

    def stop_after_the_first(event: Any) -> None:
        if event.type == "tool_execution_end":
            host.signal.abort()

    host.on_event = stop_after_the_first

    outcome = await run_calls(
        _calls("a", "slow"), [make_tool("a"), make_tool("slow", _never)], host, host.signal
    )

    assert _texts(outcome) == ["a", "Stopped while it ran: aborted by user."]
    assert _errors(outcome) == [False, True]


async def test_what_was_taken_out_by_a_hook_stays_out_after_an_abort(
    recorder: Any, make_tool: Make
) -> None:
    """A hook that takes secrets out sees also what a stopped call gave."""
    host = recorder()
    host.after = lambda _call, result: answer(result.text.replace("s3cret", "***"))

    async def shell(context: ToolContext) -> str:
        host.signal.abort()
        return "key=s3cret"

    outcome = await run_calls(_calls("shell"), [make_tool("shell", shell)], host, host.signal)

    assert _texts(outcome) == ["key=***"]
