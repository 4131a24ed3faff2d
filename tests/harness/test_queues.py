"""Messages that wait for a turn, and changes that wait for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.queues import PendingWrites, Queues
from pi_nb.loop.types import AgentTool
from pi_nb.messages import text_of, user
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.result import PiError

pytestmark = pytest.mark.anyio

Make = Callable[..., AgentTool]


def _texts(messages: Any) -> list[str]:
    return [text_of(message.content) for message in messages]


def test_a_queue_gives_one_message_or_all_of_them_by_its_mode() -> None:
    queues = Queues("one-at-a-time", "all")
    for text in "abc":
        queues.put("steer", user(text))
        queues.put("follow_up", user(text))
        queues.put("next_turn", user(text))

    assert _texts(queues.take("steer")) == ["a"]
    assert _texts(queues.take("follow_up")) == ["a", "b", "c"]
    assert _texts(queues.take("next_turn")) == ["a", "b", "c"]
    assert queues.take("follow_up") == []
    assert (queues.update().steer, queues.update().next_turn) == (2, 0)


def test_what_comes_back_stands_before_what_waits_and_in_its_order() -> None:
    queues = Queues("all", "all")
    queues.put("next_turn", user("c"))

    queues.put_back([user("a"), user("b")])

    assert _texts(queues.take("next_turn")) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["steer", "follow_up"])
async def test_what_nobody_took_goes_before_the_next_prompt(name: str) -> None:
    model = ScriptedModel(["One.", "Two."])
    harness = AgentHarness(model)

    async def late(event: Any) -> None:
        if event.type == "agent_end" and len(model.requests) == 1:
            await getattr(harness, name)("late")

    harness.subscribe(late)
    await harness.prompt("first")
    await harness.prompt("second")

    assert _texts(model.requests[1].messages) == ["first", "One.", "late", "second"]


@pytest.mark.parametrize("name", ["steer", "follow_up"])
async def test_while_idle_there_is_nothing_to_steer_or_to_follow(name: str) -> None:
    harness = AgentHarness(ScriptedModel(["Fine."]))

    with pytest.raises(PiError) as wrong:
        await getattr(harness, name)("x")

    assert wrong.value.code == "invalid_state"
    assert (await harness.prompt("go")).messages[0] == harness.session.context().items[0].message


@pytest.mark.parametrize(("mode", "requests"), [("one-at-a-time", ["a", "b"]), ("all", ["a", "b"])])
async def test_steering_reaches_the_next_request_one_or_all(
    make_tool: Make, mode: Any, requests: list[str]
) -> None:
    async def steer(_context: Any) -> str:
        for text in requests:
            await harness.steer(text)
        return "ran"

    model = ScriptedModel([reply(call("t")), "One.", "Two."])
    harness = AgentHarness(model, tools=[make_tool("t", steer)], steering_mode=mode)

    await harness.prompt("go")

    new = [_texts(request.messages)[3:] for request in model.requests[1:]]
    if mode == "all":
        assert new == [["a", "b"]]
    else:
        assert new == [["a"], ["a", "One.", "b"]]


async def test_an_abort_drops_what_steers_and_follows_and_keeps_the_next_turn(
    make_tool: Make,
) -> None:
    async def fill(context: Any) -> str:
        await harness.steer("s")
        await harness.follow_up("f")
        await harness.follow_up("g")
        await harness.next_turn("n")
        filled.set()
        await context.signal.wait()
        return "stopped"

    filled = asyncio.Event()
    model = ScriptedModel([reply(call("t")), "Fine."])
    harness = AgentHarness(model, tools=[make_tool("t", fill)])
    asking = asyncio.create_task(harness.prompt("go"))
    await filled.wait()

    dropped = await harness.abort()
    stopped = await asking
    await harness.prompt("again")

    assert (dropped.steer, dropped.follow_up) == (1, 2)
    assert stopped.aborted == dropped
    assert _texts(model.requests[-1].messages)[-2:] == ["n", "again"]


# --- changes that wait ------------------------------------------------------------------------


async def test_changes_are_written_in_order_also_those_that_come_meanwhile() -> None:
    pending = PendingWrites()
    written: list[str] = []

    async def first() -> None:
        written.append("first")
        pending.add(third)

    async def second() -> None:
        written.append("second")

    async def third() -> None:
        written.append("third")

    pending.add(first)
    pending.add(second)

    assert await pending.flush()
    assert written == ["first", "second", "third"]
    assert not pending
    assert not await pending.flush()


@pytest.mark.parametrize(("code", "stays"), [("session", True), ("invalid_argument", False)])
async def test_what_the_disk_refuses_waits_and_what_is_wrong_is_dropped(
    code: str, stays: bool
) -> None:
    pending = PendingWrites()
    written: list[str] = []
    refuse = True

    async def write() -> None:
        if refuse:
            raise PiError(code, "no")
        written.append("one")

    async def other() -> None:
        written.append("two")

    pending.add(write)
    pending.add(other)
    with pytest.raises(PiError):
        await pending.flush()
    refuse = False
    await pending.flush()

    assert written == (["one", "two"] if stays else ["two"])
