"""Files and branches: what changed since is named, and kept copies bring files back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pi_nb.env.local import LocalEnv
from pi_nb.harness.harness import AgentHarness
from pi_nb.models.scripted import Reply, ScriptedModel, call, reply
from pi_nb.result import PiError
from pi_nb.session.session import Session
from pi_nb.tools import default_tools

pytestmark = pytest.mark.anyio


def _writes(path: str, content: str) -> Reply:
    return reply(call("write", path=path, content=content))


def _harness(folder: Path, answers: list[Any], session: Session, **options: Any) -> AgentHarness:
    env = LocalEnv(folder)
    return AgentHarness(
        ScriptedModel(answers),
        session=session,
        env=env,
        tools=default_tools(env),
        approve="allow",
        **options,
    )


async def test_a_move_names_the_files_that_changed_on_the_branch_it_left(tmp_path: Path) -> None:
    session = Session.create(None, cwd=tmp_path)
    harness = _harness(tmp_path, [_writes("x", "1"), "a", _writes("y", "2"), "b"], session)
    await harness.prompt("one")
    await harness.prompt("two")

    moved = await harness.navigate(session.branch_ids()[4])

    assert moved.files == ("y",)
    assert (tmp_path / "y").read_text() == "2", "files do not move unless they are asked to"


async def test_files_go_back_with_the_leaf_and_forth_again(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    edits = [{"old": "1", "new": "2"}]
    answers = [
        _writes("x", "1"),
        "a",
        reply(call("edit", path="x", edits=edits)),
        _writes("new", "n"),
        "b",
        _writes("x", "9"),
        "c",
    ]
    with Session.create(tmp_path / "s.jsonl", cwd=work) as session:
        harness = _harness(work, answers, session, checkpoints=True)
        await harness.prompt("one")
        first = harness.leaf
        await harness.prompt("two")
        second = harness.leaf
        assert first is not None
        assert second is not None

        await harness.navigate(first, files=True)
        assert (work / "x").read_text() == "1"
        assert not (work / "new").exists()

        await harness.prompt("three")
        assert (work / "x").read_text() == "9"
        moved = await harness.navigate(second, files=True)
        assert (work / "x").read_text() == "2"
        assert (work / "new").read_text() == "n"
        assert moved.failures == ()
    kept = list((tmp_path / "s.jsonl.files").iterdir())
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


async def test_a_kept_copy_that_was_meddled_with_is_a_failure_and_changes_nothing(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "x").write_text("mine")
    with Session.create(tmp_path / "s.jsonl", cwd=work) as session:
        harness = _harness(work, [_writes("x", "1"), "a"], session, checkpoints=True)
        await harness.prompt("one")
        for kept in (tmp_path / "s.jsonl.files").iterdir():
            kept.write_text("something else")

        moved = await harness.navigate(session.branch_ids()[0], files=True)

        assert "gone" in moved.failures[0]
        assert (work / "x").read_text() == "1"


async def test_files_are_not_moved_without_checkpoints(tmp_path: Path) -> None:
    session = Session.create(None, cwd=tmp_path)
    harness = _harness(tmp_path, ["a"], session)
    await harness.prompt("one")

    with pytest.raises(PiError, match="checkpoints=True"):
        await harness.navigate(session.branch_ids()[0], files=True)
