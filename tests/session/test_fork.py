"""A branch in a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pi_nb.messages import user
from pi_nb.session.fork import fork_session
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


async def test_a_fork_has_the_branch_its_labels_and_what_stands_for_the_past(
    tmp_path: Path,
) -> None:
    with Session.create(tmp_path / "one.jsonl", cwd=tmp_path) as session:
        first = await session.append_message(user("one"))
        left = await session.append_message(user("left"))
        await session.move(first.id)
        await session.append_branch_summary("what was left", left.id)
        kept = await session.append_message(user("kept"))
        await session.append_compaction("so far", kept.id, 10)
        await session.append_context_edit(kept.id, None)
        last = await session.append_message(user("last"))
        await session.set_label(first.id, "start")
        await session.set_label(left.id, "gone")

        with await fork_session(session, last.id, repo=SessionRepo(tmp_path)) as made:
            assert made.branch_ids() == session.branch_ids()
            assert made.context().messages == session.context().messages
            assert dict(made.labels) == {first.id: "start"}
            assert made.header.parent_session_id == session.id
            file = made.path
    assert file is not None
    with Session.open(file) as again:
        assert again.leaf() == last.id
        assert not again.diagnostics


async def test_a_fork_of_nothing_is_an_empty_session(tmp_path: Path) -> None:
    with Session.create(None, cwd=tmp_path) as session:
        await session.append_message(user("one"))

        with await fork_session(session, None, repo=SessionRepo(tmp_path), name="new") as made:
            assert len(made) == 0
            assert made.name == "new"
