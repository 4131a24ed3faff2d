"""A session in the other format, and back: nothing that was said is lost or moved."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import bodies, texts

from pi_nb.messages import Usage, user
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.context import build_session_context
from pi_nb.session.convert import copy_session, stored_items, write_copy
from pi_nb.session.entries import (
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    SessionInfoEntry,
    UsageEntry,
)
from pi_nb.session.records import Header
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio

# --- sessions at random ---------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), bodies),
        st.tuples(st.just("compact"), st.integers(0, 9)),
        st.tuples(st.just("edit"), st.integers(0, 9)),
        st.tuples(st.just("move"), st.integers(0, 9)),
        st.tuples(st.just("label"), st.tuples(st.integers(0, 9), texts)),
        st.tuples(st.just("name"), texts),
        st.tuples(st.just("record"), st.none()),
        st.tuples(st.just("lane"), st.sampled_from(["main", "side"])),
        st.tuples(st.just("usage"), st.none()),
        st.tuples(st.just("unknown"), st.dictionaries(st.sampled_from("xyz"), texts)),
    ),
    max_size=14,
)


async def told(session: Session, plan: list[tuple[str, Any]]) -> None:
    """Do what was drawn, as far as the format and the moment allow it."""
    lane = "main"
    for what, detail in plan:
        ids = session.entry_ids()
        branch = session.branch_ids(lane)
        chosen = ids[-1 - detail % len(ids)] if isinstance(detail, int) and ids else None
        match what:
            case "add":
                await session.append(detail, lane)
            case "compact" if branch:
                kept = branch[-1 - detail % len(branch)]
                await session.append_compaction("so far", kept, 7, lane=lane)
            case "edit" if branch:
                target = branch[-1 - detail % len(branch)]
                await session.append_context_edit(target, None, lane=lane)
            case "move":
                await session.move(chosen, lane)
            case "label" if ids:
                await session.set_label(ids[detail[0] % len(ids)], detail[1])
            case "name":
                await session.set_name(detail)
            case "record":
                started = {"kind": "run", "originalPrompt": "x"}
                await session.record("operation_started", lane=lane, intent=started)
            case "lane" if session.format == "v4":
                lane = detail
                if lane not in session.lanes:
                    await session.add_lane(lane, session.leaf())
            case "usage" if session.format == "v3":
                paid = Usage(input=1, output=2, total_tokens=3)
                await session.append(UsageEntry(kind="warm", provider="p", model="m", usage=paid))
            case "unknown" if session.format == "v3":
                await session.append(Entry.model_validate({**detail, "type": "newer"}))


# --- what is to stay as it is ---------------------------------------------------------------


def kept(session: Session) -> list[str]:
    """The entries that both formats have."""
    return [
        entry.id
        for entry in session.entries()
        if not session.is_own(entry.id)
        and not isinstance(entry, LabelEntry | SessionInfoEntry | UsageEntry)
    ]


def bridged(session: Session, entry_id: str | None) -> str | None:
    """The nearest of those at or above an entry."""
    there = set(kept(session))
    while entry_id is not None and entry_id not in there:
        entry_id = session.parent_id(entry_id)
    return entry_id


def said(session: Session) -> dict[str, Any]:
    """What each entry says, without its place and what it says of its neighbours."""
    place = ("lane", "parentId", "firstKeptEntryId", "targetId")
    wires = {i: session.entry(i).to_wire() for i in kept(session)}
    return {i: {k: v for k, v in w.items() if k not in place} for i, w in wires.items()}


def shape(session: Session) -> dict[str, Any]:
    ids = kept(session)
    labels: dict[str | None, str] = {t: s for t, s in session.labels.items() if t in ids}
    for target, label in session.labels.items():
        labels.setdefault(bridged(session, target), label)
    labels.pop(None, None)
    return {
        "ids": ids,
        "parents": [bridged(session, session.parent_id(i)) for i in ids],
        "leaf": bridged(session, session.leaf()),
        "labels": labels,
        "name": session.name,
        "contexts": [build_session_context(session.branch(i)).messages for i in ids],
        "said": said(session),
    }


@contextmanager
def copied(session: Session, folder: Path, format: Format | None = None) -> Iterator[Session]:
    path = copy_session(session, folder / f"{next(_numbers)}.jsonl", format=format)
    with Session.open(path) as made:
        assert not made.diagnostics or made.newest_leaf() != bridged(made, made.leaf())
        yield made


_numbers = itertools.count()


def same_but_quicker(session: Session, copy: Session, folder: Path) -> bool:
    """Whether a copy of unread lines says what a copy of read ones says."""
    path = folder / f"{next(_numbers)}.jsonl"
    copy_session(session, path, as_it_stands=True)
    with Session.open(path) as made:
        return (shape(made), dict(made.lanes).keys(), [r.id for r in made.records()]) == (
            shape(copy),
            dict(copy.lanes).keys(),
            [r.id for r in copy.records()],
        )


@settings(max_examples=60)
@given(steps)
async def test_v4_to_v3_and_back_keeps_entries_parents_labels_name_leaf_and_contexts(
    plan: list[tuple[str, Any]],
) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        Session.create(None, cwd="/") as session,
    ):
        await told(session, plan)
        folder = Path(name)
        with (
            copied(session, folder, "v3") as there,
            copied(there, folder, "v4") as back,
        ):
            assert shape(there) == shape(session)
            assert shape(back) == shape(session)
            with copied(session, folder) as again:
                assert same_but_quicker(session, again, folder)
            ours = [r.to_wire() | {"lane": ""} for r in session.records()]
            assert [r.to_wire() | {"lane": ""} for r in back.records()] == ours


@settings(max_examples=60)
@given(steps)
async def test_v3_to_v4_and_back_keeps_entries_parents_labels_name_leaf_and_contexts(
    plan: list[tuple[str, Any]],
) -> None:
    """T-01: whatever stands between, the compaction keeps the same."""
    with (
        tempfile.TemporaryDirectory() as name,
        Session.create(None, cwd="/", format="v3") as session,
    ):
        await told(session, plan)
        folder = Path(name)
        before = shape(session)
        with (
            copied(session, folder) as again,
            copied(session, folder, "v4") as there,
            copied(there, folder, "v3") as back,
        ):
            assert shape(again) == before
            assert same_but_quicker(session, again, folder)
            assert shape(back) == before
            # What v4 cannot have is a custom entry there, which says the same to a model.
            before.pop("said")
            assert {k: v for k, v in shape(there).items() if k != "said"} == before
            paid = [e.to_wire() for e in session.entries() if isinstance(e, UsageEntry)]
            found = [e.to_wire() for e in back.entries() if isinstance(e, UsageEntry)]
            assert [w | {"parentId": ""} for w in found] == [w | {"parentId": ""} for w in paid]
            assert [r.id for r in there.records() if r.type != "usage"] == [
                r.id for r in session.records()
            ]


# --- one thing at a time --------------------------------------------------------------------


async def test_lanes_become_branches_with_the_main_one_last(tmp_path: Path) -> None:
    with Session.create(None, cwd=tmp_path) as session:
        first = await session.append_message(user("one"))
        main = await session.append_message(user("main"))
        await session.add_lane("side", first.id)
        side = await session.append_message(user("side"), lane="side")

        with copied(session, tmp_path, "v3") as made:
            assert made.child_ids(first.id) == [main.id, side.id]
            assert made.branch_ids()[:2] == [first.id, main.id]
            assert made.anchor(made.leaf()) == main.id
            assert made.context().messages == session.context().messages
            assert list(made.lanes) == ["main"]


async def test_bookkeeping_stands_in_line_so_that_nobody_sees_a_branch(tmp_path: Path) -> None:
    with Session.create(None, cwd=tmp_path) as session:
        run = {"kind": "run", "originalPrompt": "x"}
        await session.record("operation_started", intent=run)
        await session.append_message(user("one"))
        await session.record("operation_started", intent=run)
        await session.append_message(user("two"))
        await session.set_name("Tea")

        with copied(session, tmp_path, "v3") as made:
            assert all(len(made.child_ids(i)) <= 1 for i in (None, *made.entry_ids()))
            assert len(made) == 5


async def test_a_compaction_that_keeps_from_an_entry_v4_lacks_keeps_from_the_next_one(
    tmp_path: Path,
) -> None:
    """T-01 and T-02 at once: the kept part begins at a label."""
    with Session.create(None, cwd=tmp_path, format="v3") as session:
        first = await session.append_message(user("one"))
        await session.set_label(first.id, "start")
        label = session.leaf()
        second = await session.append_message(user("two"))
        await session.append_compaction("so far", label, 10)

        with copied(session, tmp_path, "v4") as made:
            compaction = made.branch()[-1]
            assert isinstance(compaction, CompactionEntry)
            assert compaction.first_kept_entry_id == second.id
            assert [i.entry_id for i in made.context().items] == [compaction.id, second.id]
            assert made.parent_id(second.id) == first.id


async def test_a_type_that_v4_does_not_have_is_data_there_and_itself_again_in_v3(
    tmp_path: Path,
) -> None:
    newer = {"type": "bookmark", "page": 7}
    with Session.create(None, cwd=tmp_path, format="v3") as session:
        await session.append_message(user("one"))
        entry = await session.append(Entry.model_validate(newer))

        with copied(session, tmp_path, "v4") as made:
            there = made.entry(entry.id)
            assert isinstance(there, CustomEntry)
            assert (there.custom_type, there.data) == ("pi.bookmark", newer)
            with copied(made, tmp_path, "v3") as back:
                assert back.entry(entry.id).to_wire() == session.entry(entry.id).to_wire()


async def test_data_that_only_looks_like_a_foreign_entry_stays_data(tmp_path: Path) -> None:
    with Session.create(None, cwd=tmp_path) as session:
        message = MessageEntry(message=user("made up")).to_wire()
        fake = await session.append_custom("pi.message", message)
        other = await session.append_custom("pi.bookmark", {"type": "elsewhere"})

        with copied(session, tmp_path, "v3") as made:
            assert made.entry(fake.id).type == "custom"
            assert made.entry(other.id).type == "custom"
            assert made.context().messages == []


def test_what_no_format_would_write_comes_along_as_data(tmp_path: Path) -> None:
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01", "cwd": "/x"},
        {"type": "message", "id": "a1", "parentId": "b2", "timestamp": 5, "message": {"role": 7}},
        {"type": "model_change", "id": "b2", "parentId": "gone", "timestamp": None},
    ]
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with (
        Session.open(old, read_only=True) as session,
        copied(session, tmp_path, "v4") as made,
        copied(made, tmp_path, "v3") as back,
    ):
        assert {i: made.parent_id(i) for i in made.entry_ids()} == {"a1": "b2", "b2": None}
        for copy in (made, back):
            held = copy.entry("a1")
            assert isinstance(held, CustomEntry)
            assert held.data["message"]["role"] == 7


@pytest.mark.parametrize(
    "odd", [{}, {"intent": {"kind": 5}}, {"intent": {}}, {"timestamp": -1}, {"id": 7}], ids=str
)
def test_a_record_that_v4_would_refuse_comes_along_as_data(
    odd: dict[str, Any], tmp_path: Path
) -> None:
    record = {"type": "operation_started", "id": "q", "lane": "main", "timestamp": 1, **odd}
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z"},
        {"type": "custom", "id": "a", "customType": "pi_nb.record", "data": record},
    ]
    place = {"parentId": None, "timestamp": "2026-01-01T00:00:00Z"}
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps({**place, **line}) + "\n" for line in lines))

    with Session.open(path, read_only=True) as session:
        copy_session(session, tmp_path / "new.jsonl", format="v4")

    with Session.open(tmp_path / "new.jsonl", read_only=True) as copy:
        entry = copy.entry("a")
        assert isinstance(entry, CustomEntry)
        assert entry.data == record


async def test_a_copy_is_there_whole_or_not_at_all(
    tmp_path: Path, digest: Callable[[], dict[str, bytes]]
) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path) as session:
        await session.append_message(user("one"))
        before = digest()
        header = Header(id="x", created_at=0, cwd="/")
        broken = [*stored_items(session), ContextEditEntry(target_id="t", replacement=None)]

        with pytest.raises(PiError, match="is there already"):
            copy_session(session, tmp_path / "s.jsonl")
        with pytest.raises(PiError, match="cannot be written"):
            write_copy(tmp_path / "new.jsonl", header, [broken[0], broken[0]], format="v4")
        with pytest.raises(PiError, match="no entry"):
            copy_session(session, tmp_path / "new.jsonl", leaf_id="nowhere")

        assert digest() == before


async def test_a_session_in_use_elsewhere_can_be_copied_from_where_it_is_read(
    tmp_path: Path,
) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path) as session:
        await session.append_message(user("one"))
    before = (tmp_path / "s.jsonl").read_bytes()
    with (
        Session.open(tmp_path / "s.jsonl", read_only=True) as session,
        copied(session, tmp_path) as made,
    ):
        assert made.path is not None
        assert made.path.read_bytes() == before
