"""The reference answers: where a branch is cut, and what that means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.branches import prepare_branch
from pi_nb.compaction.prepare import prepare
from pi_nb.compaction.transcript import as_text
from pi_nb.messages import read_message
from pi_nb.session.entries import Entry
from pi_nb.session.session import Session

VECTORS = json.loads(
    (Path(__file__).parent.parent / "vectors" / "compaction.json").read_text("utf-8")
)
HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z"}


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> list[list[Entry]]:
    """The branches of the vectors, read as v3 files."""
    folder = tmp_path_factory.mktemp("v")
    found = []
    for number, case in enumerate(VECTORS["context"]):
        path = folder / f"{number}.jsonl"
        lines = [{**HEADER, "cwd": "/w"}, *case["entries"]]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        with Session.open(path, read_only=True) as session:
            found.append(session.branch())
    return found


@pytest.mark.parametrize("number", range(len(VECTORS["prepare"])))
def test_a_branch_is_cut_where_the_reference_cuts_it(
    number: int, branches: list[list[Entry]]
) -> None:
    case = VECTORS["prepare"][number]
    branch = Branch.from_entries(branches[case["case"]])

    found = prepare(branch, case["keep_recent_tokens"])

    assert (found and _as_vector(found)) == case["expect"]


def _as_vector(found: Any) -> dict[str, Any]:
    files = found.files
    return {
        "first_kept_entry_id": found.first_kept_entry_id,
        "is_split_turn": found.is_split_turn,
        "tokens_before": found.branch.size.tokens,
        "previous_summary": found.previous_summary,
        "summarize": [item.entry_id for item in found.history],
        "turn_prefix": [item.entry_id for item in found.turn_prefix],
        "read_files": list(files.read),
        "modified_files": list(files.modified),
    }


@pytest.mark.parametrize("number", range(len(VECTORS["branch"])))
def test_a_left_branch_is_gathered_as_the_reference_does(
    number: int, branches: list[list[Entry]]
) -> None:
    case = VECTORS["branch"][number]

    found = prepare_branch(branches[case["case"]], case["token_budget"])

    assert {
        "messages": [item.entry_id for item in found.items],
        "total_tokens": found.tokens,
        "read_files": list(found.files.read),
        "modified_files": list(found.files.modified),
    } == case["expect"]


@pytest.mark.parametrize("number", range(len(VECTORS["serialize"])))
def test_messages_are_flattened_as_the_reference_does(number: int) -> None:
    case = VECTORS["serialize"][number]

    assert as_text(map(read_message, case["messages"])) == case["text"]
