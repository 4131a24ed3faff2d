"""A text in all the sessions there are."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import texts

from pi_nb.messages import AssistantMessage, TextContent, user
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.entries import BranchSummaryEntry, CompactionEntry, MessageEntry
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session


@pytest.fixture
def repo(tmp_path: Path) -> SessionRepo:
    return SessionRepo(tmp_path / "sessions")


@pytest.mark.parametrize("format", ["v3", "v4"])
def test_what_was_said_and_what_summaries_say_is_found_by_the_numbers_of_the_outline(
    repo: SessionRepo, tmp_path: Path, format: Format
) -> None:
    with repo.create(tmp_path, "Kitchen", format=format) as session:
        session.append_sync(MessageEntry(message=user("Where is the TEA?")))
        answer = AssistantMessage(content=(TextContent(text="In the tin."),))
        session.append_sync(MessageEntry(message=answer))
        session.append_sync(CompactionEntry(summary="Looked for tea."))
        session.append_sync(BranchSummaryEntry(summary="No rice; teapot broken."))
        entries = session.entries()
        wanted = [e.id for e in entries if e.type in ("compaction", "branch_summary")]

    hits = list(repo.search("tea"))

    assert [hit.snippet for hit in hits] == [
        "Where is the TEA?",
        "Looked for tea.",
        "No rice; teapot broken.",
    ]
    assert [hit.entry_id for hit in hits][1:] == wanted
    assert {hit.info.name for hit in hits} == {"Kitchen"}
    with Session.open(hits[0].info.path, read_only=True) as session:
        for hit in hits:
            assert session.find(f"#{hit.number}").id == hit.entry_id
            assert str(hit.number) in str(session.outline())


def test_hits_come_session_by_session_and_each_can_be_opened_at_once(
    repo: SessionRepo, tmp_path: Path
) -> None:
    for word in ("green tea", "rice", "black tea"):
        with repo.create(tmp_path) as session:
            session.append_sync(MessageEntry(message=user(word)))

    hits = repo.search("tea", tmp_path)

    for expected in ("black tea", "green tea"):
        hit = next(hits)
        assert hit.snippet == expected
        with Session.open(hit.info.path) as session:
            session.append_sync(MessageEntry(message=user("more")))
    assert next(hits, None) is None
    assert list(repo.search("tea", tmp_path / "elsewhere")) == []


def test_a_search_writes_nothing_and_passes_over_what_cannot_be_read(
    repo: SessionRepo, tmp_path: Path, digest: Callable[[], dict[str, bytes]]
) -> None:
    with repo.create(tmp_path) as session:
        session.append_sync(MessageEntry(message=user("tea")))
        assert session.path is not None
        folder = session.path.parent
    (folder / "bad.jsonl").write_bytes(session.path.read_bytes() + b"tea: no line\n")
    before = digest()

    assert len(list(repo.search("tea"))) == 1
    assert digest() == before


def test_a_session_that_is_open_here_is_searched_as_it_is_and_stays_open(
    repo: SessionRepo, tmp_path: Path
) -> None:
    with repo.create(tmp_path) as session:
        session.append_sync(MessageEntry(message=user("tea")))

        assert len(list(repo.search("tea"))) == 1

        session.append_sync(MessageEntry(message=user("more")))


def test_a_hit_shows_nothing_that_a_terminal_obeys_and_not_the_whole_of_a_long_text(
    repo: SessionRepo, tmp_path: Path
) -> None:
    text = "x" * 10_000 + " \x1b[31mtea\x1b[0m \u202e\n" + "y" * 10_000
    with repo.create(tmp_path, "\x1b[2Jname") as session:
        session.append_sync(MessageEntry(message=user(text)))

    (hit,) = repo.search("tea")

    assert "\x1b" not in str(hit) + repr(hit)
    assert len(str(hit)) < 250
    assert "tea" in hit.snippet


def test_there_must_be_something_to_look_for(repo: SessionRepo) -> None:
    with pytest.raises(PiError, match="some text") as refused:
        repo.search("  ")

    assert refused.value.code == "invalid_argument"


@given(texts, texts.filter(str.strip), texts, st.booleans())
def test_a_text_is_found_however_its_file_spells_it(
    before: str, text: str, after: str, ascii_only: bool
) -> None:
    """Quotes, line ends, characters as `\\u` and as themselves."""
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01", "cwd": "/"}
    message = user(before + text + after).to_wire()
    entry = {"type": "message", "id": "a1", "parentId": None, "timestamp": 0, "message": message}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.jsonl"
        lines = [json.dumps(line, ensure_ascii=ascii_only) for line in (header, entry)]
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())

        (hit,) = SessionRepo(name).search(text.swapcase() if text.isascii() else text)

        assert (hit.entry_id, hit.number) == ("a1", 1)
