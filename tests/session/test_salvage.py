"""Of a broken v4 file everything that is valid is still there to be read (rule 16)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pi_nb.messages import UserMessage
from pi_nb.result import PiError
from pi_nb.session.salvage import NAMED, reading, salvage
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


@pytest.fixture
async def lines(tmp_path: Path) -> list[bytes]:
    """Of a file with a header (1), three messages on `main` (2 to 4), a lane (5) and a message
    on that (6)."""
    with Session.create(tmp_path / "whole.jsonl", cwd=tmp_path, durability="flush") as session:
        for text in ("one", "two", "three"):
            await session.append_message(UserMessage(content=text))
        await session.add_lane("side", None)
        await session.append_message(UserMessage(content="beside"), lane="side")
    return (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)


def _said(session: Session) -> list[str]:
    return [str(entry.to_wire()["message"]["content"]) for entry in session.entries()]


async def test_a_broken_line_takes_only_what_followed_its_entry(
    tmp_path: Path, lines: list[bytes]
) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[3:]]))
    with pytest.raises(PiError, match="line 3"):
        Session.open(path)

    with salvage(path) as session:
        assert _said(session) == ["one", "beside"]
        assert [odd.line for odd in session.diagnostics] == [3, 4]
        assert session.read_only
        assert len(session.context().messages) == 1


async def test_reading_it_changes_no_byte_and_takes_no_lock(
    tmp_path: Path, lines: list[bytes], digest: Callable[[], dict[str, bytes]]
) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"".join(lines[:3]) + b'{"kind": "ent')
    before = digest()

    with reading(path) as session:
        assert _said(session) == ["one", "two"]
        with pytest.raises(PiError, match="read-only"):
            await session.set_name("x")

    assert digest() == before


async def test_what_is_valid_can_be_saved_as_a_session(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"".join([*lines[:3], b"\x00\xff\n"]))

    with reading(path) as session:
        session.export(tmp_path / "saved.jsonl")

    with Session.open(tmp_path / "saved.jsonl") as saved:
        assert _said(saved) == ["one", "two"]


async def test_many_broken_lines_are_counted_not_listed(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"".join([*lines, *[b"garbage\n"] * 1_000]))

    with salvage(path) as session:
        assert len(session) == 4
        assert len(session.diagnostics) == NAMED + 1
        assert "980 more lines" in session.diagnostics[-1].message


@pytest.mark.parametrize("content", [b"", b"no session\n", b'{"kind":"header"}\n'])
async def test_without_a_valid_header_there_is_nothing_to_save(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)

    with pytest.raises(PiError) as refused:
        salvage(path)
    assert refused.value.code == "session"


async def test_a_folder_is_named_as_one(tmp_path: Path) -> None:
    with pytest.raises(PiError, match="a folder"), reading(tmp_path):
        pass


async def test_a_session_that_is_open_here_stays_open(session: Session) -> None:
    assert session.path is not None

    with reading(session.path) as same:
        assert same is session

    await session.append_message(UserMessage(content="still here"))
