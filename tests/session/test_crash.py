"""What is left when a process, a disk or a write ends in the middle of things."""

from __future__ import annotations

import os
import random
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import bodies

from pi_nb.result import PiError
from pi_nb.session.entries import CustomEntry, Entry
from pi_nb.session.jsonl import FileLog
from pi_nb.session.session import Session


def note(text: str = "") -> CustomEntry:
    return CustomEntry(custom_type="note", data=text)


@settings(max_examples=50)
@given(st.lists(bodies, min_size=1, max_size=4), st.data())
def test_a_crash_at_any_byte_loses_at_most_the_line_being_written(
    tmp_path_factory: pytest.TempPathFactory, given_bodies: list[Entry], data: st.DataObject
) -> None:
    """S-01, starred."""
    path = tmp_path_factory.mktemp("crash") / "s.jsonl"
    with Session.create(path, cwd="/w", durability="flush") as session:
        header = path.stat().st_size
        written = [session.append_sync(body) for body in given_bodies]
    whole = path.read_bytes()
    # The header is on the disk before `create` returns.
    end = data.draw(st.integers(header, len(whole)), label="crash at byte")
    path.write_bytes(whole[:end])

    with Session.open(path, durability="flush") as session:
        kept = list(session.entries())
        added = session.append_sync(note())

    assert kept == written[: len(kept)]
    # A line that lacks nothing but its newline is whole, too.
    assert len(kept) - whole[header:end].count(b"\n") in (0, 1)
    aside = b"".join(file.read_bytes() for file in path.parent.glob("*.torn-*"))
    assert aside in (b"", whole[:end].rpartition(b"\n")[2])
    with Session.open(path, durability="flush") as session:
        assert list(session.entries()) == [*kept, added]
        assert session.diagnostics == ()


def test_a_torn_tail_is_set_aside_reported_and_gone_before_the_next_append(
    tmp_path: Path,
) -> None:
    """S-01, starred: six lines, of the last one 40 bytes."""
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd="/w") as session:
        for number in range(5):
            session.append_sync(note(str(number)))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:40])

    with Session.open(path) as session:
        (torn,) = tmp_path.glob("s.jsonl.torn-*")
        assert [(d.line, d.code) for d in session.diagnostics] == [(6, "torn_tail")]
        assert torn.name in session.diagnostics[0].message
        assert len(session) == 4

    assert torn.read_bytes() == lines[5][:40]
    assert stat.S_IMODE(torn.stat().st_mode) == 0o600


def test_read_only_a_torn_tail_is_told_of_and_left(
    tmp_path: Path, digest: Callable[[], dict[str, bytes]]
) -> None:
    path = tmp_path / "s.jsonl"
    Session.create(path, cwd="/w").close()
    with path.open("ab") as file:
        file.write(b'{"kind":"en')
    before = digest()

    with Session.open(path, read_only=True) as session:
        assert [d.code for d in session.diagnostics] == ["torn_tail"]

    assert digest() == before


WRITER = """
    import sys
    from pi_nb.session.entries import CustomEntry
    from pi_nb.session.session import Session
    with Session.open(sys.argv[1], durability="flush") as session:
        while True:
            entry = session.append_sync(CustomEntry(custom_type="note", data="x" * 3_000))
            print(entry.id, flush=True)
"""


def kill_a_writer(path: Path, chance: random.Random) -> None:
    """Let another process write, kill it somewhere, and see that nothing told of is lost."""
    with subprocess.Popen(
        [sys.executable, "-c", dedent(WRITER), str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        told = [child.stdout.readline().strip() for _ in range(chance.randint(1, 200))]
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
    # A line of the pipe that the kill cut off told nobody anything.
    told += rest.split("\n")[:-1]

    with Session.open(path, durability="flush") as session:
        assert all(entry_id in session for entry_id in told)
        assert session.append_sync(note()).parent_id in session


def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    Session.create(path, cwd="/w").close()

    for seed in range(2):
        kill_a_writer(path, random.Random(seed))


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_in_forty_kills(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    Session.create(path, cwd="/w").close()

    for seed in range(40):
        kill_a_writer(path, random.Random(seed))


FULL = """
    import resource, sys
    from pathlib import Path
    from pi_nb.result import PiError
    from pi_nb.session.entries import CustomEntry
    from pi_nb.session.session import Session

    def note(size):
        return CustomEntry(custom_type="note", data="x" * size)

    path = Path(sys.argv[1])
    session = Session.open(path)
    first = session.append_sync(note(10))
    before = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 1_000, resource.RLIM_INFINITY))
    try:
        session.append_sync(note(5_000))
    except PiError as error:
        print(error.code, error.message)
    assert path.read_bytes() == before
    assert session.leaf() == first.id and len(session) == 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert session.append_sync(note(5_000)).parent_id == first.id
    session.close()
"""


def test_a_full_disk_is_one_clear_error_and_the_next_append_works(tmp_path: Path) -> None:
    """S-05, starred. A limit on the file's size stands for the disk: both cut a write short."""
    path = tmp_path / "s.jsonl"
    Session.create(path, cwd="/w").close()

    child = subprocess.run(
        [sys.executable, "-c", dedent(FULL), str(path)], capture_output=True, text=True, check=False
    )

    assert child.returncode == 0, child.stderr
    assert child.stdout.startswith("session File too large; nothing was written to ")
    with Session.open(path) as session:
        assert len(session.branch()) == 2


@pytest.mark.parametrize("limit", [20, 1_000], ids=["its owner", "its header"])
def test_a_session_that_cannot_be_begun_leaves_nothing_but_a_lock(
    limit: int, tmp_path: Path
) -> None:
    """Twenty bytes are too few for the owner file, a thousand for this header."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(PiError, match="File too large"):
            Session.create(tmp_path / "s.jsonl", cwd="/w", metadata={"long": "x" * 2_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl.lock"]
    Session.create(tmp_path / "s.jsonl", cwd="/w").close()


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"{}\n")


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.replace(copy, path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("meddle", [grow, replace, cut, Path.unlink])
def test_an_append_to_a_file_that_somebody_changed_is_refused(
    meddle: Callable[[Path], None],
    tmp_path: Path,
    session: Session,
    digest: Callable[[], dict[str, bytes]],
) -> None:
    """S-02, starred."""
    first = session.append_sync(note())
    meddle(session.path)
    before = digest()

    with pytest.raises(PiError) as refused:
        session.append_sync(note())

    assert refused.value.code == "session"
    assert digest() == before
    assert session.leaf() == first.id


def test_an_unfinished_line_that_cannot_be_taken_back_ends_the_writing(tmp_path: Path) -> None:
    """A log on a read-only descriptor can neither write nor take back."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"{}\n")
    log = FileLog.open(path, "flush", read_only=True)

    for expected in ("nothing was written", "unfinished line"):
        with pytest.raises(PiError, match=expected):
            log.append(b"{}\n")
    log.close()
