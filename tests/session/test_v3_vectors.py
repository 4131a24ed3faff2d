"""The reference answers for pi's own files, and what opening them leaves untouched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pi_nb.messages import blocks_of
from pi_nb.session.context import build_session_context
from pi_nb.session.entries import CustomEntry
from pi_nb.session.session import Session

VECTORS = Path(__file__).parent.parent / "vectors"
FILES = json.loads((VECTORS / "sessions_v3.json").read_text("utf-8"))
COMPACTION = json.loads((VECTORS / "compaction.json").read_text("utf-8"))


@pytest.mark.parametrize("case", FILES, ids=lambda case: case["name"])
def test_a_v3_file_opens_as_the_reference_says(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(case["text"].encode())

    with Session.open(path) as session:
        found = _seen(session)

    assert {"ok": True, **found} == case["expect"]
    assert path.read_bytes() == case["text"].encode()


@pytest.mark.parametrize("case", FILES, ids=lambda case: case["name"])
def test_a_v3_file_is_the_same_session_after_one_append(
    case: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(case["text"].encode())

    with Session.open(path) as session:
        before = _seen(session)
        added = session.append_sync(CustomEntry(custom_type="x"))
    with Session.open(path) as again:
        after = _seen(again)
        leaf = again.leaf()

    assert leaf == added.id
    assert after["parents"][:-1] == before["parents"]
    assert after["parents"][-1] == before["leaf"]
    for field in ("name", "labels", "thinking_level", "model", "messages"):
        assert after[field] == before[field]
    assert path.read_bytes().endswith(b"\n")


def _seen(session: Session) -> dict[str, Any]:
    entries = list(session.entries())
    rows = {entry.id: row for row, entry in enumerate(entries)}
    context = session.context()
    leaf = session.leaf()
    model = context.model
    return {
        "entries": len(entries),
        "leaf": None if leaf is None else rows[leaf],
        "parents": [rows.get(entry.parent_id or "", entry.parent_id) for entry in entries],
        "name": session.name,
        "labels": dict(session.labels),
        "thinking_level": context.thinking_level,
        "model": model and {"provider": model[0], "modelId": model[1]},
        "messages": [{"role": m.role, "text": _text(m)} for m in context.messages],
    }


def _text(message: Any) -> str:
    if hasattr(message, "summary"):
        return str(message.summary)
    return "".join(getattr(block, "text", "") for block in blocks_of(message.content))


@pytest.mark.parametrize("case", COMPACTION["context"], ids=range(len(COMPACTION["context"])))
def test_a_branch_of_pi_is_projected_and_counted_as_the_reference_does(
    case: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z"}
    lines = [{**header, "cwd": "/w"}, *case["entries"]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")

    with Session.open(path) as session:
        context = session.context()
        assert build_session_context(session.branch()).messages == context.messages

    expected = case["expect"]
    model = context.model
    assert context.thinking_level == expected["thinking_level"]
    assert (model and {"provider": model[0], "modelId": model[1]}) == expected["model"]
    assert [(item.entry_id, item.message.role) for item in context.items] == [
        (message["entry"], message["role"]) for message in expected["messages"]
    ]
    size = context.size
    assert {
        "tokens": size.tokens,
        "usage_tokens": size.reported,
        "trailing_tokens": size.tokens - size.reported,
    } == expected["context_tokens"]
