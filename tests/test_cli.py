"""The command line: the demo from end to end, and what a wrong word gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pi_nb.session.entries import BranchSummaryEntry, CompactionEntry, MessageEntry
from pi_nb.session.session import Session


def _run(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pi_nb", *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_the_demo_mends_a_real_project_and_leaves_its_session(tmp_path: Path) -> None:
    folder = tmp_path / "shelf"

    done = _run("demo", "--folder", str(folder), cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    tests = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=folder, capture_output=True, timeout=30
    )
    assert tests.returncode == 0
    with Session.open(folder / "session.jsonl", read_only=True) as session:
        messages = [e.message for e in session.entries() if e.type == "message"]
        stops = [m.stop_reason for m in messages if m.role == "assistant"]
        assert stops.count("aborted") == 1
        roots = session.child_ids(None)
        forks = [i for e in session.entries() if len(i := session.child_ids(e.id)) > 1]
        assert len(roots) == 1
        assert len(forks) == 1, "it branches once"
        assert str(session.outline()).strip() in done.stdout
        (compaction,) = [e for e in session.entries() if isinstance(e, CompactionEntry)]
        kept = session.entry(compaction.first_kept_entry_id or "")
        assert "## Turn in Progress" in compaction.summary, "a turn is split"
        assert isinstance(kept, MessageEntry)
        assert kept.message.role == "assistant"
        (left,) = [e for e in session.entries() if isinstance(e, BranchSummaryEntry)]
        assert left.id in forks[0], "its summary begins the other branch"
        assert left.id in session.branch_ids()
        assert "deliveries-1.txt" in left.summary
    assert "compacted by itself (threshold)" in done.stdout
    for line in ("### Asked", "- Read the four lists of deliveries and count the late ones."):
        assert f"  | {line}\n" in done.stdout
    assert "nobody is asked:\n  | ## Goal\n" in done.stdout
    assert str(folder / "session.jsonl") in done.stdout


@pytest.mark.slow
def test_the_demo_writes_an_executed_notebook(tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="the demo's notebook needs the extra `notebook`")
    import nbformat

    done = _run("demo", "--notebook", "out.ipynb", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    notebook = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["dmeo"], "dmeo", 2),
        (["--nonsense"], "--nonsense", 2),
        (["demo", "--nonsense"], "--nonsense", 2),
        (["demo", "--folder", "full"], "not empty", 1),
        (["demo", "--folder", "file"], "file", 1),
        (["demo", "--notebook", "no/such/folder/x.ipynb"], "no/such/folder", 1),
    ],
)
def test_a_wrong_word_is_one_line_and_changes_nothing(
    tmp_path: Path, arguments: list[str], said: str, code: int
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted(path.name for path in tmp_path.rglob("*"))

    done = _run(*arguments, cwd=tmp_path)

    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_without_a_command_it_shows_the_help(tmp_path: Path) -> None:
    done = _run(cwd=tmp_path)

    assert done.returncode == 0
    assert "demo" in done.stdout
