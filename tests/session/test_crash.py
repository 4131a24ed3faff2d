"""What is left when a writer is killed, or a file ends or breaks in the middle of a line."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import bodies

from pi_nb.result import PiError
from pi_nb.session.entries import CustomEntry, Entry
from pi_nb.session.session import Session

T = TypeVar("T")
Create = Callable[..., Session]

# The fixtures that these properties take are the same for every example: a way to make a
# session, and a way to make folders.
drawn = settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def note(text: str = "") -> CustomEntry:
    return CustomEntry(custom_type="note", data=text)


# --- killed ------------------------------------------------------------------------------------

NURSERY = """
    import os, random, sys
    from pi_nb.session.entries import CustomEntry
    from pi_nb.session.session import Session

    def write(path, seed):
        chance = random.Random(seed)
        session = Session.open(path, durability="flush")
        while True:
            size = chance.choice([0, 100, 3_000, 300_000])
            entry = session.append_sync(CustomEntry(custom_type="note", data="x" * size))
            os.write(1, f"wrote {entry.id}\\n".encode())

    for line in sys.stdin:
        path, seed = line.rstrip("\\n").rsplit(" ", 1)
        child = os.fork()
        if child == 0:
            write(path, seed)
        os.write(1, f"begun {child}\\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"over\\n")
"""


class Nursery:
    """A process that forks a writer whenever it is told to: no kill costs a start of Python."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", dedent(NURSERY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def write_and_be_killed(self, path: Path, seed: int) -> list[str]:
        """Let a writer append to a session until it is killed at some moment.

        Returns:
            The ids of the entries that it was told are written.
        """
        asked, told = self._process.stdin, self._process.stdout
        assert asked
        assert told
        asked.write(f"{path} {seed}\n")
        asked.flush()
        chance = random.Random(seed)
        enough, begun, ids = chance.choice([0, 1, 5, 20]), 0, list[str]()
        while line := told.readline():
            what, _, value = line.strip().partition(" ")
            if what == "over":
                return ids
            if what == "begun":
                begun = int(value)
            else:
                ids.append(value)
            if begun and len(ids) >= enough:
                # Anywhere: while it starts, in a write, or between two.
                time.sleep(chance.uniform(0, 0.004))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(begun, signal.SIGKILL)
        raise AssertionError("the nursery ended")

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def kill_one(nursery: Nursery, path: Path, seed: int, known: list[str]) -> list[str]:
    """One kill of a writer: nothing told of is lost, and the session goes on.

    Args:
        known: What was in the file before.

    Returns:
        What is in it after.
    """
    told = nursery.write_and_be_killed(path, seed)

    with Session.open(path, durability="flush") as session:
        kept = session.branch_ids()
        assert kept[: len(known)] == known
        assert kept[len(known) :][: len(told)] == told
        assert {d.code for d in session.diagnostics} <= {"torn_tail"}
        added = session.append_sync(note())
    with Session.open(path, durability="flush") as session:
        assert session.branch_ids() == [*kept, added.id]
        assert session.diagnostics == ()
    return [*kept, added.id]


@pytest.mark.parametrize(
    "kills",
    [pytest.param(4, id="4 kills"), pytest.param(200, id="200 kills", marks=pytest.mark.slow)],
)
def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(
    kills: int, nursery: Nursery, create: Create, tmp_path: Path
) -> None:
    path, known = tmp_path / "0.jsonl", list[str]()

    for seed in range(kills):
        if seed % 8 == 0:  # a long file only makes the look at it slow
            path, known = tmp_path / f"{seed}.jsonl", []
            create(path).close()
        known = kill_one(nursery, path, seed, known)


# --- cut short ---------------------------------------------------------------------------------


@drawn
@given(given_bodies=st.lists(bodies, min_size=1, max_size=4), data=st.data())
def test_a_crash_at_any_byte_loses_at_most_the_line_being_written(
    create: Create,
    tmp_path_factory: pytest.TempPathFactory,
    given_bodies: list[Entry],
    data: st.DataObject,
) -> None:
    """S-01, starred."""
    path = tmp_path_factory.mktemp("crash") / "s.jsonl"
    with create(path) as session:
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
    create: Create, tmp_path: Path
) -> None:
    """S-01, starred: six lines, of the last one 40 bytes."""
    path = tmp_path / "s.jsonl"
    with create(path) as session:
        for number in range(5):
            session.append_sync(note(str(number)))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:40])

    with Session.open(path) as session:
        assert [(d.line, d.code) for d in session.diagnostics] == [(6, "torn_tail")]
        assert len(session) == 4
        session.append_sync(note())

    (torn,) = tmp_path.glob("s.jsonl.torn-*")
    assert torn.read_bytes() == lines[5][:40]
    assert stat.S_IMODE(torn.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"".join(lines[:5]))
    with Session.open(path) as session:
        assert (len(session), session.diagnostics) == (5, ())


def test_read_only_a_torn_tail_is_told_of_and_left(
    create: Create, tmp_path: Path, digest: Callable[[], dict[str, bytes]]
) -> None:
    path = tmp_path / "s.jsonl"
    create(path).close()
    with path.open("ab") as file:
        file.write(b'{"kind":"en')
    before = digest()

    with Session.open(path, read_only=True) as session:
        assert [d.code for d in session.diagnostics] == ["torn_tail"]

    assert digest() == before


V1 = b"""\
{"type":"session","id":"one","timestamp":"2025-10-01T10:00:00.000Z","cwd":"/w"}
{"type":"message","timestamp":"2025-10-01T10:00:01.000Z","message":{"role":"user","content":"caf\xc3\xa9"}}
{"type":"model_change","timestamp":"2025-10-01T10:00:02.000Z","provider":"p","modelId":"m"}
{"type":"message","timestamp":"2025-10-01T10:00:03.000Z","message":{"role":"user","content":"\xf0\x9f\x98\x80"}}
"""


@given(end=st.integers(V1.index(b"\n") + 1, len(V1)))
def test_an_old_file_cut_at_any_byte_is_untouched_until_it_is_continued(
    tmp_path_factory: pytest.TempPathFactory, end: int
) -> None:
    path = tmp_path_factory.mktemp("old") / "s.jsonl"
    path.write_bytes(V1[:end])
    whole = V1[:end].count(b"\n") - 1

    with Session.open(path) as session:
        kept = session.branch_ids()
        said = [item.message for item in session.context().items]
    assert path.read_bytes() == V1[:end]
    assert [file.name for file in path.parent.iterdir()] == ["s.jsonl"]
    assert len(kept) - whole in (0, 1)

    with Session.open(path) as session:
        assert session.branch_ids() == kept  # ids that the file lacks are the same each time
        added = session.append_sync(note())
    (old,) = path.parent.glob("s.jsonl.v1*")
    aside = b"".join(file.read_bytes() for file in path.parent.glob("*.torn-*"))
    assert (old.read_bytes() + aside).removesuffix(b"\n") == V1[:end].removesuffix(b"\n")
    with Session.open(path) as session:
        assert session.header.version == 3
        assert session.branch_ids() == [*kept, added.id]
        assert [item.message for item in session.context().items] == said
        assert session.diagnostics == ()


# --- garbled -----------------------------------------------------------------------------------


def garble(line: bytes, data: st.DataObject) -> bytes:
    """A line with bytes changed, taken out or put in: whatever a disk or an editor does."""
    at = data.draw(st.integers(0, len(line)), label="at byte")
    upto = data.draw(st.integers(at, len(line)), label="up to")
    return line[:at] + data.draw(st.binary(max_size=20), label="becomes") + line[upto:]


@drawn
@given(given_bodies=st.lists(bodies, min_size=1, max_size=4), data=st.data())
def test_a_file_with_a_garbled_line_opens_or_is_refused_and_stays_as_it_was(
    create: Create,
    tmp_path_factory: pytest.TempPathFactory,
    given_bodies: list[Entry],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("garbled") / "s.jsonl"
    with create(path) as session:
        written = [session.append_sync(body) for body in given_bodies]
        strict = session.header.version == 4
    lines = path.read_bytes().split(b"\n")
    number = data.draw(st.integers(0, len(lines) - 1), label="line")
    untouched = [body.id for at, body in enumerate(written, 1) if at != number]
    lines[number] = garble(lines[number], data)
    path.write_bytes(before := b"\n".join(lines))

    session = answered(lambda: Session.open(path, read_only=True))
    if session is None:
        # A file of pi's own is refused for its first line alone.
        assert strict or number == 0
    else:
        with session:
            assert all(entry_id in session for entry_id in untouched)
            # A line may be JSON and its body none that fits: it is named when it is read.
            for ask in (session.context, session.outline, lambda: list(session.entries())):
                answered(ask)

    assert path.read_bytes() == before


def answered(ask: Callable[[], T]) -> T | None:
    """The answer; None where it was refused in the one way there is."""
    try:
        return ask()
    except PiError as error:
        refused = error
    assert refused.code == "session"
    assert "\n" not in refused.message
    return None
