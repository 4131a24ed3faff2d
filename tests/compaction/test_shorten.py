"""The longest results of what is kept are shown cut: as few of them, and as little, as will do."""

from __future__ import annotations

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.plan import Plan, Replace
from pi_nb.compaction.shorten import LEAST, shortened
from pi_nb.messages import TextContent, ToolResultMessage, user
from pi_nb.session.entries import Entry, MessageEntry

LENGTHS = {"short": 600, "long": 8_000, "longest": 40_000}
BUDGET = Budget(window=20_000)


def branch(*pins: str) -> Branch:
    """A prompt and three results of 150, 2,000 and 10,000 tokens by rule `pi`."""
    entries: list[Entry] = [MessageEntry(id="prompt", parent_id=None, message=user("go"))]
    for name, length in LENGTHS.items():
        result = ToolResultMessage(
            tool_call_id=name, tool_name="look", content=(TextContent(text="y" * length),)
        )
        entries.append(MessageEntry(id=name, parent_id=entries[-1].id, message=result))
    return Branch.from_entries(entries, pins=pins)


def cut(plan: Plan | None) -> dict[str, int]:
    """How many characters of each result are shown."""
    assert plan
    return {o.entry_id: len(o.content) for o in plan.edits if isinstance(o, Replace)}


def test_the_longest_alone_is_cut_where_that_is_enough() -> None:
    of = branch()
    plan = shortened(of, BUDGET, 3_000)

    assert set(cut(plan)) == {"longest"}
    assert plan
    assert 3_000 <= of.weight(0) - plan.tokens_with(0) <= 4_000
    assert [item.entry_id for item in plan.gone] == ["longest"]


def test_the_next_one_is_cut_where_the_longest_is_not_enough() -> None:
    shown = cut(shortened(branch(), BUDGET, 11_000))

    assert set(shown) == {"longest", "long"}
    assert LEAST <= shown["longest"] < LEAST + 100


def test_a_pinned_result_stays_whole_and_another_is_cut() -> None:
    assert set(cut(shortened(branch("longest"), BUDGET, 1_000))) == {"long"}


def test_where_nothing_can_be_cut_there_is_no_plan() -> None:
    assert shortened(branch("longest", "long"), BUDGET, 1_000) is None
