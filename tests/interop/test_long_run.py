"""A long run that compacted itself many times, read by pi: the same context, entry by entry."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.long_run import long_run
from interop import ours
from interop.peer import Peer

from pi_nb.session.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


async def test_a_run_of_300_turns_exported_to_v3_shows_pi_the_same(
    peer: Peer, tmp_path: Path
) -> None:
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path, durability="flush")
    harness, worker = await long_run(session, 300)
    session.export(tmp_path / "pi.jsonl", format="v3")

    theirs = ours.as_ours(peer.look(tmp_path / "pi.jsonl")["context"])

    assert worker.turns >= 300
    assert ours.context_form(session.context())["messages"] == theirs["messages"]
    assert theirs["messages"][0]["role"] == "compactionSummary"
    assert ours.look(tmp_path / "pi.jsonl")["context"] == theirs
    session.close()
    del harness


async def test_a_run_that_is_written_in_v3_is_read_by_pi_as_it_stands(
    peer: Peer, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    session = Session.create(path, cwd=tmp_path, format="v3", durability="flush")
    await long_run(session, 120, seed=2)
    live = ours.context_form(session.context())
    session.close()

    assert ours.as_ours(peer.look(path)["context"]) == live
