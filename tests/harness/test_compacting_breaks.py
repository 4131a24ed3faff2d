"""What broke the compaction core when it was attacked: code of the user's, runs, weighing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from harness.compacted import (
    SUMMARY,
    TURN,
    Make,
    answers,
    context,
    grown,
    unmeasured,
)

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.summary import Material
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.compactor import Wish
from pi_nb.harness.events import AutoCompaction
from pi_nb.harness.harness import AgentHarness
from pi_nb.messages import Usage, text_of
from pi_nb.models.scripted import ScriptedModel, reply
from pi_nb.models.types import Request
from pi_nb.result import PiError
from pi_nb.session.records import ProposalRecord, UsageRecord
from pi_nb.session.session import Session
from pi_nb.session.statistics import statistics
from pi_nb.tokens import PI, Estimator

pytestmark = pytest.mark.anyio


# --- code of the user's --------------------------------------------------------------------


def fails(*_: Any) -> Any:
    raise ZeroDivisionError("mine")


async def test_a_policy_that_fails_is_a_sentence_and_costs_no_answer() -> None:
    harness = await grown(policy=fails)
    told: list[AutoCompaction] = []
    harness.subscribe(lambda e: told.append(e) if isinstance(e, AutoCompaction) else None)

    for attempt in (harness.propose, harness.compact):
        with pytest.raises(PiError, match="policy fails failed: ZeroDivisionError: mine") as said:
            await attempt()
        assert said.value.code == "invalid_argument"
    harness.compaction.reserve = 199_500  # too full from here on, and all of it still fits
    result = await harness.prompt("x")

    assert result.ok
    assert [(e.trigger, e.decision) for e in told] == [("threshold", "failed")]
    assert "policy fails failed" in told[0].why


async def test_who_only_watches_a_summary_cannot_break_it(caplog: Any) -> None:
    harness = await grown()

    result = await harness.compact(wish=Wish(on_text=fails, on_piece=fails))

    assert result.entry
    assert "a function that is told of a summary failed" in caplog.text


@pytest.mark.parametrize(
    ("asker", "decided"),
    [(fails, "declined"), (lambda plan: False, "declined"), (lambda plan: True, "begins")],
)
async def test_who_fails_when_asked_does_not_allow_it(asker: Any, decided: str) -> None:
    harness = await grown(auto="ask", asker=asker)
    told: list[AutoCompaction] = []
    harness.subscribe(lambda e: told.append(e) if isinstance(e, AutoCompaction) else None)
    harness.compaction.reserve = 199_500

    assert (await harness.prompt("x")).ok

    assert told[0].decision == decided
    assert ("mine" in told[0].why) is (asker is fails)


async def test_a_plain_summariser_that_takes_its_time_holds_up_neither_the_loop_nor_an_abort() -> (
    None
):
    begun, let_go = threading.Event(), threading.Event()

    def slow(material: Material) -> str:
        begun.set()
        let_go.wait(10)
        return SUMMARY

    harness = await grown()
    before = context(harness)
    compacting = asyncio.create_task(harness.compact(wish=Wish(summariser=slow)))
    try:
        async with asyncio.timeout(5):
            await asyncio.to_thread(begun.wait, 5)
            await harness.abort()
    finally:
        let_go.set()

    with pytest.raises(PiError, match="aborted"):
        await compacting
    assert context(harness) == before


async def test_a_summariser_that_leaves_the_kernel_is_a_failure() -> None:
    def leaves(material: Material) -> str:
        raise SystemExit(3)

    harness = await grown()
    with pytest.raises(PiError, match="it raised SystemExit"):
        await harness.compact(wish=Wish(summariser=leaves))


async def test_a_subscriber_that_waits_for_the_end_of_its_own_run_is_told_and_does_not_hang(
    caplog: Any,
) -> None:
    harness = await grown()

    async def waits(event: Any) -> None:
        if event.type == "session_compact":
            await harness.wait()

    harness.subscribe(waits)
    async with asyncio.timeout(5):
        await harness.compact()

    assert "cannot wait for its own end" in caplog.text


async def test_the_text_of_a_proposal_shows_what_a_terminal_would_obey() -> None:
    harness = await grown()
    proposal = (await harness.propose()).rewrite("## Goal\n\x1b[31mred\x1b[0m \u202eback\rover")

    said = str(proposal)

    assert not set("\x1b\u202e\r") & set(said)
    assert "\\x1b[31mred" in said
    assert "## Goal\n" in said


# --- by itself -----------------------------------------------------------------------------


def watched(harness: AgentHarness) -> list[AutoCompaction]:
    told: list[AutoCompaction] = []
    harness.subscribe(lambda e: told.append(e) if isinstance(e, AutoCompaction) else None)
    return told


async def test_a_summary_that_would_make_it_larger_is_paid_for_and_not_applied() -> None:
    harness = await grown(summariser=lambda material: "## Goal\n" + "s" * 8_000)
    told = watched(harness)
    harness.compaction.reserve = 199_500  # 500 tokens are left

    assert (await harness.prompt("x")).ok

    assert [(e.trigger, e.decision) for e in told][:2] == [
        ("threshold", "begins"),
        ("threshold", "nothing"),
    ]
    assert not any(entry.type == "compaction" for entry in harness.session.entries())
    states = [r.state for r in harness.session.records() if isinstance(r, ProposalRecord)]
    assert states[:2] == ["open", "discarded"]
    assert not harness.pending()


async def test_after_an_overflow_a_little_less_is_said_to_have_not_helped() -> None:
    harness = await grown(summariser=lambda material: "## Goal\n" + "s" * 3_700)
    told = watched(harness)
    await harness.set_model(ScriptedModel([reply(error="prompt is too long"), "late"]))

    result = await harness.prompt("x")

    assert result.text == "late"
    assert {e.trigger for e in told} == {"overflow"}
    assert [e.decision for e in told] == ["begins", "stopped"]
    assert told[1].tokens > 0.9 * told[0].tokens


@pytest.mark.parametrize(("ends", "looked_at"), [("well", True), ("with an error", False)])
async def test_room_is_made_after_a_run_that_ended_well_alone(ends: str, looked_at: bool) -> None:
    harness = await grown()
    told = watched(harness)
    last = "fine" if ends == "well" else reply(error="the server is on fire")
    await harness.set_model(ScriptedModel([last, SUMMARY]))

    def fills(event: Any) -> None:
        if event.type == "agent_end":
            harness.compaction.reserve = 199_500

    harness.subscribe(fills)
    assert (await harness.prompt("x")).ok is looked_at

    assert bool(told) is looked_at


async def test_what_is_kept_leaves_room_for_the_prompt_that_comes() -> None:
    harness = await grown(30, keep=None)  # 6,000 tokens
    model = ScriptedModel(answers, context_window=8_000)
    await harness.set_model(model)
    harness.compaction.reserve = 0

    assert (await harness.prompt("p" * 20_000)).ok  # 5,000 tokens

    asked = [r for r in model.requests if not r.system_prompt.startswith("You write summaries")]
    assert [sum(map(PI.weigh, r.messages)) <= 8_000 for r in asked] == [True]


async def test_a_proposal_that_is_revised_was_paid_for_once() -> None:
    harness = await grown()
    proposal = await harness.propose()
    await harness.revise(proposal.edit("Goal", "another"))
    await harness.revise(proposal.edit("Goal", "yet another"))

    usage = [r for r in harness.session.records() if isinstance(r, UsageRecord)]

    assert len(usage) == 1
    assert statistics(harness.session).by_cause["compactions"].usage.total == proposal.usage.total
    assert str(harness.pending()).endswith("yet another\n\n## Next Steps\n- go on")


# --- weighing ------------------------------------------------------------------------------


async def test_the_weight_of_tools_follows_those_that_are_active(make_tool: Make) -> None:
    harness = AgentHarness(
        ScriptedModel(unmeasured), tools=[make_tool("look"), make_tool("listen")]
    )
    await harness.prompt("x")
    both = harness.size.tokens

    await harness.set_active_tools(["look"])
    assert harness.size.tokens < both
    await harness.set_active_tools(["look", "listen"])
    assert harness.size.tokens == both


async def test_on_another_branch_messages_are_weighed_as_in_a_harness_that_begins_there() -> None:
    def reports(request: Request) -> Any:
        size = sum(map(PI.weigh, request.messages)) * (1 if "cheap" in str(request) else 3)
        return reply(TURN, usage=Usage(input=size, output=100, total_tokens=size + 100))

    session = Session.create(None, cwd="/w")
    model = ScriptedModel(reports)
    harness = AgentHarness(model, session=session)
    for number in range(4):
        await harness.prompt(f"cheap {number} {TURN}")
    first = harness.leaf
    await harness.move(None)
    for number in range(4):
        await harness.prompt(f"dear {number} {TURN}")
    await harness.move(first)

    anew = AgentHarness(model, session=session)

    said = [item.message for item in session.context().items]
    weigh, expected = (h._compactor.weighing.estimator().weigh for h in (harness, anew))
    assert [weigh(m) for m in said] == [expected(m) for m in said]


@pytest.mark.parametrize("reports", [True, False])
async def test_a_message_is_weighed_a_few_times_however_many_turns_follow(reports: bool) -> None:
    weighed: list[Any] = []

    def weigh(message: Any) -> int:
        weighed.append(message)
        return PI.weigh(message)

    counting = Estimator("counting", weigh, PI.weigh_text)
    model = ScriptedModel(answers if reports else unmeasured)
    harness = AgentHarness(model, compaction=CompactionSettings(estimator=counting))
    for number in range(40):
        await harness.prompt(f"{number}")

    # Each prompt before it is on disk, and each message once it is: not the branch, 40 times.
    assert 40 <= len(weighed) <= 40 * 4
    assert harness.size.tokens == Branch.of(harness.session, "main", counting).size.tokens


@pytest.mark.parametrize("reports", [True, False])
async def test_the_size_that_is_kept_is_the_size_of_the_branch_wherever_it_goes(
    reports: bool,
) -> None:
    model = ScriptedModel(answers if reports else unmeasured)
    harness = AgentHarness(model, compaction=CompactionSettings(keep=200, estimator="pi"))

    def check() -> None:
        branch = Branch.of(harness.session, harness.lane, PI)
        assert (harness.size.tokens, harness.size.source) == (
            branch.size.tokens,
            branch.size.source,
        )

    for number in range(6):
        await harness.prompt(f"{number}" + TURN[1:])
        check()
    middle = context(harness)[5][0]
    for step in (
        harness.compact,
        lambda: harness.prompt("a"),
        harness.undo,
        lambda: harness.omit(middle),
        lambda: harness.prompt("b"),
        harness.undo,
        lambda: harness.navigate(middle),
        lambda: harness.prompt("c"),
        lambda: harness.move(None),
    ):
        await step()
        check()


async def test_a_branch_summary_that_fails_is_paid_for_on_record_and_nothing_moves() -> None:
    harness = await grown()
    await harness.set_model(ScriptedModel([reply("## Goal\nhalf", stop_reason="length")] * 3))
    first, leaf = context(harness)[1][0], harness.leaf

    with pytest.raises(PiError) as failed:
        await harness.navigate(first, summarize=True)

    assert failed.value.code == "branch_summary"
    assert harness.leaf == leaf
    usage = [r.cause for r in harness.session.records() if isinstance(r, UsageRecord)]
    assert usage == ["branch_summary"]


async def test_of_a_branch_that_is_left_the_newest_that_fits_the_window_is_summarised() -> None:
    harness = await grown(30, auto="off")  # 6,000 tokens
    model = ScriptedModel(answers, context_window=4_000)
    await harness.set_model(model)

    await harness.navigate(context(harness)[1][0], summarize=True)

    asked = "".join(text_of(m.content) for r in model.requests for m in r.messages)
    assert "29xxx" in asked
    assert "10xxx" not in asked
