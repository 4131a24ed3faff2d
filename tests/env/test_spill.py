"""The whole of a long output, in a file that only its owner reads and only while it is needed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pi_nb.env.capture import Capture
from pi_nb.env.spill import Kept, Spill

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX modes")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files, for this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_what_fits_into_the_tail_makes_no_file(temporary: Path) -> None:
    capture = Capture()
    capture.feed(b"x" * 50_000)
    output = capture.output()
    capture.close()

    assert (output.full_path, output.truncated) == (None, False)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    "pieces",
    [
        [b"x\n" * 100_000],
        [b"line\n"] * 20_000,
        [b"y" * 60_000],
        [b"\n" * 2_500],
        [b"\xff" * 20_000],
    ],
    ids=["at once", "bit by bit", "one line", "many short lines", "longer as text"],
)
def test_what_is_longer_is_in_a_file_to_the_last_byte(pieces: list[bytes]) -> None:
    capture = Capture()
    for piece in pieces:
        capture.feed(piece)
    output = capture.output()
    capture.close()

    assert output.truncated
    assert output.full_path is not None
    assert Path(output.full_path).read_bytes() == b"".join(pieces)


@posix
def test_nobody_else_can_read_it() -> None:
    """Z-03."""
    former = os.umask(0o022)
    try:
        spilled = Spill(1)
        spilled.feed(b"secret")
        spilled.close()
    finally:
        os.umask(former)

    assert spilled.path is not None
    assert stat.S_IMODE(os.stat(spilled.path).st_mode) == 0o600


def test_at_the_cap_it_is_full_and_says_that_it_was_cut() -> None:
    """E-11: also where all that was printed is one progress line."""
    capture = Capture(max_total=1_000)
    for _ in range(30):
        capture.feed(b"\r working " + b"." * 30)
    output = capture.output()
    capture.close()

    assert capture.full
    assert output.truncated
    assert output.total_bytes == 1_000


def test_together_they_stay_within_a_bound_and_the_oldest_goes_first() -> None:
    kept = Kept(250)
    made = []
    for _ in range(4):
        one = Spill(10, kept)
        one.feed(b"x" * 100)
        one.close()
        made.append(one.path)

    assert [path is not None and os.path.exists(path) for path in made] == [
        *(False, False, True, True)
    ]


def test_a_folder_that_takes_no_file_is_a_word_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    capture = Capture()
    capture.feed(b"x\n" * 100_000)
    output = capture.output()
    capture.close()

    assert output.full_path is None
    assert output.not_kept == "No such file or directory"
    assert output.text.endswith("x\n")


FULL_DISK = """
import asyncio, os, resource, sys
from pi_nb.env.local import LocalEnv
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
result = asyncio.run(LocalEnv(sys.argv[1]).exec("seq 100000; echo done")).value
print(result.exit_code, result.output.full_path, result.output.not_kept, os.listdir(sys.argv[1]))
print(result.output.text[-12:])
"""


@posix
def test_a_disk_that_fills_up_is_said_and_the_command_goes_on(temporary: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(temporary)],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == "0 None File too large []\n100000\ndone\n\n"


ONE_COMMAND = """
import asyncio, os
from pi_nb.env.local import LocalEnv
path = asyncio.run(LocalEnv().exec("seq 100000")).value.output.full_path
if os.fork() == 0:
    raise SystemExit  # a child that ends leaves its parent's files alone
os.wait()
print(path, os.path.getsize(path))
"""


@posix
def test_with_the_interpreter_its_files_go(temporary: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ONE_COMMAND],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=True,
    )
    path, size = ran.stdout.split()

    assert (Path(path).parent, int(size)) == (temporary, 588_895)
    assert list(temporary.iterdir()) == []
