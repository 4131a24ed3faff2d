"""A disk that is full, a folder that must not be written, a file that somebody else changes.

Whatever the world refuses: nothing acknowledged is lost, memory is never ahead of the disk,
and the one error says what to do next.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_nb.result import PiError
from pi_nb.session.entries import CustomEntry
from pi_nb.session.jsonl import FileLog
from pi_nb.session.session import Session

Create = Callable[..., Session]
Digest = Callable[[], dict[str, bytes]]

NOBODY = 65534


def note(size: int = 10) -> CustomEntry:
    return CustomEntry(custom_type="note", data="x" * size)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file grows beyond `size` bytes: a write that would is cut short, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- full --------------------------------------------------------------------------------------


def test_a_full_disk_is_one_clear_error_and_the_next_append_works(
    create: Create, tmp_path: Path
) -> None:
    """S-05, starred."""
    path = tmp_path / "s.jsonl"
    with create(path, durability="fsync") as session:
        first = session.append_sync(note())
        before = path.read_bytes()

        with (
            room_for(len(before) + 1_000),
            pytest.raises(PiError, match="nothing was written to ") as refused,
        ):
            session.append_sync(note(5_000))

        assert refused.value.code == "session"
        assert path.read_bytes() == before
        assert (session.leaf(), len(session)) == (first.id, 1)
        second = session.append_sync(note(5_000))
    with Session.open(path) as session:
        assert session.branch_ids() == [first.id, second.id]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 2_000)), max_size=12))
def test_memory_is_never_ahead_of_the_disk(
    create: Create, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]
) -> None:
    """S-05, starred: writes that find more or less room than they need, in any order."""
    path = tmp_path_factory.mktemp("full") / "s.jsonl"
    with create(path) as session:
        for size, room in steps:
            with room_for(path.stat().st_size + room), suppress(PiError):
                session.append_sync(note(size))

            with Session.open(shutil.copy(path, path.with_name("copy")), read_only=True) as there:
                assert there.branch_ids() == session.branch_ids()
                assert there.diagnostics == ()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that holds 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a disk of its own needs the right to mount one")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_session_fills_its_disk_and_goes_on_when_there_is_room(
    create: Create, small_disk: Path
) -> None:
    """S-05, starred, on a real disk, up to its last byte."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(16_384))
    path = small_disk / "s.jsonl"
    with create(path) as session:
        written = [session.append_sync(note(5_000))]

        with suppress(PiError):
            while len(written) < 20:
                written.append(session.append_sync(note(5_000)))
        with pytest.raises(PiError, match="No space left on device; nothing was written"):
            session.append_sync(note(5_000))

        ballast.unlink()
        written.append(session.append_sync(note(5_000)))
    with Session.open(path) as session:
        assert list(session.entries()) == written
        assert session.diagnostics == ()


@pytest.mark.parametrize("limit", [20, 1_000], ids=["its owner", "its header"])
def test_a_session_that_cannot_be_begun_leaves_nothing(
    limit: int, create: Create, tmp_path: Path
) -> None:
    """Twenty bytes are too few for the owner file, a thousand for this header."""
    with room_for(limit), pytest.raises(PiError, match="File too large"):
        create(tmp_path / "s.jsonl", metadata={"long": "x" * 2_000})

    assert list(tmp_path.iterdir()) == []
    create(tmp_path / "s.jsonl").close()


def test_an_unfinished_line_that_cannot_be_taken_back_ends_the_writing(tmp_path: Path) -> None:
    """A log on a read-only descriptor can neither write nor take back."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"{}\n")
    log = FileLog.open(path, "flush", read_only=True)

    for expected in ("nothing was written", "unfinished line"):
        with pytest.raises(PiError, match=expected):
            log.append(b"{}\n")
    log.close()


OLD = b"""\
{"type":"session","id":"one","timestamp":"2025-10-01T10:00:00.000Z","cwd":"/w"}
{"type":"message","timestamp":"2025-10-01T10:00:01.000Z","message":{"role":"user","content":"hi"}}"""


def test_an_old_file_for_whose_successor_there_is_no_room_stays_and_is_continued_later(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(OLD)

    with Session.open(path) as session:
        with room_for(len(OLD) + 10), pytest.raises(PiError, match="File too large"):
            session.append_sync(note())
        assert path.read_bytes().removesuffix(b"\n") == OLD
        assert len(session) == 1
        session.append_sync(note())

    (old,) = tmp_path.glob("s.jsonl.v1*")
    assert old.read_bytes().removesuffix(b"\n") == OLD
    with Session.open(path) as session:
        assert (session.header.version, len(session), session.diagnostics) == (3, 2, ())


def test_a_write_that_is_refused_leaves_an_old_file_as_it_was(
    tmp_path: Path, digest: Digest
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(OLD)
    before = digest()

    with Session.open(path) as session, pytest.raises(PiError) as refused:
        session.append_sync(CustomEntry(custom_type="note", data=object()))

    assert refused.value.code == "invalid_argument"
    assert digest() == before


# --- not ours to write -------------------------------------------------------------------------


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that an ordinary user can reach; those of pytest are their owner's alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def powerless() -> Callable[[], AbstractContextManager[None]]:
    """Be an ordinary user for a while: nothing is forbidden to root."""

    @contextmanager
    def be() -> Iterator[None]:
        root = os.geteuid() == 0
        if root:
            os.seteuid(NOBODY)
        try:
            yield
        finally:
            if root:
                os.seteuid(0)

    return be


Powerless = Callable[[], AbstractContextManager[None]]


def test_a_session_in_a_folder_that_is_not_ours_can_be_read(
    create: Create, place: Path, powerless: Powerless
) -> None:
    path = place / "s.jsonl"
    with create(path) as session:
        entry = session.append_sync(note())
    path.chmod(0o444)
    place.chmod(0o555)
    before = path.read_bytes()

    with powerless():
        with pytest.raises(PiError, match=r"Permission denied; .*read_only=True") as refused:
            Session.open(path)
        with pytest.raises(PiError, match="Permission denied") as not_begun:
            create(place / "new.jsonl")
        with Session.open(path, read_only=True) as session:
            assert session.branch_ids() == [entry.id]

    assert (refused.value.code, not_begun.value.code) == ("session", "session")
    assert path.read_bytes() == before
    assert [file.name for file in place.iterdir()] == ["s.jsonl"]


def test_a_file_that_is_not_ours_can_be_read_and_leaves_no_lock(
    create: Create, place: Path, powerless: Powerless
) -> None:
    path = place / "s.jsonl"
    with create(path) as session:
        entry = session.append_sync(note())
    path.chmod(0o444)
    place.chmod(0o777)

    with powerless():
        with pytest.raises(PiError, match=r"Permission denied; .*read_only=True") as refused:
            Session.open(path)
        with Session.open(path, read_only=True) as session:
            assert session.branch_ids() == [entry.id]

    assert refused.value.code == "session"
    assert [file.name for file in place.iterdir()] == ["s.jsonl"]


def test_a_session_whose_folder_closes_while_it_is_open_goes_on(
    create: Create, place: Path, powerless: Powerless
) -> None:
    if os.geteuid() == 0:
        os.chown(place, NOBODY, -1)
    path = place / "s.jsonl"
    with powerless():
        session = create(path)
        place.chmod(0o555)

        entry = session.append_sync(note())
        session.close()

        place.chmod(0o755)
        with Session.open(path) as session:
            assert session.branch_ids() == [entry.id]
    assert [file.name for file in place.iterdir()] == ["s.jsonl"]


# --- changed under an open session -------------------------------------------------------------


def grow(path: Path) -> None:
    """By another entry, as a program does that knows nothing of locks."""
    with Session.open(shutil.copy(path, path.with_name("copy"))) as copy:
        copy.append_sync(note())
    os.truncate(path, 0)
    path.write_bytes(path.with_name("copy").read_bytes())


def replace(path: Path) -> None:
    os.replace(shutil.copy(path, path.with_name("copy")), path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize(
    ("meddle", "then"),
    [
        (grow, "close the session and open it again"),
        (replace, "close the session and open it again"),
        (cut, "close the session and open it again"),
        (Path.unlink, "what it held can still be read here until"),
    ],
)
def test_an_append_to_a_file_that_somebody_changed_is_refused(
    meddle: Callable[[Path], None], then: str, create: Create, tmp_path: Path, digest: Digest
) -> None:
    """S-02, starred."""
    path = tmp_path / "s.jsonl"
    with create(path) as session:
        first = session.append_sync(note())
        meddle(path)
        before = digest()

        with pytest.raises(PiError, match=then) as refused:
            session.append_sync(note())

        assert refused.value.code == "session"
        assert digest() == before
        assert session.branch_ids() == [first.id]
    assert {name: data for name, data in digest().items() if name in before} == {
        name: data for name, data in before.items() if not name.endswith((".lock", ".owner.json"))
    }


@pytest.mark.parametrize(("meddle", "entries"), [(grow, 2), (replace, 1), (cut, 1)])
def test_what_somebody_changed_is_there_when_it_is_opened_again(
    meddle: Callable[[Path], None], entries: int, create: Create, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    with create(path) as session:
        first = session.append_sync(note())
        meddle(path)

    with Session.open(path) as session:
        assert session.branch_ids()[0] == first.id
        assert len(session) == entries
        assert session.append_sync(note()).parent_id in session


def test_a_deleted_file_can_still_be_read_while_its_session_is_open(
    create: Create, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    with create(path) as session:
        entry = session.append_sync(note())
        path.unlink()

        assert list(session.entries()) == [entry]
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_cut_off_is_said_to_be_gone_when_it_is_read(
    create: Create, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    with create(path) as session:
        entry = session.append_sync(note())
        os.truncate(path, 10)

        with pytest.raises(PiError, match="cut short by somebody else") as refused:
            session.entry(entry.id)
        assert refused.value.code == "session"
        assert path.stat().st_size == 10
