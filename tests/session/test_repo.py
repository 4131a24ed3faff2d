"""Where sessions are kept and how they are found."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import send2trash.plat_other
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import user
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.entries import MessageEntry
from pi_nb.session.listing import HEAD, SessionInfo, session_info
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session


@pytest.fixture
def repo(tmp_path: Path) -> SessionRepo:
    return SessionRepo(tmp_path / "sessions")


@pytest.fixture
def trash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the system's trash keeps the files: in a data folder that is ours alone."""
    if send2trash.send2trash.__module__ != "send2trash.plat_other":
        pytest.skip("this system has a trash of its own, which a test leaves alone")
    data = tmp_path / "data"
    monkeypatch.setattr(send2trash.plat_other, "XDG_DATA_HOME", os.fsencode(data))
    monkeypatch.setattr(send2trash.plat_other, "HOMETRASH_B", os.fsencode(data / "Trash"))
    return data / "Trash" / "files"


def begun(
    repo: SessionRepo, cwd: Path, text: str = "", name: str | None = None, format: Format = "v4"
) -> Path:
    """A session with one message, closed again."""
    with repo.create(cwd, name, format=format) as session:
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


@pytest.mark.parametrize("format", ["v3", "v4"])
def test_the_newest_message_comes_first_whatever_is_renamed_later(
    repo: SessionRepo, tmp_path: Path, format: Format
) -> None:
    """S-14."""
    old = begun(repo, tmp_path, "old", format=format)
    new = begun(repo, tmp_path, "new", format=format)
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


def test_a_whole_id_is_found_by_headers_alone(repo: SessionRepo, tmp_path: Path) -> None:
    """S-11: what else a file holds is not looked at, however much it is."""
    path = begun(repo, tmp_path, "u", name="Tea")
    info = repo.find(str(path))
    begun(repo, tmp_path, "v", name=info.id)

    assert repo.find(info.id) == info, "an id goes before a name"


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


# --- pi's own sessions ----------------------------------------------------------------------


def of_pi(folder: Path, cwd: Path, *lines: object, version: object = 3) -> Path:
    """A file as pi leaves it."""
    header = {"type": "session", "version": version, "id": "p1", "cwd": str(cwd)}
    header["timestamp"] = "2026-05-01T10:00:00.000Z"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "2026-05-01T10-00-00-000Z_p1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *lines)))
    return path


SAID = {
    "type": "message",
    "id": "a1",
    "parentId": None,
    "timestamp": "2026-05-01T10:00:05.000Z",
    "message": {"role": "user", "content": "tea", "timestamp": 1},
}
NAMED = {"type": "session_info", "id": "b2", "parentId": "a1", "timestamp": 0, "name": " Tea "}


def test_the_sessions_of_pi_are_listed_and_marked_and_new_ones_never_made_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    theirs = of_pi(
        tmp_path / "agent" / "sessions" / f"--{str(tmp_path)[1:].replace('/', '-')}--",
        tmp_path,
        SAID,
        NAMED,
    )
    ours = begun(SessionRepo(), tmp_path, "u")

    infos = SessionRepo().list(tmp_path)

    assert [(i.path, i.origin, i.format) for i in infos] == [
        (ours, "pi_nb", "v4"),
        (theirs, "pi", "v3"),
    ]
    assert (infos[1].name, infos[1].modified - infos[1].created) == ("Tea", 5_000)
    assert SessionRepo().find("p1").origin == SessionRepo().find(str(theirs)).origin == "pi"
    assert ours.is_relative_to(SessionRepo().root)


def test_pi_has_its_place_in_the_home_folder_and_a_root_of_ones_own_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PI_CODING_AGENT_DIR", raising=False)

    assert SessionRepo().pi_root == Path.home() / ".pi" / "agent" / "sessions"
    assert SessionRepo(tmp_path).pi_root is None
    assert SessionRepo(tmp_path, pi_root=tmp_path / "pi").pi_root == tmp_path / "pi"


@pytest.mark.parametrize(
    ("version", "read"), [(1, 1), (2, 2), (3, 3), ("3", 3), (99, 99), (None, 1), ("x", 1)]
)
def test_every_version_of_pi_is_listed(tmp_path: Path, version: object, read: int) -> None:
    path = of_pi(tmp_path, tmp_path, SAID, version=version)

    (info,) = SessionRepo(tmp_path).list()

    assert (info.path, info.version, info.format) == (path, read, "v3")


def test_a_header_may_come_after_some_lines_of_text_but_not_after_too_many(
    tmp_path: Path,
) -> None:
    path = of_pi(tmp_path, tmp_path, SAID)
    whole = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbfwarning: no locale\n\n{}\n" + whole)
    assert session_info(path) is not None

    path.write_bytes(b"warning\n" * (HEAD // 8) + whole)
    assert session_info(path) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"tea",
        b"[]",
        b'{"type":"session_meta","id":"x","cwd":"/"}',
        b'{"type":"session","sessionId":"x","cwd":"/"}',
        b'{"type":"session","id":"x"}',
        b'{"type":"session","id":7,"cwd":"/","timestamp":"2026-01-01"}',
        b'{"kind":"header","version":5,"id":"x","createdAt":0,"cwd":"/"}',
        b"[" * 5_000,
    ],
)
def test_the_logs_of_other_programs_are_passed_over(tmp_path: Path, line: bytes) -> None:
    """S-10, starred."""
    (tmp_path / "s.jsonl").write_bytes(line + b"\n" + json.dumps(SAID).encode() + b"\n")

    assert SessionRepo(tmp_path).list() == []


def test_the_prompt_that_pi_keeps_as_a_message_is_nothing_said(tmp_path: Path) -> None:
    system = {**SAID, "message": {"role": "system", "content": "Be kind.", "timestamp": 1}}
    of_pi(tmp_path, tmp_path, system)
    assert SessionRepo(tmp_path).list()[0].empty

    of_pi(tmp_path, tmp_path, system, SAID, NAMED)
    assert not SessionRepo(tmp_path).list()[0].empty


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_break_a_list(data: bytes, begun: bool) -> None:
    header = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01","cwd":"/"}\n'
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.jsonl"
        path.write_bytes((header if begun else b"") + data)

        info = session_info(path)

        assert info is not None or not begun
        assert str(info)


def test_a_moment_that_no_calendar_knows_and_half_a_character_can_be_shown(
    tmp_path: Path,
) -> None:
    late = {**SAID, "timestamp": 2**53 - 1}
    of_pi(tmp_path, tmp_path, late, {**NAMED, "name": "te\ud83d"})

    (info,) = SessionRepo(tmp_path).list()

    assert info.name == "te\ufffd"
    assert str(info).startswith("9999-12-")


# --- changing -------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["v3", "v4"])
def test_a_session_is_renamed_and_labelled_where_it_lies(
    repo: SessionRepo, tmp_path: Path, format: Format
) -> None:
    path = begun(repo, tmp_path, "u", format=format)
    info = repo.find(str(path))

    repo.rename(info, "Tea")
    repo.label(info, "1", "start")

    assert repo.find("Tea").path == path
    assert repo.find("Tea").modified == info.modified
    with Session.open(path, read_only=True) as session:
        assert list(session.labels.values()) == ["start"]
    with pytest.raises(PiError, match="no entry"):
        repo.label(info, "nowhere", "end")


def test_renaming_a_session_that_is_open_here_leaves_it_open(
    repo: SessionRepo, tmp_path: Path
) -> None:
    with repo.create(tmp_path) as session:
        assert session.path is not None
        repo.rename(repo.find(str(session.path)), "Tea")

        assert session.name == "Tea"
        assert not session.closed


def test_a_deleted_session_is_in_the_trash_with_what_lay_beside_it(
    repo: SessionRepo, tmp_path: Path, trash: Path
) -> None:
    path = begun(repo, tmp_path, "u")
    other = begun(repo, tmp_path, "v")
    (path.parent / f"{path.name}.torn-1").write_bytes(b"half")
    (path.parent / f"{path.name}.owner.json").write_text("{}")
    before = path.read_bytes()

    repo.delete(repo.find(str(path)))

    assert sorted(path.parent.iterdir()) == [other]
    assert (trash / path.name).read_bytes() == before
    assert (trash / f"{path.name}.torn-1").read_bytes() == b"half"


def test_where_there_is_no_trash_a_deleted_session_lies_in_a_folder_that_is_not_listed(
    repo: SessionRepo, tmp_path: Path, trash: Path
) -> None:
    trash.parent.parent.mkdir()
    trash.parent.touch()  # a file, where the system's trash would be a folder
    path = begun(repo, tmp_path, "u")
    info = repo.find(str(path))

    repo.delete(info)

    assert [file.name for file in (repo.root / ".trash").iterdir()] == [path.name]
    assert repo.list() == []


def test_a_session_that_is_open_is_not_deleted(
    repo: SessionRepo, tmp_path: Path, trash: Path
) -> None:
    """S-18, through a link too."""
    (tmp_path / "link").symlink_to(repo.root)
    with repo.create(tmp_path) as session:
        session.append_sync(MessageEntry(message=user("u")))
        for seen in (repo, SessionRepo(tmp_path / "link")):
            with pytest.raises(PiError, match="is open in this process") as refused:
                seen.delete(seen.list()[0])
            assert refused.value.code == "session"
        session.append_sync(MessageEntry(message=user("v")))
    assert not trash.exists()


def test_a_session_that_is_only_read_here_is_not_deleted_either(
    repo: SessionRepo, tmp_path: Path
) -> None:
    path = begun(repo, tmp_path, "tea")

    with (
        Session.open(path, read_only=True),
        pytest.raises(PiError, match="is open in this process"),
    ):
        repo.delete(repo.find(str(path)))

    assert path.exists()


def test_a_name_is_found_in_other_case_and_by_a_beginning_that_fits_it_alone(
    repo: SessionRepo, tmp_path: Path
) -> None:
    tea, time = begun(repo, tmp_path, "a", "Tea"), begun(repo, tmp_path, "b", "Tea time")
    begun(repo, tmp_path, "c", "Rice")

    assert repo.find("tea").path == tea, "a whole name goes before the beginning of one"
    assert repo.find("TEA T").path == time
    with pytest.raises(PiError, match="2 sessions fit 'te': 'Tea") as refused:
        repo.find("te")
    assert time.stem[-8:] in refused.value.message
    assert "Rice" not in refused.value.message


def test_many_that_fit_are_not_all_named(repo: SessionRepo, tmp_path: Path) -> None:
    for number in range(7):
        begun(repo, tmp_path, "a", f"Tea\n{number}")

    with pytest.raises(PiError, match=r"7 sessions fit 'tea': .* and 2 more$"):
        repo.find("tea")


def test_what_a_rename_does_to_an_old_file_is_told(repo: SessionRepo, tmp_path: Path) -> None:
    path = repo.folder(tmp_path) / "old.jsonl"
    path.parent.mkdir(parents=True)
    line = {"type": "session", "id": "old", "timestamp": "2026-01-01T00:00:00Z"}
    path.write_text(json.dumps({**line, "cwd": str(tmp_path)}) + "\n")

    (done,) = repo.rename(repo.find("old"), "Tea")

    assert done.code == "upgraded"
    assert "old.jsonl.v1" in done.message
    assert repo.rename(repo.find("old"), "Rice") == ()


def test_the_sessions_of_pi_are_not_deleted(tmp_path: Path) -> None:
    path = of_pi(tmp_path / "pi", tmp_path, SAID)
    repo = SessionRepo(tmp_path / "ours", pi_root=tmp_path / "pi")

    with pytest.raises(PiError, match="pi's own") as refused:
        repo.delete(repo.find("p1"))

    assert refused.value.code == "invalid_argument"
    assert path.exists()


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
