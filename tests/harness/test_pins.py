"""Pinned words stay in every request, whoever edits, and come from what was shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from harness.compacted import (
    TURN,
    Make,
    context,
    grown,
    looked,
    pin,
)

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.pins import is_pin, pinned
from pi_nb.compaction.plan import Operation, Plan, Replace
from pi_nb.harness.compactor import Wish
from pi_nb.messages import CompactionSummaryMessage
from pi_nb.result import PiError
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


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
