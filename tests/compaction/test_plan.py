"""A plan says what it would do, can be moved to any legal place, and costs nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget, should_compact
from pi_nb.compaction.plan import NothingToCompact, Plan, Replace, plan_compaction
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    user,
)
from pi_nb.result import PiError
from pi_nb.session.entries import CompactionEntry, ContextEditEntry, MessageEntry, Replacement
from pi_nb.session.session import Session
from pi_nb.tokens import Estimator, estimate_text, estimate_tokens


def session(*texts: str) -> Session:
    """`u` and what it weighs, `a`, `c` an answer that calls, `t` its result."""
    made = Session.create(None, cwd="/w")
    for number, text in enumerate(texts):
        words = "x" * 4 * int(text[1:] or 1)
        made.append_sync(MessageEntry(message=_message(text[0], words, number)))
    return made


def _message(kind: str, words: str, number: int) -> AgentMessage:
    if kind == "u":
        return user(words, timestamp=number)
    if kind == "t":
        content = (TextContent(text=words),)
        return ToolResultMessage(tool_call_id="c", content=content, timestamp=number)
    calls = (ToolCall(id="c", name="", arguments={}),) if kind == "c" else ()
    return AssistantMessage(content=(TextContent(text=words), *calls), timestamp=number)


def planned(made: Session, keep: int) -> Plan:
    plan = plan_compaction(Branch.of(made), Budget(keep=keep))
    assert isinstance(plan, Plan)
    return plan


def test_a_plan_says_what_stays_what_goes_and_why() -> None:
    plan = planned(session("u9", "a9", "u9", "a9"), 15)

    assert (
        str(plan).splitlines()[0] == "Plan of a compaction (nothing was asked, nothing is written)"
    )
    assert "first kept  row 3, user" in str(plan)
    # With row 1 first kept nothing older would be left to summarise.
    assert [place.number for place in plan.cuts] == [2, 3, 4]
    assert [place.number for place in plan.cuts if place.chosen] == [3]
    assert plan.freed == 18
    low, high = plan.tokens_after
    assert low < high
    assert "<table>" in plan._repr_html_()
    assert plan.to_dict()["firstKeptEntryId"] == plan.summarise.first_kept_entry_id  # type: ignore[union-attr]


def test_the_cut_moves_to_legal_places_only() -> None:
    made = session("u9", "c9", "t9", "a9", "u9", "a9")
    plan = planned(made, 15)

    moved = plan.move(2)

    assert moved.summarise is not None
    assert moved.summarise.turn_prefix == (made.find("1").id,)
    assert moved.move(5) == plan.move(5)
    with pytest.raises(PiError, match=r"cannot begin with .*; legal near it: row 2 and row 4"):
        plan.move(3)
    with pytest.raises(PiError, match="Nothing older"):
        plan.move(1)
    with pytest.raises(PiError, match="not in the context"):
        plan.move("nobody")


def test_results_that_fill_what_is_kept_stay_with_their_call() -> None:
    """C-02, starred: the crossing lies in trailing results; the cut is the call before them."""
    made = session("u9", "a9", "u9", "c9", "t99", "t99", "t99", "t99")

    plan = planned(made, 150)

    assert plan.summarise is not None
    assert plan.summarise.first_kept_entry_id == made.find("4").id
    assert plan.preparation is not None
    assert len(plan.branch.items) - plan.preparation.cut == 5


def test_a_second_compaction_takes_up_what_the_first_one_kept() -> None:
    """C-01, starred."""
    made = session("u9", "a9", "u9", "a9")
    first = made.find("3").id
    made.append_sync(CompactionEntry(summary="one", first_kept_entry_id=first))
    for number, kind in enumerate("uaua"):
        made.append_sync(MessageEntry(message=_message(kind, "x" * 36, number)))

    plan = planned(made, 15)

    assert plan.summarise is not None
    assert plan.summarise.entry_ids[0] == first
    assert plan.preparation is not None
    assert plan.preparation.previous_summary == "one"


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ((), "there is no message yet"),
        (("u9", "a9"), "is within what is kept"),
    ],
)
def test_where_there_is_nothing_to_compact_it_says_why(texts: tuple[str, ...], why: str) -> None:
    """C-11: refused before anybody is asked."""
    found = plan_compaction(Branch.of(session(*texts)), Budget())

    assert isinstance(found, NothingToCompact)
    assert not found
    assert why in str(found)


def test_a_branch_that_ends_in_a_compaction_has_nothing_to_compact() -> None:
    made = session("u9", "a9")
    made.append_sync(CompactionEntry(summary="s", first_kept_entry_id="x"))

    assert "ends in a compaction" in str(plan_compaction(Branch.of(made), Budget(keep=0)))


@pytest.mark.parametrize(
    "absurd", [{"window": 0}, {"window": 8_000, "reserve": 9_000}, {"keep": -1}, {"keep": 1.5}]
)
def test_an_absurd_budget_is_refused(absurd: dict[str, int]) -> None:
    with pytest.raises(PiError) as refused:
        Budget(**absurd)
    assert refused.value.code == "invalid_argument"


def test_reserve_and_keep_follow_a_small_window() -> None:
    small, large = Budget(window=8_000), Budget(window=200_000)

    assert (small.reserved, small.kept, small.limit) == (2_000, 4_000, 6_000)
    assert (large.reserved, large.kept) == (16_384, 20_000)
    assert (should_compact(6_000, small), should_compact(6_001, small)) == (False, True)


def test_an_edit_counts_what_stands_there_then_by_the_branch_s_own_estimator() -> None:
    made = session("u9", "c9", "t99", "a9")
    words = Estimator("words", lambda m: len(str(m.to_wire()).split()), lambda t: len(t.split()))
    branch = Branch.of(made, estimator=words)
    edit = Replace(made.find("3").id, "one two three")

    plan = Plan(branch=branch, budget=Budget(), operations=(edit,))
    made.append_sync(
        ContextEditEntry(target_id=edit.entry_id, replacement=Replacement(content=edit.content))
    )

    after = Branch.of(made, estimator=words).size.tokens
    assert plan.tokens_after == (after, after)
    assert plan.freed == branch.size.tokens - after


def test_a_plan_says_where_the_next_request_would_be_larger() -> None:
    small, large = planned(session("u9", "a9", "u9"), 5), planned(session("u9999", "a9", "u9"), 5)

    assert small.grows
    assert "the next request is larger than this one" in str(small)
    assert small.to_dict()["grows"]
    assert not large.grows
    assert "larger" not in str(large)


def test_an_edit_of_what_a_moved_cut_summarises_is_dropped() -> None:
    made = session("u9", "a9", "u9", "c9", "t99", "a9")
    edit = Replace(made.find("5").id, "short")
    plan = planned(made, 120)
    plan = replace(plan, operations=(*plan.operations, edit))

    assert plan.move(2).edits == (edit,)
    assert plan.move(6).edits == ()


KINDS = st.lists(st.sampled_from(["u3", "a9", "c2", "t30", "u50", "a1"]), min_size=1, max_size=20)


@given(KINDS, st.integers(0, 200))
def test_what_goes_and_what_stays_are_all_there_is(texts: list[str], keep: int) -> None:
    """No gap, no overlap; planning twice gives the same; a result is never the first kept."""
    made = session(*texts)
    branch = Branch.of(made)

    plan = plan_compaction(branch, Budget(keep=keep))

    assert plan == plan_compaction(branch, Budget(keep=keep))
    if not isinstance(plan, Plan):
        return
    assert plan.summarise is not None
    cut = made.branch_ids().index(plan.summarise.first_kept_entry_id)
    gone = [*plan.summarise.entry_ids, *plan.summarise.turn_prefix]
    assert gone == made.branch_ids()[:cut]
    assert not texts[cut].startswith("t")
    assert branch.weight(0) == sum(map(estimate_tokens, made.context().messages))


def test_a_plan_of_a_long_branch_weighs_only_what_it_keeps() -> None:
    weighed: list[AgentMessage] = []
    made = session(*(["u9", "a9"] * 500))

    def weigh(message: AgentMessage) -> int:
        weighed.append(message)
        return estimate_tokens(message)

    watched = Estimator("pi", weigh, estimate_text)
    branch = Branch.of(made, estimator=watched)

    assert plan_compaction(branch, Budget(keep=100))

    assert len(weighed) < 20


def test_a_plan_reads_a_file_of_pi_s_as_it_is(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path, format="v3") as made:
        for number, kind in enumerate("uaua"):
            made.append_sync(MessageEntry(message=_message(kind, "x" * 36, number)))
        before = made.path and made.path.read_bytes()
        planned(made, 15)
        assert made.path is not None
        assert made.path.read_bytes() == before
