"""What is on record of a run, and what a crash leaves for the next process to close."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pi_nb
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.operations import Recovered
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import ToolSpec
from pi_nb.result import PiError
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


async def _echo(_arguments: dict[str, Any], _context: ToolContext) -> ToolResult:
    return answer("ok")


ECHO = AgentTool(ToolSpec(name="echo"), _echo)


def _told(session: Session) -> list[tuple[str, str | None]]:
    return [(r.type, getattr(r, "outcome", None)) for r in session.records()]


async def test_a_run_is_on_record_from_its_beginning_to_its_end() -> None:
    harness = AgentHarness(ScriptedModel([reply(call("echo")), "Done."]), tools=[ECHO])

    await harness.prompt("go", cell={"id": "c1"})

    assert _told(harness.session) == [
        ("operation_started", None),
        ("tool_started", None),
        ("operation_finished", "completed"),
    ]
    started, tool, finished = harness.session.records()
    assert started.intent == {  # type: ignore[attr-defined]
        "kind": "run",
        "originalPrompt": "go",
        "cell": {"id": "c1"},
        "settings": await harness.run_settings(),
    }
    assert finished.leaf_id == harness.leaf  # type: ignore[attr-defined]
    assert tool.run_id == finished.run_id == started.id  # type: ignore[attr-defined]
    assert tool.assistant_entry_id == harness.session.branch_ids()[1]  # type: ignore[attr-defined]
    assert harness.session.open_operations() == []


async def test_an_aborted_and_a_failed_run_say_how_they_ended() -> None:
    async def stop(_arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await context.state["harness"].abort()
        return answer("stopped")

    tool = AgentTool(ToolSpec(name="stop"), stop)
    harness = AgentHarness(ScriptedModel([reply(call("stop"))]), tools=[tool])
    await harness.prompt("go")
    assert ("abort_requested", None) in _told(harness.session)
    assert _told(harness.session)[-1] == ("operation_finished", "aborted")

    def broken(_event: Any) -> None:
        raise RuntimeError("boom")

    leave = harness.on("before_agent_start", broken)
    with pytest.raises(PiError):
        await harness.prompt("again")
    leave()
    finished = list(harness.session.records())[-1]
    assert finished.outcome == "failed"  # type: ignore[attr-defined]
    assert finished.error["code"] == "hook"  # type: ignore[attr-defined]


async def test_a_move_of_the_leaf_is_on_record_and_a_move_to_where_it_is_is_not() -> None:
    harness = AgentHarness(ScriptedModel(["a", "b"]))
    await harness.prompt("one")
    before = len(list(harness.session.records()))

    await harness.navigate(harness.session.branch_ids()[-1])
    assert len(list(harness.session.records())) == before

    await harness.navigate(harness.session.branch_ids()[0])
    assert [r.type for r in harness.session.records()][before:] == [
        "operation_started",
        "operation_finished",
    ]


async def test_a_session_without_anything_open_is_left_as_it_is(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path) as session:
        harness = AgentHarness(ScriptedModel(["a"]), session=session)
        await harness.prompt("one")
        before = (tmp_path / "s.jsonl").read_bytes()

        assert await harness.resume() == Recovered()

        assert (tmp_path / "s.jsonl").read_bytes() == before


CRASHES = """
import asyncio, os, sys
from pi_nb import AgentHarness, AgentTool, LocalEnv, ScriptedModel, Session, call, reply
from pi_nb.loop.types import answer
from pi_nb.models.types import ToolSpec

async def slow(arguments, context):
    print("begun", flush=True)
    await asyncio.sleep(60)
    return answer("never")

async def quick(arguments, context):
    return answer("done")

async def main():
    session = Session.create(sys.argv[1], cwd=".")
    tools = [
        AgentTool(ToolSpec(name="quick"), quick, mode="sequential"),
        AgentTool(ToolSpec(name="slow"), slow, mode="sequential"),
    ]
    calls = reply(call("quick"), call("slow"), call("quick"))
    await AgentHarness(ScriptedModel([calls]), session=session, tools=tools).prompt("go")

asyncio.run(main())
"""


def _killed_in_a_call(path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CRASHES, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    child.kill()
    child.communicate()


async def test_after_a_kill_in_a_tool_call_every_call_has_a_result_and_the_next_request_is_valid(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    _killed_in_a_call(path)
    model = ScriptedModel(["I see."])

    with Session.open(path) as session:
        harness = AgentHarness(model, session=session)
        recovered = await harness.resume()
        assert await harness.resume() == Recovered()
        await harness.prompt("what happened?")

        assert recovered == Recovered(1, ("slow", "quick"))
        assert session.open_operations() == []
    sent = model.requests[0].messages
    assert [m.role for m in sent] == ["user", "assistant", *["toolResult"] * 3, "user"]
    texts = [m.text for m in sent if m.role == "toolResult"]
    assert texts[0] == "done"
    assert "Interrupted" in texts[1]
    assert "Not run" in texts[2]


def test_an_agent_says_what_it_found_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    _killed_in_a_call(path)

    with pi_nb.agent(path, cwd=tmp_path, model=ScriptedModel(["Yes."])) as agent:
        assert "slow, quick" in str(agent.status())
        agent.prompt_sync("go on")
        assert "slow, quick" not in str(agent.status()), "it is said until the next prompt"


def test_navigation_of_another_lane_is_not_closed_here(tmp_path: Path) -> None:
    import asyncio

    async def main() -> None:
        with Session.create(tmp_path / "s.jsonl", cwd=tmp_path) as session:
            await session.add_lane("side", None)
            await session.record("operation_started", lane="side", intent={"kind": "run"})
            harness = AgentHarness(ScriptedModel([]), session=session)

            assert not await harness.resume()
            assert len(session.open_operations()) == 1

    asyncio.run(main())
