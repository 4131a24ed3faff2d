"""Approvals: asked for tools that change things, decided once, on record, never a hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pi_nb.abort import Aborted
from pi_nb.harness.approval import ApprovalRequest, Decision
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.turn import TurnResult
from pi_nb.loop.calls import Blocked
from pi_nb.loop.types import AgentTool
from pi_nb.messages import text_of
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.result import PiError

pytestmark = pytest.mark.anyio

Make = Callable[..., AgentTool]


class World:
    """A harness with a tool `write` that changes things and a tool `read` that does not."""

    def __init__(self, make: Make, *names: str, **options: Any) -> None:
        self.ran: list[str] = []
        tools = [
            make("write", lambda _: self.ran.append("write"), changes=True),
            make("read", lambda _: self.ran.append("read")),
        ]
        answers = [reply(*map(call, names or ("write",))), "Fine."]
        self.harness = AgentHarness(ScriptedModel(answers), tools=tools, **options)

    async def go(self) -> TurnResult:
        return await self.harness.prompt("go")

    def record(self) -> list[tuple[Any, Any]]:
        return [
            (r.decision, r.by)  # type: ignore[attr-defined]
            for r in self.harness.session.records()
            if r.type == "approval"
        ]


def _asker(*decisions: Decision) -> tuple[Callable[[ApprovalRequest], Any], list[str]]:
    asked: list[str] = []
    left = list(decisions)

    async def ask(request: ApprovalRequest) -> Decision:
        asked.append(request.tool.name)
        return left.pop(0)

    return ask, asked


def _no(_request: ApprovalRequest) -> Any:
    raise RuntimeError("policy broke")


async def _yes_later(_request: ApprovalRequest) -> bool:
    await asyncio.sleep(0)
    return True


@pytest.mark.parametrize(
    ("approve", "allowed", "by", "words"),
    [
        ("allow", True, "policy", ""),
        ("deny", False, "policy", "write is not allowed here."),
        ("ask", False, "policy", "nobody can be asked"),
        (lambda _: True, True, "function", ""),
        (_yes_later, True, "function", ""),
        (lambda _: False, False, "function", "was not approved"),
        (lambda _: None, False, "function", "was not approved"),
        (lambda _: "only on Sundays", False, "function", "only on Sundays"),
        (lambda _: Decision(False, "user", "she says no"), False, "user", "she says no"),
        (_no, False, "function", "policy broke"),
    ],
    ids=["allow", "deny", "nobody", "yes", "later", "no", "none", "words", "decision", "raises"],
)
async def test_a_decision_is_made_kept_on_record_and_told_to_the_model(
    make_tool: Make, approve: Any, allowed: bool, by: str, words: str
) -> None:
    world = World(make_tool, approve=approve)

    result = await world.go()

    assert world.ran == (["write"] if allowed else [])
    assert world.record() == [("allowed" if allowed else "denied", by)]
    assert result.messages[2].is_error is not allowed
    assert words in text_of(result.messages[2].content)
    assert result.text == "Fine.", "the run goes on"


async def test_nobody_is_asked_about_a_tool_that_changes_nothing(make_tool: Make) -> None:
    ask, asked = _asker()
    world = World(make_tool, "read", asker=ask)

    await world.go()

    assert (world.ran, asked, world.record()) == (["read"], [], [])


async def test_nobody_is_asked_about_a_call_that_a_hook_blocked(make_tool: Make) -> None:
    ask, asked = _asker()
    world = World(make_tool, asker=ask)
    world.harness.on("tool_call", lambda _: Blocked("no"))

    await world.go()

    assert (world.ran, asked, world.record()) == ([], [], [])


async def test_a_grant_for_the_session_is_asked_for_once_and_each_call_is_on_record(
    make_tool: Make,
) -> None:
    ask, asked = _asker(Decision(True, "user", for_session=True))
    world = World(make_tool, "write", "write", asker=ask)

    await world.go()

    assert asked == ["write"]
    assert world.ran == ["write", "write"]
    assert world.record() == [("allowed", "user"), ("allowed", "policy")]


async def test_a_refusal_is_no_grant_whatever_it_says(make_tool: Make) -> None:
    no = Decision(False, "user", "no", for_session=True)
    ask, asked = _asker(no, no)
    world = World(make_tool, "write", "write", asker=ask)

    await world.go()

    assert (asked, world.ran) == (["write", "write"], [])


async def test_an_asker_that_fails_denies_and_that_is_on_record_too(make_tool: Make) -> None:
    async def ask(_request: ApprovalRequest) -> Decision:
        raise EOFError("no terminal")

    world = World(make_tool, asker=ask)

    result = await world.go()

    assert (world.ran, world.record()) == ([], [("denied", "policy")])
    assert "no terminal" in text_of(result.messages[2].content)


@pytest.mark.parametrize("ending", ["it waits", "it is interrupted", "what it awaits is cancelled"])
async def test_an_abort_while_somebody_is_asked_is_no_approval(
    make_tool: Make, ending: str
) -> None:
    asked = asyncio.Event()

    async def ask(_request: ApprovalRequest) -> Decision:
        asked.set()
        if ending == "it is interrupted":
            await world.harness.abort()
            raise Aborted("interrupted by user")
        if ending == "what it awaits is cancelled":
            await world.harness.abort()
            raise asyncio.CancelledError
        await asyncio.Event().wait()
        raise AssertionError

    world = World(make_tool, "write", "write", asker=ask)
    asking = asyncio.create_task(world.go())
    await asked.wait()

    await asyncio.wait_for(world.harness.abort(), 1.5)
    result = await asking

    assert (result.reason, world.ran) == ("aborted", [])
    assert [m.is_error for m in result.messages[2:4]] == [True, True]


async def test_the_function_sees_the_call_and_its_checked_arguments(make_tool: Make) -> None:
    seen: list[ApprovalRequest] = []
    world = World(make_tool, approve=lambda request: seen.append(request) or True)

    await world.go()

    assert (seen[0].tool.name, seen[0].call.name, seen[0].arguments) == ("write", "write", {})


@pytest.mark.parametrize("approve", ["yes", "", 1, None])
def test_anything_else_is_no_policy(approve: Any) -> None:
    with pytest.raises(PiError) as wrong:
        AgentHarness(ScriptedModel(), approve=approve)

    assert wrong.value.code == "invalid_argument"
