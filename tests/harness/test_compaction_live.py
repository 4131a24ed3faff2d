"""The context of a harness at work is the one that its log gives to anybody (C-52)."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from talker import (
    Talker,
    harness_of,
    question,
)

from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import (
    convert_to_llm,
)
from pi_nb.models.pairing import pair
from pi_nb.models.scripted import call, reply
from pi_nb.models.types import (
    Request,
    ToolSpec,
)
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.context import build_session_context
from pi_nb.session.fork import fork_session
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


STEPS = st.sampled_from(
    ["prompt", "prompt", "prompt", "call", "compact", "move", "leave", "omit", "undo", "fork"]
)


@pytest.mark.parametrize("on_disk", [True, False], ids=["file", "memory"])
@settings(max_examples=25)
@given(st.lists(STEPS, min_size=1, max_size=14), st.data())
def test_the_context_at_work_is_the_one_that_the_log_gives(
    on_disk: bool, steps: list[str], data: st.DataObject
) -> None:
    """C-52: after every prompt, compaction, navigation, edit and fork, in v3 and v4: what a
    harness sends is what its log says, here, built anew, and opened by somebody else."""
    format: Format = data.draw(st.sampled_from(["v3", "v4"]), label="format")

    async def live(folder: Path) -> None:
        path = folder / "s.jsonl" if on_disk else None
        options: dict[str, Any] = {"format": format, "durability": "flush"}
        with Session.create(path, cwd=folder, **options) as session:
            tools = [AgentTool(ToolSpec(name="x"), _echo)]
            model = Talker(_calls_where_asked)
            harness = harness_of(model, session=session, tools=tools, compaction={"keep": 3})
            for number, step in enumerate(steps):
                with contextlib.suppress(PiError):  # nothing to compact, to undo, to leave out
                    await _do(step, harness, data)
                _same(session, model, step)
                if path is not None:
                    copy = folder / f"{number}.jsonl"
                    copy.write_bytes(path.read_bytes())
                    with Session.open(copy, read_only=True) as again:
                        assert again.context() == session.context()
                if step == "fork":
                    repo = SessionRepo(folder / "forks")
                    with (await fork_session(session, harness.leaf, repo=repo)).session as made:
                        assert made.context().messages == session.context().messages

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))


async def _echo(_arguments: dict[str, Any], _context: ToolContext) -> ToolResult:
    return answer("ok")


def _calls_where_asked(request: Request) -> Any:
    last = request.messages[-1]
    return reply(call("x")) if last.role == "user" and question(request) == "call" else "answer"


async def _do(step: str, harness: AgentHarness, data: st.DataObject) -> None:
    """One step; a harness that refuses it has changed nothing."""
    ids = harness.session.entry_ids()
    match step:
        case "prompt" | "call":
            await harness.prompt(step)
        case "compact":
            await harness.compact()
        case "undo":
            await harness.undo()
        case "move" | "leave" if ids:
            to = data.draw(st.sampled_from(ids), label=step)
            await harness.navigate(to, summarize=step == "leave")
        case "omit" if ids:
            await harness.omit(data.draw(st.sampled_from(ids), label=step))


def _same(session: Session, model: Talker, step: str) -> None:
    event(step)
    context = session.context()
    assert context == build_session_context(session.branch())
    if step in ("prompt", "call"):
        # The last request held all but the answer to it.
        expected = pair(convert_to_llm(context.messages[:-1]), model.model).messages
        assert list(model.asked[-1].messages) == list(expected)
