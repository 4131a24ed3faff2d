"""The benchmark's own code runs, and both sides cut alike; how fast is nobody's test."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import compaction
from interop.peer import why_no_peer

from pi_nb.session.session import Session


def test_a_generated_branch_is_all_in_context_and_without_oddities(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text("".join(compaction.lines(200)), "utf-8")

    with Session.open(tmp_path / "s.jsonl", read_only=True) as session:
        assert session.diagnostics == ()
        assert len(session.context().messages) == len(session.branch_ids()) == 200


@pytest.mark.slow
def test_both_sides_are_asked_and_cut_alike(tmp_path: Path) -> None:
    if missing := why_no_peer():
        pytest.skip(missing)

    rows = compaction.measure(tmp_path, rounds=1, long=300, short=60)

    assert [row.what for row in rows] == list(compaction.BOUNDS)
    assert all(row.pi > 0 and row.ours > 0 for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_the_table_says_which_bound_holds() -> None:
    rows = [
        compaction.Row(100_000, "plan", pi=100.0, ours=29.0),
        compaction.Row(100_000, "files", pi=100.0, ours=99.0),
        compaction.Row(1_000, "sweep", pi=1_000.0, ours=51.0),
        compaction.Row(1_000, "sweep", pi=90_000.0, ours=2_100.0),
    ]

    told = compaction.table(rows).splitlines()[2:]

    assert [line.split("|")[5:8] for line in told] == [
        [" 0.290 ", " 0.30 ", " holds "],
        [" 0.990 ", "  ", "  "],
        [" 0.051 ", " 0.05, 2,000 ms ", " DOES NOT HOLD "],
        [" 0.023 ", " 0.05, 2,000 ms ", " DOES NOT HOLD "],
    ]
    assert [row.holds for row in rows] == [True, True, False, False]
