"""Before and after a compaction: every entry once, and numbers that add up."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.compaction.assemble import pin_block
from pi_nb.compaction.before_after import before_after, before_after_of
from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.plan import Omit, Plan, Replace, plan_compaction
from pi_nb.compaction.summary_changes import summary_changes
from pi_nb.messages import AssistantMessage, TextContent, ToolResultMessage, user
from pi_nb.result import PiError
from pi_nb.session.context import ContextItem, build_session_context
from pi_nb.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    Entry,
    MessageEntry,
    Replacement,
)
from pi_nb.session.in_words import message_line
from pi_nb.session.session import Session
from pi_nb.tokens import estimate_all

FIRST = "## Goal\nTea\n\n## Progress\n### Done\n- a\n- b\n\n## Next Steps\n- c"
SECOND = "## Goal\nTea\n\n## Progress\n### Done\n- a\n- b\n- c\n\n## Next Steps\n- d"
HOSTILE = "<script>alert(1)</script><b style=y onclick=z>\x1b[2J\x1b]0;t\x07 & \u202e"


def said(text: str) -> MessageEntry:
    return MessageEntry(message=user(text))


def grown(*bodies: Entry) -> Session:
    session = Session.create(cwd="/w")
    for body in bodies:
        session.append_sync(body)
    return session


def compacted_twice() -> Session:
    """u1 u2 u3 C(keeps u3) u4 u5 C(keeps u5): rows 4 and 7 are the compactions."""
    session = grown(*(said(f"u{number}" * 4) for number in range(1, 4)))
    session.append_sync(
        CompactionEntry(summary=FIRST, first_kept_entry_id=session.leaf() or "", tokens_before=90)
    )
    session.append_sync(said("u4" * 4))
    session.append_sync(said("u5" * 4))
    session.append_sync(CompactionEntry(summary=SECOND, first_kept_entry_id=session.leaf() or ""))
    return session


def test_every_entry_says_what_became_of_it_and_the_summary_joins_both_sides() -> None:
    found = before_after(compacted_twice())

    assert [(row.number, row.became) for row in found.rows] == [
        (4, "updated"),
        (3, "summarised"),
        (5, "summarised"),
        (7, "new"),
        (6, "kept"),
    ]
    assert (found.before, found.after) == (21, 18)
    assert found.delta == sum(row.delta for row in found.rows) == -3
    assert [message_line(item.message) for item in found.gone] == [
        "user: u3u3u3u3",
        "user: u4u4u4u4",
    ]
    assert [*map(message_line, found.kept)] == ["user: u5u5u5u5"]


def test_an_older_compaction_is_had_by_its_number_and_as_an_entry() -> None:
    session = compacted_twice()

    found = before_after(session, 4)

    assert [row.became for row in found.rows] == ["summarised", "summarised", "new", "kept"]
    assert str(before_after(session, session.find("4"))) == str(found)
    assert "its writer counted 90 tokens before" in str(found)
    assert found.previous is None


def test_what_is_no_compaction_is_refused_and_the_compactions_are_named() -> None:
    with pytest.raises(PiError, match=r"Row 2 is no compaction and no edit; .*: 4, 7\."):
        before_after(compacted_twice(), 2)
    with pytest.raises(PiError, match="Nothing of this branch was compacted") as raised:
        before_after(grown(said("u")))
    assert raised.value.code == "invalid_state"


def test_edits_right_before_a_compaction_belong_to_it() -> None:
    session = grown(said("u1"), said("u2"), said("u3" * 20), said("u4"))
    ids = session.branch_ids()
    session.append_sync(ContextEditEntry(target_id=ids[0], replacement=None))
    session.append_sync(CustomEntry(custom_type="note"))
    session.append_sync(ContextEditEntry(target_id=ids[2], replacement=Replacement(content="x")))
    session.append_sync(CompactionEntry(summary="s", first_kept_entry_id=ids[2]))

    found = before_after(session)

    assert [(row.number, row.became, row.before, row.after) for row in found.rows] == [
        (1, "left out", 1, None),
        (2, "summarised", 1, None),
        (8, "new", None, 1),
        (3, "replaced", 10, 1),
        (4, "kept", 1, 1),
    ]
    assert str(before_after(session, 5)) == str(found)


def test_edits_alone_have_a_before_and_an_after_too() -> None:
    session = grown(said("u1"), said("u2"))
    first, _ = session.branch_ids()
    session.append_sync(ContextEditEntry(target_id=first, replacement=None))

    found = before_after(session)

    assert [row.became for row in found.rows] == ["left out", "kept"]
    assert (found.title, found.sections) == ("Before and after the edits at row 3", [])


def test_a_pinned_entry_is_named_so_only_where_its_words_are_in_the_summary() -> None:
    session = grown(said("never delete notes.md"), said("also this"), said("u"))
    pins = session.branch_ids()[:2]
    for pin in pins:
        asyncio.run(session.set_label(pin, "pin"))
    block = pin_block("1", ContextItem(pins[0], user("never delete notes.md")))
    session.append_sync(CompactionEntry(summary=f"## Goal\nx\n\n{block}"))

    found = before_after(session)

    assert [row.became for row in found.rows] == ["pinned", "summarised", "summarised", "new"]
    assert "pinned: it goes, and its words are in the summary" in str(found)


def test_what_a_compaction_carries_and_what_comes_back_are_said() -> None:
    session = grown(said("u1"), said("u2"))
    session.append_sync(CompactionEntry(summary="s", retained_tail=(user("x"), user("y"))))
    carried = [row.became for row in before_after(session).rows]
    session.append_sync(CompactionEntry(summary="t", first_kept_entry_id=session.branch_ids()[1]))
    back = [(row.number, row.became) for row in before_after(session).rows]

    assert carried == ["summarised", "summarised", "new", "carried", "carried"]
    assert back == [
        (3, "updated"),
        (3, "summarised"),
        (3, "summarised"),
        (4, "new"),
        (2, "sent again"),
    ]


def test_a_summary_that_is_longer_than_what_it_stands_for_is_told() -> None:
    session = grown(said("u"), CompactionEntry(summary="long " * 40))

    assert "(+49), not smaller" in str(before_after(session))


def test_long_runs_are_folded_with_their_tokens() -> None:
    session = grown(*(said("x" * 40) for _ in range(60)))
    session.append_sync(CompactionEntry(summary="s", first_kept_entry_id=session.branch_ids()[40]))

    drawn = str(before_after(session))

    assert "… 32 summarised entries (≈320)" in drawn
    assert "… 18 kept entries (≈180)" in drawn
    assert len(before_after(session).rows) == 61


# --- plans --------------------------------------------------------------------------------


def plan_of(session: Session, keep: int) -> Plan:
    plan = plan_compaction(Branch.of(session), Budget(keep=keep))
    assert isinstance(plan, Plan)
    return plan


def test_a_plan_with_its_summary_looks_as_it_will_when_it_is_applied() -> None:
    session = compacted_twice()
    for number in range(6, 12):
        session.append_sync(said(f"u{number}" * 9))
    plan = plan_of(session, 10)
    cut = plan.summarise
    assert cut is not None

    planned = before_after_of(plan, "## Goal\nCoffee")
    session.append_sync(
        CompactionEntry(summary="## Goal\nCoffee", first_kept_entry_id=cut.first_kept_entry_id)
    )
    applied = before_after(session)

    assert planned.title == "Before and after the plan"
    assert [r.to_dict() for r in planned.rows if r.became != "new"] == [
        r.to_dict() for r in applied.rows if r.became != "new"
    ]
    assert (planned.before, planned.after) == (applied.before, applied.after)
    assert planned.sections == applied.sections


def test_a_plan_of_edits_shows_them_without_a_summary() -> None:
    session = grown(said("u1" * 9), said("u2" * 9), said("u3"))
    first, second, _ = session.branch_ids()
    branch = Branch.of(session)
    plan = Plan(branch, Budget(), (Omit(first), Replace(second, "new")))

    found = before_after_of(plan)

    assert [row.became for row in found.rows] == ["left out", "replaced", "kept"]
    assert [row.text for row in found.rows][1] == "user: new"
    assert found.to_dict()["byKind"] == [{"kind": "user", "before": 11, "after": 2, "delta": -9}]


# --- summaries ----------------------------------------------------------------------------


def test_summaries_are_compared_section_by_section() -> None:
    changes = {c.name: (c.removed, c.added, c.same) for c in summary_changes(FIRST, SECOND)}

    assert changes == {
        "Goal": ((), (), 1),
        "Done": ((), ("- c",), 2),
        "Next Steps": (("- c",), ("- d",), 0),
    }


def test_a_summary_without_headings_is_compared_as_a_whole() -> None:
    (change,) = summary_changes("one\ntwo", "two\nthree")

    assert (change.name, change.removed, change.added, change.same) == (
        "Summary",
        ("one",),
        ("three",),
        1,
    )
    assert summary_changes(None, "first")[0].added == ("first",)


def test_the_summary_of_a_split_turn_is_a_section_of_its_own() -> None:
    split = f"{FIRST}\n\n## Turn in Progress\nit asked for tea"

    changes = {change.name: change.added for change in summary_changes(FIRST, split)}

    assert changes["Turn in Progress"] == ("it asked for tea",)
    assert changes["Next Steps"] == ()


def test_summaries_of_ten_thousand_lines_are_compared_at_once() -> None:
    old = "## Goal\n" + "\n".join(f"- {number}" for number in range(10_000))

    (change,) = summary_changes(old, old + "\n- new")

    assert (change.added, change.removed, change.same) == (("- new",), (), 10_000)


# --- properties ---------------------------------------------------------------------------

KINDS = st.sampled_from(["said", "answer", "result", "data", "left"])
TARGETS = st.tuples(st.sampled_from(["compact", "tail", "leave out", "replace"]), st.integers(0, 9))


def body(kind: Any, ids: list[str]) -> Entry:
    if isinstance(kind, tuple):
        what, number = kind
        target = ids[number % len(ids)] if ids and number else "nowhere"
        if what == "compact":
            return CompactionEntry(summary=f"so far {number}", first_kept_entry_id=target)
        if what == "tail":
            return CompactionEntry(summary="so far", retained_tail=(user("kept"),))
        new = None if what == "leave out" else Replacement(content=f"new {number}")
        return ContextEditEntry(target_id=target, replacement=new)
    made: dict[str, Entry] = {
        "said": said("a prompt of some length"),
        "answer": MessageEntry(message=AssistantMessage(content=(TextContent(text="yes"),))),
        "result": MessageEntry(message=ToolResultMessage(tool_call_id="c", tool_name="read")),
        "data": CustomEntry(custom_type="note"),
        "left": BranchSummaryEntry(summary="what was left"),
    }
    return made[kind]


@given(st.lists(KINDS | TARGETS, min_size=1, max_size=16))
def test_both_sides_are_the_contexts_there(kinds: list[Any]) -> None:
    session = grown()
    for kind in kinds:
        session.append_sync(body(kind, session.branch_ids()))
    branch = session.branch()
    for place, entry in enumerate(branch):
        if not isinstance(entry, CompactionEntry):
            continue
        start = place
        while start and isinstance(branch[start - 1], ContextEditEntry | CustomEntry):
            start -= 1
        found = before_after(session, entry)
        before = build_session_context(branch[:start])
        after = build_session_context(branch[: place + 1])

        assert found.before == estimate_all(before.messages).tokens
        assert found.after == estimate_all(after.messages).tokens
        old = [row.entry_id for row in found.rows if row.before is not None]
        new = [row.entry_id for row in found.rows if row.after is not None]
        assert sorted(old) == sorted(item.entry_id for item in before.items)
        assert sorted(new) == sorted(item.entry_id for item in after.items)
        Tags(found._repr_html_())
        assert str(found)


# --- HTML ---------------------------------------------------------------------------------

# Of what GitHub lets through: see tests/session/test_outline.py.
ELEMENTS = {
    *("p", "strong", "em", "del", "ins", "table", "thead", "tbody", "tr", "th", "td", "div"),
    *("details", "summary", "ul", "li"),
}


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS
        assert all(attr == ("align", "left") for attr in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_of_a_hostile_session_passes_github() -> None:
    summary = f"## Goal\n{HOSTILE}\n## Next Steps\n{HOSTILE}"
    session = grown(said(HOSTILE), BranchSummaryEntry(summary=HOSTILE))
    session.append_sync(CompactionEntry(summary=HOSTILE))
    session.append_sync(CompactionEntry(summary=summary))

    found = before_after(session)

    Tags(found._repr_html_())
    assert not {"\x1b", "\x07"} & set(str(found))
    assert "<ins>" in found._repr_html_()
