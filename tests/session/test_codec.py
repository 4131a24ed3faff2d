"""What a v4 line may hold, and that nothing is lost or bent on the way through it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AWKWARD, bodies, texts

from pi_nb.messages import user
from pi_nb.result import PiError
from pi_nb.session.entries import CustomEntry, Entry, MessageEntry
from pi_nb.session.session import Session

HEADER = b'{"kind":"header","version":4,"id":"s","createdAt":1,"cwd":"/w"}\n'


def custom(seq: int, *, parent: str | None = None, **more: object) -> bytes:
    entry = {"kind": "entry", "lane": "main", "type": "custom", "id": f"e{seq}", "seq": seq}
    rest = {"parentId": parent, "timestamp": seq, "customType": "x"}
    return json.dumps({**entry, **rest, **more}).encode() + b"\n"


def opened(path: Path, *lines: bytes) -> Session:
    path.write_bytes(b"".join(lines))
    return Session.open(path, durability="flush")


@given(st.lists(bodies, max_size=4))
def test_what_is_appended_is_what_is_read(given_bodies: list[Entry]) -> None:
    with Session.create(cwd="/w") as session:
        written = [session.append_sync(body) for body in given_bodies]

        assert list(session.entries()) == written
        for body, entry in zip(given_bodies, written, strict=True):
            own = {"id", "parentId", "timestamp", "lane"}
            assert {k: v for k, v in entry.to_wire().items() if k not in own} == {
                k: v for k, v in body.to_wire().items() if k not in own
            }


@pytest.mark.parametrize("char", AWKWARD, ids=lambda char: f"U+{ord(char):04X}")
def test_characters_that_only_python_takes_for_line_ends_are_text(
    char: str, tmp_path: Path
) -> None:
    """S-28, starred."""
    with Session.create(tmp_path / "s.jsonl", cwd="/w", durability="flush") as session:
        written = session.append_sync(MessageEntry(message=user(f"a{char}b")))

    with Session.open(tmp_path / "s.jsonl") as again:
        assert again.entry(written.id) == written
        assert again.context().messages[0].content[0].text == f"a{char}b"


def test_every_character_comes_back(session: Session) -> None:
    """S-28: every code point but the surrogates."""
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))

    entry = session.append_sync(CustomEntry(custom_type="x", data=every))

    assert session.entry(entry.id).data == every


def test_a_lone_surrogate_is_replaced_when_it_is_taken_in(session: Session) -> None:
    """S-29, starred."""
    entry = session.append_sync(MessageEntry(message=user("a\ud83db")))

    assert entry.message.content[0].text == "a\ufffdb"
    assert session.context().messages == [session.entry(entry.id).message]
    session.path.read_text("utf-8")


def test_a_file_with_an_escaped_lone_surrogate_opens_and_goes_on(tmp_path: Path) -> None:
    """S-29, starred: such files exist."""
    escaped = custom(1, data="X").replace(b"X", rb"\ud83d and \ud83d\ude00")

    with opened(tmp_path / "s.jsonl", HEADER, escaped) as session:
        assert session.entry("e1").data == "\ufffd and 😀"
        session.append_sync(CustomEntry(custom_type="x"))
        assert len(session) == 2


def test_unknown_fields_are_kept(session: Session) -> None:
    body = MessageEntry(message=user("u").having(newer={"a": [1]}), newer_still=2)

    entry = session.append_sync(body)

    stored = json.loads(session.path.read_bytes().splitlines()[-1])
    assert (stored["message"]["newer"], stored["newer_still"]) == ({"a": [1]}, 2)
    assert session.entry(entry.id).model_extra == {"newer_still": 2}


def test_a_body_cannot_bring_the_fields_of_its_line(session: Session) -> None:
    session.append_sync(CustomEntry(custom_type="x", seq=99, kind="lane"))

    stored = json.loads(session.path.read_bytes().splitlines()[-1])
    assert (stored["kind"], stored["seq"]) == ("entry", 1)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    """S-27."""
    lines = [line.replace(b"\n", b"\r\n") for line in (HEADER, custom(1))]

    with opened(tmp_path / "s.jsonl", b"\xef\xbb\xbf", *lines) as session:
        assert session.entry("e1").custom_type == "x"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"\n", "line 3"),
        (custom(2, parent="e1", timestamp=-1), "timestamp"),
        (custom(2, parent="e1", timestamp=1.5), "timestamp"),
        (custom(2, parent="e1", timestamp=10**30), "timestamp"),
        (custom(2, parent="\x1b[2J\n"), "is not there"),
        (custom(2, parent="e1").replace(b"customType", b"other"), "customType"),
        (custom(2, parent="e1", lane=None), "lane"),
        (custom(2, parent="e1", data="X").replace(b"X", b"\xff"), "UTF-8"),
        (custom(2, parent="e1", data=0).replace(b": 0", b": 01"), "malformed"),
        (custom(2, parent="e1", type="message"), "message"),
        (b'{"kind":"lane","seq":2,"lane":"main","leafId":"no"}\n', "not there"),
        (b'{"kind":"lane","seq":2,"lane":"main"}\n', "leafId"),
        (b'{"kind":"fact","seq":2,"fact":"label","label":"x"}\n', "targetId"),
        (b'{"kind":"fact","seq":2,"fact":"mood"}\n', "mood"),
        (
            b'{"kind":"record","seq":2,"type":"operation_started","id":"r","lane":"main",'
            b'"timestamp":1,"intent":{"kind":"nap"}}\n',
            "nap",
        ),
        (
            b'{"kind":"record","seq":2,"type":"operation_finished","id":"r","lane":"main",'
            b'"timestamp":1}\n',
            "runId",
        ),
        (
            b'{"kind":"record","seq":2,"type":"usage","id":"r","lane":"other","timestamp":1}\n',
            "never begun",
        ),
        (b'{"kind":"header","version":4,"id":"t","createdAt":1,"cwd":"/w"}\n', "header"),
        (b"[" * 100_000 + b"\n", "line 3"),
    ],
)
def test_a_line_against_the_rules_is_refused_by_its_number(
    line: bytes, complaint: str, tmp_path: Path
) -> None:
    """Rule 16."""
    with pytest.raises(PiError, match="line 3: invalid_entry") as refused:
        opened(tmp_path / "s.jsonl", HEADER, custom(1), line, custom(3, parent="e1"))

    assert complaint in refused.value.message
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 400


MEDDLED = b"".join(
    [
        HEADER,
        custom(1, data="x"),
        custom(2, parent="e1", type="message", message={"role": "user", "content": "u"}),
        b'{"kind":"fact","seq":3,"fact":"label","targetId":"e2","label":"l"}\n',
        custom(4, parent="e2", type="compaction", summary="s", firstKeptEntryId="e2"),
        b'{"kind":"record","seq":5,"type":"usage","id":"r","lane":"main","timestamp":1}\n',
    ]
)
PIECES = st.binary(max_size=8) | st.sampled_from(
    [b"null", b"[]", b"{}", b"1e400", b"-1", b"9" * 30, b'"', b"\n", rb"\ud800", b"true"]
)


@settings(max_examples=150)
@given(st.integers(0, len(MEDDLED)), st.integers(0, 30), PIECES)
def test_a_file_that_somebody_meddled_with_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, place: int, length: int, piece: bytes
) -> None:
    """Nothing but `PiError` comes out of a hostile file, whatever is asked of it."""
    path = tmp_path_factory.mktemp("meddled") / "s.jsonl"
    path.write_bytes(MEDDLED[:place] + piece + MEDDLED[place + length :])

    with contextlib.suppress(PiError), Session.open(path, durability="flush") as session:
        assert len(session.outline(filter="all").rows) == len(session)
        session.outline()._repr_html_()
        for ask in (session.context, session.branch, session.open_operations):
            with contextlib.suppress(PiError):
                ask()
        with contextlib.suppress(PiError):
            list(session.records())


def test_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PiError, match=r"line 1.*version"):
        opened(tmp_path / "s.jsonl", HEADER.replace(b'"version":4', b'"version":5'))


@given(texts)
def test_a_body_that_does_not_fit_is_named_without_its_words(secret: str) -> None:
    """What is wrong with a message is said without quoting it: it may hold anything."""
    with Session.create(cwd="/w") as session:
        with pytest.raises(PiError) as refused:
            session.append_sync(CustomEntry.model_construct(type="custom", custom_type=[secret]))
        assert len(secret) < 8 or secret not in refused.value.message
        assert len(session) == 0
