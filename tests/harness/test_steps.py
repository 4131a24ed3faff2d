"""A run performed action by action; that stopping changes nothing is in `test_traces`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.requests import SentRequest
from pi_nb.harness.steps import Step, SteppedRun
from pi_nb.loop.calls import Blocked
from pi_nb.loop.types import AgentTool, ToolResult
from pi_nb.messages import ToolCall
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.result import PiError
from pi_nb.session.entries import MessageEntry

pytestmark = pytest.mark.anyio

Make = Callable[..., AgentTool]


def _stepped(harness: AgentHarness, text: str = "go") -> SteppedRun:
    return SteppedRun(lambda gate: harness.prompt(text, gate=gate), harness.session)


async def _all(run: SteppedRun) -> list[Step]:
    steps = [await run.step()]
    while steps[-1].next is not None:
        steps.append(await run.step())
    return steps


async def test_each_step_performs_one_action_and_names_the_next(make_tool: Make) -> None:
    ran: list[str] = []
    tool = make_tool("look", lambda _: ran.append("look") or "A tree.")
    model = ScriptedModel([reply("I look.", call("look")), "A tree."])
    harness = AgentHarness(model, tools=[tool])
    run = _stepped(harness)

    wrote = await run.step()
    assert (len(harness.session), len(model.requests)) == (1, 0)
    assert (wrote.kind, wrote.before) == ("write", None)
    assert str(wrote.next) == "request to scripted/scripted"

    asked = await run.step()
    assert (len(harness.session), len(model.requests)) == (1, 1)
    assert isinstance(asked.before, SentRequest)
    assert asked.before.request == model.requests[0]
    assert asked.after.text == "I look."  # type: ignore[union-attr]
    assert str(asked.next) == "write assistant: I look. [look]"

    await run.step()
    assert (len(harness.session), ran) == (2, [])
    called = await run.step()
    assert (len(harness.session), ran) == (2, ["look"])
    assert isinstance(called.before, ToolCall)
    assert isinstance(called.after, ToolResult)
    assert called.after.text == "A tree."

    rest = await _all(run)
    assert [step.kind for step in rest] == ["write", "request", "write"]
    assert [step.number for step in run.steps] == list(range(1, 8))
    assert isinstance(rest[-1].after, MessageEntry)
    assert rest[-1].after.id == harness.leaf
    assert (await run.finish()).text == "A tree."


async def test_calls_of_one_message_run_one_after_another(make_tool: Make) -> None:
    ran: list[str] = []
    tools = [make_tool(name, lambda c: ran.append(c.tool_name) or "ok") for name in "ab"]
    harness = AgentHarness(
        ScriptedModel([reply(call("a", id="same"), call("b", id="same")), "Done."]), tools=tools
    )
    run = _stepped(harness)
    for _ in range(3):
        await run.step()

    assert (await run.step()).action.words == "a"
    assert ran == ["a"]
    assert (await run.step()).action.words == "b"
    assert ran == ["a", "b"]
    assert [step.kind for step in await _all(run)] == ["write", "write", "request", "write"]


async def test_a_call_that_is_refused_is_a_step_that_says_why(make_tool: Make) -> None:
    harness = AgentHarness(
        ScriptedModel([reply(call("bash"), call("nowhere")), "Done."]), tools=[make_tool("bash")]
    )
    harness.on("tool_call", lambda _: Blocked("Not today."))

    steps = await _all(_stepped(harness))

    results = [step.after for step in steps if step.kind == "call"]
    assert [result.text.partition(".")[0] for result in results] == [  # type: ignore[union-attr]
        "Not today",
        "There is no tool named 'nowhere'",
    ]


async def test_a_hook_set_between_two_steps_holds_for_the_next_request() -> None:
    model = ScriptedModel(["One."])
    harness = AgentHarness(model)
    run = _stepped(harness)
    await run.step()

    harness.on("context", lambda event: [event.messages[0].having(content="other")])
    asked = await run.step()

    assert "other" in repr(asked)
    assert model.requests[0].messages[0].content == "other"
    await run.finish()


async def test_while_a_run_is_paused_the_ordinary_operations_are_busy() -> None:
    harness = AgentHarness(ScriptedModel(["One.", "Two.", "Three."]))
    run = _stepped(harness)
    await run.step()

    for operation in (harness.prompt("x"), harness.move(None), _stepped(harness).step()):
        with pytest.raises(PiError) as refused:
            await operation
        assert refused.value.code == "busy"
    await harness.steer("and this")

    assert (await run.finish()).text == "Two.", "steering is taken"
    assert (await harness.prompt("x")).text == "Three.", "an ordinary run does not stop"


@pytest.mark.parametrize("steps", range(1, 6))
async def test_an_abort_while_paused_ends_the_run_and_the_next_one_is_valid(
    make_tool: Make, strict: Callable[..., None], steps: int
) -> None:
    ran: list[str] = []
    tools = [make_tool(name, lambda c: ran.append(c.tool_name) or "ok") for name in "ab"]
    model = ScriptedModel([reply(call("a"), call("b")), "Done."])
    harness = AgentHarness(model, tools=tools)
    run = _stepped(harness)
    for _ in range(steps):
        await run.step()
    before = list(ran)

    await asyncio.wait_for(harness.abort(), 1.5)

    assert ran == before, "what waited did not begin"
    assert (await run.finish()).reason == "aborted"
    with pytest.raises(PiError, match="over"):
        await run.step()
    await harness.prompt("and now?")
    strict(model.requests[-1].messages)


async def test_a_request_that_is_made_again_is_a_step_of_its_own() -> None:
    model = ScriptedModel([reply(error="503: overloaded"), "Here."])
    harness = AgentHarness(model, retry=RetryPolicy(base=0))

    steps = await _all(_stepped(harness))

    assert [step.action.kind for step in steps] == ["write", *["request", "write"] * 2]
    assert "503" in repr(steps[1])
    assert steps[-1].after == harness.session.entry(harness.leaf or "")


async def test_an_error_that_ends_the_run_ends_the_step(make_tool: Make) -> None:
    harness = AgentHarness(ScriptedModel(["One."]))
    run = _stepped(harness)
    await run.step()

    def broken(_: Any) -> None:
        raise ValueError("no")

    harness.on("context", broken)
    with pytest.raises(PiError) as failed:
        await run.step()

    assert failed.value.code == "hook"
    assert harness.phase == "idle"


async def test_a_step_shows_itself_as_text_and_as_markup_that_hostile_words_cannot_bend(
    make_tool: Make,
) -> None:
    harness = AgentHarness(
        ScriptedModel([reply(call("look", at="<script>\x1b[2J")), "Done."]),
        tools=[make_tool("look", lambda _: "<img src=x>\nb")],
    )

    steps = await _all(_stepped(harness, "<b>go</b>"))

    assert repr(steps[0]).splitlines() == [
        "step 1       write user: <b>go</b>",
        "leaf before  no entry yet",
        "leaf after   user: <b>go</b>",
        "next         request to scripted/scripted",
    ]
    assert repr(steps[1]).splitlines()[1:3] == [
        "sent         1 message",
        "             user: <b>go</b>",
    ]
    assert "sent         3 messages, 1 as in the request before" in repr(steps[-2])
    assert repr(steps[-1]).endswith("next         nothing: the run is over")
    for step in steps:
        assert "\x1b" not in repr(step)
        markup = step._repr_html_()
        assert not any(bad in markup for bad in ("<b>", "<script", "<img", "\x1b"))


async def test_a_request_as_sent_shows_the_same_whenever_it_was_sent() -> None:
    shown = []
    for _ in range(2):
        harness = AgentHarness(ScriptedModel(["One."]))
        await harness.prompt("<b>go</b>")
        shown.append((repr(harness.requests[-1]), harness.requests[-1]._repr_html_()))
        await asyncio.sleep(0.002)  # another millisecond: a message knows when it was said

    assert shown[0] == shown[1]
    assert "user: &lt;b&gt;go&lt;/b&gt;" in shown[0][1]
