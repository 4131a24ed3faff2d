"""What a model sees of a branch: compactions, edits, settings, and the growing form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import bodies

from pi_nb.messages import AssistantMessage, TextContent, ToolResultMessage, user
from pi_nb.session.context import SessionContext, build_session_context
from pi_nb.session.entries import (
    CompactionEntry,
    ContextEditEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
)
from pi_nb.session.session import Session


def said(id: str, text: str = "") -> MessageEntry:
    return MessageEntry(id=id, message=user(text or id, timestamp=1))


def answered(id: str, *, stop: str = "stop", model: str = "m") -> MessageEntry:
    content = (TextContent(text=id),)
    message = AssistantMessage(content=content, provider="p", model=model, stop_reason=stop)
    return MessageEntry(id=id, message=message)


def shown(*branch: Entry) -> list[str]:
    return [item.entry_id for item in build_session_context(branch).items]


def test_an_empty_branch_has_defaults_and_nothing_to_show() -> None:
    assert build_session_context([]) == SessionContext("off", None, None, [])


def test_the_model_in_force_is_the_newest_named_also_by_a_failed_answer() -> None:
    """Rule 1."""
    change = ModelChangeEntry(id="c", provider="p", model_id="chosen")

    after_change = build_session_context([answered("a"), change])
    after_failure = build_session_context([change, answered("a", stop="error", model="failed")])

    assert after_change.model == ("p", "chosen")
    assert after_failure.model == ("p", "failed")


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("b", ["C", "b", "d"]),
        ("C", ["C", "d"]),
        ("nowhere", ["C", "d"]),
        ("", ["C", "d"]),
    ],
)
def test_a_compaction_keeps_from_its_entry_on_or_nothing(kept: str, expected: list[str]) -> None:
    compaction = CompactionEntry(id="C", summary="s", first_kept_entry_id=kept)

    assert shown(said("a"), said("b"), compaction, said("d")) == expected


def test_of_thirty_compactions_only_the_newest_counts() -> None:
    """S-24."""
    branch: list[Entry] = [said("first")]
    for number in range(30):
        branch.append(said(f"u{number}"))
        branch.append(CompactionEntry(id=f"C{number}", summary="s", first_kept_entry_id="first"))

    assert shown(*branch) == ["C29", "first", *(f"u{number}" for number in range(30))]


def test_a_retained_tail_stands_in_the_place_of_what_is_kept() -> None:
    """Rule 18."""
    tail = (user("tail", timestamp=1),)
    compaction = CompactionEntry(id="C", summary="s", first_kept_entry_id="a", retained_tail=tail)

    context = build_session_context([said("a"), compaction, said("b")])

    assert [item.entry_id for item in context.items] == ["C", "C", "b"]
    assert context.messages[1] == tail[0]


def test_a_compaction_with_nothing_but_its_summary_is_fine() -> None:
    """S-25."""
    context = build_session_context([said("a"), CompactionEntry(id="C", summary="s")])

    assert [message.role for message in context.messages] == ["compactionSummary"]


def test_the_newest_edit_of_an_entry_wins() -> None:
    """Rule 2."""
    edits = [
        ContextEditEntry(id="e1", target_id="a", replacement=None),
        ContextEditEntry(id="e2", target_id="a", replacement=Replacement(content="new")),
        ContextEditEntry(id="e3", target_id="b", replacement=None),
    ]

    context = build_session_context([said("a"), said("b"), *edits])

    assert [(i.entry_id, i.message.content) for i in context.items] == [("a", "new")]


def test_text_put_in_an_answer_or_a_result_becomes_one_block() -> None:
    """Rule 2."""
    result = MessageEntry(
        id="t", message=ToolResultMessage(tool_call_id="c", tool_name="read", is_error=True)
    )
    edits = [
        ContextEditEntry(id=f"e{target}", target_id=target, replacement=Replacement(content="x"))
        for target in ("a", "t")
    ]

    answer, outcome = build_session_context([answered("a"), result, *edits]).messages

    assert answer.content == outcome.content == (TextContent(text="x"),)
    assert outcome.is_error
    assert answer.model == "m"


def test_an_edit_that_does_not_fit_its_target_changes_nothing() -> None:
    edit = ContextEditEntry(id="e", target_id="a", replacement=Replacement(content={"no": 1}))

    assert build_session_context([said("a"), edit]).messages == [said("a").message]


@settings(max_examples=60)
@given(st.data())
def test_the_context_that_grew_is_the_context_that_is_built(data: st.DataObject) -> None:
    """C-52: after every append, move, compaction and edit."""
    with Session.create(cwd="/w") as session:
        session.context()
        for _ in range(data.draw(st.integers(1, 12), label="steps")):
            ids = [*session.branch_ids(), "nowhere"]
            match data.draw(st.sampled_from(["append", "append", "move", "compact", "edit"])):
                case "append":
                    session.append_sync(data.draw(bodies))
                case "move":
                    everywhere = [entry.id for entry in session.entries()]
                    session.move_sync(data.draw(st.sampled_from([None, *everywhere])))
                case "compact":
                    kept = data.draw(st.sampled_from(ids))
                    session.append_sync(CompactionEntry(summary="s", first_kept_entry_id=kept))
                case "edit":
                    target = data.draw(st.sampled_from(ids))
                    content = data.draw(st.sampled_from([None, "new"]))
                    replacement = None if content is None else Replacement(content=content)
                    session.append_sync(ContextEditEntry(target_id=target, replacement=replacement))

            assert session.context() == build_session_context(session.branch())


def test_a_snapshot_stays_as_it_was(session: Session) -> None:
    session.append_sync(said(""))
    before = session.context()

    session.append_sync(said(""))

    assert (len(before.items), len(session.context().items)) == (1, 2)
    assert before.items[-1] == before.items[0]
    assert before.items[:5] == (before.items[0],)


def test_a_context_says_what_it_holds_on_one_short_line() -> None:
    """The text of a long session would else fill the notebook."""
    change = ModelChangeEntry(id="c", provider="p\x1b[31m", model_id="m" * 500)
    context = build_session_context([said("a", "tea " * 10_000), change])

    assert "≈10,000 (pi)" in repr(context)
    assert repr(context).startswith("SessionContext(1 message, ")
    assert len(repr(context)) < 200
    assert "\x1b" not in repr(context)
