"""Which entries a model is sent: the same answer as the context gives, without its bodies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import AssistantMessage, SystemMessage, TextContent, user
from pi_nb.session.context import Step
from pi_nb.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    Replacement,
)
from pi_nb.session.sent import account, sent, weight
from pi_nb.session.session import Session
from pi_nb.tokens import estimate_all


def said(text: str) -> MessageEntry:
    return MessageEntry(message=user(text))


def grown(*bodies: Entry) -> Session:
    session = Session.create(cwd="/w")
    for body in bodies:
        session.append_sync(body)
    return session


def steps_of(session: Session) -> list[Step]:
    return [
        Step(e.id, e.type, e.message.role if isinstance(e, MessageEntry) else None)
        for e in session.branch()
    ]


KINDS = st.sampled_from(["said", "answer", "system", "data", "shown", "left", "blank"])
TARGETS = st.tuples(st.sampled_from(["compact", "tail", "leave out", "replace"]), st.integers(0, 9))


def body(kind: Any, ids: list[str]) -> Entry:
    """An entry of this kind; `kind` with a number is about one of the ids so far."""
    if isinstance(kind, tuple):
        what, number = kind
        target = ids[number % len(ids)] if ids and number else "nowhere"
        match what:
            case "compact":
                return CompactionEntry(summary="so far", first_kept_entry_id=target)
            case "tail":
                return CompactionEntry(summary="so far", retained_tail=(user("kept"),))
            case "leave out":
                return ContextEditEntry(target_id=target, replacement=None)
            case _:
                return ContextEditEntry(target_id=target, replacement=Replacement(content="new"))
    made: dict[str, Entry] = {
        "said": said("a prompt of some length"),
        "answer": MessageEntry(message=AssistantMessage(content=(TextContent(text="an answer"),))),
        "system": MessageEntry(message=SystemMessage(content="prompt")),
        "data": CustomEntry(custom_type="note"),
        "shown": CustomMessageEntry(custom_type="note", content="look"),
        "left": BranchSummaryEntry(summary="what was left"),
        "blank": BranchSummaryEntry(summary=""),
    }
    return made[kind]


@given(st.lists(KINDS | TARGETS, max_size=14))
def test_what_is_sent_is_what_the_context_has_and_weighs_as_much(kinds: list[Any]) -> None:
    session = grown()
    for kind in kinds:
        session.append_sync(body(kind, session.branch_ids()))
    items = session.context().items

    found = sent(steps_of(session), session.entry)

    assert found.ids == {item.entry_id for item in items}
    weights = [weight(session.entry(id), found.edits) or 0 for id in found.ids]
    assert sum(weights) == estimate_all(item.message for item in items).tokens


@given(st.lists(KINDS | TARGETS, max_size=14))
def test_a_compaction_accounts_for_the_contexts_on_both_sides_of_it(kinds: list[Any]) -> None:
    session = grown()
    for kind in [*kinds, ("compact", 3)]:
        before = {item.entry_id for item in session.context().items}
        entry = session.append_sync(body(kind, session.branch_ids()))
        if not isinstance(entry, CompactionEntry):
            continue
        after = session.context().items

        done = account(entry, reversed(steps_of(session)), session.entry)

        assert done.after == estimate_all(item.message for item in after).tokens
        assert done.entries == len(before - {item.entry_id for item in after})


def test_an_account_reads_no_further_back_than_the_context_reaches() -> None:
    session = grown(said("u1"), said("u2"), CompactionEntry(summary="s"), said("u3"), said("u4"))
    last = session.append_sync(
        CompactionEntry(summary="t", first_kept_entry_id=session.leaf() or "", tokens_before=90)
    )
    seen = []

    def above() -> Any:
        for step in reversed(steps_of(session)):
            seen.append(step.id)
            yield step

    done = account(last, above(), session.entry)

    assert (done.before, done.entries) == (90, 2)
    assert seen == session.branch_ids()[:1:-1]


@pytest.mark.parametrize("entry", [CustomEntry(custom_type="note"), BranchSummaryEntry(summary="")])
def test_what_never_shows_anything_weighs_nothing(entry: Entry) -> None:
    assert weight(entry, {}) is None


def test_what_is_left_out_weighs_what_it_would() -> None:
    entry = said("12345678").having(id="a")

    assert weight(entry, {"a": None}) == 2
    assert weight(entry, {"a": Replacement(content="1234")}) == 1
