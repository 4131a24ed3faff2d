"""Several who want to write one session: processes one after another, tasks of one in turns."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pi_nb.result import PiError
from pi_nb.session.entries import CustomEntry
from pi_nb.session.lock import SessionLock
from pi_nb.session.session import Session
from pi_nb.session.writer import Writer

pytestmark = pytest.mark.anyio

Create = Callable[..., Session]


def note(text: str = "") -> CustomEntry:
    return CustomEntry(custom_type="note", data=text)


# --- processes ---------------------------------------------------------------------------------

RIVAL = """
    import os, sys
    from pi_nb.result import PiError
    from pi_nb.session.lock import SessionLock
    from pathlib import Path
    path = Path(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    taken = 0
    while taken < 100:
        try:
            lock = SessionLock(path)
        except PiError:
            continue
        # A second holder would find the first one's mark.
        mark = os.open(f"{path}.mark", os.O_CREAT | os.O_EXCL)
        taken += 1
        os.close(mark)
        os.unlink(f"{path}.mark")
        lock.release()
    print("done")
"""


def rivals(script: str, *arguments: str, number: int = 3) -> list[str]:
    """Run a script in several processes that begin at one moment; what each printed last."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", dedent(script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(number)
    ]  # fmt: skip
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=60) for child in children]
    return [out or error for out, error in said]


@pytest.mark.slow
def test_a_lock_whose_file_goes_with_it_never_has_two_holders(tmp_path: Path) -> None:
    """S-02, starred: the file is taken away while the others are about to lock it."""
    said = rivals(RIVAL, str(tmp_path / "s.jsonl"))

    assert said == ["done\n"] * 3
    assert list(tmp_path.iterdir()) == []


TURNS = """
    import sys
    from pi_nb.result import PiError
    from pi_nb.session.entries import CustomEntry
    from pi_nb.session.session import Session
    print("ready", flush=True)
    sys.stdin.readline()
    written = 0
    while written < 20:
        try:
            with Session.open(sys.argv[1], durability="flush") as session:
                session.append_sync(CustomEntry(custom_type="note"))
        except PiError as error:
            assert "in use" in error.message, error
        else:
            written += 1
    print("done")
"""


@pytest.mark.slow
def test_processes_that_write_in_turns_make_one_branch(create: Create, tmp_path: Path) -> None:
    """S-02, starred."""
    path = tmp_path / "s.jsonl"
    create(path).close()

    assert rivals(TURNS, str(path)) == ["done\n"] * 3

    with Session.open(path) as session:
        assert len(session.branch_ids()) == len(session) == 60
        assert session.diagnostics == ()
    assert [file.name for file in tmp_path.iterdir()] == ["s.jsonl"]


@pytest.mark.slow
def test_who_only_looks_sees_whole_entries_while_somebody_writes(
    create: Create, tmp_path: Path
) -> None:
    """A line may be half there at that moment; it is told of and taken for no harm."""
    path = tmp_path / "s.jsonl"
    over = threading.Event()

    with create(path) as session:

        def write() -> None:
            for _ in range(200):
                session.append_sync(note("x" * 20_000))
            over.set()

        writing = threading.Thread(target=write)
        writing.start()
        seen: list[str] = []
        link = tmp_path / "look.jsonl"
        link.hardlink_to(path)  # the same file, but another path: not the same object
        while not over.is_set():
            with Session.open(link, read_only=True) as there:
                now = there.branch_ids()
                assert {d.code for d in there.diagnostics} <= {"torn_tail"}
            assert now[: len(seen)] == seen
            seen = now
        writing.join()
        assert session.branch_ids()[: len(seen)] == seen


def test_who_reads_an_old_file_while_it_becomes_v3_reads_the_same(tmp_path: Path) -> None:
    """The first append moves every line of it to another place."""
    path = tmp_path / "s.jsonl"
    header = '{"type":"session","id":"one","timestamp":"2025-10-01T10:00:00.000Z","cwd":"/w"}\n'
    time = '"timestamp":"2025-10-01T10:00:01.000Z"'
    body = '{"type":"message",%s,"message":{"role":"user","content":"%s"}}\n'
    path.write_text(header + "".join(body % (time, "x" * size) for size in range(300)))

    with Session.open(path, durability="flush") as session:
        before = list(session.entries())
        begun, over = threading.Event(), threading.Event()

        def read() -> None:
            while not over.is_set():
                assert list(session.entries())[: len(before)] == before
                begun.set()

        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read)
            try:
                assert begun.wait(10)
                session.append_sync(note())
            finally:
                over.set()
            reading.result()


# --- one process -------------------------------------------------------------------------------


async def test_writers_of_one_process_take_turns(create: Create, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with create(path) as session:

        async def write(name: str) -> list[CustomEntry]:
            return [await session.append(note(f"{name} {number}")) for number in range(10)]

        def write_sync(name: str) -> list[CustomEntry]:
            return [session.append_sync(note(f"{name} {number}")) for number in range(10)]

        tasks = [write(name) for name in "ab"]
        threads = [asyncio.to_thread(write_sync, name) for name in "cd"]
        written = await asyncio.gather(*tasks, *threads)

        parents = [session.parent_id(entry_id) for entry_id in session.branch_ids()]
        assert parents == [None, *session.branch_ids()[:-1]]
    with Session.open(path) as again:
        branch = again.branch()
    for entries in written:
        places = [branch.index(entry) for entry in entries]
        assert places == sorted(places)
    assert len(branch) == 40


def test_a_file_that_many_threads_open_is_one_object(create: Create, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    create(path).close()

    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: Session.open(path), range(40)))

    assert len({id(session) for session in opened}) == 1
    opened[0].close()


def test_a_lock_file_that_somebody_else_made_meanwhile_is_left(tmp_path: Path) -> None:
    """Who deletes a lock file by hand lets another take the lock; that one stays whole."""
    lock = SessionLock(tmp_path / "s.jsonl")
    for file in tmp_path.iterdir():
        file.unlink()
    other = tmp_path / "s.jsonl.lock"
    other.write_bytes(b"")
    (tmp_path / "s.jsonl.owner.json").write_text("{}")

    lock.release()

    assert other.exists()
    assert (tmp_path / "s.jsonl.owner.json").read_text() == "{}"


async def test_a_write_that_fails_after_its_waiter_left_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The event loop would call it an exception that nobody retrieved."""
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: unseen.append(about))
    writer, leave = Writer(), threading.Event()

    def fail() -> None:
        leave.wait(10)
        raise PiError("session", "No space left on device")

    caller = asyncio.create_task(writer.do(fail))
    await asyncio.sleep(0)  # let it be queued
    caller.cancel()
    with suppress(asyncio.CancelledError):
        await caller
    del caller
    leave.set()
    await writer.do(lambda: None)
    await asyncio.sleep(0)
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)
    writer.close(wait=True)

    assert unseen == []
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.ERROR, "a write whose caller was cancelled failed: No space left on device")
    ]
