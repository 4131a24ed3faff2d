"""Plan, propose, edit, apply, undo: what a harness does to its context, and what its log says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pi_nb.compaction.plan import NothingToCompact, Plan
from pi_nb.compaction.proposal import Proposal
from pi_nb.compaction.summary import Material, Written
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.compactor import Wish
from pi_nb.harness.events import SessionCompact
from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.schema import tool
from pi_nb.messages import CompactionSummaryMessage, text_of
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import Request
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.entries import BranchSummaryEntry, CompactionEntry
from pi_nb.session.records import ProposalRecord, UsageRecord
from pi_nb.session.session import Session
from pi_nb.session.statistics import statistics

pytestmark = pytest.mark.anyio

SUMMARY = "## Goal\nCount.\n\n## Next Steps\n- go on"
TURN = "x" * 400  # 100 tokens by rule `pi`


def answers(request: Request) -> Any:
    """A model that answers turns, and writes summaries where it is asked for one."""
    asked = request.system_prompt.startswith("You write summaries")
    return SUMMARY if asked else TURN


async def grown(
    turns: int = 4,
    *,
    session: Session | None = None,
    model: ScriptedModel | None = None,
    **settings: Any,
) -> AgentHarness:
    """A harness with so many turns of 200 tokens; 200 tokens are kept."""
    chosen = {"keep": 200, "estimator": "pi", **settings}
    harness = AgentHarness(
        model or ScriptedModel(answers),
        session=session,
        compaction=CompactionSettings(**chosen),
    )
    for number in range(turns):
        await harness.prompt(f"{number}" + TURN[1:])
    return harness


def shown(harness: AgentHarness) -> list[str]:
    """The context, a few characters of each message."""
    texts = []
    for item in harness.session.context(harness.lane).items:
        message = item.message
        said = message.summary if isinstance(message, CompactionSummaryMessage) else None
        texts.append((said or text_of(getattr(message, "content", "")))[:4])
    return texts


def planned(harness: AgentHarness, **wish: Any) -> Plan:
    plan = harness.plan(Wish(**wish))
    assert isinstance(plan, Plan)
    return plan


async def test_a_plan_asks_nobody_and_writes_nothing(tmp_path: Path) -> None:
    harness = await grown(session=Session.create(tmp_path / "s.jsonl", cwd=tmp_path))
    path = harness.session.path
    assert path is not None
    before, asked = path.read_bytes(), len(harness.requests)

    plan = planned(harness)

    assert plan.preparation
    assert not plan.preparation.is_split_turn
    assert str(plan) == str(planned(harness))
    assert (path.read_bytes(), len(harness.requests)) == (before, asked)
    harness.session.close()


@pytest.mark.parametrize("format", ["v4", "v3"])
async def test_a_proposal_is_on_record_edited_by_section_and_applied_to_the_letter(
    tmp_path: Path, format: Format
) -> None:
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path, format=format)
    harness = await grown(session=session)
    told: list[SessionCompact] = []
    harness.subscribe(lambda e: told.append(e) if isinstance(e, SessionCompact) else None)
    before = harness.session.context().items

    proposal = await harness.propose()
    assert harness.session.context().items == before, "nothing is in force yet"
    changed = proposal.edit("Goal", "Count to ten.").edit("Blocked", "a locked door")
    result = await harness.apply(changed)

    entry = result.entry
    assert entry is not None
    assert entry.summary == changed.text
    assert "Count to ten." in entry.summary
    assert "### Blocked\na locked door" in entry.summary
    assert entry.details["writtenBy"] == "model, edited by hand"
    assert result.before > result.after
    assert not result.grew
    assert [event.entry_id for event in told] == [entry.id]
    states = [r.state for r in session.records() if isinstance(r, ProposalRecord)]
    assert states == ["open", "applied"]
    session.close()
    with Session.open(tmp_path / "s.jsonl") as again:
        assert again.context().messages[0].to_wire()["summary"] == changed.text


async def test_text_of_a_hand_alone_is_a_summary_too() -> None:
    harness = await grown()
    proposal = Proposal(planned(harness), "by hand", "hand")

    result = await harness.apply(proposal)

    assert result.summary == "by hand"
    assert result.entry
    assert result.entry.details["writtenBy"] == "hand"


async def test_a_proposal_is_stale_when_the_branch_moved_on_and_not_for_a_label() -> None:
    harness = await grown()
    proposal = await harness.propose()
    leaf = harness.leaf
    assert leaf is not None
    await harness.session.set_label(leaf, "here")
    await harness.set_thinking_level("off")
    early = await harness.propose()  # still the same branch
    await harness.prompt("more")
    entries = len(harness.session)

    for stale in (proposal, early):
        with pytest.raises(PiError, match="stale: the branch moved on") as refused:
            await harness.apply(stale)
        assert refused.value.code == "compaction"

    assert len(harness.session) == entries


async def test_what_a_summary_took_is_counted_once_wherever_it_stands() -> None:
    harness = await grown()
    proposal = await harness.propose()
    paid = statistics(harness.session).by_cause["compactions"].usage.total
    assert paid == proposal.usage.total > 0

    result = await harness.apply(proposal)

    assert result.entry
    assert result.entry.usage == proposal.usage
    assert statistics(harness.session).by_cause["compactions"].usage.total == paid


async def test_a_summary_that_fails_is_paid_for_on_record_and_changes_nothing() -> None:
    def fails(request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            return reply("## Goal\nhalf a", stop_reason="length")
        return TURN

    harness = await grown(model=ScriptedModel(fails))
    items, leaf = harness.session.context().items, harness.leaf

    with pytest.raises(PiError, match="cut off at the output limit"):
        await harness.compact()

    assert (harness.session.context().items, harness.leaf) == (items, leaf)
    assert harness.phase == "idle"
    usage = [r for r in harness.session.records() if isinstance(r, UsageRecord)]
    assert [r.cause for r in usage] == ["compaction"]


@pytest.mark.parametrize("format", ["v4", "v3"])
async def test_undo_goes_back_to_before_a_compaction_and_a_second_time_to_the_one_before(
    format: Format,
) -> None:
    harness = await grown(session=Session.create(None, cwd="/w", format=format))
    first = shown(harness)
    await harness.compact()
    await harness.prompt("a")
    await harness.prompt("b")
    between = shown(harness)
    await harness.compact(wish=Wish(keep=50))

    undone = await harness.undo()
    assert (undone.what, undone.left_behind) == ("compaction", 0)
    assert shown(harness) == between

    undone = await harness.undo()
    assert undone.left_behind == 4
    assert "4 messages that followed it stay" in str(undone)
    assert shown(harness) == first
    with pytest.raises(PiError, match="Nothing to undo"):
        await harness.undo()


async def test_what_was_undone_can_be_applied_again() -> None:
    harness = await grown()
    proposal = await harness.propose()
    once = await harness.apply(proposal)
    await harness.undo()

    twice = await harness.apply(proposal)

    assert once.entry
    assert twice.entry
    assert (once.entry.id != twice.entry.id, twice.entry.summary) == (True, once.entry.summary)
    total = statistics(harness.session).by_cause["compactions"].usage.total
    assert total == proposal.usage.total, "paid for once"


@pytest.mark.parametrize("format", ["v4", "v3"])
async def test_entries_are_left_out_and_shown_otherwise_by_hand_and_come_back(
    format: Format,
) -> None:
    harness = await grown(2, session=Session.create(None, cwd="/w", format=format))
    ids = [item.entry_id for item in harness.session.context().items]
    before = shown(harness)

    await harness.omit(ids[0])
    await harness.replace(ids[1], "short")
    assert shown(harness) == ["shor", *before[2:]]

    assert (await harness.undo()).what == "edit"
    assert shown(harness) == before[1:]
    await harness.undo()
    assert shown(harness) == before


async def test_an_edit_that_was_followed_is_taken_back_where_it_stands() -> None:
    harness = await grown(2)
    first = harness.session.context().items[0].entry_id
    before = shown(harness)
    await harness.omit(first)
    await harness.prompt("and on")

    undone = await harness.undo()

    assert undone.left_behind == 0
    assert shown(harness)[: len(before)] == before
    assert len(shown(harness)) == len(before) + 2, "what followed is still there"


async def test_a_policy_that_only_edits_is_applied_and_taken_back_as_one() -> None:
    @tool
    def look() -> str:
        "Look."
        return "seen " * 200

    script = [answer for _ in range(4) for answer in (reply(call("look")), "done")]
    harness = AgentHarness(
        ScriptedModel(script), tools=[look], compaction=CompactionSettings(estimator="pi")
    )
    for _ in range(4):
        await harness.prompt("look")
    before = shown(harness)

    result = await harness.compact(wish=Wish(policy="mask:keep=1"))

    assert (result.entry, result.edits) == (None, 3)
    assert result.after < result.before
    assert sum("seen" in text for text in shown(harness)) == 1
    await harness.undo()
    assert shown(harness) == before


async def test_pinned_words_stand_in_every_summary_to_the_letter() -> None:
    harness = await grown()
    pinned = harness.session.context().items[0].entry_id
    await harness.session.set_label(pinned, "pin")
    words = "0" + TURN[1:]

    first = await harness.compact()
    await harness.prompt("a")
    await harness.prompt("b")
    second = await harness.compact(wish=Wish(keep=50))

    for result in (first, second):
        assert result.summary.count(words) == 1
    with pytest.raises(PiError, match="not in the context"):
        await harness.omit(pinned)
    sent = [r.request.messages[0] for r in harness.requests if r.purpose == "compaction"]
    assert words not in text_of(sent[1].content), "it is put there, and not written again"


async def test_a_hand_cannot_edit_pinned_words_away() -> None:
    harness = await grown()
    await harness.session.set_label(harness.session.context().items[0].entry_id, "pin: goal")
    proposal = await harness.propose()

    with pytest.raises(PiError, match="Pinned, and not word for word"):
        await harness.apply(proposal.rewrite("## Goal\nelse"))

    assert not isinstance(harness.session.entry(str(harness.leaf)), CompactionEntry)


async def test_a_pinned_entry_is_not_left_out_by_hand() -> None:
    harness = await grown(2)
    first = harness.session.context().items[0].entry_id
    await harness.session.set_label(first, "pin")

    with pytest.raises(PiError, match="Row 1 is pinned"):
        await harness.omit(first)


async def test_a_summariser_of_one_s_own_writes_without_any_model() -> None:
    asked: list[Material] = []

    async def own(material: Material) -> Written:
        asked.append(material)
        return Written("mine", "function")

    harness = await grown()
    requests = len(harness.requests)

    result = await harness.compact("look at the end", wish=Wish(summariser=own))

    assert (result.summary, result.written_by) == ("mine", "function")
    assert [(m.kind, m.instructions) for m in asked] == [("history", "look at the end")]
    assert len(harness.requests) == requests


async def test_a_model_of_its_own_writes_the_summaries() -> None:
    other = ScriptedModel([SUMMARY], id="small")
    harness = await grown(model=ScriptedModel([TURN] * 4))

    result = await harness.compact(wish=Wish(model=other))

    assert result.entry
    assert result.entry.details["model"] == "small"
    assert len(other.requests) == 1


@pytest.mark.parametrize("bad", [lambda m: "", lambda m: 7, lambda m: 1 / 0])
async def test_a_summariser_that_gives_nothing_is_a_failure(bad: Any) -> None:
    harness = await grown()

    with pytest.raises(PiError, match="No summary") as refused:
        await harness.compact(wish=Wish(summariser=bad))

    assert refused.value.code == "compaction"


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"keep": 10**9}, "is within what is kept|Nothing to compact"),
        ({"keep": -1}, "keep is a number of tokens"),
        ({"reserve": 10**9}, "leaves nothing"),
        ({"policy": "cleverest"}, "There is no policy"),
    ],
)
async def test_a_wish_that_cannot_be_is_refused_with_its_reason(
    wish: dict[str, Any], said: str
) -> None:
    harness = await grown(1)
    entries = len(harness.session)

    with pytest.raises(PiError, match=said):
        await harness.compact(wish=Wish(**wish))

    assert (len(harness.session), harness.phase) == (entries, "idle")


async def test_what_no_model_answered_stays_word_for_word() -> None:
    harness = await grown(3)
    await harness.session.append_message(harness.session.context().messages[0])

    plan = planned(harness, keep=1)

    assert plan.preparation is not None
    assert plan.preparation.cut <= len(plan.branch.items) - 1


async def test_nothing_to_compact_is_falsy_and_says_why() -> None:
    harness = AgentHarness(ScriptedModel([]))

    plan = harness.plan()

    assert isinstance(plan, NothingToCompact)
    assert not plan
    assert str(plan) == "Nothing to compact: there is no message yet."


async def test_a_branch_that_is_left_is_summarised_where_the_new_one_begins() -> None:
    harness = await grown(2)
    first = harness.session.context().items[1].entry_id
    left = harness.leaf

    moved = await harness.navigate(first, summarize=True, wish=Wish(instructions="the doors"))

    entry = harness.session.entry(str(moved.summary_entry_id))
    assert isinstance(entry, BranchSummaryEntry)
    assert (entry.from_id, entry.parent_id) == (left, first)
    assert entry.summary.startswith(SUMMARY)
    assert harness.leaf == entry.id
    assert "the doors" in text_of(harness.requests[-1].request.messages[0].content)


async def test_a_move_whose_summary_fails_does_not_move() -> None:
    harness = await grown(2, model=ScriptedModel([TURN, TURN, "", ""]))
    first, leaf = harness.session.context().items[1].entry_id, harness.leaf

    with pytest.raises(PiError, match="No summary") as refused:
        await harness.navigate(first, summarize=True)

    assert (refused.value.code, harness.leaf, harness.phase) == ("branch_summary", leaf, "idle")
