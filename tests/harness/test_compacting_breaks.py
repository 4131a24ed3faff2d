"""What broke the compaction core when it was attacked: taking back, pins, code of the user's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.pins import is_pin, pin_label, pinned
from pi_nb.compaction.plan import Operation, Plan, Replace, as_operation
from pi_nb.compaction.prepare import prepare
from pi_nb.compaction.summary import Material
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.compactor import Wish
from pi_nb.harness.events import AutoCompaction
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.undoing import last_change
from pi_nb.messages import CompactionSummaryMessage, ToolResultMessage, Usage, text_of
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import Request
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.records import ProposalRecord, UsageRecord
from pi_nb.session.session import Session
from pi_nb.session.statistics import statistics
from pi_nb.tokens import PI, Estimator

pytestmark = pytest.mark.anyio

SUMMARY = "## Goal\nCount.\n\n## Next Steps\n- go on"
TURN = "x" * 400  # 100 tokens by rule `pi`
FORMATS = pytest.mark.parametrize("format", ["v4", "v3"])
Make = Callable[..., Any]


def answers(request: Request) -> Any:
    return SUMMARY if request.system_prompt.startswith("You write summaries") else TURN


async def grown(turns: int = 6, session: Session | None = None, **settings: Any) -> AgentHarness:
    chosen = {"keep": 200, "estimator": "pi", **settings}
    harness = AgentHarness(
        ScriptedModel(answers), session=session, compaction=CompactionSettings(**chosen)
    )
    for number in range(turns):
        await harness.prompt(f"{number}" + TURN[1:])
    return harness


async def looked(make_tool: Make, turns: int = 6, **settings: Any) -> AgentHarness:
    """A harness with so many turns, each with one call whose result weighs 500 tokens."""

    def calls(request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            return SUMMARY
        asked = request.messages[-1].role == "user"
        return reply("I look.", call("look")) if asked else TURN

    chosen = {"keep": 700, "estimator": "pi", **settings}
    harness = AgentHarness(
        ScriptedModel(calls),
        tools=[make_tool("look", lambda _: "y" * 2_000)],
        compaction=CompactionSettings(**chosen),
    )
    for number in range(turns):
        await harness.prompt(f"{number}" + TURN[1:])
    return harness


def shortens_too(branch: Branch, budget: Budget) -> list[Operation] | None:
    """Cuts as `pi` does, and shows the results of what is kept shorter."""
    found = prepare(branch, budget.kept)
    if found is None:
        return None
    kept = branch.items[found.cut :]
    results = [item.entry_id for item in kept if isinstance(item.message, ToolResultMessage)]
    return [as_operation(found), *(Replace(entry_id, "short") for entry_id in results)]


def context(harness: AgentHarness) -> list[tuple[str, dict[str, Any]]]:
    items = harness.session.context(harness.lane).items
    return [(item.entry_id, item.message.to_wire()) for item in items]


def text_at(harness: AgentHarness, entry_id: str) -> str | None:
    said = dict(context(harness)).get(entry_id)
    return None if said is None else str(said["content"])


async def pin(harness: AgentHarness, entry_id: str) -> None:
    await harness.session.set_label(entry_id, pin_label(None))


# --- taking back --------------------------------------------------------------------------


@FORMATS
async def test_an_undo_after_an_undo_takes_back_one_thing_alone(format: Format) -> None:
    harness = await grown(session=Session.create(None, cwd="/w", format=format))
    ids = [item.entry_id for item in harness.session.context().items]
    seen = [context(harness)]
    await harness.omit(ids[-2])
    seen.append(context(harness))
    await harness.compact()
    seen.append(context(harness))
    await harness.omit(ids[-1])

    while seen:
        await harness.undo()
        assert context(harness) == seen.pop()
    with pytest.raises(PiError, match="Nothing to undo"):
        await harness.undo()


@FORMATS
@pytest.mark.parametrize("second", ["replaced", "left out"])
async def test_undo_of_a_second_edit_shows_the_first_one_again(second: str, format: Format) -> None:
    harness = await grown(2, session=Session.create(None, cwd="/w", format=format))
    entry_id = context(harness)[0][0]
    await harness.replace(entry_id, "the first text")
    if second == "replaced":
        await harness.replace(entry_id, "the second text")
    else:
        await harness.omit(entry_id)
    await harness.prompt("go on")
    leaf = harness.session.context().items[-1].entry_id

    undone = await harness.undo()

    assert undone.left_behind == 0
    assert "the first text" in str(text_at(harness, entry_id))
    assert harness.session.context().items[-1].entry_id == leaf


@FORMATS
async def test_a_second_undo_takes_back_what_is_older_and_not_the_first_undo(
    format: Format,
) -> None:
    harness = await grown(2, session=Session.create(None, cwd="/w", format=format))
    one, two = (entry_id for entry_id, _ in context(harness)[:2])
    first, second = text_at(harness, one), text_at(harness, two)
    await harness.replace(one, "one")
    await harness.prompt("a")
    await harness.replace(two, "two")
    await harness.prompt("b")

    await harness.undo()
    assert ("one" in str(text_at(harness, one)), text_at(harness, two)) == (True, second)
    await harness.undo()
    assert (text_at(harness, one), text_at(harness, two)) == (first, second)
    with pytest.raises(PiError, match="Nothing to undo"):
        await harness.undo()


async def test_in_v3_an_omitted_summary_comes_back_although_pi_shows_it_no_other_text() -> None:
    harness = await grown(session=Session.create(None, cwd="/w", format="v3"))
    await harness.compact()
    before = context(harness)
    assert before[0][1]["role"] == "compactionSummary"
    await harness.omit(before[0][0])
    await harness.prompt("go on")

    undone = await harness.undo()

    assert context(harness) == before
    assert undone.left_behind == 2


async def test_what_cannot_be_shown_again_in_v3_is_refused_and_writes_nothing() -> None:
    harness = await grown(session=Session.create(None, cwd="/w", format="v3"))
    await harness.compact()
    summary = context(harness)[0][0]
    await harness.omit(summary)
    there = len(harness.session.entry_ids())

    with pytest.raises(PiError, match="no other content"):
        await harness.restore(summary)

    assert len(harness.session.entry_ids()) == there


async def test_undo_on_another_lane_takes_back_all_that_was_written_in_one_go(
    make_tool: Make,
) -> None:
    harness = await looked(make_tool, policy=shortens_too)
    before = context(harness)
    done = await harness.compact()
    assert done.entry
    assert done.edits
    await harness.session.add_lane("b", harness.leaf)
    other = AgentHarness(ScriptedModel(answers), session=harness.session, lane="b")

    undone = await other.undo()

    assert context(other) == before
    assert len(undone.entry_ids) == 1 + done.edits
    assert context(harness) != before, "the other lane stays where it is"


async def test_undo_takes_back_all_that_an_automatic_compaction_wrote(make_tool: Make) -> None:
    harness = await looked(make_tool, policy=shortens_too, auto="off")
    harness.compaction.auto = "on"
    before: list[Any] = []

    def note(event: Any) -> None:
        if isinstance(event, AutoCompaction) and event.decision == "begins" and not before:
            before.append(context(harness))

    harness.subscribe(note)
    harness.compaction.keep, harness.compaction.reserve = 900, 197_500
    result = await harness.prompt("now")
    harness.compaction.auto = "off"
    first = result.compactions[0]
    assert first.entry
    assert first.edits

    change = last_change(harness.session, "main")
    while change and first.entry.id not in change.entry_ids:
        await harness.undo()
        change = last_change(harness.session, "main")
    await harness.undo()

    assert context(harness) == before[0]


async def test_of_two_compactions_in_one_run_undo_takes_back_the_newer_one_alone(
    make_tool: Make,
) -> None:
    def calls(request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            return SUMMARY
        left = sum(message.role == "toolResult" for message in request.messages)
        return reply("I look.", call("look")) if left < 5 and len(seen) < 3 else "Done."

    harness = AgentHarness(
        ScriptedModel(calls, context_window=4_000),
        tools=[make_tool("look", lambda _: "y" * 4_000)],
        compaction=CompactionSettings(keep=1, estimator="pi", reserve=0),
    )
    seen: list[tuple[str | None, list[Any]]] = []

    def note(event: Any) -> None:
        if event.type == "session_compact":
            seen.append((event.entry_id, context(harness)))

    harness.subscribe(note)
    await harness.prompt("go")
    assert len(seen) >= 2, "several in one run"

    undone = await harness.undo()

    assert undone.entry_ids == (seen[-1][0],)
    change = last_change(harness.session, "main")
    assert change
    assert change.entry_ids == (seen[-2][0],)


@FORMATS
async def test_undo_after_a_crash_in_the_middle_takes_back_what_was_written(
    tmp_path: Path, format: Format
) -> None:
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path, format=format)
    harness = await grown(session=session)
    ids = [item.entry_id for item in session.context().items]
    before = context(harness)
    # As a process leaves it that was killed between the edits of a plan and its end.
    await session.record(
        "operation_started", sourceLeafId=session.tip(), intent={"kind": "compaction"}
    )
    await session.append_context_edit(ids[2], "a")
    await session.append_context_edit(ids[4], "b")
    session.close()
    with Session.open(tmp_path / "s.jsonl") as again:
        after = AgentHarness(ScriptedModel(answers), session=again)
        assert await after.resume()

        undone = await after.undo()

        assert len(undone.entry_ids) == 2
        assert context(after) == before


# --- pins ---------------------------------------------------------------------------------


async def test_pinned_words_in_a_summary_are_not_edited_away_by_hand() -> None:
    harness = await grown()
    await pin(harness, context(harness)[0][0])
    await harness.compact()
    summary, shown = context(harness)[0]
    records = len(list(harness.session.records()))

    with pytest.raises(PiError, match=r"Row \d+ holds pinned words \(row 1\)") as refused:
        await harness.omit(summary)
    with pytest.raises(PiError, match="holds pinned words"):
        await harness.replace(summary, "nothing of it")
    assert refused.value.code == "invalid_argument"
    assert len(list(harness.session.records())) == records, "nothing was begun"

    await harness.replace(summary, f"Shorter.\n{shown['summary']}")
    assert context(harness)[0][1]["summary"].startswith("Shorter.")


async def test_the_call_of_a_pinned_result_is_not_edited_away_by_hand(make_tool: Make) -> None:
    harness = await looked(make_tool, 1)
    said, result = (entry_id for entry_id, _ in context(harness)[1:3])
    await pin(harness, result)

    with pytest.raises(PiError, match=r"whose result is pinned \(row 3\)"):
        await harness.omit(said)
    with pytest.raises(PiError, match="whose result is pinned"):
        await harness.replace(said, "no call here")

    await harness.session.set_label(result, None)
    await harness.omit(said)


async def test_a_proposal_cannot_take_words_that_were_pinned_since(make_tool: Make) -> None:
    def drops_first(branch: Branch, budget: Budget) -> list[Operation]:
        return [
            Replace(branch.items[1].entry_id, "no call"),
            Replace(branch.items[2].entry_id, "s"),
        ]

    harness = await looked(make_tool, 2)
    plan = harness.plan(
        Wish(policy=lambda branch, budget: [Replace(branch.items[2].entry_id, "s")])
    )
    assert isinstance(plan, Plan)
    proposal = await harness.propose(plan)
    await pin(harness, context(harness)[2][0])
    before = context(harness)

    with pytest.raises(PiError, match="Row 3 is pinned"):
        await harness.apply(proposal)
    assert context(harness) == before


async def test_words_that_were_replaced_do_not_come_back_as_pinned_in_a_second_summary() -> None:
    harness = await grown()
    entry_id = context(harness)[0][0]
    await harness.replace(entry_id, "the key is [left out]")
    await pin(harness, entry_id)
    await harness.compact()
    for number in range(4):
        await harness.prompt(f"{number}" + TURN[1:])

    await harness.compact()

    first = harness.session.context().messages[0]
    assert isinstance(first, CompactionSummaryMessage)
    assert "the key is [left out]" in first.summary
    assert "0" + TURN[1:] not in first.summary


async def test_a_proposal_that_is_refused_leaves_the_file_to_the_byte(tmp_path: Path) -> None:
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path)
    harness = await grown(session=session)
    await pin(harness, context(harness)[0][0])
    proposal = await harness.propose()
    before = (tmp_path / "s.jsonl").read_bytes()

    for changed in (proposal.rewrite("without the pinned words"), replace(proposal, text=" ")):
        with pytest.raises(PiError):
            await harness.apply(changed)
        assert (tmp_path / "s.jsonl").read_bytes() == before
    await harness.apply(proposal)
    after = (tmp_path / "s.jsonl").read_bytes()
    with pytest.raises(PiError, match="stale"):
        await harness.apply(proposal)
    assert (tmp_path / "s.jsonl").read_bytes() == after
    session.close()


async def test_a_pin_of_another_branch_is_none_here_and_a_pineapple_is_no_pin() -> None:
    harness = await grown()
    ids = [entry_id for entry_id, _ in context(harness)]
    await pin(harness, ids[-1])
    await harness.session.set_label(ids[0], "pineapple")
    assert pinned(harness.session) == {ids[-1]}

    await harness.navigate(ids[7])
    assert not pinned(harness.session)
    assert not is_pin("pineapple")


async def test_a_proposal_is_stale_after_an_edit_by_hand() -> None:
    harness = await grown()
    proposal = await harness.propose()
    await harness.replace(context(harness)[-1][0], "another answer")

    with pytest.raises(PiError, match="stale"):
        await harness.apply(proposal)


async def test_where_only_the_beginning_of_a_turn_goes_the_former_summary_stays(
    make_tool: Make,
) -> None:
    harness = await looked(make_tool, 3)
    asked = [entry_id for entry_id, said in context(harness) if said["role"] == "user"]
    goal = "## Goal\nThe former goal."
    await harness.compact(wish=Wish(cut=asked[-1], summariser=lambda _: goal))
    await harness.prompt("go on")
    items = harness.session.context().items
    answer = next(i for i, item in enumerate(items) if i > 1 and item.message.role == "assistant")

    wish = Wish(cut=items[answer].entry_id, summariser=lambda _: "How the turn began.")
    plan = harness.plan(wish)
    assert isinstance(plan, Plan)
    assert plan.preparation
    assert not plan.preparation.history
    done = await harness.compact(wish=wish)

    assert done.summary.startswith(goal)
    assert "How the turn began." in done.summary


# --- code of the user's -------------------------------------------------------------------


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


# --- by itself ----------------------------------------------------------------------------


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


# --- weighing -----------------------------------------------------------------------------


def unmeasured(request: Request) -> Any:
    """A server that reports no usage."""
    return reply(answers(request), usage=Usage())


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
