"""Going elsewhere in the tree: what is sent from there, what waits meanwhile, which tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.types import AgentTool
from pi_nb.messages import LlmMessage, ToolResultMessage, text_of
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.result import PiError
from pi_nb.session.session import Session

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("format", ["v4", "v3"])]

Make = Callable[..., AgentTool]
Strict = Callable[[Sequence[LlmMessage]], None]


def new_session(format: Any, folder: Path) -> Session:
    return Session.create(folder / "s.jsonl", cwd=folder, format=format, durability="flush")


def names(model: ScriptedModel) -> list[str]:
    """The tools that the last request offered."""
    return [tool.name for tool in model.requests[-1].tools]


@pytest.mark.parametrize("stop", ["call", "result"])
async def test_from_the_middle_of_a_tool_exchange_a_valid_request_is_made(
    stop: str, format: str, make_tool: Make, strict: Strict, tmp_path: Path
) -> None:
    """T-05, starred: to the answer that calls two tools, and to the first of their results."""
    model = ScriptedModel([reply("I look.", call("x"), call("x")), "Done.", "Elsewhere."])
    with new_session(format, tmp_path) as session:
        harness = AgentHarness(model, session=session, tools=[make_tool("x")])
        await harness.prompt("go")
        entries = [entry for entry in session.branch() if entry.type == "message"]
        at = entries[1 if stop == "call" else 2]
        before = len(session.branch_ids(at.id))

        await harness.navigate(at.id)
        result = await harness.prompt("and now?")

        assert result.text == "Elsewhere."
        sent = model.requests[-1].messages
        strict(sent)
        results = [message for message in sent if isinstance(message, ToolResultMessage)]
        made_up = [message for message in results if message.is_error]
        assert len(results) == 2
        assert len(made_up) == (2 if stop == "call" else 1)
        assert all("did not finish" in text_of(message.content) for message in made_up)
        # The log itself says nothing that did not happen.
        assert [m.id for m in session.branch()[:before]] == session.branch_ids(at.id)
        logged = [message.role for message in session.context().messages]
        assert logged.count("toolResult") == (0 if stop == "call" else 1)


async def test_what_is_typed_while_the_leaf_moves_waits_for_the_next_prompt(
    format: str, tmp_path: Path
) -> None:
    """T-14: and what comes back for editing is the text of the message, nothing else."""
    model = ScriptedModel(["a1", "a2", "a3"])
    moving, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_event: object) -> None:
        moving.set()
        await go_on.wait()

    with new_session(format, tmp_path) as session:
        harness = AgentHarness(model, session=session)
        await harness.prompt("u1")
        second = (await harness.prompt("u2")).messages[0]
        asked = next(i.entry_id for i in session.context().items if i.message == second)
        harness.on("session_before_tree", slow)

        going = asyncio.create_task(harness.navigate(asked))
        await moving.wait()
        await harness.follow_up("typed meanwhile")
        with pytest.raises(PiError) as refused:
            await harness.prompt("at once")
        go_on.set()
        gone = await going
        await harness.prompt("u3")

        assert refused.value.code == "busy"
        assert gone.editor_text == "u2"
        said = [text_of(message.content) for message in model.requests[-1].messages]
        assert said == ["u1", "a1", "typed meanwhile", "u3"]


async def test_a_session_is_resumed_with_the_tools_of_its_branch(
    format: str, make_tool: Make, tmp_path: Path
) -> None:
    """T-15: a choice on record holds on its branch alone; where none is, the host chooses."""
    model = ScriptedModel(["a1", "a2", "a3", "a4"])

    def resume(session: Session, *tools: str) -> AgentHarness:
        return AgentHarness(model, session=session, tools=[make_tool(name) for name in tools])

    with new_session(format, tmp_path) as session:
        harness = resume(session, "old", "other")
        await harness.prompt("u1")
        fork = harness.leaf
        await harness.set_active_tools(["old"])
        await harness.prompt("u2")
        chosen = harness.leaf

    with Session.open(tmp_path / "s.jsonl") as session:
        # A tool that came later was not chosen there.
        harness = resume(session, "old", "other", "new")
        await harness.prompt("u3")
        assert names(model) == ["old"]
        await harness.move(fork)

    with Session.open(tmp_path / "s.jsonl") as session:
        harness = resume(session, "old", "other", "new")
        await harness.prompt("elsewhere")
        assert names(model) == ["old", "other", "new"]
        await harness.move(chosen)

    with Session.open(tmp_path / "s.jsonl") as session:
        # What the host lacks is named, and not offered.
        harness = resume(session, "other", "new")
        assert harness.active_tools == ()
        assert session.missing == ("old",)
