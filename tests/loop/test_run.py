"""The loop: turns, steering, follow-ups, streams that misbehave, and an abort at any moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.loop.events import AgentEnd
from pi_nb.loop.run import run_loop
from pi_nb.loop.types import AgentTool, ToolContext, answer
from pi_nb.messages import AssistantMessage, user
from pi_nb.models.pairing import pair
from pi_nb.models.scripted import ScriptedModel, call, raw_call, reply
from pi_nb.models.types import End, Model, Request, StreamEvent, TextDelta

pytestmark = pytest.mark.anyio

BOUND = 1.5
Make = Callable[..., AgentTool]


def _last(end: AgentEnd) -> AssistantMessage:
    message = end.messages[-1]
    assert isinstance(message, AssistantMessage)
    return message


async def _run(host: Any, text: str = "go") -> AgentEnd:
    return await run_loop(host, [user(text)], host.signal)


# --- turns ----------------------------------------------------------------------------------


async def test_a_prompt_goes_on_until_nothing_is_left_to_answer(
    recorder: Any, make_tool: Make
) -> None:
    model = ScriptedModel([reply("I look.", call("look", text="a")), "Seen."])
    host = recorder(model, make_tool("look"))

    end = await _run(host)

    assert host.roles() == ["user", "assistant", "toolResult", "assistant"]
    assert (end.reason, _last(end).text) == ("done", "Seen.")
    assert end.messages == tuple(host.messages)
    assert [m.role for m in model.requests[1].messages] == host.roles()[:3]
    kinds = [event.type for event in host.events]
    assert (kinds[0], kinds[-1]) == ("agent_start", "agent_end")
    assert kinds.count("turn_start") == kinds.count("turn_end") == 2


async def test_a_batch_that_asks_for_the_end_gets_it(recorder: Any, make_tool: Make) -> None:
    stop = make_tool("stop", lambda _: answer("bye").having(terminate=True))
    model = ScriptedModel([reply(call("stop"), call("stop"))])
    host = recorder(model, stop)

    end = await _run(host)

    assert end.reason == "terminated"
    assert len(model.requests) == 1


async def test_a_message_cut_off_runs_nothing_and_is_asked_again(
    recorder: Any, make_tool: Make
) -> None:
    ran: list[str] = []
    model = ScriptedModel([reply(call("write"), stop_reason="length"), "Smaller."])
    host = recorder(model, make_tool("write", lambda _: ran.append("write")))

    end = await _run(host)

    assert ran == []
    assert host.messages[2].is_error
    assert _last(end).text == "Smaller."


async def test_an_answer_cut_off_at_the_limit_ends_the_run_and_says_so(recorder: Any) -> None:
    """L-21."""
    end = await _run(recorder(ScriptedModel([reply("Half an", stop_reason="length")])))

    assert _last(end).stop_reason == "length"


async def test_cut_arguments_are_shown_and_never_run(recorder: Any, make_tool: Make) -> None:
    """L-05, from the stream on."""
    ran: list[str] = []
    cut = '{"text": "hel'
    host = recorder(
        ScriptedModel([reply(raw_call("write", cut)), "Again."]),
        make_tool("write", lambda _: ran.append("write")),
    )

    await _run(host)

    assert ran == []
    assert host.messages[2].is_error
    assert cut in host.messages[2].content[0].text


async def test_steering_waits_for_the_whole_batch(recorder: Any, make_tool: Make) -> None:
    """L-08."""
    host = recorder(ScriptedModel([reply(*[call("a")] * 3), "Turned."]))

    def steer_in_the_first(context: ToolContext) -> str:
        if not host.steer and len(host.messages) == 2:
            host.steer = [user("turn left")]
        return "ran"

    host.tools = (make_tool("a", steer_in_the_first),)

    await _run(host)

    assert host.roles() == ["user", "assistant", *["toolResult"] * 3, "user", "assistant"]
    assert all(not m.is_error for m in host.messages if m.role == "toolResult")


async def test_a_follow_up_starts_over_when_nothing_is_left(recorder: Any, make_tool: Make) -> None:
    model = ScriptedModel([reply(call("a")), "First.", "Second."])
    host = recorder(model, make_tool("a"))
    host.follow = [user("and then?")]

    end = await _run(host)

    assert host.roles() == [
        *("user", "assistant", "toolResult", "assistant"),
        *("user", "assistant"),
    ]
    assert _last(end).text == "Second."


async def test_a_failed_answer_ends_the_run_and_its_calls_do_not_run(
    recorder: Any, make_tool: Make
) -> None:
    ran: list[str] = []
    model = ScriptedModel([reply(call("a"), error="overloaded")])
    host = recorder(model, make_tool("a", lambda _: ran.append("a")))

    end = await _run(host)

    assert (end.reason, ran) == ("error", [])


# --- streams that do not keep their word ------------------------------------------------------


class Odd:
    """A model whose stream is a function of the signal."""

    def __init__(self, stream: Callable[[AbortSignal], AsyncIterator[StreamEvent]]) -> None:
        self._stream = stream
        self.model = Model(id="odd", provider="p", api="odd", context_window=1_000)

    def stream(self, request: Request, signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        return self._stream(signal)


async def _raises(_signal: AbortSignal) -> AsyncIterator[StreamEvent]:
    yield TextDelta(index=0, delta="so far")
    raise ConnectionError("gone")


async def _cancelled(_signal: AbortSignal) -> AsyncIterator[StreamEvent]:
    yield TextDelta(index=0, delta="so far")
    raise asyncio.CancelledError


async def _no_end(_signal: AbortSignal) -> AsyncIterator[StreamEvent]:
    yield TextDelta(index=0, delta="so far")


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (_raises, "ConnectionError: gone"),
        (_cancelled, "CancelledError"),
        (_no_end, "ended early"),
    ],
)
async def test_a_stream_that_breaks_is_a_failed_answer_with_what_had_come(
    recorder: Any, stream: Any, words: str
) -> None:
    end = await _run(recorder(Odd(stream)))

    assert end.reason == "error"
    assert words in (_last(end).error_message or "")
    assert _last(end).text == "so far"


async def test_a_model_that_cannot_even_be_asked_is_a_failed_answer(recorder: Any) -> None:
    def stream(_signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        raise ValueError("no key")

    end = await _run(recorder(Odd(stream)))

    assert (end.reason, _last(end).content) == ("error", ())


async def test_what_comes_after_the_end_is_not_waited_for(recorder: Any) -> None:
    closed: list[bool] = []

    async def stream(_signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        try:
            yield TextDelta(index=0, delta="all")
            yield End(reason="stop")
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    end = await _run(recorder(Odd(stream)))

    assert (end.reason, _last(end).text, closed) == ("done", "all", [True])


# --- abort ------------------------------------------------------------------------------------


async def _hangs(_signal: AbortSignal) -> AsyncIterator[StreamEvent]:
    yield TextDelta(index=0, delta="so far")
    await asyncio.Event().wait()


async def _goes_on(_signal: AbortSignal) -> AsyncIterator[StreamEvent]:
    while True:
        yield TextDelta(index=0, delta="so far")
        await asyncio.sleep(0.01)


async def _falls_silent(signal: AbortSignal) -> AsyncIterator[StreamEvent]:
    yield TextDelta(index=0, delta="so far")
    await signal.wait()


async def _breaks_at_an_abort(signal: AbortSignal) -> AsyncIterator[StreamEvent]:
    yield TextDelta(index=0, delta="so far")
    await signal.wait()
    raise ConnectionError("closed")


@pytest.mark.slow
@pytest.mark.parametrize("stream", [_hangs, _goes_on, _falls_silent, _breaks_at_an_abort])
async def test_an_abort_while_the_answer_comes_keeps_what_had_come(
    recorder: Any, stream: Any
) -> None:
    host = recorder(Odd(stream))
    arrived = asyncio.Event()
    host.on_event = lambda e: arrived.set() if e.type == "message_update" else None
    running = asyncio.create_task(_run(host))
    await arrived.wait()
    await asyncio.sleep(0)
    pressed = time.monotonic()

    host.signal.abort()
    end = await running

    assert time.monotonic() - pressed < BOUND
    assert (end.reason, _last(end).stop_reason) == ("aborted", "aborted")
    assert _last(end).text.startswith("so far")


async def test_an_abort_while_nobody_waits_for_the_stream_is_no_noise(
    recorder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    host = recorder(Odd(_falls_silent))

    async def stop(event: Any) -> None:
        if event.type == "message_update":
            host.signal.abort()
            await asyncio.sleep(0)

    host.on_event = stop

    end = await _run(host)

    assert end.reason == "aborted"
    assert caplog.records == []


async def test_an_abort_before_the_request_makes_none(recorder: Any) -> None:
    model = ScriptedModel(["never"])
    host = recorder(model)
    host.on_event = lambda e: host.signal.abort() if e.type == "message_end" else None

    end = await _run(host)

    assert model.requests == []
    assert host.roles() == ["user", "assistant"]
    assert (end.reason, _last(end).content) == ("aborted", ())


async def test_an_abort_while_the_request_is_made_up_makes_none(recorder: Any) -> None:
    """A `context` hook that waits for something must not hold up the stop."""
    model = ScriptedModel(["never"])
    host = recorder(model)
    asked = asyncio.Event()

    async def request(_turn: Any) -> Request:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    host.request = request
    running = asyncio.create_task(_run(host))
    await asked.wait()
    host.signal.abort()

    end = await asyncio.wait_for(running, BOUND)

    assert (end.reason, model.requests) == ("aborted", [])


EVENTS = [
    *("agent_start", "turn_start", "message_start", "message_update", "message_end"),
    *("tool_execution_start", "tool_execution_end", "turn_end"),
]


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("kind", EVENTS)
async def test_an_abort_at_any_event_leaves_a_history_that_a_provider_accepts(
    recorder: Any, make_tool: Make, kind: str, nth: int
) -> None:
    """L-01, L-20: every call has its result right after it, and the next run works."""
    model = ScriptedModel([reply("I look.", call("a"), call("a"), call("a")), "Done.", "More."])
    host = recorder(model, make_tool("a"))
    seen = 0

    def stop(event: Any) -> None:
        nonlocal seen
        seen += event.type == kind
        if seen == nth:
            host.signal.abort()

    host.on_event = stop
    end = await _run(host)

    if not host.signal.aborted:
        assert end.reason == "done"  # there were fewer events of this kind
        return
    assert end.reason == "aborted"
    assert _last(end).stop_reason == "aborted"
    assert {change.code for change in pair(host.messages).changes} <= {"message_failed"}
    asked = len(model.requests)
    host.on_event, host.signal = (lambda _: None), AbortSignal()

    again = await _run(host, "and now?")

    assert again.reason == "done"
    sent = model.requests[asked].messages
    assert sent[-1].role in ("user", "toolResult")
