"""How far estimators are off, on sessions that report usage."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from pi_nb.compaction.estimating import calibration, estimator_errors, session_estimator
from pi_nb.estimators import estimator
from pi_nb.messages import AssistantMessage, TextContent, Usage, user
from pi_nb.result import PiError
from pi_nb.session.entries import ContextEditEntry, MessageEntry, Replacement
from pi_nb.session.session import Session
from pi_nb.tokens import PI

SAMPLES = os.environ.get("PI_NB_SAMPLES", "")
FILES = sorted(Path(SAMPLES).glob("pi-v1-*.jsonl")) if SAMPLES else []

samples = pytest.mark.skipif(not FILES, reason="PI_NB_SAMPLES names no folder of sample sessions")
TEXT = "four" * 400
"""400 tokens by rule `pi`."""


def answer(requested: int) -> AssistantMessage:
    """1 token."""
    return AssistantMessage(
        content=(TextContent(text="done"),),
        provider="openai",
        model="gpt-5",
        usage=Usage(input=requested, output=10),
    )


def grown(path: Path, *requested: int) -> Session:
    """A session whose requests were reported as these, 401 tokens by rule `pi` between two."""
    session = Session.create(path, cwd=path.parent)
    for number in requested:
        session.append_sync(MessageEntry(message=user(TEXT)))
        session.append_sync(MessageEntry(message=answer(number)))
    return session


def test_a_row_is_what_was_estimated_over_what_was_reported(tmp_path: Path) -> None:
    session = grown(tmp_path / "s.jsonl", 1_000, 1_401, 2_203, 2_210)

    (row,) = estimator_errors(session, ["pi"])

    assert (row.session, row.estimator) == ("s", "pi")
    assert (row.intervals, row.left_out) == (2, 1)
    assert row.bias == pytest.approx(802 / 1_203)
    assert row.median == pytest.approx(0.75)
    assert row.error == pytest.approx(0.25)


def test_calibrated_knows_only_what_came_before_each_interval(tmp_path: Path) -> None:
    # The provider counts twice what `pi` does, and 4 around each message.
    session = grown(tmp_path / "s.jsonl", 1_000, 1_810, 2_620)

    pi, put_right = estimator_errors(session, ["pi", "calibrated/pi"])

    assert pi.error == pytest.approx(1 - 401 / 810)
    assert put_right.error == pytest.approx(pi.error / 2), "the first knows nothing yet"
    assert calibration(session, PI).factor == 2.0
    assert session_estimator(session).source == "calibrated"


def test_nothing_is_measured_across_a_compaction_or_an_edit(tmp_path: Path) -> None:
    session = grown(tmp_path / "s.jsonl", 1_000)
    first = session.branch_ids("main")[0]
    session.append_sync(ContextEditEntry(target_id=first, replacement=Replacement(content="short")))
    session.append_sync(MessageEntry(message=user(TEXT)))
    session.append_sync(MessageEntry(message=answer(1_401)))

    (row,) = estimator_errors(session, ["pi"])

    assert (row.bias, row.median, row.error, row.intervals) == (None, None, None, 0)
    assert session_estimator(session).source == "piece/o200k", "no usage to learn from"


def test_a_table_reads_as_text_as_html_and_as_data(tmp_path: Path) -> None:
    session = grown(tmp_path / "<b>.jsonl", 1_000, 1_401)

    table = estimator_errors([session, session], ["pi", "piece", PI])

    assert len(table) == 6
    assert str(table) == repr(table)
    assert "mean error" in str(table)
    assert "piece/o200k" in str(table)
    assert "&lt;b&gt;" in table._repr_html_()
    assert "style" not in table._repr_html_()
    assert json.loads(json.dumps(table.to_dict()))[0]["intervals"] == 1


def test_a_frame_is_made_where_pandas_is(tmp_path: Path) -> None:
    table = estimator_errors(grown(tmp_path / "s.jsonl", 1_000, 1_401), ["pi"])

    if find_spec("pandas"):
        assert list(table.to_frame()["estimator"]) == ["pi"]
    else:
        with pytest.raises(PiError, match="pip install pandas"):
            table.to_frame()


def test_an_unknown_estimator_is_named(tmp_path: Path) -> None:
    session = grown(tmp_path / "s.jsonl", 1_000)

    for name in ("nobody", "calibrated/nobody", "piece/nobody"):
        with pytest.raises(PiError, match="nobody"):
            estimator_errors(session, [name])


@samples
@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_pieces_and_calibrated_are_near_what_real_sessions_report(file: Path) -> None:
    """Issue 5: `piece` within 15 %, `calibrated` within 12 % mean absolute error."""
    with Session.open(file, read_only=True) as session:
        rows = estimator_errors(session, ["pi", "piece", "calibrated", "calibrated/pi"])
        pi, piece, put_right, pi_put_right = rows

    assert piece.estimator == "piece/claude_v3"
    assert min(row.intervals for row in rows) > 200
    assert pi.error is not None
    assert piece.error is not None
    assert put_right.error is not None
    assert pi_put_right.error is not None
    assert piece.error < 0.15
    assert put_right.error < 0.12
    assert pi_put_right.error < 0.12 < 0.25 < pi.error


@samples
def test_a_real_session_is_calibrated_near_its_pieces() -> None:
    with Session.open(FILES[0], read_only=True) as session:
        found = calibration(session, estimator("piece/claude_v3"))

    assert 0.85 < found.factor < 1.15
