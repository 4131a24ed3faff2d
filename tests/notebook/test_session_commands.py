"""`%agent list`, `search`, `resume`, `rename`, `delete`: sessions that are not open."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pytest
import send2trash.plat_other
from IPython.core.error import UsageError

import pi_nb
from pi_nb.messages import user
from pi_nb.notebook.parsing import Parser
from pi_nb.notebook.session_commands import MOST_HITS, SESSION_COMMANDS
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.entries import MessageEntry
from pi_nb.session.repo import SessionRepo


class Here:
    """What the commands ask of the magics, and what they asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.went_on: list[tuple[Path, dict[str, Any]]] = []

    def repo(self) -> SessionRepo:
        return SessionRepo(self.root / "ours", pi_root=self.root / "pi")

    def go_on(self, path: Path, **settings: Any) -> Any:
        self.went_on.append((path, settings))

    def run(self, name: str, line: str) -> Any:
        command = SESSION_COMMANDS[name]
        parser = Parser(f"%agent {name}")
        command.options(parser)
        options: argparse.Namespace = parser.read(line)
        return command.run(self, options)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(send2trash.plat_other, "XDG_DATA_HOME", os.fsencode(tmp_path / "data"))
    monkeypatch.setattr(
        send2trash.plat_other, "HOMETRASH_B", os.fsencode(tmp_path / "data" / "Trash")
    )
    return Here(tmp_path)


def begun(
    root: Path, text: str, name: str | None = None, format: Format = "v4", cwd: str = "."
) -> Path:
    with SessionRepo(root).create(Path(cwd).resolve(), name, format=format) as session:
        session.append_sync(MessageEntry(message=user(text)))
        assert session.path is not None
        return session.path


def test_a_list_shows_which_sessions_are_of_pi(here: Here) -> None:
    begun(here.root / "ours", "tea", "Kitchen")
    begun(here.root / "pi", "rice", format="v3")
    begun(here.root / "ours", "elsewhere", cwd="..")

    assert [row[1:4:2] for row in here.run("list", "")] == [("", "v3 of pi"), ("Kitchen", "v4")]
    assert len(here.run("list", "--all")) == 3
    assert here.run("list", "").head == ("id", "name", "last message", "format")
    assert here.run("list", "--all").head[-1] == "folder"


def test_the_latest_is_resumed_or_the_named_one_and_here_where_that_is_wanted(here: Here) -> None:
    first = begun(here.root / "ours", "tea", "Kitchen")
    last = begun(here.root / "ours", "rice")

    here.run("resume", "")
    here.run("resume", "Kitchen --here")

    assert here.went_on == [(last, {}), (first, {"cwd": os.getcwd()})]
    with pytest.raises(PiError, match="no session 'Bathroom'"):
        here.run("resume", "Bathroom")


def test_without_any_session_the_next_step_is_named(here: Here) -> None:
    with pytest.raises(UsageError, match="%agent list --all"):
        here.run("resume", "")
    assert "starts one; `--all` looks in every folder." in here.run("list", "").note
    assert here.run("list", "--all").note == "No sessions yet. A %%agent cell starts one."


def test_a_search_shows_where_it_was_said(here: Here) -> None:
    begun(here.root / "ours", "a cup of tea", "Kitchen")
    begun(here.root / "pi", "green tea", format="v3")

    rows = here.run("search", "Tea")

    assert [row[1:] for row in rows] == [
        ("", "#1", "green tea"),
        ("Kitchen", "#1", "a cup of tea"),
    ]
    assert here.run("search", "coffee").note == "Not found; `--all` looks in every folder."
    assert here.run("search", "--all coffee").note == "Not found."


def test_a_search_with_many_hits_says_that_there_are_more(here: Here) -> None:
    with SessionRepo(here.root / "ours").create(Path.cwd()) as session:
        for _ in range(MOST_HITS + 1):
            session.append_sync(MessageEntry(message=user("tea")))

    rows = here.run("search", "tea")

    assert len(rows) == MOST_HITS
    assert rows.note == "The first 50 hits; `--most 500` shows more."
    assert len(here.run("search", "tea --most 500")) == MOST_HITS + 1
    assert len(here.run("search", "tea --most 1")) == 1
    with pytest.raises(UsageError, match="a whole number of rows"):
        here.run("search", "tea --most 0")


def test_a_session_is_renamed_and_deleted_by_its_name(here: Here) -> None:
    path = begun(here.root / "ours", "tea", "Kitchen")

    assert "is now named Pantry." in here.run("rename", "Kitchen Pantry").note
    assert here.run("delete", "Pantry").note == "Pantry is in the trash."

    assert not path.exists()
    assert len(here.run("list", "")) == 0


def test_a_folder_that_is_gone_is_named_with_what_can_be_done(tmp_path: Path) -> None:
    """S-20."""
    gone = tmp_path / "gone"
    gone.mkdir()
    path = begun(tmp_path / "ours", "tea", cwd=str(gone))
    gone.rmdir()

    with pytest.raises(PiError) as refused:
        pi_nb.agent(path)
    for said in (str(gone), "cwd='.'", "resume SESSION --here", "agent.fork(whole=True"):
        assert said in refused.value.message

    with pi_nb.agent(path, cwd=tmp_path) as agent:
        assert agent.env is not None
        assert agent.env.cwd == str(tmp_path)
        made = agent.fork(whole=True, cwd=tmp_path, session_dir=tmp_path / "ours")
    (info,) = SessionRepo(tmp_path / "ours").list(tmp_path)
    assert info.path == made.path


def test_a_fork_before_a_prompt_gives_its_text_to_edit(tmp_path: Path) -> None:
    path = begun(tmp_path / "ours", "tea")

    with pi_nb.agent(path, cwd=tmp_path) as agent:
        made = agent.fork(1, before=True, format="v3", session_dir=tmp_path / "ours")

        assert made.text == "tea"
        assert SessionRepo(tmp_path / "ours").find(str(made.path)).format == "v3"
        with pytest.raises(PiError, match="name no entry"):
            agent.fork(1, whole=True)
