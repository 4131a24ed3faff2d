"""A compaction while something else goes on: another one, an abort, what is typed (CMP)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from talker import (
    TOO_LONG,
    Held,
    Make,
    Talker,
    compactions,
    decisions,
    harness_of,
    of_summary,
    question,
    says,
    sent,
    session_of,
    used,
    words,
)

from pi_nb.abort import AbortSignal
from pi_nb.harness.events import AbortEvent, SessionCompact
from pi_nb.loop.events import MessageEnd
from pi_nb.messages import (
    AssistantMessage,
    text_of,
)
from pi_nb.models.scripted import call, reply
from pi_nb.models.types import (
    End,
    Model,
    Request,
    Start,
    StreamEvent,
    TextDelta,
)
from pi_nb.result import PiError
from pi_nb.session.entries import MessageEntry

pytestmark = pytest.mark.anyio


async def test_while_a_context_is_compacted_by_itself_nobody_else_compacts_it() -> None:
    """C-24: the second one is told, and the run that waits goes on once."""
    held = Held()
    model = Talker([TOO_LONG, "there"], held)
    told: list[Any] = []
    session = session_of(*[words(1_000), says(words(1_000))] * 3)
    harness = harness_of(model, session=session, told=told, compaction={"keep": 1_500})

    running = asyncio.create_task(harness.prompt("u"))
    await held.begun.wait()
    assert harness.phase == "compaction"
    for other in (harness.compact, harness.propose, harness.undo):
        with pytest.raises(PiError, match=r"busy \(compaction\)") as refused:
            await other()
        assert refused.value.code == "busy"
    held.go_on.set()
    result = await running

    assert result.text == "there"
    assert (len(model.asked), len(model.summarised)) == (2, 1)
    assert len(compactions(session)) == 1
    assert sum(isinstance(event, SessionCompact) for event in told) == 1
    ends = [e.message for e in told if isinstance(e, MessageEnd)]
    assert [m.text for m in ends if isinstance(m, AssistantMessage)] == ["", "there"]
    assert [text_of(m.content) for m in ends if m.role == "user"] == ["u"]
    assert [e.message for e in session.branch() if isinstance(e, MessageEntry)][-3:] == ends


class Stalls:
    """A model that sends one piece and then nothing, until it is stopped."""

    model = Model(id="m", provider="p", context_window=200_000)

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.stopped = False

    async def stream(self, _request: Request, signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        yield Start()
        yield TextDelta(index=0, delta="## Goal\n")
        self.begun.set()
        await signal.wait()
        self.stopped = True
        yield End(reason="aborted")


@pytest.mark.parametrize("how", ["by hand", "by itself", "after a run"])
@pytest.mark.parametrize("moment", ["before it is sent", "in the stream"])
async def test_an_abort_stops_the_request_for_a_summary_and_nothing_is_written(
    moment: str, how: str
) -> None:
    """C-25: told once, and no other compaction follows."""
    session = session_of(*[words(1_000), says(words(1_000), usage=5_000)] * 3)
    stalls = Stalls()
    waits = asyncio.Event()
    told: list[Any] = []
    full = 199_000 if how == "after a run" else 5_000
    harness = harness_of(
        Talker(reply("answer", usage=used(full)), context_window=200_000), session=session,
        told=told, compaction={"keep": 1, "model": stalls},
    )  # fmt: skip
    if how == "by itself":
        harness.compaction.reserve = 196_000
    before = len(session.entry_ids())

    async def never(event: Any) -> None:
        if of_summary(event.request):
            stalls.begun.set()
            await waits.wait()

    if moment == "before it is sent":
        harness.on("before_provider_request", never)
    work: Any = harness.compact() if how == "by hand" else harness.prompt("u")
    running = asyncio.create_task(work)
    await stalls.begun.wait()
    await harness.abort()

    if how == "by hand":
        with pytest.raises(PiError, match="it was aborted"):
            await running
        assert len(session.entry_ids()) == before
    else:
        result = await running
        assert result.aborted is not None
        assert result.message.stop_reason == ("aborted" if how == "by itself" else "stop")
        expected = [] if how == "by hand" else [("threshold", "begins"), ("threshold", "failed")]
        assert decisions(told) == expected
    assert stalls.stopped == (moment == "in the stream")
    assert compactions(session) == []
    assert harness.phase == "idle"
    assert sum(isinstance(event, AbortEvent) for event in told) == 1


async def test_a_run_that_was_aborted_when_it_was_full_is_not_compacted_after_it(
    make_tool: Make,
) -> None:
    """C-25."""
    model = Talker(reply(call("stop"), usage=used(198_000)))

    async def stop(context: Any) -> str:
        await context.state["harness"].abort()
        return "stopped"

    told: list[Any] = []
    session = session_of("u", says("a"))
    harness = harness_of(
        model, session=session, tools=[make_tool("stop", stop)], told=told, compaction={"keep": 1}
    )

    result = await harness.prompt("u")

    assert result.reason == "aborted"
    assert (len(model.asked), len(model.summarised)) == (1, 0)
    assert decisions(told) == []


async def test_what_is_typed_while_a_run_compacts_is_delivered_after_it_once_as_what_it_is() -> (
    None
):
    """C-46."""
    held = Held()
    model = Talker(lambda r: f"re {question(r)}", held, context_window=8_000)
    session = session_of(words(4_000), says(words(3_000)))
    harness = harness_of(model, session=session, compaction={"keep": 10})

    running = asyncio.create_task(harness.prompt("u"))
    await held.begun.wait()
    await harness.follow_up("B")
    await harness.steer("A")
    held.go_on.set()
    result = await running

    assert result.text == "re B"
    assert [question(request) for request in model.asked] == ["u", "A", "B"]
    said = [e.message for e in session.branch() if isinstance(e, MessageEntry)]
    assert [text_of(getattr(m, "content", "")) for m in said][2:] == [
        "u",
        "re u",
        "A",
        "re A",
        "B",
        "re B",
    ]


async def test_what_is_typed_while_somebody_compacts_goes_before_the_next_prompt() -> None:
    """C-46: where no run follows."""
    held = Held()
    model = Talker(summaries=held)
    session = session_of("u", says("a"), "u", says("a"))
    harness = harness_of(model, session=session, compaction={"keep": 1})

    compacting = asyncio.create_task(harness.compact())
    await held.begun.wait()
    await harness.steer("A")
    await harness.follow_up("B")
    held.go_on.set()
    await compacting
    await harness.prompt("u3")

    assert sent(model.asked[0])[-3:] == ["A", "B", "u3"]
    assert len(model.asked) == 1
