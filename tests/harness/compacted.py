"""Harnesses with a few turns of known weight, for tests of what is compacted and taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.pins import pin_label
from pi_nb.compaction.plan import Operation, Replace, as_operation
from pi_nb.compaction.prepare import prepare
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.harness import AgentHarness
from pi_nb.messages import ToolResultMessage, Usage
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import Request
from pi_nb.session.session import Session

SUMMARY = "## Goal\nCount.\n\n## Next Steps\n- go on"
TURN = "x" * 400  # 100 tokens by rule `pi`
Make = Callable[..., Any]


def answers(request: Request) -> Any:
    return SUMMARY if request.system_prompt.startswith("You write summaries") else TURN


async def grown(turns: int = 6, session: Session | None = None, **settings: Any) -> AgentHarness:
    chosen = {"keep": 200, "estimator": "pi", **settings}
    harness = AgentHarness(
        ScriptedModel(answers), session=session, compaction=CompactionSettings(**chosen)
    )
    for number in range(turns):
        await harness.prompt(f"{number}" + TURN[1:])
    return harness


async def looked(make_tool: Make, turns: int = 6, **settings: Any) -> AgentHarness:
    """A harness with so many turns, each with one call whose result weighs 500 tokens."""

    def calls(request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            return SUMMARY
        asked = request.messages[-1].role == "user"
        return reply("I look.", call("look")) if asked else TURN

    chosen = {"keep": 700, "estimator": "pi", **settings}
    harness = AgentHarness(
        ScriptedModel(calls),
        tools=[make_tool("look", lambda _: "y" * 2_000)],
        compaction=CompactionSettings(**chosen),
    )
    for number in range(turns):
        await harness.prompt(f"{number}" + TURN[1:])
    return harness


def shortens_too(branch: Branch, budget: Budget) -> list[Operation] | None:
    """Cuts as `pi` does, and shows the results of what is kept shorter."""
    found = prepare(branch, budget.kept)
    if found is None:
        return None
    kept = branch.items[found.cut :]
    results = [item.entry_id for item in kept if isinstance(item.message, ToolResultMessage)]
    return [as_operation(found), *(Replace(entry_id, "short") for entry_id in results)]


def context(harness: AgentHarness) -> list[tuple[str, dict[str, Any]]]:
    items = harness.session.context(harness.lane).items
    return [(item.entry_id, item.message.to_wire()) for item in items]


def text_at(harness: AgentHarness, entry_id: str) -> str | None:
    said = dict(context(harness)).get(entry_id)
    return None if said is None else str(said["content"])


async def pin(harness: AgentHarness, entry_id: str) -> None:
    await harness.session.set_label(entry_id, pin_label(None))


def unmeasured(request: Request) -> Any:
    """A server that reports no usage."""
    return reply(answers(request), usage=Usage())
