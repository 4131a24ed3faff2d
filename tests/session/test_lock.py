"""One writer a file, whoever the others are."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from pi_nb.result import PiError
from pi_nb.session.entries import CustomEntry
from pi_nb.session.lock import Owner
from pi_nb.session.session import Session

HOLDER = """
    import sys
    from pi_nb.session.session import Session
    session = Session.open(sys.argv[1])
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has `s.jsonl` open until it is told to end."""
    Session.create(tmp_path / "s.jsonl", cwd="/w").close()
    with subprocess.Popen(
        [sys.executable, "-c", dedent(HOLDER), str(tmp_path / "s.jsonl")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "JPY_SESSION_NAME": "/home/somebody/study.ipynb"},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        yield child
        child.kill()


def test_a_second_process_is_told_who_has_it_and_may_look(
    tmp_path: Path, holder: subprocess.Popen[str], digest: Callable[[], dict[str, bytes]]
) -> None:
    """S-02, starred."""
    before = digest()

    with pytest.raises(PiError) as refused:
        Session.open(tmp_path / "s.jsonl")
    with Session.open(tmp_path / "s.jsonl", read_only=True) as session:
        assert session.read_only

    assert refused.value.code == "session"
    assert f"in use by process {holder.pid} (study.ipynb) since 20" in refused.value.message
    assert "read_only=True" in refused.value.message
    assert digest() == before


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_the_lock_goes_with_its_process(
    end: str, tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    """S-02, starred: a killed kernel leaves its owner file; one that ends takes it along."""
    if end == "kill":
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    else:
        holder.communicate()
    assert (tmp_path / "s.jsonl.owner.json").exists() == (end == "kill")

    with Session.open(tmp_path / "s.jsonl") as session:
        session.append_sync(CustomEntry(custom_type="x"))
        owner = json.loads((tmp_path / "s.jsonl.owner.json").read_text())
        assert owner["pid"] == os.getpid()

    assert not (tmp_path / "s.jsonl.owner.json").exists()


def test_where_the_system_does_not_lock_a_living_owner_still_counts(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    # A lock file that was taken away locks nothing.
    (tmp_path / "s.jsonl.lock").unlink()

    with pytest.raises(PiError, match=f"process {holder.pid}"):
        Session.open(tmp_path / "s.jsonl")


def test_an_owner_whose_number_went_to_another_process_is_dead() -> None:
    mine = Owner.here()
    earlier = Owner(mine.pid, (mine.started or 0) - 60_000, mine.host, None, mine.since)
    elsewhere = Owner(mine.pid, earlier.started, f"not-{mine.host}", None, mine.since)

    assert mine.lives
    assert elsewhere.lives  # nobody here can know
    if mine.started is not None:
        assert not earlier.lives


FAR = b'{"pid":1,"started":null,"host":"h","notebook":null,"since":99999999999999999999}'


@pytest.mark.parametrize("junk", [b"", b"[]", b'{"pid":"x"}', FAR, b"\xff", b"[" * 100_000])
def test_an_owner_file_that_says_nothing_is_replaced(junk: bytes, tmp_path: Path) -> None:
    Session.create(tmp_path / "s.jsonl", cwd="/w").close()
    (tmp_path / "s.jsonl.owner.json").write_bytes(junk)

    with Session.open(tmp_path / "s.jsonl"):
        assert b'"pid"' in (tmp_path / "s.jsonl.owner.json").read_bytes()


def test_nobody_else_can_read_a_session_or_what_is_beside_it(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        with Session.create(tmp_path / "sub" / "s.jsonl", cwd="/w"):
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "sub").iterdir()}
            folder = stat.S_IMODE((tmp_path / "sub").stat().st_mode)
    finally:
        os.umask(former)

    assert folder == 0o700
    assert modes == dict.fromkeys(("s.jsonl", "s.jsonl.lock", "s.jsonl.owner.json"), 0o600)


def test_a_fork_neither_writes_nor_lets_the_lock_go(tmp_path: Path) -> None:
    script = """
        import os, sys
        from pi_nb.result import PiError
        from pi_nb.session.entries import CustomEntry
        from pi_nb.session.session import Session
        session = Session.create(sys.argv[1], cwd="/w")
        session.append_sync(CustomEntry(custom_type="x"))
        child = os.fork()
        if child == 0:
            try:
                session.append_sync(CustomEntry(custom_type="x"))
            except PiError as error:
                print(error.code, flush=True)
            sys.exit()  # runs the child's own exit handlers
        os.waitpid(child, 0)
        assert os.path.exists(sys.argv[1] + ".owner.json")
        session.append_sync(CustomEntry(custom_type="x"))
    """
    path = tmp_path / "s.jsonl"

    child = subprocess.run(
        [sys.executable, "-c", dedent(script), str(path)],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip

    assert (child.stdout, child.returncode) == ("invalid_state\n", 0), child.stderr
    with Session.open(path) as session:
        assert len(session) == 2
