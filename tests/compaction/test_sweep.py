"""A sweep says for each setting what its plan would say, and weighs the branch once."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.plan import NothingToCompact, Plan, Summarise
from pi_nb.compaction.policies.mask import Mask
from pi_nb.compaction.policies.pi import Pi
from pi_nb.compaction.policy import as_policy
from pi_nb.compaction.sweep import SweepRow, sweep
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    user,
)
from pi_nb.result import PiError
from pi_nb.session.entries import CompactionEntry, MessageEntry
from pi_nb.session.session import Session
from pi_nb.tokens import Estimator, estimate_text, estimate_tokens


def session(turns: int, *, compacted: bool = False, pin: int = 0) -> Session:
    """Turns of a question, a call, its result of 100 tokens and an answer: rows 1 to 4, ..."""
    made = Session.create(None, cwd="/w")
    if compacted:
        made.append_sync(CompactionEntry(summary="before " * 40, first_kept_entry_id="x"))
    for turn in range(turns):
        call = ToolCall(id=f"c{turn}", name="read", arguments={"path": "a.py"})
        for message in (
            user("q" * 40, timestamp=turn),
            AssistantMessage(content=(call,), timestamp=turn),
            ToolResultMessage(
                tool_call_id=call.id,
                tool_name="read",
                content=(TextContent(text="r" * 400),),
                timestamp=turn,
            ),
            AssistantMessage(content=(TextContent(text="a" * 80),), timestamp=turn),
        ):
            made.append_sync(MessageEntry(message=message))
    if pin:
        made.set_label_sync(made.find(str(pin)).id, "pin")
    return made


@given(
    st.integers(0, 6),
    st.booleans(),
    st.integers(0, 4),
    st.lists(st.integers(0, 900), min_size=1, max_size=5),
)
def test_a_cut_alone_gives_the_row_that_its_whole_plan_gives(
    turns: int, compacted: bool, pin: int, keeps: list[int]
) -> None:
    made = session(turns, compacted=compacted, pin=pin if turns else 0)
    branch = Branch.of(made)

    fast = sweep(branch, keeps=keeps)
    slow = sweep(branch, keeps=keeps, policies=[as_policy(lambda b, g: Pi()(b, g))])

    assert [row._replace(policy="") for row in fast] == [row._replace(policy="") for row in slow]
    for row, keep in zip(fast, keeps, strict=True):
        plan = Pi()(branch, Budget(keep=keep))
        if isinstance(plan, NothingToCompact):
            assert row.nothing == plan.why
            continue
        assert plan.preparation is not None
        assert row.first_kept_entry_id == plan.preparation.first_kept_entry_id
        assert row.split == plan.preparation.is_split_turn
        assert row.summarised == len(plan.gone)
        assert row.summarised + row.kept + branch.start == len(branch.items)
        assert (row.freed, row.before) == (plan.freed, plan.tokens_before)
        assert (row.after_least, row.after_most) == plan.tokens_after


def test_every_combination_of_settings_has_a_row_in_order() -> None:
    found = sweep(
        Branch.of(session(4)),
        windows=[1_000, 2_000],
        reserves=[None, 100],
        keeps=[50, 300],
        policies=["pi", Mask(keep=1), "none"],
    )

    assert len(found) == 24
    assert [row.policy for row in found][::8] == ["pi", "mask:keep=1", "none"]
    assert [(row.window, row.reserve, row.keep) for row in found][:4] == [
        *((1_000, 250, 50), (1_000, 250, 300), (1_000, 100, 50), (1_000, 100, 300))
    ]
    assert found.cuts == 2


def test_budgets_may_be_given_as_they_are() -> None:
    found = sweep(Branch.of(session(4)), [Budget(window=500), Budget(keep=10)])

    assert [(row.window, row.keep) for row in found] == [(500, 250), (200_000, 10)]


def test_the_branch_is_weighed_once_for_any_number_of_settings() -> None:
    weighed: list[AgentMessage] = []

    def weigh(message: AgentMessage) -> int:
        weighed.append(message)
        return estimate_tokens(message)

    branch = Branch.of(session(25), estimator=Estimator("pi", weigh, estimate_text))

    assert len(sweep(branch, keeps=range(1_000))) == 1_000
    assert len(weighed) == 100


def test_a_row_of_a_mask_counts_what_stands_there_then() -> None:
    branch = Branch.of(session(4))

    (row,) = sweep(branch, policies=["mask:keep=1"])

    plan = Mask(keep=1)(branch, Budget())
    assert isinstance(plan, Plan)
    assert (row.cut, row.first_kept_entry_id, row.summarised) == (0, None, 0)
    assert (row.kept, row.edited) == (16, 3)
    assert row.kept_tokens == row.after_least == row.after_most == plan.tokens_after[0]
    assert "all kept" in str(sweep(branch, policies=["mask:keep=1"]))


def test_the_table_shows_its_first_and_last_rows_and_says_how_many_it_left_out() -> None:
    made = session(4)
    found = sweep(Branch.of(made), keeps=[*range(0, 500, 20), 9_999])

    told = found.text(4).splitlines()

    assert told[0].startswith("26 settings over one branch, cut at ")
    assert "... 22 more rows" in told[4]
    assert told[2].split()[4:6] == ["row", "16"]
    assert "nothing" in told[6]
    assert told[-1] == "Nothing to compact for 1: all of it, ≈540 tokens, is within what is kept."
    assert len(found.text(None).splitlines()) == 26 + 3
    assert len(str(found).splitlines()) == 20 + 4
    html = found.to_html(4)
    assert html.count("<tr>") == 6
    assert "... 22 more rows" in html
    assert found._repr_html_().count("<tr>") == 22
    with pytest.raises(PiError, match="1 or more"):
        found.text(0)


def test_a_policy_s_words_are_shown_as_text() -> None:
    found = sweep(
        Branch.of(session(1)), policies=[as_policy(lambda b, g: NothingToCompact("<b>\x1b[31m"))]
    )

    assert "<b>" not in found.to_html()
    assert "\x1b" not in found.to_html()
    assert "\x1b" not in str(found)


def test_a_policy_that_gives_what_cannot_be_done_is_named() -> None:
    def wrong(branch: Branch, budget: Budget) -> Any:
        return [Summarise(branch.items[2].entry_id)]

    with pytest.raises(PiError, match="The policy wrong gave no good plan"):
        sweep(Branch.of(session(1)), policies=[as_policy(wrong)])
    with pytest.raises(PiError, match="no policy 'pie'"):
        sweep(Branch.of(session(1)), policies=["pie"])
    with pytest.raises(PiError, match="keep is a number"):
        sweep(Branch.of(session(1)), keeps=[-1])


def test_rows_come_as_columns() -> None:
    found = sweep(Branch.of(session(2)), keeps=[10, 100])

    columns = found.to_dict()

    assert list(columns) == list(SweepRow._fields)
    assert columns["keep"] == [10, 100]
    assert [list(row) for row in found] == [
        list(row) for row in zip(*columns.values(), strict=True)
    ]
    empty = sweep(Branch.of(session(2)), [])
    assert str(empty).startswith("No settings")
    assert set(map(len, empty.to_dict().values())) == {0}


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_a_frame_has_a_row_for_each_setting() -> None:
    frame = sweep(Branch.of(session(2)), keeps=[10, 100]).to_frame()

    assert list(frame["keep"]) == [10, 100]


@pytest.mark.skipif(find_spec("pandas") is not None, reason="pandas is installed")
def test_without_pandas_a_frame_says_what_is_missing() -> None:
    with pytest.raises(PiError, match="pip install pandas") as refused:
        sweep(Branch.of(session(2))).to_frame()
    assert refused.value.code == "invalid_state"
