"""Faults that users of other harnesses met in their session files, each as a small file.

In a file of pi's own whatever is odd is told of and kept; the rest of the file is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pi_nb.messages import (
    AssistantMessage,
    ImageContent,
    ToolCall,
    ToolResultMessage,
    text_of,
    user,
)
from pi_nb.models.pairing import pair
from pi_nb.result import PiError
from pi_nb.session.entries import CompactionEntry, CustomEntry
from pi_nb.session.fork import fork_session
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session
from pi_nb.session.weight import HEAVY, too_heavy

pytestmark = pytest.mark.anyio

Create = Callable[..., Session]

HEADER = {
    "type": "session",
    "version": 3,
    "id": "s",
    "timestamp": "2026-01-01T10:00:00.000Z",
    "cwd": "/w",
}
BOM = b"\xef\xbb\xbf"


def entry(id: str, parent: str | None, type: str = "custom", **body: Any) -> dict[str, Any]:
    if type == "custom":
        body = {"customType": "note", **body}
    head = {"type": type, "id": id, "parentId": parent}
    return {**head, "timestamp": "2026-01-01T10:00:01.000Z", **body}


def said(id: str, parent: str | None, text: str) -> dict[str, Any]:
    return entry(id, parent, "message", message={"role": "user", "content": text, "timestamp": 1})


def answered(id: str, parent: str | None, text: str) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "x", "provider": "p", "model": "m", "stopReason": "stop", "timestamp": 1,
    }  # fmt: skip
    return entry(id, parent, "message", message=message)


@pytest.fixture
def pi_file(tmp_path: Path) -> Callable[..., Path]:
    """A v3 file of these lines after a header; a line may be bytes, which are taken as they are."""

    def write(*lines: dict[str, Any] | bytes, ends: bytes = b"\n", begin: bytes = b"") -> Path:
        path = tmp_path / "s.jsonl"
        encoded = [
            line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()
            for line in (HEADER, *lines)
        ]
        path.write_bytes(begin + b"".join(line + ends for line in encoded))
        return path

    return write


def texts(session: Session) -> list[str]:
    """What the model sees, without the roles."""
    return [text_of(getattr(message, "content", "")) for message in session.context().messages]


def odd(session: Session) -> list[tuple[int, str]]:
    return [(found.line, found.code) for found in session.diagnostics]


# --- lines that are not what they should be ----------------------------------------------------


async def test_a_bad_line_in_the_middle_costs_that_line_alone(
    pi_file: Callable[..., Path],
) -> None:
    """S-04: its child is there too, and the file is as it was."""
    path = pi_file(
        entry("1", None),
        entry("2", "1"),
        b'{"type":"custom","id":"bad","parentId":"2",,,',
        entry("4", "2"),
        entry("5", "bad"),
        entry("6", "5"),
    )
    before = path.read_bytes()

    with Session.open(path) as session:
        assert [entry.id for entry in session.entries()] == ["1", "2", "4", "5", "6"]
        assert odd(session) == [(4, "bad_line"), (6, "unknown_parent")]
        assert session.branch_ids() == ["5", "6"]

    assert path.read_bytes() == before


async def test_a_parent_that_was_never_written_is_told_of_and_can_be_bridged(
    pi_file: Callable[..., Path],
) -> None:
    """S-06: nine tenths of a conversation must not be gone without a word."""
    path = pi_file(
        *(said(str(n), str(n - 1) if n > 1 else None, f"u{n}") for n in range(1, 10)),
        said("10", "deadbeef", "u10"),
    )

    with Session.open(path, read_only=True) as session:
        assert odd(session) == [(11, "unknown_parent")]
        assert "deadbeef" in session.diagnostics[0].message
        assert texts(session) == ["u10"]
        assert session.child_ids(None) == ["1", "10"]
    with Session.open(path, read_only=True, orphans="previous") as session:
        assert len(session.context().messages) == 10
        assert session.parent_id("10") == "9"


async def test_of_two_entries_with_one_id_the_first_counts(pi_file: Callable[..., Path]) -> None:
    """S-21."""
    path = pi_file(said("1", None, "first"), said("1", None, "second"), said("2", "1", "third"))

    with Session.open(path) as session:
        assert odd(session) == [(3, "duplicate_id")]
        assert texts(session) == ["first", "third"]
        added = session.append_sync(CustomEntry(custom_type="note"))
        assert added.id not in ("1", "2")


async def test_a_child_may_stand_before_its_parent(pi_file: Callable[..., Path]) -> None:
    """S-23."""
    path = pi_file(said("3", "2", "c"), said("1", None, "a"), said("2", "1", "b"), entry("4", "3"))

    with Session.open(path) as session:
        assert odd(session) == [(2, "parent_later")]
        assert texts(session) == ["a", "b", "c"]


@pytest.mark.parametrize("begin", [b"", BOM])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
async def test_a_byte_order_mark_and_windows_line_ends_are_read_and_not_written(
    begin: bytes, ends: bytes, pi_file: Callable[..., Path]
) -> None:
    """S-27."""
    path = pi_file(said("1", None, "a"), said("2", "1", "b"), begin=begin, ends=ends)
    before = path.read_bytes()

    with Session.open(path) as session:
        assert session.diagnostics == ()
        assert texts(session) == ["a", "b"]
        session.append_sync(CustomEntry(custom_type="note"))

    assert path.read_bytes().startswith(before)
    new = path.read_bytes()[len(before) :]
    assert new.endswith(b"\n")
    assert BOM not in new
    assert b"\r" not in new


async def test_characters_that_only_python_takes_for_line_ends_are_text(
    pi_file: Callable[..., Path],
) -> None:
    """S-28, starred: written raw, as JavaScript writes them."""
    text = "a\u2028b\u2029c\u0085d\x7fe"
    path = pi_file(said("1", None, text), said("2", "1", "next"))

    with Session.open(path) as session:
        assert session.diagnostics == ()
        assert texts(session) == [text, "next"]


async def test_every_character_comes_back(create: Create, tmp_path: Path) -> None:
    """S-28, starred."""
    every = "".join(chr(n) for n in range(0x11_0000) if not 0xD800 <= n < 0xE000)
    with create(tmp_path / "s.jsonl") as session:
        session.append_sync(CustomEntry(custom_type="note", data=every))

    with Session.open(tmp_path / "s.jsonl") as session:
        (found,) = session.entries()

    assert isinstance(found, CustomEntry)
    assert found.data == every


async def test_half_a_character_in_an_old_file_is_replaced_and_the_file_goes_on(
    pi_file: Callable[..., Path],
) -> None:
    """S-29, starred."""
    escaped = json.dumps(said("1", None, "half \ud83d here")).encode()
    path = pi_file(escaped, said("2", "1", "next"))

    with Session.open(path) as session:
        assert texts(session) == ["half \ufffd here", "next"]
        session.append_sync(CustomEntry(custom_type="note", data="half \ud83d here"))
    with Session.open(path) as session:
        *_, last = session.entries()
        assert isinstance(last, CustomEntry)
        assert last.data == "half \ufffd here"


async def test_an_empty_file_becomes_a_session_and_a_foreign_one_stays_what_it_is(
    tmp_path: Path,
) -> None:
    """S-10, starred."""
    empty, foreign = tmp_path / "empty.jsonl", tmp_path / "foreign.jsonl"
    empty.write_bytes(b"")
    foreign.write_bytes(b'{"type":"session_start","sessionId":"x"}\n{"type":"user"}\n')
    before = foreign.read_bytes()

    with Session.open(empty) as session:
        assert empty.read_bytes() == b""
        session.append_sync(CustomEntry(custom_type="note"))
    with Session.open(empty) as session:
        assert len(session) == 1
    with pytest.raises(PiError, match="is not a session"):
        Session.open(foreign)

    assert foreign.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty.jsonl", "foreign.jsonl"]


# --- leaves and settings -----------------------------------------------------------------------


async def test_a_last_line_on_an_old_branch_is_the_leaf_and_the_newer_message_is_told_of(
    pi_file: Callable[..., Path],
) -> None:
    """S-07, starred: a stale process wrote a line of its own data under the first answer."""
    path = pi_file(
        said("u1", None, "u1"), answered("a1", "u1", "a1"),
        said("u2", "a1", "u2"), answered("a2", "u2", "a2"),
        said("u3", "a2", "u3"), answered("a3", "u3", "a3"),
        entry("stale", "a1"),
    )  # fmt: skip

    with Session.open(path) as session:
        assert session.leaf() == "stale"
        assert odd(session) == [(7, "newer_branch")]
        assert session.newest_leaf() == "a3"
        session.move_sync(session.newest_leaf())
        assert [item.entry_id for item in session.context().items][-1] == "a3"
    with Session.open(path) as session:
        assert session.anchor(session.leaf()) == "a3"
        assert session.diagnostics == ()
        assert session.child_ids("a1") == ["u2", "stale"]


async def test_where_the_user_went_is_where_the_session_opens(
    create: Create, tmp_path: Path
) -> None:
    """S-08: also to before the first entry, and though nothing was said there."""
    path = tmp_path / "s.jsonl"
    async with create(path) as session:
        first = await session.append_message(user("u1"))
        await session.append_message(user("u2"))
        await session.move(first.id)

    async with Session.open(path) as session:
        assert session.anchor(session.leaf()) == first.id
        assert texts(session) == ["u1"]
        await session.move(None)
    async with Session.open(path) as session:
        assert session.anchor(session.leaf()) is None
        assert session.context().messages == []
        third = await session.append_message(user("u3"))
        assert [item.entry_id for item in session.context().items] == [third.id]


async def test_settings_come_from_the_branch_and_opening_writes_nothing(
    create: Create, tmp_path: Path, digest: Callable[[], dict[str, bytes]]
) -> None:
    """S-15."""
    path = tmp_path / "s.jsonl"
    async with create(path) as session:
        base = await session.append_model_change("p", "base")
        await session.append_thinking_level_change("low")
        await session.move(base.id)
        await session.append_model_change("p", "elsewhere")
        await session.append_thinking_level_change("high")
        await session.move(base.id)
    before = digest()

    async with Session.open(path) as session:
        context = session.context()
        assert (context.model, context.thinking_level) == (("p", "base"), "off")

    assert digest() == before


async def test_a_second_root_is_a_conversation_of_its_own(create: Create, tmp_path: Path) -> None:
    """T-13."""
    path = tmp_path / "s.jsonl"
    async with create(path) as session:
        await session.append_message(user("u1"))
        await session.move(None)
        await session.append_message(user("u2"))

    async with Session.open(path) as session:
        assert texts(session) == ["u2"]
        text = str(session.outline())
    assert "u1" in text
    assert "u2" in text


# --- compactions -------------------------------------------------------------------------------


async def test_of_thirty_compactions_the_newest_of_the_branch_counts(
    create: Create, tmp_path: Path
) -> None:
    """S-24."""
    path = tmp_path / "s.jsonl"
    async with create(path) as session:
        for number in range(30):
            last = await session.append_message(user(f"u{number}"))
            await session.append_compaction(f"summary {number}", last.id, 100)
        leaf = session.leaf()
        await session.move(last.id)
        await session.append_compaction("elsewhere", None, 100)
        await session.move(leaf)

    async with Session.open(path) as session:
        summary, _kept = session.context().messages
        assert summary.to_wire()["summary"] == "summary 29"
        assert texts(session)[1:] == ["u29"]


async def test_a_compaction_needs_no_more_than_its_summary(pi_file: Callable[..., Path]) -> None:
    """S-25: what else it holds may be missing, and what nobody here knows is kept."""
    path = pi_file(
        said("1", None, "u1"),
        said("2", "1", "u2"),
        entry("3", "2", "compaction", summary="so far", firstKeptEntryId="2", novel={"a": [1]}),
    )

    with Session.open(path) as session:
        found = session.entry("3")
        assert isinstance(found, CompactionEntry)
        assert found.to_wire()["novel"] == {"a": [1]}
        assert [m.role for m in session.context().messages] == ["compactionSummary", "user"]
        await session.append_compaction("more", None, 1)
        assert [m.role for m in session.context().messages] == ["compactionSummary"]


async def test_what_an_old_file_holds_that_nobody_knows_is_kept_when_it_becomes_v3(
    tmp_path: Path,
) -> None:
    """S-25."""
    path = tmp_path / "s.jsonl"
    header = {"type": "session", "id": "s", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/w"}
    lines = [
        {**header, "novel": 1},
        {"type": "message", "timestamp": "2025-01-01T00:00:01.000Z", "novel": 2,
         "message": {"role": "user", "content": "u", "novel": 3}},
        {"type": "compaction", "timestamp": "2025-01-01T00:00:02.000Z", "summary": "s",
         "firstKeptEntryIndex": 1, "tokensBefore": 5, "novel": 4},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with Session.open(path) as session:
        session.append_sync(CustomEntry(custom_type="note"))

    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert written[0] == {**header, "version": 3, "novel": 1}
    assert [line["novel"] for line in written[:3]] == [1, 2, 4]
    assert written[1]["message"]["novel"] == 3
    assert written[2]["firstKeptEntryId"] == written[1]["id"]


# --- tool calls and pictures -------------------------------------------------------------------


async def test_results_that_came_in_another_order_are_results(
    create: Create, tmp_path: Path
) -> None:
    """S-22: parallel calls that ended in reverse order; a place-holder stands where none is."""
    path = tmp_path / "s.jsonl"
    calls = tuple(ToolCall(id=id, name="read", arguments={}) for id in "abc")
    async with create(path) as session:
        await session.append_message(user("go"))
        await session.append_message(AssistantMessage(content=calls, stop_reason="toolUse"))
        for id in "ba":
            await session.append_message(ToolResultMessage(tool_call_id=id, tool_name="read"))

    async with Session.open(path) as session:
        paired = pair(session.context().messages)

    assert [c.index for c in paired.changes if c.code == "result_missing"] == [1]
    results = [m for m in paired.messages if isinstance(m, ToolResultMessage)]
    assert [(r.tool_call_id, r.is_error) for r in results] == [
        ("a", False), ("b", False), ("c", True),
    ]  # fmt: skip


BROKEN = {
    "no base64": ("no base64!", "image/png"),
    "cut off": ("iVBORw0KGgoAAAA", "image/png"),
    "empty": ("", "image/png"),
    "of a type that no provider takes": ("PHN2Zy8+", "image/svg+xml"),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_picture_that_is_none_is_a_note_in_what_is_sent(
    kind: str, create: Create, tmp_path: Path
) -> None:
    """S-30: a file that holds one already must not fail every request."""
    data, mime = BROKEN[kind]
    good = ImageContent(data="iVBORw0KGgo=", mime_type="image/png")
    broken = ImageContent(data=data, mime_type=mime)
    async with create(tmp_path / "s.jsonl") as session:
        said = user("look", [good, broken])
        await session.append_message(said)
        (message,) = session.context().messages

    paired = pair([message])

    _text, kept, note = paired.messages[0].content
    assert kept == good
    assert note.to_wire()["text"].startswith("[An image (")
    assert [change.code for change in paired.changes] == ["image_broken"]
    assert pair(paired.messages).messages == paired.messages


async def test_a_file_heavy_with_pictures_says_so_and_reads_only_what_is_asked_for(
    create: Create, tmp_path: Path
) -> None:
    """S-12: a hundred screenshots, here of a tenth of their size."""
    path = tmp_path / "s.jsonl"
    async with create(path) as session:
        for number in range(100):
            data = "iVBORw0KGgo=" * (11_000 if number == 3 else 10_000)
            picture = ImageContent(data=data, mime_type="image/png")
            result = ToolResultMessage(tool_call_id="c", tool_name="read", content=(picture,))
            await session.append_message(result)
        await session.append_compaction("so far", None, 100)
    size = path.stat().st_size

    async with Session.open(path) as session:
        assert len(session.context().items) == 1
        assert session.diagnostics == ()
        (found,) = too_heavy(session._index, size, limit=size)

    assert (found.line, found.code) == (5, "heavy_file")
    assert found.message.startswith("the file has 12 MB, 99 % of them in 100 of its 101 entries")


async def test_a_heavy_file_may_be_heavy_with_little_things(tmp_path: Path) -> None:
    """S-12."""
    with Session.create(None, cwd="/w") as session:
        session.append_sync(CustomEntry(custom_type="note"))

        assert too_heavy(session._index, HEAVY - 1) == ()
        (found,) = too_heavy(session._index, HEAVY)
        assert found.message == "the file has 268 MB"


# --- forks -------------------------------------------------------------------------------------


async def test_a_fork_sees_what_the_original_sees_there(create: Create, tmp_path: Path) -> None:
    """T-01, T-02: the compaction's boundary goes along, and entries of labels are bridged."""
    async with create(tmp_path / "s.jsonl") as session:
        await session.append_message(user("u1"))
        asked = await session.append_message(user("u2"))
        await session.set_label(asked.id, "here")
        await session.append_compaction("so far", asked.id, 100)
        last = await session.append_message(user("u3"))
        await session.append_message(user("u4"))

        fork = await fork_session(session, last.id, repo=SessionRepo(tmp_path / "forks"))
        await session.move(last.id)
        original = session.context()

    with fork.session as forked:
        assert list(forked.context().items) == list(original.items)
        assert [m.role for m in original.messages] == ["compactionSummary", "user", "user"]
        assert dict(forked.labels) == {asked.id: "here"}
        assert forked.path is not None
    with Session.open(forked.path) as again:
        assert again.diagnostics == ()
        for found in again.entries():
            assert found.parent_id is None or found.parent_id in again
