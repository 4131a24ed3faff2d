"""The reference answers: whole v4 files, and branches with their projected context."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pi_nb.result import Err, Ok, PiError
from pi_nb.session.context import build_session_context
from pi_nb.session.entries import Entry, read_entry
from pi_nb.session.jsonl import FileLog
from pi_nb.session.session import Session
from pi_nb.session.v4.codec import V4

VECTORS = Path(__file__).parent.parent / "vectors"
FILES = json.loads((VECTORS / "sessions_v4.json").read_text("utf-8"))
CONTEXTS = json.loads((VECTORS / "compaction.json").read_text("utf-8"))["context"]


# An empty file says no version. As v4 it is an error, which the codec's test below holds;
# opening it gives a new session, as the vectors of v3 have it (known fault S-10, rule 16).
SAID = [case for case in FILES if case["text"]]


@pytest.mark.parametrize("case", SAID, ids=lambda case: case["name"])
def test_a_v4_file_opens_as_the_reference_says(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(case["text"].encode())
    expected = case["expect"]

    if not expected["ok"]:
        with pytest.raises(PiError) as refused:
            Session.open(path)
        assert refused.value.code == "session"
        assert path.read_bytes() == case["text"].encode()
        return

    with Session.open(path) as session:
        after = path.read_text("utf-8")
        assert {
            "ok": True,
            "lanes": dict(session.lanes),
            "entry_ids": [entry.id for entry in session.entries()],
            "main_branch": session.branch_ids("main"),
            "name": session.name,
            "labels": dict(session.labels),
            "open_operations": [record.id for record in session.open_operations()],
            "context_roles": [message.role for message in session.context().messages],
            "file_after": "unchanged" if after == case["text"] else after,
        } == expected


@pytest.mark.parametrize("case", FILES, ids=lambda case: case["name"])
def test_a_broken_v4_line_is_named(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(case["text"].encode())
    log = FileLog.open(path, "flush", read_only=True)

    result = V4().load(log.lines())

    log.close()
    match result:
        case Ok():
            assert case["expect"]["ok"]
        case Err(error):
            expected = case["expect"]
            assert (error.code, error.line) == (expected["code"], expected["line"])


def from_v3(entry: dict[str, Any]) -> Entry:
    """A v3 entry in our form: there, times are ISO texts."""
    moment = datetime.fromisoformat(entry["timestamp"])
    return read_entry({**entry, "timestamp": int(moment.timestamp() * 1000)})


@pytest.mark.parametrize("case", CONTEXTS, ids=lambda case: f"context-{CONTEXTS.index(case)}")
def test_a_branch_shows_the_model_what_the_reference_shows(case: dict[str, Any]) -> None:
    expected = case["expect"]

    context = build_session_context(map(from_v3, case["entries"]))

    model = context.model and {"provider": context.model[0], "modelId": context.model[1]}
    assert context.thinking_level == expected["thinking_level"]
    assert model == expected["model"]
    assert [
        {"entry": item.entry_id, "role": item.message.role} for item in context.items
    ] == expected["messages"]
