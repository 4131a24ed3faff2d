"""Undo takes back exactly what one operation wrote, on any lane and after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness.compacted import (
    SUMMARY,
    Make,
    answers,
    context,
    grown,
    looked,
    shortens_too,
    text_at,
)

from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.events import AutoCompaction
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.undoing import last_change
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import Request
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio
FORMATS = pytest.mark.parametrize("format", ["v4", "v3"])


@FORMATS
async def test_an_undo_after_an_undo_takes_back_one_thing_alone(format: Format) -> None:
    harness = await grown(session=Session.create(None, cwd="/w", format=format))
    ids = [item.entry_id for item in harness.session.context().items]
    seen = [context(harness)]
    await harness.omit(ids[-2])
    seen.append(context(harness))
    await harness.compact()
    seen.append(context(harness))
    await harness.omit(ids[-1])

    while seen:
        await harness.undo()
        assert context(harness) == seen.pop()
    with pytest.raises(PiError, match="Nothing to undo"):
        await harness.undo()


@FORMATS
@pytest.mark.parametrize("second", ["replaced", "left out"])
async def test_undo_of_a_second_edit_shows_the_first_one_again(second: str, format: Format) -> None:
    harness = await grown(2, session=Session.create(None, cwd="/w", format=format))
    entry_id = context(harness)[0][0]
    await harness.replace(entry_id, "the first text")
    if second == "replaced":
        await harness.replace(entry_id, "the second text")
    else:
        await harness.omit(entry_id)
    await harness.prompt("go on")
    leaf = harness.session.context().items[-1].entry_id

    undone = await harness.undo()

    assert undone.left_behind == 0
    assert "the first text" in str(text_at(harness, entry_id))
    assert harness.session.context().items[-1].entry_id == leaf


@FORMATS
async def test_a_second_undo_takes_back_what_is_older_and_not_the_first_undo(
    format: Format,
) -> None:
    harness = await grown(2, session=Session.create(None, cwd="/w", format=format))
    one, two = (entry_id for entry_id, _ in context(harness)[:2])
    first, second = text_at(harness, one), text_at(harness, two)
    await harness.replace(one, "one")
    await harness.prompt("a")
    await harness.replace(two, "two")
    await harness.prompt("b")

    await harness.undo()
    assert ("one" in str(text_at(harness, one)), text_at(harness, two)) == (True, second)
    await harness.undo()
    assert (text_at(harness, one), text_at(harness, two)) == (first, second)
    with pytest.raises(PiError, match="Nothing to undo"):
        await harness.undo()


async def test_in_v3_an_omitted_summary_comes_back_although_pi_shows_it_no_other_text() -> None:
    harness = await grown(session=Session.create(None, cwd="/w", format="v3"))
    await harness.compact()
    before = context(harness)
    assert before[0][1]["role"] == "compactionSummary"
    await harness.omit(before[0][0])
    await harness.prompt("go on")

    undone = await harness.undo()

    assert context(harness) == before
    assert undone.left_behind == 2


async def test_what_cannot_be_shown_again_in_v3_is_refused_and_writes_nothing() -> None:
    harness = await grown(session=Session.create(None, cwd="/w", format="v3"))
    await harness.compact()
    summary = context(harness)[0][0]
    await harness.omit(summary)
    there = len(harness.session.entry_ids())

    with pytest.raises(PiError, match="no other content"):
        await harness.restore(summary)

    assert len(harness.session.entry_ids()) == there


async def test_undo_on_another_lane_takes_back_all_that_was_written_in_one_go(
    make_tool: Make,
) -> None:
    harness = await looked(make_tool, policy=shortens_too)
    before = context(harness)
    done = await harness.compact()
    assert done.entry
    assert done.edits
    await harness.session.add_lane("b", harness.leaf)
    other = AgentHarness(ScriptedModel(answers), session=harness.session, lane="b")

    undone = await other.undo()

    assert context(other) == before
    assert len(undone.entry_ids) == 1 + done.edits
    assert context(harness) != before, "the other lane stays where it is"


async def test_undo_takes_back_all_that_an_automatic_compaction_wrote(make_tool: Make) -> None:
    harness = await looked(make_tool, policy=shortens_too, auto="off")
    harness.compaction.auto = "on"
    before: list[Any] = []

    def note(event: Any) -> None:
        if isinstance(event, AutoCompaction) and event.decision == "begins" and not before:
            before.append(context(harness))

    harness.subscribe(note)
    harness.compaction.keep, harness.compaction.reserve = 900, 197_500
    result = await harness.prompt("now")
    harness.compaction.auto = "off"
    first = result.compactions[0]
    assert first.entry
    assert first.edits

    change = last_change(harness.session, "main")
    while change and first.entry.id not in change.entry_ids:
        await harness.undo()
        change = last_change(harness.session, "main")
    await harness.undo()

    assert context(harness) == before[0]


async def test_of_two_compactions_in_one_run_undo_takes_back_the_newer_one_alone(
    make_tool: Make,
) -> None:
    def calls(request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            return SUMMARY
        left = sum(message.role == "toolResult" for message in request.messages)
        return reply("I look.", call("look")) if left < 5 and len(seen) < 3 else "Done."

    harness = AgentHarness(
        ScriptedModel(calls, context_window=4_000),
        tools=[make_tool("look", lambda _: "y" * 4_000)],
        compaction=CompactionSettings(keep=1, estimator="pi", reserve=0),
    )
    seen: list[tuple[str | None, list[Any]]] = []

    def note(event: Any) -> None:
        if event.type == "session_compact":
            seen.append((event.entry_id, context(harness)))

    harness.subscribe(note)
    await harness.prompt("go")
    assert len(seen) >= 2, "several in one run"

    undone = await harness.undo()

    assert undone.entry_ids == (seen[-1][0],)
    change = last_change(harness.session, "main")
    assert change
    assert change.entry_ids == (seen[-2][0],)


@FORMATS
async def test_undo_after_a_crash_in_the_middle_takes_back_what_was_written(
    tmp_path: Path, format: Format
) -> None:
    session = Session.create(tmp_path / "s.jsonl", cwd=tmp_path, format=format)
    harness = await grown(session=session)
    ids = [item.entry_id for item in session.context().items]
    before = context(harness)
    # As a process leaves it that was killed between the edits of a plan and its end.
    await session.record(
        "operation_started", sourceLeafId=session.tip(), intent={"kind": "compaction"}
    )
    await session.append_context_edit(ids[2], "a")
    await session.append_context_edit(ids[4], "b")
    session.close()
    with Session.open(tmp_path / "s.jsonl") as again:
        after = AgentHarness(ScriptedModel(answers), session=again)
        assert await after.resume()

        undone = await after.undo()

        assert len(undone.entry_ids) == 2
        assert context(after) == before
