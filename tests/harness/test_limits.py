"""Asking again, and limits: ordinary endings, counted, abortable."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.limits import Limits
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import Usage
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import ToolSpec
from pi_nb.result import PiError

pytestmark = pytest.mark.anyio

QUICK = RetryPolicy(attempts=3, base=0.01, cap=1)
BUSY = reply("par", error="overloaded", failure="overloaded")


async def _echo(_arguments: dict[str, Any], _context: ToolContext) -> ToolResult:
    return answer("ok")


ECHO = AgentTool(ToolSpec(name="echo"), _echo)


def _harness(answers: Any, **options: Any) -> tuple[AgentHarness, list[str]]:
    harness = AgentHarness(ScriptedModel(answers), tools=[ECHO], **options)
    seen: list[str] = []
    harness.subscribe(lambda event: seen.append(event.type))
    return harness, seen


async def test_a_failure_that_passes_is_asked_again_and_prompt_covers_it() -> None:
    """L-11: `settled` is last, whatever was tried in between."""
    harness, seen = _harness([BUSY, reply(call("echo")), "Fine."], retry=QUICK)

    result = await harness.prompt("go")

    assert result.text == "Fine."
    assert [t for t in seen if t.startswith("retry")] == [
        "retry_scheduled",
        "retry_attempt_start",
        "retry_finished",
    ]
    assert seen[-1] == "settled"
    assert [m.role for m in result.messages] == [
        "user", "assistant", "assistant", "toolResult", "assistant",
    ]  # fmt: skip
    model: Any = harness.model
    assert [m.role for m in model.requests[1].messages] == ["user"], "the failed one is not sent"


async def test_attempts_are_counted_and_a_success_starts_anew() -> None:
    """R-07: one layer of retries, bounded."""
    harness, _ = _harness([BUSY] * 9, retry=QUICK)
    result = await harness.prompt("go")
    model: Any = harness.model
    assert (result.reason, len(model.requests)) == ("error", 3)

    harness, _ = _harness([BUSY, BUSY, reply(call("echo")), BUSY, BUSY, "Fine."], retry=QUICK)
    assert (await harness.prompt("go")).text == "Fine."


@pytest.mark.parametrize("failure", ["quota", "auth", "overflow", "invalid"])
async def test_a_failure_that_does_not_pass_is_not_asked_again(failure: str) -> None:
    """R-03."""
    harness, seen = _harness([reply(error="no", failure=failure), "x"], retry=QUICK)

    assert (await harness.prompt("go")).reason == "error"
    assert not [t for t in seen if t.startswith("retry")]


async def test_a_run_without_a_policy_never_asks_again() -> None:
    harness, _ = _harness([BUSY, "x"])

    assert (await harness.prompt("go")).reason == "error"


async def test_the_wait_is_the_phase_retry_and_ends_at_once_by_an_abort() -> None:
    """R-04."""
    harness, _ = _harness([BUSY, "x"], retry=RetryPolicy(attempts=3, base=30))
    waiting = asyncio.Event()
    harness.subscribe(lambda event: event.type == "retry_scheduled" and waiting.set())
    run = asyncio.create_task(harness.prompt("go"))
    await waiting.wait()
    phase, began = harness.phase, time.monotonic()

    await harness.abort()
    result = await run

    assert phase == "retry"
    assert time.monotonic() - began < 1
    assert result.reason == "aborted"
    model: Any = harness.model
    assert len(model.requests) == 1


async def test_steering_while_it_waits_goes_with_the_next_attempt() -> None:
    harness, _ = _harness([BUSY, "Fine.", "Seen."], retry=QUICK)

    async def steer(event: Any) -> None:
        if event.type == "retry_scheduled":
            await harness.steer("and hurry")

    harness.subscribe(steer)
    await harness.prompt("go")

    model: Any = harness.model
    assert model.requests[-1].messages[-1].content[0].text == "and hurry"


@pytest.mark.parametrize(
    ("limits", "turns"),
    [
        (Limits(turns=2), 2),
        (Limits(tokens=250), 3),
        (Limits(session_tokens=150), 2),
        (Limits(turns=0), 1),
    ],
)
async def test_a_limit_ends_a_run_between_turns_and_the_next_prompt_goes_on(
    limits: Limits, turns: int
) -> None:
    usage = Usage(input=90, output=10, total_tokens=100)
    answers = [*[reply(call("echo"), usage=usage)] * 5, *["Done."] * 5]
    harness, _ = _harness(answers, limits=limits)

    result = await harness.prompt("go")

    model: Any = harness.model
    assert (result.reason, len(model.requests)) == ("budget", turns)
    assert not result.ok
    assert "limit" in str(result)
    assert result.messages[-1].role == "toolResult", "no call is left without its result"


async def test_a_run_that_is_done_is_done_also_at_its_limit() -> None:
    harness, _ = _harness(["Done."], limits=Limits(turns=1))

    assert (await harness.prompt("go")).reason == "done"


def test_a_limit_below_nothing_is_refused() -> None:
    with pytest.raises(PiError, match="turns must be 0 or more"):
        Limits(turns=-1)


async def test_the_last_requests_can_be_looked_at_beside_the_one_before() -> None:
    harness, _ = _harness([reply(call("echo")), "Done.", "Again."])
    await harness.prompt("go")
    harness._state.system_prompt = "Other."
    await harness.prompt("again")

    first, second, third = harness.requests
    assert (first.same, second.same, third.same) == (0, 1, 3)
    assert second.differs == ()
    assert third.differs == ("system prompt",)
    assert "as before" in repr(second)
    assert third.to_dict()["differs"] == ["system prompt"]
    assert "<script" not in first._repr_html_()
