"""A proposal that waits in the log: which one is taken up, and which is none any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pi_nb.compaction.proposal import Proposal
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.harness import AgentHarness
from pi_nb.models.scripted import ScriptedModel
from pi_nb.models.types import Request
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


def answers(request: Request) -> Any:
    asked = request.system_prompt.startswith("You write summaries")
    return "## Goal\nCount." if asked else "x" * 400


async def grown(path: Path) -> AgentHarness:
    """Four turns of which the last one is kept."""
    settings = CompactionSettings(keep=150, estimator="pi")
    session = Session.create(path, cwd=path.parent)
    harness = AgentHarness(ScriptedModel(answers), session=session, compaction=settings)
    for number in range(4):
        await harness.prompt(f"{number}" * 200)
    return harness


def text_of(found: object) -> str:
    assert isinstance(found, Proposal), found
    return found.text


async def test_none_waits_where_none_was_made(tmp_path: Path) -> None:
    harness = await grown(tmp_path / "s.jsonl")

    assert not harness.pending()
    assert str(harness.pending()).startswith("No proposal waits: none was made")


async def test_the_one_that_was_changed_last_is_the_newest(tmp_path: Path) -> None:
    harness = await grown(tmp_path / "s.jsonl")
    first = await harness.propose()
    await harness.propose()

    await harness.revise(first.rewrite("## Goal\nThe first one, changed."))

    assert text_of(harness.pending()) == "## Goal\nThe first one, changed."


async def test_where_the_newest_is_discarded_the_one_before_it_waits(tmp_path: Path) -> None:
    harness = await grown(tmp_path / "s.jsonl")
    first = (await harness.propose()).rewrite("## Goal\nThe first one.")
    await harness.revise(first)

    await harness.discard(await harness.propose())

    assert text_of(harness.pending()) == "## Goal\nThe first one."


async def test_a_change_of_settings_or_a_label_moves_no_branch_on(tmp_path: Path) -> None:
    harness = await grown(tmp_path / "s.jsonl")
    made = await harness.propose()
    leaf = harness.leaf
    assert leaf is not None

    await harness.set_thinking_level("high")
    await harness.session.set_label(leaf, "here")

    assert text_of(harness.pending()) == made.text


async def test_another_lane_has_its_own(tmp_path: Path) -> None:
    harness = await grown(tmp_path / "s.jsonl")
    made = await harness.propose()

    await harness.use_lane("side", begin=True)
    there = harness.pending()
    await harness.use_lane("main")

    assert not there
    assert text_of(harness.pending()) == made.text


async def test_taken_up_it_is_what_it_was_to_the_letter(tmp_path: Path) -> None:
    harness = await grown(tmp_path / "s.jsonl")
    made = await harness.propose()

    found = harness.pending()

    assert isinstance(found, Proposal)
    same = ("text", "by", "model", "usage", "edited", "id", "tokens_after")
    assert [getattr(found, name) for name in same] == [getattr(made, name) for name in same]
    assert found.plan.operations == made.plan.operations
    await harness.apply(found)
    assert not harness.pending()
