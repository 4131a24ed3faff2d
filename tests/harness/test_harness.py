"""The harness beyond the traces: busy, aborts from everywhere, failures, records, restarts."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.turn import PromptContext, TurnResult
from pi_nb.loop.types import AgentTool, ToolContext
from pi_nb.messages import CustomMessage, text_of
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.result import PiError
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio

BOUND = 1.5
Make = Callable[..., AgentTool]


def _said(session: Session, lane: str = "main") -> list[tuple[str, str]]:
    """The branch as roles and texts."""
    return [
        (item.message.role, text_of(getattr(item.message, "content", "")))
        for item in session.context(lane).items
    ]


def _kinds(session: Session) -> list[str]:
    return [entry.type for entry in session.branch()]


def _when(harness: AgentHarness, kind: str) -> asyncio.Event:
    """An event that is set when the harness tells this for the first time."""
    seen = asyncio.Event()
    harness.subscribe(lambda event: seen.set() if event.type == kind else None)
    return seen


async def _never(*_: Any) -> None:
    await asyncio.Event().wait()


# --- one at a time ----------------------------------------------------------------------------


async def test_a_second_prompt_at_the_same_moment_is_busy_and_harms_nothing() -> None:
    harness = AgentHarness(ScriptedModel(["One.", "Two."]))

    first, second = await asyncio.gather(
        harness.prompt("a"), harness.prompt("b"), return_exceptions=True
    )

    assert isinstance(first, TurnResult)
    assert isinstance(second, PiError)
    assert (first.text, second.code) == ("One.", "busy")
    assert (await harness.prompt("c")).text == "Two."


async def test_two_lanes_of_one_session_run_side_by_side(tmp_path: Path) -> None:
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path)
    main = AgentHarness(ScriptedModel(["Begun.", "Main."]), session=session)
    await main.prompt("begin")
    await session.add_lane("side", main.leaf)
    side = AgentHarness(ScriptedModel(["Side."]), session=session, lane="side")

    await asyncio.gather(main.prompt("here"), side.prompt("there"))

    begun = [("user", "begin"), ("assistant", "Begun.")]
    assert _said(session) == [*begun, ("user", "here"), ("assistant", "Main.")]
    assert _said(session, "side") == [*begun, ("user", "there"), ("assistant", "Side.")]
    session.close()
    with Session.open(tmp_path / "s.jsonl") as again:
        assert _said(again, "side")[-1] == ("assistant", "Side.")


# --- abort ------------------------------------------------------------------------------------


async def test_a_cancelled_caller_finds_what_arrived_in_the_session() -> None:
    harness = AgentHarness(ScriptedModel([reply("one two three four " * 50)], pace=0.01))
    arrived = _when(harness, "message_update")
    asking = asyncio.create_task(harness.prompt("go"))
    await arrived.wait()

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert harness.phase == "idle"
    role, text = _said(harness.session)[-1]
    assert role == "assistant"
    assert text.startswith("one")


async def test_what_fails_after_its_caller_was_cancelled_is_logged_and_not_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The event loop would call it an exception that nobody retrieved."""
    unseen: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: unseen.append(context))
    harness = AgentHarness(ScriptedModel(["Hello."]))
    asked = asyncio.Event()

    async def fail(_event: object) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("in a hook")

    harness.on("before_agent_start", fail)
    caller = asyncio.create_task(harness.prompt("hi"))
    await asked.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    del caller
    gc.collect()
    loop.set_exception_handler(None)

    assert unseen == []
    assert "an operation whose caller was cancelled failed" in caplog.text
    assert harness.phase == "idle"


async def test_after_an_abort_the_next_request_is_one_that_a_strict_provider_takes(
    make_tool: Make, strict: Callable[..., None]
) -> None:
    """L-01, L-20."""
    model = ScriptedModel([reply("I look.", call("x"), call("y"), call("z")), "Fine."])
    tools = [make_tool("x", _never, mode="sequential"), make_tool("y"), make_tool("z")]
    harness = AgentHarness(model, tools=tools)
    running = _when(harness, "tool_execution_start")
    asking = asyncio.create_task(harness.prompt("go"))
    await running.wait()

    await harness.abort()
    stopped = await asking
    result = await harness.prompt("and now?")

    assert (stopped.reason, stopped.aborted is not None) == ("aborted", True)
    results = [m for m in stopped.messages if m.role == "toolResult"]
    assert [m.tool_name for m in results] == ["x", "y", "z"]
    assert all(m.is_error and "aborted by user" in text_of(m.content) for m in results)
    assert result.text == "Fine."
    strict(model.requests[-1].messages)


@pytest.mark.parametrize("place", ["tool", "subscriber", "tool_call", "context", "prompt"])
async def test_an_abort_from_inside_the_run_does_not_wait_for_itself(
    make_tool: Make, place: str
) -> None:
    async def stop(*_: Any) -> None:
        await harness.abort()

    async def prompt(_context: PromptContext) -> str:
        if place == "prompt":
            await harness.abort()
        return "SYS"

    harness = AgentHarness(
        ScriptedModel([reply(call("a")), "never"]),
        tools=[make_tool("a", stop if place == "tool" else None)],
        system_prompt=prompt,
    )
    if place == "subscriber":
        harness.subscribe(lambda event: stop() if event.type == "message_end" else None)
    elif place in ("tool_call", "context"):
        harness.on(place, stop)

    result = await asyncio.wait_for(harness.prompt("go"), 2 * BOUND)

    assert (result.reason, harness.phase) == ("aborted", "idle")


async def test_two_harnesses_inside_each_other_can_stop_the_outer_one(make_tool: Make) -> None:
    async def stop_the_outer(_context: ToolContext) -> str:
        await outer.abort()
        return "stopped"

    inner = AgentHarness(
        ScriptedModel([reply(call("stop")), "Inner."]), tools=[make_tool("stop", stop_the_outer)]
    )

    async def ask_the_inner(_context: ToolContext) -> str:
        return (await inner.prompt("stop it")).text

    outer = AgentHarness(
        ScriptedModel([reply(call("ask")), "never"]), tools=[make_tool("ask", ask_the_inner)]
    )

    begun = time.monotonic()
    result = await outer.prompt("go")

    assert result.reason == "aborted"
    assert time.monotonic() - begun < BOUND


@pytest.mark.parametrize("name", ["before_agent_start", "context", "tool_call", "prompt"])
async def test_whatever_is_waited_for_does_not_hold_up_an_abort(make_tool: Make, name: str) -> None:
    waiting = asyncio.Event()

    async def wait(*_: Any) -> None:
        waiting.set()
        await _never()

    model = ScriptedModel([reply(call("a"))])
    harness = AgentHarness(
        model, tools=[make_tool("a")], system_prompt=wait if name == "prompt" else ""
    )
    if name != "prompt":
        harness.on(name, wait)
    asking = asyncio.create_task(harness.prompt("go"))
    await waiting.wait()

    await asyncio.wait_for(harness.abort(), BOUND)

    assert (await asking).reason == "aborted"
    assert _said(harness.session)[0] == ("user", "go")


async def test_a_slow_subscriber_does_not_hold_up_the_signal(make_tool: Make) -> None:
    told: list[bool] = []

    async def slow(event: Any) -> None:
        if event.type == "queue_update":
            told.append(stopped.is_set())
            await stopped.wait()

    stopped = asyncio.Event()

    async def tool(context: ToolContext) -> str:
        running.set()
        await context.signal.wait()
        stopped.set()
        return "stopped"

    running = asyncio.Event()
    harness = AgentHarness(ScriptedModel([reply(call("a"))]), tools=[make_tool("a", tool)])
    harness.subscribe(slow)
    asking = asyncio.create_task(harness.prompt("go"))
    await running.wait()

    await asyncio.wait_for(harness.abort(), BOUND)

    assert (await asking).reason == "aborted"
    assert told == [False]


async def test_an_abort_while_idle_does_nothing_and_does_not_hit_the_next_prompt() -> None:
    harness = AgentHarness(ScriptedModel(["Fine."]))

    dropped = await harness.abort()

    assert (dropped.steer, dropped.follow_up) == (0, 0)
    assert (await harness.prompt("go")).reason == "done"


async def test_an_abort_while_the_leaf_is_about_to_move_leaves_it() -> None:
    harness = AgentHarness(ScriptedModel(["One."]))
    await harness.prompt("a")
    first = harness.session.branch()[0].id
    asked = asyncio.Event()

    async def ask(_event: Any) -> None:
        asked.set()
        await _never()

    harness.on("session_before_tree", ask)
    leaf = harness.leaf
    moving = asyncio.create_task(harness.navigate(first))
    await asked.wait()

    await asyncio.wait_for(harness.abort(), BOUND)

    assert (await moving).cancelled
    assert (harness.leaf, harness.phase) == (leaf, "idle")


# --- what fails -------------------------------------------------------------------------------


async def test_a_subscriber_that_raises_is_logged_and_the_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_event: Any) -> None:
        raise RuntimeError("broken view")

    kinds: list[str] = []
    harness = AgentHarness(ScriptedModel(["Fine."]))
    harness.subscribe(fail)
    leave = harness.subscribe(lambda event: kinds.append(event.type))

    result = await harness.prompt("go")
    leave()
    leave()

    assert result.ok
    assert (kinds[0], kinds[-1]) == ("agent_start", "settled")
    assert "a subscriber to settled failed" in caplog.text


async def test_a_write_that_fails_in_the_middle_ends_the_run_and_the_next_one_works(
    tmp_path: Path, make_tool: Make, strict: Callable[..., None]
) -> None:
    """The file is closed under the run before the second of three results is written."""
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path)
    model = ScriptedModel([reply(call("a"), call("a"), call("a")), "Fine."])
    harness = AgentHarness(model, session=session, tools=[make_tool("a")])
    results = 0

    def close_it(event: Any) -> None:
        nonlocal results
        results += event.type == "message_start" and event.message.role == "toolResult"
        if results == 2:
            session.close()

    harness.subscribe(close_it)
    await harness.next_turn("before")

    with pytest.raises(PiError) as failed:
        await harness.prompt("go")

    assert failed.value.code in ("session", "invalid_state")
    assert harness.phase == "idle"
    with Session.open(tmp_path / "s.jsonl") as again:
        assert [role for role, _ in _said(again)] == ["user", "user", "assistant", "toolResult"]
        resumed = AgentHarness(model, session=again, tools=[make_tool("a")])
        assert (await resumed.prompt("and now?")).text == "Fine."
        strict(model.requests[-1].messages)


async def test_messages_that_could_not_be_written_wait_for_the_next_prompt(
    tmp_path: Path,
) -> None:
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path)
    harness = AgentHarness(ScriptedModel(["never"]), session=session)
    await harness.next_turn("one")
    await harness.next_turn("two")
    session.close()
    lengths: list[int] = []
    harness.subscribe(
        lambda event: lengths.append(event.next_turn) if event.type == "queue_update" else None
    )

    with pytest.raises(PiError):
        await harness.prompt("go")

    assert lengths == [0, 2]


# --- settings ---------------------------------------------------------------------------------


async def test_the_system_prompt_is_asked_once_a_turn_and_sees_the_settings_of_its_turn(
    make_tool: Make,
) -> None:
    asked: list[tuple[str, str]] = []

    async def prompt(context: PromptContext) -> str:
        asked.append((context.model.id, context.thinking_level))
        return f"You are {context.model.id}."

    other = ScriptedModel(["Done."], id="other")

    async def switch(_context: ToolContext) -> str:
        await harness.set_model(other)
        await harness.set_thinking_level("high")
        return "switched"

    harness = AgentHarness(
        ScriptedModel([reply(call("a"))], id="first"),
        tools=[make_tool("a", switch)],
        system_prompt=prompt,
    )
    harness.on("before_agent_start", lambda _: None)  # is shown the first turn's prompt

    await harness.prompt("go")

    assert asked == [("first", "off"), ("other", "high")]
    assert other.requests[0].system_prompt == "You are other."
    assert other.requests[0].options.thinking_level == "high"


async def test_changes_in_the_middle_are_written_after_the_turn_in_their_order(
    make_tool: Make,
) -> None:
    async def change(_context: ToolContext) -> str:
        await harness.append_message(CustomMessage(custom_type="note", content="n"))
        await harness.set_thinking_level("low")
        await harness.set_active_tools([])
        return "changed"

    harness = AgentHarness(
        ScriptedModel([reply(call("a")), "Done."]), tools=[make_tool("a", change)]
    )

    await harness.prompt("go")

    kinds = _kinds(harness.session)
    changes = ["thinking_level_change", "active_tools_change"]
    assert kinds[:3] == ["message"] * 3, "the prompt, the answer and its result"
    assert kinds[4:] == [*changes, "message"]
    assert _said(harness.session)[3] == ("custom", "n")


async def test_a_change_told_of_while_the_run_settles_is_written_then() -> None:
    """A steering message that nobody took is told of after the last save point."""
    harness = AgentHarness(ScriptedModel(["Done."]))

    async def change(event: Any) -> None:
        if event.type == "agent_end":
            await harness.steer("too late")
        elif event.type == "queue_update" and event.next_turn:
            await harness.set_thinking_level("low")

    harness.subscribe(change)

    await harness.prompt("go")

    assert _kinds(harness.session)[-1] == "thinking_level_change"


async def test_a_message_that_cannot_be_written_fails_once_and_not_for_ever(
    make_tool: Make,
) -> None:
    async def change(_context: ToolContext) -> str:
        await harness.append_message(CustomMessage(custom_type="note", content="n", details={1, 2}))
        return "changed"

    harness = AgentHarness(
        ScriptedModel([reply(call("a")), "Done."]), tools=[make_tool("a", change)]
    )

    with pytest.raises(PiError) as failed:
        await harness.prompt("go")

    assert failed.value.code == "invalid_argument"
    assert (await harness.prompt("again")).text == "Done."


async def test_a_prompt_from_the_subscriber_to_settled_is_an_ordinary_prompt() -> None:
    harness = AgentHarness(ScriptedModel(["One.", "Two."]))
    kinds: list[str] = []

    async def again(event: Any) -> None:
        kinds.append(event.type)
        if event.type == "settled" and kinds.count("settled") == 1:
            await harness.prompt("more")

    harness.subscribe(again)

    await harness.prompt("go")

    assert [text for _, text in _said(harness.session)] == ["go", "One.", "more", "Two."]
    assert kinds.count("settled") == 2


async def test_a_restarted_harness_takes_its_settings_from_the_log(
    tmp_path: Path, make_tool: Make
) -> None:
    tools = [make_tool("a"), make_tool("b")]
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path) as session:
        harness = AgentHarness(ScriptedModel(), session=session, tools=tools)
        await harness.set_thinking_level("medium")
        await harness.set_active_tools(["b"])

    with Session.open(tmp_path / "s.jsonl") as session:
        model = ScriptedModel(["Fine."])
        again = AgentHarness(model, session=session, tools=tools)
        assert (again.thinking_level, again.active_tools) == ("medium", ("b",))
        await again.prompt("go")
        assert [spec.name for spec in model.requests[0].tools] == ["b"]


@pytest.mark.parametrize(
    "change",
    [
        lambda harness: harness.set_thinking_level("very"),
        lambda harness: harness.set_active_tools(["nope"]),
        lambda harness: harness.set_active_tools(["a", "a"]),
        lambda harness: harness.navigate("nope"),
    ],
)
async def test_a_wrong_setting_changes_nothing(make_tool: Make, change: Any) -> None:
    harness = AgentHarness(ScriptedModel(["Fine."]), tools=[make_tool("a")])

    with pytest.raises(PiError) as wrong:
        await change(harness)

    assert wrong.value.code == "invalid_argument"
    assert len(harness.session) == 0
    assert (await harness.prompt("go")).ok


# --- a crash ------------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from pathlib import Path
from pi_nb.harness.harness import AgentHarness
from pi_nb.models.scripted import ScriptedModel, reply
from pi_nb.session.session import Session

async def main():
    session = Session.create(Path(sys.argv[1]), cwd="/")
    harness = AgentHarness(ScriptedModel([reply("word " * 1000)], pace=0.01), session=session)
    harness.subscribe(lambda e: e.type == "message_update" and print("streaming", flush=True))
    await harness.prompt("remember me")

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills a process")
async def test_a_kernel_that_dies_in_the_middle_of_an_answer_keeps_the_question(
    tmp_path: Path,
) -> None:
    """S-09: header and prompt are on disk before the request is made."""
    file = tmp_path / "s.jsonl"
    child = subprocess.Popen(  # noqa: ASYNC220 (its one line is waited for)
        [sys.executable, "-c", CHILD, str(file)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"streaming\n"
    child.kill()
    child.communicate()

    with Session.open(file) as session:
        assert _said(session) == [("user", "remember me")]
        harness = AgentHarness(ScriptedModel(["I do."]), session=session)
        assert (await harness.prompt("still there?")).text == "I do."


async def test_after_a_move_to_an_equally_long_history_the_new_branch_is_sent() -> None:
    """What was paired for one branch must not be sent for another one of the same length."""
    model = ScriptedModel(lambda request: "Yes.")
    harness = AgentHarness(model)
    await harness.prompt("one")
    await harness.prompt("two")
    await harness.navigate(harness.session.branch_ids()[2])

    await harness.prompt("zwei")
    await harness.prompt("three")

    texts = [m.content[0].text for m in model.requests[-1].messages if m.role == "user"]
    assert texts == ["one", "zwei", "three"]
    await harness.navigate(harness.session.branch_ids()[0])
    await harness.prompt("eins")
    assert [m.content[0].text for m in model.requests[-1].messages] == ["eins"]
