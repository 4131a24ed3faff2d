"""Opening, asking, writing: one session from the outside."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pi_nb.messages import AssistantMessage, TextContent, Usage, user
from pi_nb.result import PiError
from pi_nb.session.entries import CustomEntry, Entry, MessageEntry
from pi_nb.session.index import Index, Place
from pi_nb.session.memory import MemoryLog
from pi_nb.session.records import Header, LabelFact, LaneMove, NameFact, OperationStarted
from pi_nb.session.session import Session
from pi_nb.session.v4.codec import V4

pytestmark = pytest.mark.anyio


def note(text: str = "") -> CustomEntry:
    return CustomEntry(custom_type="note", data=text)


async def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    async with Session.create(path, cwd="/w", metadata={"by": "test"}) as session:
        await session.append_model_change("p", "m")
        await session.append_thinking_level_change("high")
        await session.append_active_tools_change(["read", "bash"])
        asked = await session.append_message(user("u1"))
        await session.append_message(
            AssistantMessage(content=(TextContent(text="a1"),)), terminate=True
        )
        await session.append_custom("note", {"a": 1})
        await session.append_custom_message("hint", "look", display=False)
        await session.append_context_edit(asked.id, "u1, edited")
        compaction = await session.append_compaction(
            "so far", asked.id, 120, details={"readFiles": []}, usage=Usage(input=1)
        )
        await session.set_name("  A name ")
        await session.set_label(asked.id, "start")
        await session.add_lane("side", asked.id)
        await session.append_branch_summary("left", compaction.id, lane="side")
        context, entries = session.context(), list(session.entries())

    with Session.open(path) as again:
        assert again.context() == context
        assert list(again.entries()) == entries
        assert (again.name, dict(again.labels)) == ("A name", {asked.id: "start"})
        assert dict(again.lanes) == {"main": compaction.id, "side": entries[-1].id}
        assert (again.header.metadata, again.cwd, again.id) == ({"by": "test"}, "/w", session.id)
    assert context.thinking_level == "high"
    assert context.model == ("p", "m")
    assert context.active_tools == ("read", "bash")
    assert [m.role for m in context.messages] == [
        "compactionSummary", "user", "assistant", "custom",
    ]  # fmt: skip
    assert context.messages[1].content == "u1, edited"


async def test_opening_and_closing_writes_nothing(
    tmp_path: Path, digest: Callable[[], dict[str, bytes]]
) -> None:
    """S-15."""
    path = tmp_path / "s.jsonl"
    async with Session.create(path, cwd="/w") as session:
        await session.append_model_change("p", "m")
    before = digest()

    Session.open(path).close()

    assert digest() == before


async def test_a_moved_leaf_is_where_the_session_opens(tmp_path: Path) -> None:
    """S-08, S-07: the lane says where its leaf is, not the last line."""
    path = tmp_path / "s.jsonl"
    async with Session.create(path, cwd="/w") as session:
        first = await session.append_message(user("u1"))
        second = await session.append_message(user("u2"))
        await session.move(first.id)

    async with Session.open(path) as again:
        assert again.leaf() == first.id
        third = await again.append_message(user("u3"))
        assert again.child_ids(first.id) == [second.id, third.id]
        assert again.branch() == [first, third]
        assert again.common_ancestor(second.id, third.id) == first.id
        assert again.parent_id(third.id) == first.id


async def test_a_second_conversation_knows_nothing_of_the_first(session: Session) -> None:
    """T-13."""
    await session.append_message(user("u1"))
    await session.move(None)

    second = await session.append_message(user("u2"))

    assert len(session.child_ids(None)) == 2
    assert [item.entry_id for item in session.context().items] == [second.id]


async def test_settings_come_from_the_branch_that_is_open(session: Session) -> None:
    """S-15."""
    base = await session.append_model_change("p", "base")
    await session.append_model_change("p", "elsewhere")
    await session.move(base.id)

    assert session.context().model == ("p", "base")


async def test_a_move_to_where_the_leaf_is_writes_nothing(session: Session) -> None:
    entry = await session.append(note())
    before = session.path.read_bytes()

    await session.move(entry.id)

    assert session.path.read_bytes() == before


async def test_a_detached_entry_moves_no_leaf(session: Session) -> None:
    first = await session.append(note())

    apart = await session.append(note().having(parent_id=first.id), lane=None)

    assert session.leaf() == first.id
    assert (apart.lane, session.parent_id(apart.id)) == (None, first.id)


async def test_an_id_may_be_reserved_once(session: Session) -> None:
    """S-21."""
    entry = await session.append_message(user("u"), id="mine")

    with pytest.raises(PiError, match="taken") as refused:
        await session.append_message(user("u"), id="mine")

    assert entry.id == "mine"
    assert refused.value.code == "invalid_argument"
    assert len(session) == 1


WRONG: dict[str, Callable[[Session], Any]] = {
    "a leaf that is not there": lambda s: s.move("no"),
    "a lane that is not there": lambda s: s.append(note(), lane="no"),
    "a move of a lane that is not there": lambda s: s.move(None, lane="no"),
    "a lane twice": lambda s: s.add_lane("main", None),
    "a lane without a name": lambda s: s.add_lane("", None),
    "a label on nothing": lambda s: s.set_label("no", "x"),
    "an edit of nothing": lambda s: s.append_context_edit("no", None),
    "an unknown type": lambda s: s.append(Entry(type="hologram")),
    "an unknown record": lambda s: s.record("mystery"),
    "a record that lacks a field": lambda s: s.record("operation_finished"),
    "what JSON cannot hold": lambda s: s.append_custom("x", object()),
    "what holds itself": lambda s: s.append_custom("x", nested()),
}


def nested() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_write_is_refused_and_writes_nothing(wrong: str, session: Session) -> None:
    await session.append(note())
    before = session.path.read_bytes()

    with pytest.raises(PiError) as refused:
        await WRONG[wrong](session)

    assert refused.value.code == "invalid_argument"
    assert session.path.read_bytes() == before
    await session.append(note())


async def test_a_wrong_question_is_refused(session: Session) -> None:
    for ask in (session.entry, session.children, session.branch, session.leaf, session.context):
        with pytest.raises(PiError) as refused:
            ask("no")
        assert refused.value.code == "invalid_argument"


async def test_an_entry_is_found_by_either_end_of_its_id_or_by_its_label(session: Session) -> None:
    first, second = [await session.append(note()) for _ in range(2)]
    await session.set_label(first.id, "start")

    assert session.find("start") == session.find(first.id) == session.find(first.id[-6:]) == first
    assert session.find(second.id[-6:]) == second
    with pytest.raises(PiError, match="2 entries fit"):
        session.find(first.id[:4])
    for nothing in ("", "zzz"):
        with pytest.raises(PiError, match="no entry"):
            session.find(nothing)


async def test_names_and_labels_are_taken_away_by_blanks(session: Session) -> None:
    entry = await session.append(note())
    for text in ("x", " "):
        await session.set_name(text)
        await session.set_label(entry.id, text)

    assert session.name is None
    assert dict(session.labels) == {}
    last = json.loads(session.path.read_bytes().splitlines()[-1])
    assert "label" not in last


async def test_an_operation_is_open_until_it_is_finished(session: Session) -> None:
    started = await session.record(
        "operation_started", source_leaf_id=None, intent={"kind": "run", "originalPrompt": "hi"}
    )
    assert isinstance(started, OperationStarted)
    assert session.open_operations() == [started]

    finished = await session.record("operation_finished", run_id=started.id, outcome="completed")

    assert session.open_operations() == []
    assert list(session.records()) == [started, finished]


async def test_watchers_are_told_after_the_line_is_on_the_disk(session: Session) -> None:
    told: list[object] = []
    sizes: list[int] = []

    def watch(stored: object) -> None:
        told.append(stored)
        sizes.append(session.path.stat().st_size)
        if isinstance(stored, NameFact):
            raise ValueError("a watcher's own trouble")

    forget = session.watch(watch)
    entry = await session.append(note())
    await session.set_name("n")
    await session.set_label(entry.id, "l")
    await session.move(None)
    forget()
    await session.append(note())

    assert told == [
        entry,
        NameFact(name="n"),
        LabelFact(target_id=entry.id, label="l"),
        LaneMove(lane="main", leaf_id=None),
    ]
    assert sizes == sorted(set(sizes))


async def test_a_watcher_that_waits_for_a_write_is_refused_instead_of_hanging(
    session: Session,
) -> None:
    codes: list[str] = []

    def watch(_: object) -> None:
        for wait in (lambda: session.append_sync(note()), session.close):
            try:
                wait()
            except PiError as error:
                codes.append(error.code)

    session.watch(watch)
    await session.append(note())

    assert codes == ["invalid_state", "invalid_state"]


async def test_a_waiter_that_is_cancelled_leaves_its_write_to_be_done(session: Session) -> None:
    hold, held = threading.Event(), threading.Event()

    def watch(_: object) -> None:
        held.set()
        hold.wait(10)

    session.watch(watch)
    first = asyncio.ensure_future(session.append(note("first")))
    await asyncio.to_thread(held.wait, 10)
    second = asyncio.ensure_future(session.append(note("second")))
    await asyncio.sleep(0)  # let it be queued
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    hold.set()
    await first
    third = await session.append(note("third"))

    assert [entry.data for entry in session.branch(third.id)] == ["first", "second", "third"]


async def test_writes_from_many_loops_and_threads_form_one_chain(session: Session) -> None:
    async def write() -> None:
        for _ in range(10):
            await session.append(note())

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, write()) for _ in range(4)))

    assert len(session.branch()) == 40
    seqs = [json.loads(line)["seq"] for line in session.path.read_bytes().splitlines()[1:]]
    assert seqs == list(range(1, 41))


async def test_one_file_is_one_object_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    (tmp_path / "link").symlink_to(path)
    session = Session.create(path, cwd="/w")

    assert Session.open(tmp_path / "link") is session
    assert Session.open(path, read_only=True) is session
    session.close()
    session.close()
    with Session.open(path, read_only=True) as later:
        assert later is not session
        with pytest.raises(PiError, match="read-only here"):
            Session.open(path)


async def test_a_session_that_nobody_holds_lets_its_lock_go(tmp_path: Path) -> None:
    Session.create(tmp_path / "s.jsonl", cwd="/w").append_sync(note())
    gc.collect()

    assert not (tmp_path / "s.jsonl.owner.json").exists()


def test_a_session_left_open_lets_its_lock_go_when_python_ends(tmp_path: Path) -> None:
    script = """
        import sys
        from pi_nb.session.entries import CustomEntry
        from pi_nb.session.session import Session
        session = Session.create(sys.argv[1], cwd="/w")
        session.append_sync(CustomEntry(custom_type="x"))
    """
    path = tmp_path / "s.jsonl"

    subprocess.run([sys.executable, "-c", dedent(script), str(path)], check=True, timeout=30)

    assert not (tmp_path / "s.jsonl.owner.json").exists()


async def test_a_closed_session_says_so(session: Session) -> None:
    entry = await session.append(note())
    session.close()

    for use in (lambda: session.append_sync(note()), lambda: session.entry(entry.id)):
        with pytest.raises(PiError) as refused:
            use()
        assert refused.value.code == "invalid_state"
    assert session.closed
    assert repr(session) == f"Session({session.id}, 1 entry, closed)"


async def test_read_only_writes_nothing_ever(
    tmp_path: Path, digest: Callable[[], dict[str, bytes]]
) -> None:
    path = tmp_path / "s.jsonl"
    async with Session.create(path, cwd="/w") as session:
        entry = await session.append_message(user("u"))
    before = digest()

    with Session.open(path, read_only=True) as session:
        session.context()
        session.outline()
        for write in (session.move(None), session.set_name("n"), session.append(note())):
            with pytest.raises(PiError, match="read-only") as refused:
                await write
            assert refused.value.code == "invalid_state"
        assert session.entry(entry.id) == entry

    assert digest() == before


FOREIGN = {
    "text": (b"hello\nworld\n", "is not a session"),
    "a log with other keys": (b'{"a":1}\n{"b":2}\n', "is not a session"),
    "blank": (b"\n\n", "is not a session"),
    "bytes": (b"\x00\xff" * 100_000, "is not a session"),
    "another program's session line": (b'{"type":"session","uuid":"x"}\n', "is not a session"),
    "another program's messages": (b'{"type":"user","uuid":"x"}\n', "is not a session"),
    "broken inside": (
        b'{"kind":"header","version":4,"id":"s","createdAt":1,"cwd":"/w"}\n{"kind":"x"}\n',
        "line 2: invalid_entry",
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("read_only", [True, False])
async def test_what_is_no_session_is_refused_and_stays_as_it_was(
    kind: str, read_only: bool, tmp_path: Path
) -> None:
    """S-10, starred."""
    data, complaint = FOREIGN[kind]
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)

    with pytest.raises(PiError, match=complaint) as refused:
        Session.open(path, read_only=read_only)

    assert (refused.value.code, "\n" in refused.value.message) == ("session", False)
    assert path.read_bytes() == data
    assert not (tmp_path / "s.jsonl.owner.json").exists()


async def test_a_folder_or_nothing_is_one_clear_line(tmp_path: Path) -> None:
    for path, complaint in ((tmp_path, "is a folder"), (tmp_path / "no.jsonl", "No such file")):
        with pytest.raises(PiError, match=complaint) as refused:
            Session.open(path)
        assert refused.value.code == "session"
    assert list(tmp_path.iterdir()) == []


async def test_a_new_session_takes_an_empty_file_and_no_other(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty.jsonl", tmp_path / "full.jsonl"
    empty.touch(0o644)
    full.write_bytes(b"mine\n")

    with Session.create(empty, cwd="/w") as session:
        assert session.leaf() is None
        assert empty.stat().st_mode & 0o777 == 0o600
        with pytest.raises(PiError, match="there already"):
            Session.create(empty, cwd="/w")
    with pytest.raises(PiError, match="there already"):
        Session.create(full, cwd="/w")

    assert full.read_bytes() == b"mine\n"


async def test_a_session_in_memory_is_like_any_other() -> None:
    async with Session.create(cwd="/w") as session:
        entry = await session.append(MessageEntry(message=user("a\ud800b")))

        assert session.path is None
        assert session.context().messages == [entry.message]
        assert entry.message.content[0].text == "a\ufffdb"


async def test_a_message_that_fits_no_role_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    header = {"kind": "header", "version": 4, "id": "s", "createdAt": 1, "cwd": "/w"}
    broken = {
        "kind": "entry", "lane": "main", "type": "message", "id": "a", "seq": 1,
        "parentId": None, "timestamp": 1, "message": {"role": "user", "content": {"key": "k"}},
    }  # fmt: skip
    path.write_text(f"{json.dumps(header)}\n{json.dumps(broken)}\n")

    with Session.open(path) as session:
        with pytest.raises(PiError, match="line 2: ") as refused:
            session.context()
        assert "[cannot be read: " in str(session.outline())
    assert "\n" not in refused.value.message


class CountingLog(MemoryLog):
    """A log that knows how often a body was asked for."""

    reads = 0

    def read(self, place: Place) -> bytes:
        self.reads += 1
        return super().read(place)


async def test_a_turn_does_not_read_its_branch_again() -> None:
    header = Header(id="s", created_at=1, cwd="/w")
    log = CountingLog(V4().header_line(header))
    async with Session(Index(header), log, V4(), None, None) as session:
        for number in range(50):
            await session.append_message(user(str(number)))
        session.context()
        before = log.reads

        await session.append_message(user("next"))

        assert len(session.context().items) == 51
        assert log.reads == before


async def test_metadata_that_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PiError) as refused:
        Session.create(tmp_path / "s.jsonl", cwd="/w", metadata={"x": object()})

    assert refused.value.code == "invalid_argument"
    assert list(tmp_path.iterdir()) == []


def test_an_append_is_on_the_disk_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to tell which file was synced")
    monkeypatch.setattr(os, "fsync", recorded)
    path = (tmp_path / "s.jsonl").resolve()

    with Session.create(path, cwd=tmp_path) as session:
        assert str(path.parent) in synced, "the file's name is on the disk too"
        for number in range(3):
            before = synced.count(str(path))
            session.append_sync(MessageEntry(message=user(f"{number}")))
            assert synced.count(str(path)) == before + 1
    with Session.create(tmp_path / "f.jsonl", cwd=tmp_path, durability="flush") as session:
        before = len(synced)
        session.append_sync(MessageEntry(message=user("x")))
        assert len(synced) == before


def test_an_entry_can_be_had_by_its_number_in_the_outline(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path) as session:
        with pytest.raises(PiError, match="there are none yet"):
            session.entry(1)
        made = [session.append_sync(MessageEntry(message=user(text))) for text in "ab"]

        assert [session.entry(1), session.entry(2), session.find(2)] == [*made, made[1]]
        for number in (0, -1, 3):
            with pytest.raises(PiError, match=f"no entry has the number {number}; .*1 to 2"):
                session.entry(number)


def test_a_number_beyond_the_last_entry_is_no_end_of_an_id(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path) as session:
        body = MessageEntry(id="0000-1299", message=user("a"))
        session.append_sync(body)

        with pytest.raises(PiError, match="'99'"):
            session.find("99")
        assert session.find("1299").id == "0000-1299"
