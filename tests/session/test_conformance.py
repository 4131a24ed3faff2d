"""One session, whatever holds it: v4 and v3, in a file and in memory, behave alike.

Where the formats differ by design, the difference is said here: v3 keeps labels, names,
leaf moves and records as entries of its tree, and has one lane.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import (
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    text_of,
    user,
)
from pi_nb.result import PiError
from pi_nb.session.codec import Format, Stored
from pi_nb.session.context import build_session_context
from pi_nb.session.entries import (
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
    ThinkingLevelChangeEntry,
)
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


@dataclass
class Kept:
    """A session and a way to see it as a newcomer would."""

    session: Session
    path: Path | None
    format: Format

    def again(self) -> Session:
        """The session opened anew; one in memory has nothing else to show."""
        if self.path is None:
            return self.session
        self.session.close()
        self.session = Session.open(self.path, durability="flush")
        return self.session


KINDS: dict[str, tuple[Format, bool]] = {
    "v4 file": ("v4", True),
    "v3 file": ("v3", True),
    "v4 memory": ("v4", False),
    "v3 memory": ("v3", False),
}


@pytest.fixture(params=KINDS)
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    format, in_file = KINDS[request.param]
    path = tmp_path / "s.jsonl" if in_file else None
    session = Session.create(path, cwd=tmp_path, format=format, durability="flush")
    kept = Kept(session, path, format)
    yield kept
    kept.session.close()


def said(text: str, *calls: ToolCall) -> AssistantMessage:
    content = (TextContent(text=text), *calls)
    usage = Usage(input=10, output=5, total_tokens=15)
    return AssistantMessage(content=content, provider="p", model="m", usage=usage)


def texts(session: Session) -> list[str]:
    return [getattr(m, "summary", None) or text_of(m.content) for m in session.context().messages]


async def test_what_is_appended_is_what_is_read_again(kept: Kept) -> None:
    session = kept.session
    one = await session.append_message(user("one"))
    two = await session.append_message(said("two", ToolCall(id="c", name="ls", arguments={})))
    result = ToolResultMessage(tool_call_id="c", tool_name="ls", content=(TextContent(text="x"),))
    three = await session.append_message(result)

    again = kept.again()

    assert [entry.message for entry in map(again.entry, (one.id, two.id, three.id))] == [  # type: ignore[attr-defined]
        one.message,
        two.message,
        three.message,
    ]
    assert again.branch_ids() == [one.id, two.id, three.id]
    assert [entry.parent_id for entry in (one, two, three)] == [None, one.id, two.id]
    assert texts(again) == ["one", "two", "x"]
    assert again.leaf() == three.id
    assert again.format == kept.format


async def test_the_settings_of_the_branch_are_in_force(kept: Kept) -> None:
    session = kept.session
    await session.append_model_change("p", "one")
    await session.append_thinking_level_change("high")
    await session.append_active_tools_change(["read", "bash"])
    await session.append_message(user("hello"))

    context = kept.again().context()

    assert (context.model, context.thinking_level) == (("p", "one"), "high")
    assert context.active_tools == ("read", "bash")


async def test_a_move_is_there_after_opening_again(kept: Kept) -> None:
    """S-08: navigation is on the disk, in v4 as a lane line, in v3 as an entry of ours."""
    session = kept.session
    one = await session.append_message(user("one"))
    await session.append_message(said("two"))
    await session.append_message(user("three"))

    await session.move(one.id)
    again = kept.again()

    assert texts(again) == ["one"]
    assert again.anchor(again.leaf()) == one.id
    other = await again.append_message(said("other"))
    assert texts(kept.again()) == ["one", "other"]
    assert kept.session.anchor(kept.session.parent_id(other.id)) == one.id


async def test_a_move_to_where_it_is_writes_nothing(kept: Kept) -> None:
    session = kept.session
    one = await session.append_message(user("one"))
    await session.append_message(said("two"))
    await session.move(one.id)
    told: list[Stored] = []
    session.watch(told.append)

    await session.move(one.id)

    assert told == []


async def test_a_context_that_was_looked_at_stays_as_it_was(kept: Kept) -> None:
    """Moving back takes nothing out of what somebody still looks at."""
    session = kept.session
    one = await session.append_message(user("one"))
    await session.append_message(said("two"))
    before = session.context()

    await session.move(one.id)
    await session.append_message(user("three"))

    assert [text_of(m.content) for m in before.messages] == ["one", "two"]
    assert texts(session) == ["one", "three"]


async def test_moving_before_every_root_begins_another_tree(kept: Kept) -> None:
    """T-13."""
    await kept.session.append_message(user("one"))

    await kept.session.move(None)
    two = await kept.session.append_message(user("two"))

    again = kept.again()
    assert texts(again) == ["two"]
    assert again.anchor(again.parent_id(two.id)) is None


async def test_labels_and_the_name_can_be_given_and_taken_away(kept: Kept) -> None:
    session = kept.session
    one = await session.append_message(user("one"))
    two = await session.append_message(said("two"))
    await session.set_label(one.id, "start")
    await session.set_label(two.id, "gone soon")
    await session.set_label(two.id, None)
    await session.set_name("  My session ")

    again = kept.again()
    assert (dict(again.labels), again.name) == ({one.id: "start"}, "My session")
    assert again.find("start").id == one.id
    assert texts(again) == ["one", "two"]

    await again.set_name(None)
    assert kept.again().name is None


async def test_a_compaction_stands_for_what_it_summarised(kept: Kept) -> None:
    session = kept.session
    await session.append_message(user("one"))
    await session.append_message(said("two"))
    three = await session.append_message(user("three"))
    await session.append_compaction("in short", three.id, 100)
    await session.append_message(said("four"))

    assert texts(kept.again()) == ["in short", "three", "four"]

    await kept.session.append_compaction("shorter", None, 50)
    assert texts(kept.again()) == ["shorter"]
    compaction = kept.session.entry(kept.session.leaf() or "")
    assert getattr(compaction, "first_kept_entry_id", None) == compaction.id


async def test_an_edit_changes_what_is_seen_and_not_what_is_said(kept: Kept) -> None:
    session = kept.session
    one = await session.append_message(user("one"))
    two = await session.append_message(said("two"))
    await session.append_context_edit(one.id, "1")
    await session.append_context_edit(two.id, None)

    again = kept.again()

    assert texts(again) == ["1"]
    entry = again.entry(one.id)
    assert isinstance(entry, MessageEntry)
    assert entry.message == one.message


async def test_a_branch_summary_and_an_extension_s_words_are_seen(kept: Kept) -> None:
    session = kept.session
    one = await session.append_message(user("one"))
    left = await session.append_message(said("two"))
    await session.move(one.id)
    await session.append_branch_summary("what was tried", left.id)
    await session.append_custom_message("note", "listen")
    await session.append_custom("data", {"a": 1})

    assert texts(kept.again()) == ["one", "what was tried", "listen"]


async def test_records_say_what_is_open(kept: Kept) -> None:
    session = kept.session
    one = await session.append_message(user("one"))
    begun = await session.record(
        "operation_started",
        sourceLeafId=one.id,
        intent={"kind": "run", "originalPrompt": "x", "cell": {"id": "c1"}},
    )
    other = await session.record("operation_started", intent={"kind": "compaction"})
    await session.record("operation_finished", runId=other.id, outcome="completed")

    again = kept.again()

    assert [record.id for record in again.open_operations()] == [begun.id]
    assert [record.type for record in again.records()] == [
        "operation_started",
        "operation_started",
        "operation_finished",
    ]
    assert next(again.records()) == begun
    assert texts(again) == ["one"]
    assert again.anchor(again.leaf()) == one.id


async def test_watchers_are_told_of_what_was_written(kept: Kept) -> None:
    told: list[Stored] = []
    kept.session.watch(told.append)

    one = await kept.session.append_message(user("one"))
    await kept.session.set_label(one.id, "l")
    await kept.session.set_name("n")
    await kept.session.record("abort_requested")
    await kept.session.move(None)

    assert [type(value).__name__ for value in told] == [
        "MessageEntry",
        "LabelFact",
        "NameFact",
        "AbortRequested",
        "LaneMove",
    ]


async def test_what_cannot_be_written_is_refused_and_nothing_changes(kept: Kept) -> None:
    session = kept.session
    one = await session.append_message(user("one"))
    before = (len(session), session.leaf())

    for bad in (
        CustomEntry(custom_type="x", data={1, 2}),
        MessageEntry(message=user("x"), id=one.id),
    ):
        with pytest.raises(PiError) as refused:
            await session.append(bad)
        assert refused.value.code == "invalid_argument"
    with pytest.raises(PiError):
        await session.move("nobody")

    assert (len(session), session.leaf()) == before
    assert len(kept.again()) == before[0]


async def test_v3_has_one_lane_and_says_so(kept: Kept) -> None:
    one = await kept.session.append_message(user("one"))

    if kept.format == "v3":
        with pytest.raises(PiError, match="one lane"):
            await kept.session.add_lane("side", one.id)
        with pytest.raises(PiError, match="one lane"):
            await kept.session.append(CustomEntry(custom_type="x"), None)
        assert dict(kept.session.lanes) == {"main": one.id}
    else:
        await kept.session.add_lane("side", one.id)
        assert dict(kept.session.lanes) == {"main": one.id, "side": one.id}


async def test_a_lone_surrogate_is_replaced_in_every_format(kept: Kept) -> None:
    """S-29."""
    one = await kept.session.append_message(user("a\ud83d"))

    entry = kept.again().entry(one.id)
    assert isinstance(entry, MessageEntry)
    assert entry.message == one.message
    assert texts(kept.session) == ["a�"]


WORDS = ["say", "say", "move", "answer", "model", "level", "compact", "edit", "name", "note"]
STEPS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 99)), max_size=25)


@given(STEPS)
def test_any_history_shows_the_same_context_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("s")
    results = []
    for name, (format, in_file) in KINDS.items():
        path = folder / f"{name}.jsonl" if in_file else None
        session = Session.create(path, cwd=folder, format=format, durability="flush")
        seen = _perform(session, steps)
        if path is not None:
            session.close()
            session = Session.open(path, durability="flush")
            assert _seen(session) == seen[-1], "projected anew, it shows the same"
        session.close()
        results.append(seen)
    assert all(result == results[0] for result in results)


def _perform(session: Session, steps: list[tuple[str, int]]) -> list[object]:
    messages: list[str] = []
    seen: list[object] = []
    doing: dict[str, Callable[[int], object]] = {
        "say": lambda n: messages.append(
            session.append_sync(MessageEntry(message=user(f"{n}", timestamp=1))).id
        ),
        "answer": lambda n: messages.append(
            session.append_sync(MessageEntry(message=said(f"{n}").having(model=f"{n}"))).id
        ),
        "move": lambda n: session.move_sync([None, *messages][n % (len(messages) + 1)]),
        "model": lambda n: session.append_sync(
            ModelChangeEntry(provider="p", model_id=f"{n}", timestamp=1)
        ),
        "level": lambda n: session.append_sync(
            ThinkingLevelChangeEntry(thinking_level=f"{n}", timestamp=1)
        ),
        "compact": lambda n: session.append_sync(
            CompactionEntry(summary=f"{n}", first_kept_entry_id=chosen(n), timestamp=1)
        ),
        "edit": lambda n: session.append_sync(
            ContextEditEntry(
                target_id=chosen(n),
                replacement=Replacement(content=f"e{n}") if n % 2 else None,
                timestamp=1,
            )
        ),
        "name": lambda n: session.set_name_sync(f"n{n}"),
        "note": lambda n: session.append_sync(CustomEntry(custom_type="x", data=n)),
    }

    def chosen(n: int) -> str:
        return messages[n % len(messages)] if messages else "nobody"

    for what, number in steps:
        doing[what](number)
        seen.append(_seen(session))
    return seen or [_seen(session)]


def _seen(session: Session) -> object:
    context = session.context()
    anew = build_session_context(session.branch())
    assert (anew.messages, anew.believed_from) == (context.messages, context.believed_from)
    settings = (context.model, context.thinking_level, context.active_tools)
    return (texts(session), context.size, settings, context.believed_from, session.name)
