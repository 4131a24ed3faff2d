"""Where sessions are kept and how they are found."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pi_nb.messages import user
from pi_nb.result import PiError
from pi_nb.session.entries import MessageEntry
from pi_nb.session.repo import SessionInfo, SessionRepo
from pi_nb.session.session import Session


@pytest.fixture
def repo(tmp_path: Path) -> SessionRepo:
    return SessionRepo(tmp_path / "sessions")


def begun(repo: SessionRepo, cwd: Path, text: str = "", name: str | None = None) -> Path:
    """A session with one message, closed again."""
    with repo.create(cwd, name) as session:
        if text:
            session.append_sync(MessageEntry(message=user(text)))
        assert session.path is not None
        return session.path


def test_a_session_lies_in_the_folder_of_its_working_directory(
    repo: SessionRepo, tmp_path: Path
) -> None:
    path = begun(repo, tmp_path / "my project")

    flat = str(tmp_path).strip("/").replace("/", "-")
    (info,) = repo.list(tmp_path / "my project")
    assert path.parent == repo.root / f"--{flat}-my project--"
    assert path.name.endswith(f"Z_{info.id}.jsonl")
    assert ":" not in path.name
    for folder in (repo.root, path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_root_is_what_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_NB_SESSION_DIR", str(tmp_path / "there"))
    assert SessionRepo().root == tmp_path / "there"

    monkeypatch.delenv("PI_NB_SESSION_DIR")
    assert SessionRepo().root == Path.home() / ".pi_nb" / "sessions"


def test_the_newest_message_comes_first_whatever_is_renamed_later(
    repo: SessionRepo, tmp_path: Path
) -> None:
    """S-14."""
    old = begun(repo, tmp_path, "old")
    new = begun(repo, tmp_path, "new")
    with Session.open(old) as session:
        session.set_name_sync("renamed")
    os.utime(new, (1, 1))

    assert [info.path for info in repo.list(tmp_path)] == [new, old]
    assert repo.list(tmp_path)[1].name == "renamed"
    assert repo.latest(tmp_path) == repo.list(tmp_path)[0]


def test_a_list_tells_directories_apart_that_share_a_folder(
    repo: SessionRepo, tmp_path: Path
) -> None:
    one, other = tmp_path / "a-b" / "c", tmp_path / "a" / "b-c"
    paths = [begun(repo, one, "1"), begun(repo, other, "2")]

    assert paths[0].parent == paths[1].parent
    assert [info.path for info in repo.list(one)] == [paths[0]]
    assert [info.path for info in repo.list()] == [paths[1], paths[0]]


def test_a_list_passes_over_what_is_no_session_and_touches_nothing(
    repo: SessionRepo, tmp_path: Path, digest: Callable[[], dict[str, bytes]]
) -> None:
    """S-10, starred: only the header line makes a file a session."""
    folder = begun(repo, tmp_path).parent
    (folder / "empty.jsonl").touch()
    (folder / "other.jsonl").write_text('{"a":1}\n')
    (folder / "folder.jsonl").mkdir()
    (folder / "broken.jsonl").symlink_to(folder / "nowhere")
    before = digest()

    assert len(repo.list(tmp_path)) == 1
    assert digest() == before


def test_a_list_reads_the_ends_of_a_file_however_long_it_is(
    repo: SessionRepo, tmp_path: Path
) -> None:
    """S-11: a gigabyte without a line end between header and tail."""
    path = begun(repo, tmp_path, "last", name="far from the end")
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.write(lines[0])
        file.seek(1 << 30)
        file.write(b"\n" + lines[-1])

    (info,) = repo.list(tmp_path)

    assert info.modified > info.created
    assert info.name is None


def test_a_folder_behind_a_link_is_listed_once(tmp_path: Path) -> None:
    """S-18."""
    real = SessionRepo(tmp_path / "real")
    path = begun(real, tmp_path, "u")
    (tmp_path / "link").symlink_to(real.root)
    (real.root / "again").symlink_to(path.parent)

    assert [info.path for info in SessionRepo(tmp_path / "link").list()] == [path]


def test_a_session_is_found_by_path_id_or_name(repo: SessionRepo, tmp_path: Path) -> None:
    path = begun(repo, tmp_path, "u", name="Tea and rice")
    begun(repo, tmp_path, "v")
    info = repo.find(str(path))

    assert repo.find("Tea and rice") == repo.find(info.id) == repo.find(info.id[-8:]) == info
    for text, complaint in (("nothing", "no session"), ("", "no session"), ("0", "2 sessions")):
        with pytest.raises(PiError, match=complaint) as refused:
            repo.find(text, tmp_path)
        assert refused.value.code == "invalid_argument"


def test_a_very_long_working_directory_has_a_folder_too(repo: SessionRepo) -> None:
    cwd = Path("/" + "/".join(["很长的名字"] * 40))

    path = begun(repo, cwd)

    assert len(path.parent.name.encode()) < 255
    assert repo.list(cwd)[0].cwd == str(cwd)


def test_a_root_that_is_a_file_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(PiError) as refused:
        SessionRepo(tmp_path / "file").create(tmp_path)

    assert refused.value.code == "session"
    assert SessionRepo(tmp_path / "file").list() == []


def test_a_session_in_a_list_shows_its_name_or_id_and_nothing_that_a_terminal_obeys(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    named = SessionInfo(path, "abc", "/home/me/tea", 0, 0, "My\x1b[31m \u202ename")
    fresh = SessionInfo(path, "abc", "/home/me/tea", 0, 0, None, empty=True)

    assert repr(named) == "SessionInfo('My \\u202ename', /home/me/tea)"
    assert repr(fresh) == "SessionInfo(abc, /home/me/tea, empty)"
    assert "\x1b" not in str(named)


def test_a_session_with_a_long_name_shows_its_beginning(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path) as session:
        session.set_name_sync("tea " * 100)

        assert len(repr(session)) < 80
        assert repr(session).startswith("Session('tea tea")
