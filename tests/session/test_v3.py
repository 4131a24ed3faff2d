"""What real files of pi hold: read with patience, reported, and never rewritten unasked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import SystemMessage, ToolResultMessage, UserMessage, text_of
from pi_nb.result import PiError
from pi_nb.session.context import SessionContext
from pi_nb.session.entries import (
    CompactionEntry,
    CustomEntry,
    Entry,
    LabelEntry,
    SessionInfoEntry,
    UsageEntry,
)
from pi_nb.session.session import Session
from pi_nb.session.sniff import sniff
from pi_nb.session.v3.bodies import iso, milliseconds

HEADER = {
    "type": "session",
    "version": 3,
    "id": "s1",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "cwd": "/w",
}


def said(id: str, parent: str | None, text: str = "", **fields: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text or id, "timestamp": 1767225601000}
    line = {"type": "message", "id": id, "parentId": parent}
    return {**line, "timestamp": "2026-01-01T00:00:01.000Z", "message": message, **fields}


def encoded(*lines: dict[str, Any] | bytes) -> bytes:
    return b"".join(
        (line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()) + b"\n"
        for line in lines
    )


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[bytes], Session]:
    path = tmp_path / "s.jsonl"

    def open_it(data: bytes) -> Session:
        path.write_bytes(data)
        session = Session.open(path, durability="flush")
        assert path.read_bytes() == data, "opening writes nothing"
        return session

    return open_it


def texts(context: SessionContext) -> list[str]:
    return [text_of(m.content) for m in context.messages if isinstance(m, UserMessage)]


def codes(session: Session) -> list[tuple[int, str]]:
    return [(odd.line, odd.code) for odd in session.diagnostics]


def add(session: Session) -> Entry:
    return session.append_sync(CustomEntry(custom_type="x"))


# --- lines -------------------------------------------------------------------------------


def test_one_bad_line_costs_that_line(opened: Callable[[bytes], Session]) -> None:
    """S-04: two entries, garbage, three entries, one of them a child of the garbage."""
    data = encoded(
        HEADER,
        said("a", None),
        said("b", "a"),
        b'{"type":"message","id":"g","parentId":"b", GARBAGE',
        said("c", "g"),
        said("d", "c"),
        said("e", "b"),
    )

    with opened(data) as session:
        assert codes(session) == [(4, "bad_line"), (5, "unknown_parent")]
        assert texts(session.context()) == ["a", "b", "e"]
        assert [entry.id for entry in session.entries()] == ["a", "b", "c", "d", "e"]
        assert session.entry("c").parent_id == "g"
        add(session)
    assert session.path is not None
    assert session.path.read_bytes().startswith(data)


def test_a_parent_that_was_never_written_can_be_read_past(tmp_path: Path) -> None:
    """S-06: the loader says so, and the recovery view follows the entry before."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        encoded(HEADER, said("a", None), said("b", "a"), said("c", "deadbeef"), said("d", "c"))
    )

    with Session.open(path, read_only=True) as session:
        assert codes(session) == [(4, "unknown_parent")]
        assert texts(session.context()) == ["c", "d"]
    with Session.open(path, read_only=True, orphans="previous") as session:
        assert texts(session.context()) == ["a", "b", "c", "d"]
        assert "following the entry before" in str(session.diagnostics[0])


def test_a_stray_last_line_is_the_leaf_and_the_newer_message_is_named(
    opened: Callable[[bytes], Session],
) -> None:
    """S-07, with rule 15: the last entry is the leaf, as pi has it, and we say what it hides."""
    stray = {"type": "custom", "id": "x", "parentId": "a1", "customType": "y", "timestamp": 1}
    names = ["u1", "a1", "u2", "a2", "u3", "a3"]
    lines = [said(n, p) for n, p in zip(names, [None, *names], strict=False)]

    with opened(encoded(HEADER, *lines, stray)) as session:
        assert session.leaf() == "x"
        assert texts(session.context()) == ["u1", "a1"]
        assert codes(session) == [(7, "newer_branch")]
        newest = session.newest_leaf()
        assert newest == "a3"
        session.move_sync(newest)
        assert texts(session.context()) == names
    assert session.path is not None
    with Session.open(session.path) as again:
        assert texts(again.context()) == names
        assert codes(again) == []


def test_a_leaf_that_we_moved_is_no_oddity(opened: Callable[[bytes], Session]) -> None:
    with opened(encoded(HEADER, said("a", None), said("b", "a"))) as session:
        session.move_sync("a")
    assert session.path is not None
    with Session.open(session.path) as again:
        assert (texts(again.context()), again.diagnostics) == (["a"], ())


def test_a_child_may_stand_before_its_parent(opened: Callable[[bytes], Session]) -> None:
    """S-23."""
    with opened(
        encoded(HEADER, said("c", "b"), said("b", "a"), said("a", None), said("d", "c"))
    ) as s:
        assert texts(s.context()) == ["a", "b", "c", "d"]
        assert codes(s) == [(2, "parent_later"), (3, "parent_later")]
        assert s.child_ids("a") == ["b"]
        assert s.child_ids(None) == ["a"]


def test_a_cycle_is_cut_and_every_entry_stays(opened: Callable[[bytes], Session]) -> None:
    with opened(
        encoded(HEADER, said("a", "c"), said("b", "a"), said("c", "b"), said("s", "s"))
    ) as s:
        assert (2, "cycle") in codes(s)
        assert (5, "cycle") in codes(s)
        assert s.branch_ids("c") == ["a", "b", "c"]
        assert s.branch_ids("s") == ["s"]
        assert str(s.outline())


def test_an_id_twice_means_the_first(opened: Callable[[bytes], Session]) -> None:
    """S-21."""
    with opened(
        encoded(HEADER, said("a", None, "one"), said("a", None, "two"), said("b", "a"))
    ) as s:
        assert codes(s) == [(3, "duplicate_id")]
        assert texts(s.context()) == ["one", "b"]
        assert len(s) == 2


def test_an_id_twice_is_found_however_far_apart(opened: Callable[[bytes], Session]) -> None:
    """S-21, in a file that is read in several blocks."""
    long = "x" * 100_000
    lines = [said(f"{n}", f"{n - 1}" if n else None, long) for n in range(9)]

    with opened(encoded(HEADER, *lines, said("1", "8", "again"))) as s:
        assert codes(s) == [(11, "duplicate_id"), (10, "newer_branch")]
        assert len(s) == 9
        assert s.leaf() == "1"


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_is_written_as_it_is_read(moment: int) -> None:
    stamp = iso(moment)

    assert milliseconds(stamp) == moment
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)


def test_two_turns_may_use_one_call_id(opened: Callable[[bytes], Session]) -> None:
    """S-21: entry ids and call ids are different things."""
    result = {"role": "toolResult", "toolCallId": "a", "toolName": "x", "content": "r"}
    lines = [said("a", None), said("b", "a", message=result), said("c", "b", message=result)]

    with opened(encoded(HEADER, *lines)) as s:
        results = [m for m in s.context().messages if isinstance(m, ToolResultMessage)]
        assert [r.tool_call_id for r in results] == ["a", "a"]


@pytest.mark.parametrize("ending", [b"\r\n", b"\n"], ids=["crlf", "lf"])
@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""], ids=["bom", "plain"])
def test_windows_editors_are_forgiven(ending: bytes, mark: bytes, tmp_path: Path) -> None:
    """S-27."""
    path = tmp_path / "s.jsonl"
    data = mark + encoded(HEADER, said("a", None), said("b", "a")).replace(b"\n", ending)
    path.write_bytes(data)

    with Session.open(path) as session:
        assert session.diagnostics == ()
        assert texts(session.context()) == ["a", "b"]
        added = add(session)
    assert path.read_bytes().startswith(data)
    with Session.open(path) as again:
        assert (again.leaf(), again.diagnostics) == (added.id, ())


def test_every_character_that_json_allows_stays_in_its_line(
    opened: Callable[[bytes], Session],
) -> None:
    """S-28, starred."""
    text = "a\u2028b\u2029c\u0085d\x7f\ufeffe 😀"

    with opened(encoded(HEADER, said("a", None, text))) as session:
        assert texts(session.context()) == [text]
        assert session.diagnostics == ()


def test_half_a_character_in_an_escape_is_replaced(opened: Callable[[bytes], Session]) -> None:
    """S-29, starred: old files with such escapes load and can be continued."""
    line = encoded(said("a", None, "HERE")).replace(b"HERE", rb"x\ud83d")
    odd_id = encoded(said("HERE", "a", "y"))[:-1].replace(b"HERE", rb"\ud83d")

    with opened(encoded(HEADER) + line + odd_id + b"\n") as session:
        assert texts(session.context()) == ["x�", "y"]
        add(session)
    assert session.path is not None
    with Session.open(session.path) as again:
        assert texts(again.context()) == ["x�", "y"]


def test_bytes_that_are_not_utf8_are_shown_as_such(opened: Callable[[bytes], Session]) -> None:
    data = encoded(HEADER, said("a", None, "caf�"), said("b", "a")).replace("�".encode(), b"\xe9")

    with opened(data) as session:
        assert texts(session.context()) == ["caf�", "b"]
        assert codes(session) == [(2, "not_utf8")]


def test_zeros_that_a_crash_left_are_passed_over(opened: Callable[[bytes], Session]) -> None:
    zeros = b"\x00" * 4096
    data = encoded(HEADER, said("a", None), zeros, zeros + encoded(said("b", "a"))[:-1])

    with opened(data) as session:
        assert texts(session.context()) == ["a", "b"]
        add(session)


def test_long_lines_are_lines(opened: Callable[[bytes], Session]) -> None:
    long = "x" * 700_000

    with opened(encoded(HEADER, said("a", None, long), said("b", "a"), said("c", "b", long))) as s:
        assert [len(text) for text in texts(s.context())] == [700_000, 1, 700_000]
        assert s.diagnostics == ()


def test_a_torn_last_line_is_set_aside_before_the_first_append(
    opened: Callable[[bytes], Session],
) -> None:
    """S-01, starred, with rule 17: opening a v3 file writes nothing."""
    whole = encoded(HEADER, said("a", None))

    with opened(whole + b'{"type":"message","id":"b","par') as session:
        assert codes(session) == [(3, "torn_tail")]
        added = add(session)
    assert session.path is not None
    assert session.path.read_bytes().startswith(whole + b'{"type":"custom"')
    assert [p.read_bytes() for p in session.path.parent.glob("*.torn-*")] == [
        b'{"type":"message","id":"b","par'
    ]
    with Session.open(session.path) as again:
        assert (again.leaf(), again.diagnostics) == (added.id, ())


# --- headers -----------------------------------------------------------------------------


def test_text_before_the_header_is_reported_and_kept(opened: Callable[[bytes], Session]) -> None:
    data = encoded(b"a log line", b'{"level":"info"}', HEADER, said("a", None))

    with opened(data) as session:
        assert session.id == "s1"
        assert codes(session) == [(1, "before_header"), (2, "before_header")]
        add(session)
    assert session.path is not None
    assert session.path.read_bytes().startswith(data)


def test_a_file_without_a_header_can_be_read_and_not_continued(
    opened: Callable[[bytes], Session],
) -> None:
    with opened(encoded(said("a", None), said("b", "a"))) as session:
        assert texts(session.context()) == ["a", "b"]
        assert codes(session) == [(1, "no_header")]
        with pytest.raises(PiError, match=r"no header; session\.export"):
            add(session)


def test_the_first_of_two_headers_counts(opened: Callable[[bytes], Session]) -> None:
    with opened(
        encoded(HEADER, said("a", None), {**HEADER, "id": "s2"}, said("b", "a"))
    ) as session:
        assert (session.id, codes(session)) == ("s1", [(3, "second_header")])
        assert texts(session.context()) == ["a", "b"]


@pytest.mark.parametrize(
    ("version", "read_as", "may_write"),
    [("3", 3, True), (0, 1, True), (None, 1, True), (99, 99, False), ("x", 1, True), (3, 3, True)],
)
def test_an_odd_version_is_named(
    version: object, read_as: int, may_write: bool, opened: Callable[[bytes], Session]
) -> None:
    with opened(
        encoded({**HEADER, "version": version}, said("a", None), said("b", "a"))
    ) as session:
        assert texts(session.context()) == ["a", "b"]
        assert (session.version, session.read_only) == (read_as, not may_write)
        assert [code for _, code in codes(session)] == ([] if version == 3 else ["odd_version"])
        if version == 99:
            assert "of version 99" in session.diagnostics[0].message
            with pytest.raises(PiError, match="the file is of version 99"):
                add(session)
        if may_write:
            add(session)
            assert session.version == 3
            assert texts(session.context()) == ["a", "b"]


FOREIGN = {
    "claude code": b'{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","message":{}}\n',
    "claude code summary": b'{"type":"summary","summary":"x","leafUuid":"y"}\n',
    "codex": b'{"timestamp":"2026","type":"session_meta","payload":{"id":"x"}}\n',
    "a bare session line": b'{"type":"session","id":"x"}\n',
    "an event log": b'{"type":"message","text":"hi"}\n',
    "an array": b'[{"type":"session","version":3,"id":"x"}]\n',
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_looks_like_a_session_of_pi_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(FOREIGN[kind])

    with pytest.raises(PiError, match="is not a session"):
        Session.open(path)

    assert path.read_bytes() == FOREIGN[kind]


def test_an_empty_file_becomes_a_session_when_something_is_said(
    opened: Callable[[bytes], Session],
) -> None:
    """S-10, starred."""
    with opened(b"") as session:
        assert (len(session), session.leaf(), session.diagnostics) == (0, None, ())
        add(session)
    assert session.path is not None
    with Session.open(session.path) as again:
        assert (len(again), again.id, again.version) == (1, session.id, 3)


# --- bodies ------------------------------------------------------------------------------

ODD_MESSAGES: dict[str, Any] = {
    "null content": {"role": "user", "content": None},
    "no content": {"role": "user"},
    "a number": {"role": "user", "content": 7},
    "blocks that are none": {"role": "user", "content": ["text", None, {"type": "text"}, {}]},
    "no usage": {"role": "assistant", "content": [{"type": "text", "text": "x"}]},
    "usage of text": {"role": "assistant", "content": [], "usage": "many"},
    "half a call": {"role": "assistant", "content": [{"type": "toolCall", "arguments": "x"}]},
    "a new stop reason": {"role": "assistant", "content": [], "stopReason": "tired"},
    "no call id": {"role": "toolResult", "content": None},
    "a new role": {"role": "oracle", "content": "x"},
    "a command without output": {"role": "bashExecution", "command": "ls"},
    "no role": {"content": "x"},
    "text for a message": "hello",
}


@pytest.mark.parametrize("kind", ODD_MESSAGES)
def test_a_message_that_lacks_something_is_read_as_well_as_it_can_be(
    kind: str, opened: Callable[[bytes], Session]
) -> None:
    """S-25 and the like: never a crash, and the same each time it is read."""
    odd = said("b", "a", message=ODD_MESSAGES[kind])

    with opened(encoded(HEADER, said("a", None), odd, said("c", "b"))) as session:
        assert session.entry("b") == session.entry("b")
        assert texts(session.context())[:1] == ["a"]
        assert texts(session.context())[-1] == "c"
        assert "c" in str(session.outline())


def test_entries_that_lack_their_fields_are_entries(opened: Callable[[bytes], Session]) -> None:
    bare = [
        {"type": type, "id": type, "parentId": "a", "timestamp": "2026-01-01T00:00:01.000Z"}
        for type in (
            *("compaction", "branch_summary", "custom", "custom_message", "label", "usage"),
            *("session_info", "model_change", "context_edit", "thinking_level_change"),
        )
    ]

    with opened(encoded(HEADER, said("a", None), *bare, said("b", "a"))) as session:
        assert len(list(session.entries())) == len(bare) + 2
        assert session.diagnostics == ()
        assert str(session.outline(filter="all"))


@pytest.mark.parametrize("odd", [7, True, [], {"a": 1}, [None]], ids=str)
def test_an_entry_whose_parent_is_no_text_follows_the_one_before_and_is_read(
    odd: object, opened: Callable[[bytes], Session], tmp_path: Path
) -> None:
    stray = {**said("b", None), "parentId": odd, "lane": odd}

    with opened(encoded(HEADER, said("a", None), stray, said("c", "b"))) as session:
        assert texts(session.context()) == ["a", "b", "c"]
        assert session.entry("b").parent_id == "a"
        assert [found.code for found in session.diagnostics] == ["missing_parent"]
        session.export(tmp_path / "copy.jsonl", format="v4")


@pytest.mark.parametrize(
    ("field", "odd"),
    [("isError", None), ("toolName", 5), ("details", 1), ("nestedCalls", "x"), ("usage", {"a": 1})],
)
def test_one_odd_field_does_not_keep_a_message_from_the_model(
    field: str, odd: object, opened: Callable[[bytes], Session]
) -> None:
    block = {"type": "text", "text": "out", "textSignature": 7}
    result = {"role": "toolResult", "toolCallId": "q", "toolName": "ls", "content": [block]}
    line = said("b", "a", message={**result, "isError": False, field: odd})

    with opened(encoded(HEADER, said("a", None), line)) as session:
        shown = session.context().messages[-1]
        assert isinstance(shown, ToolResultMessage)
        assert text_of(shown.content) == "out"


def test_a_compaction_whose_tail_is_nonsense_still_stands_for_what_it_says(
    opened: Callable[[bytes], Session],
) -> None:
    line = {"type": "compaction", "id": "k", "parentId": "a", "timestamp": 1, "summary": "S"}
    tail = [
        {"role": ["user"], "content": "left out"},
        {"role": "user", "content": "t", "timestamp": {}},
    ]

    with opened(encoded(HEADER, said("a", None), {**line, "retainedTail": tail})) as session:
        compaction, kept = session.context().messages
        assert getattr(compaction, "summary", None) == "S"
        assert isinstance(kept, UserMessage)
        assert text_of(kept.content) == "t"


def test_missing_ids_and_parents_are_made_up_and_reported(
    opened: Callable[[bytes], Session],
) -> None:
    nameless = said("x", "a")
    del nameless["id"]
    lost = said("c", "a")
    del lost["parentId"]

    with opened(encoded(HEADER, said("a", None), nameless, lost)) as session:
        assert codes(session) == [(3, "missing_id"), (4, "missing_parent")]
        assert texts(session.context()) == ["a", "x", "c"]
        ids = [entry.id for entry in session.entries()]
        session.close()
        assert session.path is not None
        with Session.open(session.path) as again:
            assert [entry.id for entry in again.entries()] == ids


@pytest.mark.parametrize(
    "stamp",
    [1767225601000, 1767225601000.0, "2026-01-01T00:00:01.000Z", "2026-01-01T01:00:01+01:00"],
)
def test_a_time_is_one_in_any_form(stamp: object, opened: Callable[[bytes], Session]) -> None:
    with opened(encoded(HEADER, said("a", None, timestamp=stamp))) as session:
        assert session.entry("a").timestamp == 1767225601000


def test_newer_entries_of_pi_are_understood(opened: Callable[[bytes], Session]) -> None:
    usage = {"input": 5, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 6}
    head = {"timestamp": "2026-01-01T00:00:01.000Z"}
    system = {"role": "system", "content": "You are pi.", "sections": {"style": "short", "x": "y"}}
    patch = {"role": "system", "content": [], "sections": {"x": None, "style": "long"}}
    lines = [
        said("s", None, message={**system, "toolsAdded": [{"name": "read"}, {"name": "bash"}]}),
        said("a", "s"),
        said("p", "a", message={**patch, "toolsRemoved": ["bash"]}),
        {"type": "usage", "id": "u", "parentId": "p", "kind": "cache_warm", "usage": usage, **head},
        {"type": "label", "id": "l", "parentId": "u", "targetId": "a", "label": "mark", **head},
        {"type": "session_info", "id": "i", "parentId": "l", "name": " N ", **head},
        {"type": "hologram", "id": "h", "parentId": "i", "rays": [1, 2], **head},
        said("b", "h"),
    ]

    with opened(encoded(HEADER, *lines)) as session:
        declared = session.declared()
        assert (declared.content, declared.sections) == ("You are pi.", {"style": "long"})
        assert list(declared.tools) == ["read"]
        assert texts(session.context()) == ["a", "b"]
        assert session.labels == {"a": "mark"}
        assert [type(session.entry(id)) for id in "uli"] == [
            UsageEntry,
            LabelEntry,
            SessionInfoEntry,
        ]
        assert session.entry("h").to_wire()["rays"] == [1, 2]
        assert "hologram" in str(session.outline(filter="all"))


def test_a_compaction_restates_the_prompt(opened: Callable[[bytes], Session]) -> None:
    whole = {"role": "system", "content": "New.", "sections": {}, "toolsAdded": [{"name": "ls"}]}
    compaction = {
        "type": "compaction",
        "id": "k",
        "parentId": "s",
        "timestamp": 1,
        "summary": "S",
        "firstKeptEntryId": "k",
        "tokensBefore": 9,
        "systemMessage": whole,
    }
    old = {"role": "system", "content": "Old.", "sections": {"gone": "x"}}

    with opened(encoded(HEADER, said("s", None, message=old), compaction)) as session:
        assert session.declared().content == "New."
        assert session.declared().sections == {}
        assert list(session.declared().tools) == ["ls"]


def test_a_compaction_of_ours_restates_the_prompt_too(
    opened: Callable[[bytes], Session],
) -> None:
    """pi looks no further back than the newest compaction, and would go on without a prompt."""
    first = {"role": "system", "content": "Base.", "toolsAdded": [{"name": "ls"}]}
    later = {"role": "system", "content": "More.", "sections": {"style": "short"}}

    lines = [said("s", None, message=first), said("a", "s"), said("p", "a", message=later)]
    with opened(encoded(HEADER, *lines)) as session:
        before = session.declared()
        written = session.append_sync(CompactionEntry(summary="S", first_kept_entry_id="a"))

        restated = written.system_message
        assert isinstance(restated, SystemMessage)
        assert restated.content == "Base.\n\nMore."
        assert restated.sections == {"style": "short"}
        assert restated.tools_added == [{"name": "ls"}]
        assert session.declared() == before


def test_a_compaction_without_a_prompt_restates_none(opened: Callable[[bytes], Session]) -> None:
    with opened(encoded(HEADER, said("a", None))) as session:
        written = session.append_sync(CompactionEntry(summary="S", first_kept_entry_id="a"))

        assert "systemMessage" not in written.to_wire()


def test_what_a_newer_pi_added_is_kept(opened: Callable[[bytes], Session]) -> None:
    line = said("a", None, novelty={"deep": [1, {"x": None}]})

    with opened(encoded({**HEADER, "novelty": 1}, line)) as session:
        assert session.entry("a").to_wire()["novelty"] == {"deep": [1, {"x": None}]}
        assert session.header.to_wire()["novelty"] == 1


def test_a_compaction_that_lacks_its_numbers_still_stands_for_what_it_says(
    opened: Callable[[bytes], Session],
) -> None:
    odd = {"type": "compaction", "id": "k", "parentId": "a", "timestamp": 1, "summary": "S"}
    tail = [{"role": "user", "content": "t"}, 7]

    for extra in ({"tokensBefore": "many"}, {"retainedTail": tail, "firstKeptEntryId": None}):
        with opened(encoded(HEADER, said("a", None), {**odd, **extra}, said("b", "k"))) as session:
            shown = session.context().messages
            assert [getattr(m, "summary", None) for m in shown[:1]] == ["S"]
            assert texts(session.context())[-1] == "b"


def test_usage_of_old_versions_has_no_total_and_counts(opened: Callable[[bytes], Session]) -> None:
    usage = {"input": 2, "output": 753, "cacheRead": 129_779, "cacheWrite": 294}
    answer = {"role": "assistant", "content": [], "usage": usage, "stopReason": "stop"}

    with opened(encoded(HEADER, said("a", None), said("b", "a", message=answer))) as session:
        assert str(session.context().size) == "130,828 (provider)"


def test_a_record_that_is_none_of_ours_harms_nobody(opened: Callable[[bytes], Session]) -> None:
    record = {"type": "operation_started", "id": "q"}
    odd = {"type": "custom", "id": "l", "parentId": "a", "timestamp": 1, "data": record}

    with opened(encoded(HEADER, said("a", None), {**odd, "customType": "pi_nb.record"})) as session:
        assert [found.id for found in session.records()] == ["q"]
        assert len(session.open_operations()) == 1


def test_what_python_alone_takes_for_json_is_a_bad_line(opened: Callable[[bytes], Session]) -> None:
    """pi would not read it either: both see the same."""
    line = encoded(said("b", "a", "HERE")).replace(b'"HERE"', b"NaN")

    with opened(encoded(HEADER, said("a", None)) + line) as session:
        assert codes(session) == [(3, "bad_line")]


# --- v1 and v2 ---------------------------------------------------------------------------


def v1() -> bytes:
    header = {key: value for key, value in HEADER.items() if key != "version"}
    lines = [said(id, None) for id in "abcd"]
    compaction = {"type": "compaction", "timestamp": 1, "summary": "S", "tokensBefore": 9}
    lines.insert(3, {**compaction, "firstKeptEntryIndex": 3})
    for line in lines:
        line.pop("id", None)
        line.pop("parentId", None)
    return encoded(header, *lines)


def test_v1_is_read_as_a_chain_and_becomes_v3_at_the_first_append(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(v1())

    with Session.open(path) as session:
        assert (session.version, session.format, session.diagnostics) == (1, "v3", ())
        assert texts(session.context()) == ["c", "d"]
        ids = [entry.id for entry in session.entries()]
        assert path.read_bytes() == v1()
        added = add(session)
        assert session.version == 3
        assert [entry.id for entry in session.entries()] == [*ids, added.id]
        assert texts(session.context()) == ["c", "d"]

    assert (tmp_path / "s.jsonl.v1").read_bytes() == v1()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[0]["version"] == 3
    assert [line["parentId"] for line in lines[1:]] == [None, *ids]
    assert lines[4]["firstKeptEntryId"] == ids[2]
    assert "firstKeptEntryIndex" not in lines[4]
    with Session.open(path) as again:
        assert (again.leaf(), again.diagnostics) == (added.id, ())


def test_an_upgrade_is_told_with_the_name_of_what_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(v1())
    (tmp_path / "s.jsonl.v1").write_text("somebody else's")

    with Session.open(path) as session:
        add(session)
        (done,) = session.diagnostics
        add(session)
        assert session.diagnostics == (done,)

    assert (done.line, done.code) == (1, "upgraded")
    assert "version 1" in done.message
    assert done.message.endswith(": s.jsonl.v1-2")
    assert (tmp_path / "s.jsonl.v1-2").read_bytes() == v1()


def test_a_torn_end_is_told_as_what_was_done_about_it(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(encoded(HEADER, said("a", None)) + b'{"type":"mess')

    with Session.open(path) as session:
        (before,) = session.diagnostics
        add(session)
        (after,) = session.diagnostics

    (aside,) = tmp_path.glob("s.jsonl.torn-*")
    assert (before.code, after.code) == ("torn_tail", "torn_tail")
    assert "set aside" not in before.message
    assert after.message.endswith(f"set aside in {aside.name}")


def test_an_upgrade_keeps_what_it_does_not_understand(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    hook = {"role": "hookMessage", "customType": "h", "content": "hi", "display": True}
    path.write_bytes(
        encoded({**HEADER, "version": 2}, said("a", None), b"{broken", said("b", "a", message=hook))
        + b'{"type":"mess'
    )

    with Session.open(path) as session:
        add(session)
        assert [m.role for m in session.context().messages] == ["user", "custom"]

    data = path.read_bytes()
    assert b"\n{broken\n" in data
    assert b"hookMessage" not in data
    assert (tmp_path / "s.jsonl.v2").exists()
    assert len(list(tmp_path.glob("*.torn-*"))) == 1


@given(st.binary(max_size=400), st.integers(0, 10_000))
def test_no_bytes_are_too_odd_to_open(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int
) -> None:
    """Whatever stands where in a good file: it opens, says what it is, and stays as it was."""
    path = tmp_path_factory.mktemp("s") / "s.jsonl"
    good = encoded(HEADER, *(said(f"{n}", f"{n - 1}" if n else None) for n in range(5)))
    place %= len(good)
    data = good[:place] + noise + good[place:]
    path.write_bytes(data)

    if sniff(data) in ("foreign", "v4"):
        with pytest.raises(PiError):
            Session.open(path)
    else:
        with Session.open(path, durability="flush") as session:
            assert path.read_bytes() == data
            assert session.context() == session.context()
            assert str(session.outline())
            if not session.read_only:
                leaf, kept = session.leaf(), session.version == 3
                added = add(session)
                assert session.parent_id(added.id) == leaf
                assert not kept or path.read_bytes().startswith(
                    data[: len(data) - len(_torn(data))]
                )
                session.close()
                with Session.open(path) as again:
                    assert again.leaf() == added.id


def _torn(data: bytes) -> bytes:
    return data.rpartition(b"\n")[2]
