"""A context that fills is compacted by itself, and every decision is told with its reason."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from harness.long_run import WINDOW, long_run, sent_tokens

from pi_nb.compaction.plan import Plan
from pi_nb.compaction.summary import Material
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.events import AutoCompaction, SessionCompact, SummaryUpdate
from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.events import Event
from pi_nb.loop.schema import tool
from pi_nb.messages import ToolResultMessage, convert_to_llm
from pi_nb.models.pairing import pair
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import Request
from pi_nb.result import PiError
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio

SUMMARY = "## Goal\nGo on."
TURN = "word " * 400  # 500 tokens by rule `pi`


def answers(request: Request) -> Any:
    return SUMMARY if request.system_prompt.startswith("You write summaries") else TURN


def harness_of(model: ScriptedModel, **settings: Any) -> tuple[AgentHarness, list[Event]]:
    told: list[Event] = []
    harness = AgentHarness(model, compaction=CompactionSettings(**{"estimator": "pi", **settings}))
    harness.subscribe(told.append)
    return harness, told


def decisions(told: list[Event]) -> list[tuple[str, str]]:
    return [(e.trigger, e.decision) for e in told if isinstance(e, AutoCompaction)]


@pytest.mark.slow
async def test_a_run_of_300_turns_in_an_8k_window_finishes_by_itself(tmp_path: Path) -> None:
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path, durability="flush")

    harness, worker = await long_run(session, 300)

    asked = [sent_tokens(request) for request in harness.model.requests]  # type: ignore[attr-defined]
    assert len(asked) > worker.turns >= 300
    assert max(asked) <= WINDOW
    for request in harness.model.requests:  # type: ignore[attr-defined]
        assert pair(request.messages, harness.model.model).changes == ()
    kinds = Counter(entry.type for entry in session.entries())
    assert kinds["compaction"] > 20
    # Whoever opens the file sees the same.
    live = session.context()
    session.close()
    with Session.open(tmp_path / "s.jsonl", read_only=True) as again:
        assert again.context().messages == live.messages


async def test_the_threshold_is_looked_at_before_a_prompt_and_the_prompt_stays() -> None:
    harness, told = harness_of(ScriptedModel(answers, context_window=4_000))
    await harness.prompt("one")
    harness.compaction.reserve = 3_200  # as if a smaller model were in force from here on
    await harness.prompt("the newest prompt")

    assert decisions(told)[:2] == [("threshold", "begins"), ("threshold", "done")]
    first = next(i for i, e in enumerate(told) if isinstance(e, AutoCompaction))
    assert any(e.type == "agent_start" for e in told[:first])
    asked = harness.requests[-1]
    if asked.purpose != "turn":  # after the run there was room to be made again
        asked = next(sent for sent in reversed(harness.requests) if sent.purpose == "turn")
    assert "the newest prompt" in str(asked.request.messages[-1].content)


async def test_the_text_of_a_summary_is_told_while_it_arrives_and_the_result_names_it() -> None:
    harness, told = harness_of(ScriptedModel(answers, context_window=4_000), reserve=2_000)
    results = [await harness.prompt(f"{number}") for number in range(6)]

    made = [done for result in results for done in result.compactions]
    assert made
    assert {done.trigger for done in made} == {"threshold"}
    assert "".join(e.delta for e in told if isinstance(e, SummaryUpdate)).startswith(SUMMARY)
    assert [e.entry_id for e in told if isinstance(e, SessionCompact)] == [
        done.entry.id for done in made if done.entry
    ]


async def test_a_window_that_is_smaller_than_said_is_made_room_in_all_the_same() -> None:
    asked: list[Request] = []

    def small(request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            return SUMMARY
        asked.append(request)
        if sent_tokens(request) > 2_500:
            return reply(error="prompt is too long: 3000 tokens > 2500 maximum")
        return TURN

    harness, told = harness_of(ScriptedModel(small, context_window=200_000))
    results = [await harness.prompt(f"{number}") for number in range(12)]

    assert all(result.ok for result in results)
    assert {("overflow", "begins"), ("overflow", "done")} == set(decisions(told))
    again = [later for late, later in pairwise(asked) if sent_tokens(late) > 2_500]
    assert again
    assert max(map(sent_tokens, again)) <= 2_500


async def test_off_means_off_and_is_said_once_a_prompt() -> None:
    harness, told = harness_of(ScriptedModel(answers, context_window=4_000), auto="off")
    for number in range(6):
        await harness.prompt(f"{number}")

    assert set(decisions(told)) == {("threshold", "off")}
    assert len(decisions(told)) <= 6
    assert not [e for e in told if isinstance(e, SessionCompact)]


@pytest.mark.parametrize(("answer", "decision"), [(True, "done"), (False, "declined")])
async def test_ask_asks_with_the_plan_and_does_what_was_said(answer: bool, decision: str) -> None:
    shown: list[Plan] = []

    async def asker(plan: Plan) -> bool:
        shown.append(plan)
        return answer

    model = ScriptedModel(answers, context_window=4_000)
    harness, told = harness_of(model, auto="ask", asker=asker, reserve=2_000)
    for number in range(4):
        result = await harness.prompt(f"{number}")
        assert result.ok

    assert shown
    assert ("threshold", decision) in decisions(told)


async def test_a_summary_that_fails_is_not_tried_again_before_the_next_prompt() -> None:
    def fails(request: Request) -> Any:
        return "" if request.system_prompt.startswith("You write summaries") else TURN

    harness, told = harness_of(ScriptedModel(fails, context_window=4_000), reserve=2_000)
    for number in range(3):
        assert (await harness.prompt(f"{number}")).ok

    per_prompt = Counter(decisions(told))
    assert per_prompt[("threshold", "failed")] == per_prompt[("threshold", "begins")] <= 3
    assert all("entry" not in e.type for e in told)


@tool
def fetch() -> str:
    """Fetch something long."""
    return "long " * 4_000  # 5,000 tokens


@pytest.mark.parametrize("format", ["v4", "v3"])
async def test_a_result_too_large_for_the_window_is_shown_cut_and_kept_whole(format: Any) -> None:
    def works(request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            return SUMMARY
        last = request.messages[-1]
        return "done" if isinstance(last, ToolResultMessage) else reply(call("fetch"))

    session = Session.create(None, cwd="/w", format=format)
    harness = AgentHarness(
        ScriptedModel(works, context_window=4_096),
        session=session,
        tools=[fetch],
        compaction=CompactionSettings(estimator="pi"),
    )

    result = await harness.prompt("fetch it")

    assert result.ok
    requests = harness.model.requests  # type: ignore[attr-defined]
    assert max(map(sent_tokens, requests)) <= 4_096
    shown = [m for m in requests[-1].messages if isinstance(m, ToolResultMessage)]
    assert "left out]" in shown[0].text
    whole = [e for e in session.entries() if e.type == "message"]
    assert any(fetch_text in str(e.to_wire()) for e in whole for fetch_text in ["long " * 3_999])
    assert pair(convert_to_llm(session.context().messages), harness.model.model).changes == ()


async def test_what_cannot_get_smaller_stops_the_run_and_names_the_fixed_part() -> None:
    model = ScriptedModel(answers, context_window=2_000)
    harness = AgentHarness(
        model, system_prompt="rule " * 2_000, compaction=CompactionSettings(estimator="pi")
    )

    with pytest.raises(PiError, match="the system prompt and the tools take ≈2,5") as stopped:
        await harness.prompt("hello")

    assert stopped.value.code == "compaction"
    assert model.requests == []
    assert harness.phase == "idle"


async def test_an_abort_while_a_context_is_compacted_ends_the_run_and_writes_no_summary() -> None:
    model = ScriptedModel(answers, context_window=4_000)
    harness, told = harness_of(model, reserve=2_000)

    async def stop(event: Event) -> None:
        if isinstance(event, AutoCompaction) and event.decision == "begins":
            await harness.abort()

    harness.subscribe(stop)
    for number in range(4):
        result = await harness.prompt(f"{number}")
        if result.aborted:
            break

    assert not [e for e in told if isinstance(e, SessionCompact)]
    assert harness.phase == "idle"


async def test_a_request_that_does_not_fit_says_what_failed_where_room_could_not_be_made() -> None:
    def breaks(material: Material) -> str:
        raise ValueError("the summariser is out of ink")

    harness, told = harness_of(ScriptedModel(answers, context_window=2_000), summariser=breaks)

    async def many() -> None:
        for number in range(8):
            await harness.prompt(f"{number}")

    with pytest.raises(PiError, match="the summariser is out of ink") as stopped:
        await many()

    assert "do not fit a window of 2,000" in str(stopped.value)
    assert "system prompt and the tools" not in str(stopped.value)
    assert ("threshold", "failed") in decisions(told)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("keep", -1, "keep is a number of tokens"),
        ("reserve", True, "reserve is a number of tokens"),
        ("policy", "cleverest", "There is no policy"),
        ("prompts", "mine", "prompts is a pi_nb.Prompts"),
        ("auto", "maybe", "auto is on, off, ask"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_when_it_is_set(
    name: str, value: Any, said: str
) -> None:
    settings = CompactionSettings()
    before = getattr(settings, name)

    with pytest.raises(PiError, match=said):
        setattr(settings, name, value)

    assert getattr(settings, name) == before
