"""The benchmark's own code runs, and both sides answer alike; how fast is nobody's test."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import sessions
from interop.peer import why_no_peer

from pi_nb.session.session import Session


def test_a_generated_session_is_one_without_oddities(tmp_path: Path) -> None:
    sessions.write(tmp_path / "s.jsonl", 900)

    with Session.open(tmp_path / "s.jsonl") as session:
        assert len(session) == 900
        assert session.diagnostics == ()
        assert 20 < len(session.context().messages) < 450
        assert [entry.type for entry in session.branch()].count("compaction") == 2
        assert len(session.branch_ids()) < 900


@pytest.mark.slow
def test_both_sides_are_asked_and_see_the_same(tmp_path: Path) -> None:
    if missing := why_no_peer():
        pytest.skip(missing)

    rows = sessions.measure(200, tmp_path, rounds=1, sessions=20)

    assert [row.what for row in rows] == list(sessions.BOUNDS)
    assert all(row.pi > 0 and row.ours >= 0 for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_the_table_says_which_bound_holds() -> None:
    rows = [
        sessions.Row(1_000, "open", pi=10.0, ours=5.0),
        sessions.Row(1_000, "context", pi=10.0, ours=5.0),
        sessions.Row(1_000, "turn", pi=10.0, ours=20.0),
    ]

    told = sessions.table(rows).splitlines()[2:]

    assert [line.split("|")[5:8] for line in told] == [
        [" 0.500 ", " 0.60 ", " holds "],
        [" 0.500 ", " 0.05 ", " DOES NOT HOLD "],
        [" 2.000 ", "  ", "  "],
    ]
    assert [row.holds for row in rows] == [True, False, True]
