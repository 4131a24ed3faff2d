"""Several harnesses on one session at the same time: each on its lane, or in turns on one."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.types import AgentTool, ToolContext
from pi_nb.messages import LlmMessage, text_of
from pi_nb.models.scripted import Reply, ScriptedModel, call, reply
from pi_nb.models.types import Request
from pi_nb.result import PiError
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio

Make = Callable[..., AgentTool]
Strict = Callable[[Sequence[LlmMessage]], None]
Said = list[tuple[str, str]]
Pause = Callable[[], Any]

PROMPTS = 3


def said(session: Session, lane: str) -> Said:
    """The lane's branch as roles and texts."""
    return [
        (message.role, text_of(getattr(message, "content", "")))
        for message in session.context(lane).messages
    ]


def expected(name: str) -> Said:
    """What a lane of this name holds after its prompts, if nobody disturbed it."""
    lines: Said = []
    for number in range(PROMPTS):
        lines += [
            ("user", f"{name} asks {number}"),
            ("assistant", f"{name} looks {number}"),
            ("toolResult", f"{name} found"),
            ("toolResult", f"{name} found"),
            ("assistant", f"{name} says {number}"),
        ]
    return lines


def harness_on(session: Session, lane: str, make_tool: Make, pause: Pause) -> AgentHarness:
    """A harness whose model looks with two calls and then answers, pausing at every step."""

    async def answer(request: Request) -> Reply:
        await pause()
        asked = sum(message.role == "user" for message in request.messages) - 1
        if request.messages[-1].role == "user":
            return reply(f"{lane} looks {asked}", call("look"), call("look"))
        return reply(f"{lane} says {asked}")

    async def look(_context: ToolContext) -> str:
        await pause()
        return f"{lane} found"

    model = ScriptedModel([answer] * (2 * PROMPTS), id=lane)
    return AgentHarness(model, session=session, lane=lane, tools=[make_tool("look", look)])


async def ask_all(harness: AgentHarness) -> None:
    for number in range(PROMPTS):
        await harness.prompt(f"{harness.lane} asks {number}")


def requests(harness: AgentHarness) -> list[Request]:
    return [sent.request for sent in harness.requests]


def check_file(path: Path) -> None:
    """Lines count on without a gap, and each is that of the lane it says."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))


@pytest.mark.parametrize("seed", range(5))
async def test_harnesses_on_lanes_of_one_session_do_not_know_of_each_other(
    seed: int, make_tool: Make, strict: Strict, tmp_path: Path
) -> None:
    chance = random.Random(seed)

    async def pause() -> None:
        for _ in range(chance.choice([0, 1, 5, 50])):
            await asyncio.sleep(0)

    path = tmp_path / "s.jsonl"
    lanes = ["main", "left", "right"]
    with Session.create(path, cwd=tmp_path, durability="flush") as session:
        for lane in lanes[1:]:
            await session.add_lane(lane, None)
        harnesses = [harness_on(session, lane, make_tool, pause) for lane in lanes]

        await asyncio.gather(*map(ask_all, harnesses))

        for harness in harnesses:
            assert said(session, harness.lane) == expected(harness.lane)
            for request in requests(harness):
                strict(request.messages)
                texts = [text_of(message.content) for message in request.messages]
                assert all(text.startswith(harness.lane) for text in texts)
        leaves = dict(session.lanes)
        assert session.open_operations() == []
    check_file(path)
    with Session.open(path) as again:
        assert dict(again.lanes) == leaves
        assert [said(again, lane) for lane in lanes] == [expected(lane) for lane in lanes]


async def test_each_step_of_two_lanes_may_fall_between_two_of_the_other(
    make_tool: Make, strict: Strict, tmp_path: Path
) -> None:
    """As strictly in turns as can be: whoever paused lets the other go on."""
    both = asyncio.Barrier(2)

    async def pause() -> None:
        async with asyncio.timeout(10):
            await both.wait()

    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path, durability="flush") as session:
        first = await session.append_custom("begun")
        await session.add_lane("side", first.id)
        harnesses = [harness_on(session, lane, make_tool, pause) for lane in ("main", "side")]

        await asyncio.gather(*map(ask_all, harnesses))

        for harness in harnesses:
            assert said(session, harness.lane) == expected(harness.lane)
            for request in requests(harness):
                strict(request.messages)
        # They were interleaved: neither lane's entries lie together in the file.
        order = [entry.lane for entry in session.entries() if entry.type == "message"]
        assert sum(one != other for one, other in itertools.pairwise(order)) > PROMPTS
        assert session.common_ancestor(*session.lanes.values()) == first.id


@pytest.mark.parametrize("format", ["v4", "v3"])
async def test_harnesses_that_share_a_lane_go_on_where_the_other_ended(
    format: Any, strict: Strict, tmp_path: Path
) -> None:
    """In v3 there is one lane: several writers of one process take turns on it."""
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd=tmp_path, format=format, durability="flush") as session:
        models = [ScriptedModel(["a1", "a2"]), ScriptedModel(["b1", "b2"])]
        one, other = (AgentHarness(model, session=session) for model in models)

        for number in (1, 2):
            await one.prompt(f"to a, {number}")
            await other.prompt(f"to b, {number}")

        assert [text for _, text in said(session, "main")] == [
            "to a, 1", "a1", "to b, 1", "b1", "to a, 2", "a2", "to b, 2", "b2",
        ]  # fmt: skip
        for model in models:
            for request in model.requests:
                strict(request.messages)
    with Session.open(path) as again:
        assert len(said(again, "main")) == 8
        assert again.diagnostics == ()


@pytest.mark.parametrize("format", ["v4", "v3"])
async def test_harnesses_that_talk_at_once_on_one_lane_take_turns(
    format: Any, strict: Strict, tmp_path: Path
) -> None:
    """The second one is told, and nothing of it is in the session; later it has its turn."""
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd=tmp_path, format=format, durability="flush") as session:
        models = [ScriptedModel(["a1", "a2"]), ScriptedModel(["b1", "b2"])]
        one, other = (AgentHarness(model, session=session) for model in models)

        first, second = await asyncio.gather(
            one.prompt("to a"), other.prompt("to b"), return_exceptions=True
        )

        assert not isinstance(first, BaseException)
        assert isinstance(second, PiError)
        assert second.code == "busy"
        assert "take turns" in second.message
        await other.prompt("to b")
        assert [text for _, text in said(session, "main")] == ["to a", "a1", "to b", "b1"]
        assert session.open_operations() == []
        for request in (*models[0].requests, *models[1].requests):
            strict(request.messages)
    with Session.open(path) as again:
        assert len(said(again, "main")) == 4


async def test_a_run_that_was_aborted_or_failed_gives_its_lane_back(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path, durability="flush") as session:
        one, other = (AgentHarness(ScriptedModel(["x"]), session=session) for _ in "ab")
        one.on("before_agent_start", lambda event: 1 / 0)
        with pytest.raises(PiError, match="hook"):
            await one.prompt("to a")

        await other.prompt("to b")

        assert session.runs == {}
