"""The tree as text and as HTML."""

from __future__ import annotations

import asyncio
from textwrap import dedent

import pytest

from pi_nb.messages import (
    AssistantMessage,
    BashExecutionMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    user,
)
from pi_nb.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
)
from pi_nb.session.session import Session


def said(text: str) -> MessageEntry:
    return MessageEntry(message=user(text))


def grown(*bodies: Entry) -> Session:
    session = Session.create(cwd="/w")
    for body in bodies:
        session.append_sync(body)
    return session


def test_a_chain_is_flat_and_a_branch_point_indents() -> None:
    session = grown(said("u1"), said("u2"), said("u3"))
    first, second, _ = session.branch_ids()
    session.move_sync(second)
    session.append_sync(said("u4"))
    session.append_sync(said("u5"))
    session.move_sync(first)
    session.append_sync(said("u6"))
    session.move_sync(second)
    session.append_sync(said("u7"))

    assert str(session.outline()) == dedent("""\
        1 • user: u1
        2   ├─ • user: u2
        3   │  ├─   user: u3
        4   │  ├─   user: u4
        5   │  │    user: u5
        7   │  └─ • user: u7
        6   └─   user: u6""")
    assert [row.text for row in session.outline().rows if row.number == 7] == ["user: u7"]
    assert session.find("#7").id == session.find("7").id == session.leaf()


def test_every_kind_of_row_says_what_it_is() -> None:
    call = ToolCall(id="c", name="read", arguments={"offset": 3, "path": "notes.md"})
    answer = AssistantMessage(content=(TextContent(text="I\nlook"), call))
    failed = AssistantMessage(stop_reason="error", error_message="overloaded")
    result = ToolResultMessage(tool_call_id="c", tool_name="read", content="tea", is_error=False)
    session = grown(
        ModelChangeEntry(provider="p", model_id="m"),
        MessageEntry(message=answer),
        MessageEntry(message=result),
        MessageEntry(message=result.having(is_error=True)),
        MessageEntry(message=failed),
        MessageEntry(message=BashExecutionMessage(command="ls", exit_code=2)),
        CompactionEntry(summary="so far", tokens_before=84_000),
        BranchSummaryEntry(summary="left"),
        CustomEntry(custom_type="note"),
    )

    assert [row.text for row in session.outline().rows] == [
        "[model: p/m]",
        "assistant: I look [read: notes.md]",
        "read ok: tea",
        "read error: tea",
        "assistant (error): overloaded",
        "user ran: ls (exit code 2)",
        "[compaction: 84,000 tokens] so far",
        "[branch summary] left",
        "[data: note]",
    ]


async def labelled(session: Session) -> None:
    await session.set_label(session.branch_ids()[0], "start")


def test_labels_and_on_demand_ids_are_shown() -> None:
    session = grown(said("u"))
    asyncio.run(labelled(session))

    assert str(session.outline()) == "1 • user: u [label: start]"
    end = session.branch_ids()[0][-8:]
    assert str(session.outline(ids=True)) == f"1 • {end} user: u [label: start]"


def test_hostile_text_is_text() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J\x1b]0;title\x07 & more"
    outline = grown(said(hostile), said("x" * 10_000)).outline()

    assert "\x1b" not in str(outline)
    assert max(map(len, str(outline).splitlines())) < 100
    html = outline._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_the_html_is_nested_lists_that_name_their_branches() -> None:
    session = grown(said("u1"), said("u2"))
    session.move_sync(session.branch_ids()[0])
    session.append_sync(said("u3"))

    assert session.outline()._repr_html_() == (
        "<ul><li>1 <strong><code>user</code></strong> u1</li>"
        "<li><em>branch 1 of 2</em><ul><li>2 <code>user</code> u2</li></ul></li>"
        "<li><em>branch 2 of 2, here</em>"
        "<ul><li>3 <strong><code>user</code></strong> u3</li></ul></li></ul>"
    )


def test_two_runs_of_the_same_give_the_same() -> None:
    one, other = (grown(said("u1"), said("u2")).outline() for _ in range(2))

    assert str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()


def test_an_empty_session_says_so() -> None:
    assert str(grown().outline()) == "(no entries)"
    assert grown().outline()._repr_html_() == "<p>(no entries)</p>"


@pytest.mark.slow
def test_a_tree_that_forks_at_every_entry_stays_readable() -> None:
    """Deeper than Python recurses, and an indentation that stops growing."""
    session = Session.create(cwd="/w")
    for number in range(1_500):
        session.append_sync(CustomEntry(custom_type=str(number)))
        session.move_sync(session.parent_id(session.leaf()))
        session.append_sync(CustomEntry(custom_type=f"{number}b"))

    outline = session.outline()

    assert len(outline.rows) == 3_000
    assert max(map(len, str(outline).splitlines())) < 120
    assert outline._repr_html_().count("<li>") >= 3_000
