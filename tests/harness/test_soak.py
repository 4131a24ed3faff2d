"""Everything at once, at random, for as long as one likes: what must hold after every step.

A round is one session with up to four lanes, a harness on each, and a model that answers,
calls tools, fails and is cut off. While they run, a meddler steers, aborts and changes
settings, from inside (a subscriber) and from outside. A round is told by its seed; threads
and timers keep two runs of one seed from being the same to the last step.

    PI_NB_SOAK_MINUTES=10 pytest tests/harness/test_soak.py
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import shutil
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.hooks import StartPatch
from pi_nb.harness.limits import Limits
from pi_nb.loop.calls import Blocked
from pi_nb.loop.types import AgentTool, ToolContext
from pi_nb.messages import LlmMessage, convert_to_llm, user
from pi_nb.models.pairing import pair
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.scripted import Reply, ScriptedModel, call, raw_call, reply, thinking
from pi_nb.models.types import THINKING_LEVELS, Model, Request
from pi_nb.result import PiError
from pi_nb.session.context import build_session_context
from pi_nb.session.entries import Entry
from pi_nb.session.records import LaneMove
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio

MINUTES = float(os.environ.get("PI_NB_SOAK_MINUTES", "0"))
STEPS = 40
"""Of a round. Every step opens the file again, so a round costs the square of them."""
LANES = 4
STUCK = 30.0
"""Seconds after which a step is taken to hang."""
REFUSALS = {"busy", "invalid_state", "hook"}
"""What a meddler may be told; everything else is a fault."""
TOOLS = ("echo", "slow", "hang", "broken", "danger")

Make = Callable[..., AgentTool]
Strict = Callable[[Sequence[LlmMessage]], None]


class Soak:
    """One round: a session, its harnesses, and whoever disturbs them."""

    def __init__(self, folder: Path, seed: int, make_tool: Make, strict: Strict) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.make_tool = make_tool
        self.strict = strict
        self.asked: list[tuple[Sequence[LlmMessage], tuple[LlmMessage, ...]]] = []
        self.outside: set[asyncio.Task[None]] = set()
        self.harnesses: dict[str, AgentHarness] = {}
        self.leaves: dict[str, str | None] = {"main": None}
        self.wrong: list[str] = []
        self.begun = asyncio.all_tasks()
        self.session = Session.create(folder / "soak.jsonl", cwd=folder, durability="flush")
        self.take_up()

    def happens(self, share: float) -> bool:
        return self.chance.random() < share

    def take_up(self) -> None:
        """Watch the session and put a harness on each of its lanes."""
        self.session.watch(self.follow)
        self.harnesses = {lane: self.harness_on(lane) for lane in self.session.lanes}

    def follow(self, line: object) -> None:
        """Where the leaves have to be, from the lines alone; on the writer thread."""
        if isinstance(line, LaneMove):
            self.leaves[line.lane] = line.leaf_id
        elif isinstance(line, Entry) and line.lane is not None:
            if line.parent_id != self.leaves[line.lane]:
                self.wrong.append(f"{line.id} does not follow the leaf of {line.lane}")
            self.leaves[line.lane] = line.id

    # --- a harness, its model and its tools ---------------------------------------------

    def harness_on(self, lane: str) -> AgentHarness:
        harness = AgentHarness(
            self.model(lane, "one"),
            session=self.session,
            lane=lane,
            tools=self.tools(),
            retry=RetryPolicy(attempts=2, base=0.001),
            limits=Limits(turns=self.chance.choice([None, 3, 8])),
            mode=self.chance.choice(["parallel", "sequential"]),
            steering_mode=self.chance.choice(["one-at-a-time", "all"]),
            follow_up_mode=self.chance.choice(["one-at-a-time", "all"]),
        )
        harness.subscribe(lambda event: self.watch(harness, event))
        harness.on("tool_call", self.on_call)
        harness.on("tool_result", lambda _event: self.fail(0.03))
        harness.on("before_agent_start", self.on_start)
        harness.on("session_before_tree", lambda _: {"cancel": True} if self.happens(0.1) else None)
        if self.happens(0.3):
            harness.on("context", lambda _event: self.fail(0.02))
        return harness

    def model(self, lane: str, name: str) -> ScriptedModel:
        model = ScriptedModel(lambda request: self.answer(lane, model.model, request), id=name)
        return model

    def tools(self) -> list[AgentTool]:
        async def slow(_context: ToolContext) -> str:
            for _ in range(self.chance.randrange(6)):
                await asyncio.sleep(0)
            return "slow"

        async def hang(context: ToolContext) -> str:
            harness = context.state["harness"]
            self.from_outside(harness.abort())
            await context.signal.wait()
            return "too late"

        bodies = {"slow": slow, "hang": hang, "broken": lambda _context: self.fail(1)}
        return [self.make_tool(name, bodies.get(name), changes=name == "danger") for name in TOOLS]

    def answer(self, lane: str, model: Model, request: Request) -> Reply | str:
        """What the model says next; what it was asked is kept for `check`."""
        branch = convert_to_llm(self.session.context(lane).messages)
        if request.messages != pair(branch, model).messages:
            self.wrong.append(f"a request on {lane} is not the branch as it stands")
        self.asked.append((request.messages, tuple(request.messages)))
        kind = self.chance.random()
        if kind < 0.4:
            names = [tool.name for tool in request.tools] or ["unknown"]
            calls = [call(self.chance.choice(names)) for _ in range(self.chance.randint(1, 3))]
            return reply("I look.", thinking("Hm.", "signed"), *calls)
        if kind < 0.45:
            return reply(raw_call("echo", "{broken"), call("unknown"), call("echo", id="again"))
        if kind < 0.5:
            return reply("Cut o", call("echo"), stop_reason="length")
        if kind < 0.6:
            failure = self.chance.choice(["overloaded", "invalid"])
            return reply("Half an ans", error="no", failure=failure)
        if kind < 0.65:
            return reply("Late.", delay=0.001)
        return self.chance.choice(["Done.", "", "A longer answer of several words."])

    def fail(self, share: float) -> None:
        if self.happens(share):
            raise ValueError("by chance")

    def on_call(self, _event: object) -> Blocked | None:
        self.fail(0.03)
        return Blocked("by chance") if self.happens(0.05) else None

    def on_start(self, _event: object) -> StartPatch | None:
        self.fail(0.02)
        return StartPatch("SYS", (user("besides"),)) if self.happens(0.1) else None

    # --- who disturbs them --------------------------------------------------------------

    async def watch(self, harness: AgentHarness, event: Any) -> None:
        if event.type == "settled" and self.happens(0.05):
            await self.allowed(harness.prompt("and then"))
        elif self.happens(0.04):
            await self.allowed(self.disturb(harness))
        elif self.happens(0.04):
            self.from_outside(self.disturb(harness))
        self.fail(0.01)

    def from_outside(self, work: Coroutine[Any, Any, Any]) -> None:
        # A context of its own: nobody who belongs to the run that it was thought of in.
        task = asyncio.create_task(self.allowed(work), context=Context())
        self.outside.add(task)
        task.add_done_callback(self.outside.discard)

    async def allowed(self, work: Awaitable[Any]) -> None:
        try:
            await work
        except PiError as error:
            if error.code not in REFUSALS:
                self.wrong.append(f"{error.code}: {error}")

    async def disturb(self, harness: AgentHarness) -> None:
        one_of = self.chance.choice
        match one_of(
            ["steer", "follow", "next", "abort", "level", "tools", "model", "note", "name", "busy"]
        ):
            case "steer":
                await harness.steer("rather this")
            case "follow":
                await harness.follow_up("and that")
            case "next":
                await harness.next_turn("before you go on")
            case "abort":
                await harness.abort()
            case "level":
                await harness.set_thinking_level(one_of(THINKING_LEVELS))
            case "tools":
                await harness.set_active_tools(self.chance.sample(TOOLS, self.chance.randint(0, 5)))
            case "model":
                await harness.set_model(self.model(harness.lane, one_of(["one", "two"])))
            case "note":
                await harness.append_message(user("noted"))
            case "name":
                await self.session.set_name(one_of(["a", "b", None]))
            case "busy":
                if harness.phase != "idle":
                    await harness.prompt("now")

    # --- steps --------------------------------------------------------------------------

    async def step(self) -> str:
        """Do something and wait until all is quiet; returns what it was."""
        name = self.chance.choice(
            [*["prompt"] * 4, *["all", "cancel", "navigate", "edit", "lane", "restart", "idle"]]
        )
        harness = self.chance.choice(list(self.harnesses.values()))
        async with asyncio.timeout(STUCK):
            await getattr(self, f"do_{name}")(harness)
            while self.outside:
                await asyncio.wait(self.outside)
            for each in self.harnesses.values():
                await each.wait()
        return f"{name} on {harness.lane}"

    async def do_prompt(self, harness: AgentHarness) -> None:
        await self.allowed(harness.prompt("What now?"))

    async def do_all(self, _harness: AgentHarness) -> None:
        await asyncio.gather(*map(self.do_prompt, self.harnesses.values()))

    async def do_cancel(self, harness: AgentHarness) -> None:
        task = asyncio.create_task(self.do_prompt(harness))
        for _ in range(self.chance.randrange(60)):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def do_navigate(self, harness: AgentHarness) -> None:
        if entries := list(self.session.entries()):
            await self.allowed(harness.navigate(self.chance.choice(entries).id))
        if self.happens(0.1):
            await self.allowed(harness.move(None))

    async def do_edit(self, harness: AgentHarness) -> None:
        if branch := self.session.branch_ids(harness.lane):
            content = self.chance.choice([None, "edited"])
            target = self.chance.choice(branch)
            await self.session.append_context_edit(target, content, lane=harness.lane)

    async def do_lane(self, harness: AgentHarness) -> None:
        lane = f"lane {len(self.harnesses)}"
        if len(self.harnesses) < LANES:
            self.leaves[lane] = harness.leaf
            await self.session.add_lane(lane, harness.leaf)
            self.harnesses[lane] = self.harness_on(lane)

    async def do_restart(self, _harness: AgentHarness) -> None:
        path = self.folder / "soak.jsonl"
        self.session.close()
        self.session = Session.open(path, durability="flush")
        self.take_up()
        for harness in self.harnesses.values():
            assert not await harness.resume(), "nothing was left open"

    async def do_idle(self, harness: AgentHarness) -> None:
        await self.allowed(self.disturb(harness))

    # --- what must hold -----------------------------------------------------------------

    def check(self) -> None:
        assert self.wrong == []
        for messages, then in self.asked:
            self.strict(messages)
            assert messages == then, "a request changed after it was made"
        self.asked.clear()
        assert asyncio.all_tasks() <= self.begun, "a task is left"
        session = self.session
        assert session.open_operations() == []
        assert {harness.phase for harness in self.harnesses.values()} == {"idle"}
        assert dict(session.lanes) == self.leaves
        copy = Path(shutil.copy(self.folder / "soak.jsonl", self.folder / "copy.jsonl"))
        with Session.open(copy, read_only=True) as again:
            assert again.diagnostics == ()
            assert (again.lanes, again.name, len(again)) == (
                session.lanes, session.name, len(session),
            )  # fmt: skip
            for lane, harness in self.harnesses.items():
                assert harness.leaf == session.leaf(lane)
                assert again.context(lane) == session.context(lane)
                assert build_session_context(session.branch(lane)) == session.context(lane)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What fails by chance is logged, thousands of times."""
    caplog.set_level(logging.CRITICAL, "pi_nb")


async def a_round(folder: Path, seed: int, make_tool: Make, strict: Strict) -> None:
    folder.mkdir()
    soak = Soak(folder, seed, make_tool, strict)
    steps = []
    try:
        for _ in range(STEPS):
            steps.append(await soak.step())
            soak.check()
    except BaseException as error:
        error.add_note(f"seed {seed}, after {len(steps)} steps: {', '.join(steps[-5:])}")
        raise
    finally:
        soak.session.close()


async def test_whatever_is_done_at_once_the_session_stays_whole(
    tmp_path: Path, make_tool: Make, strict: Strict
) -> None:
    await a_round(tmp_path / "round", 1, make_tool, strict)


@pytest.mark.slow
@pytest.mark.skipif(not MINUTES, reason="PI_NB_SOAK_MINUTES says for how long")
async def test_it_stays_whole_for_as_long_as_one_likes(
    tmp_path: Path, make_tool: Make, strict: Strict
) -> None:
    end = time.monotonic() + 60 * MINUTES
    for seed in itertools.count(random.randrange(1_000_000)):
        await a_round(tmp_path / str(seed), seed, make_tool, strict)
        shutil.rmtree(tmp_path / str(seed))
        if time.monotonic() > end:
            break
