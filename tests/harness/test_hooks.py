"""Hooks: what each may change, and what happens when one raises or answers something odd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from loopback import sse

from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.hooks import HOOKS, PayloadHook, ResultPatch, StartPatch
from pi_nb.loop.calls import Blocked
from pi_nb.loop.types import AgentTool, ToolResult, answer
from pi_nb.messages import CustomMessage, TextContent, text_of
from pi_nb.models.openai_completions import OpenAICompletions
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import Model, ToolSpec
from pi_nb.result import PiError
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio

Make = Callable[..., AgentTool]


def _said(session: Session) -> list[str]:
    return [text_of(getattr(item.message, "content", "")) for item in session.context().items]


def _raise(_event: Any) -> Any:
    raise RuntimeError("hook broke")


@pytest.mark.parametrize("name", ["before_agent_start", "context", "session_before_tree"])
@pytest.mark.parametrize("hook", [_raise, lambda _: 7, lambda _: "text"], ids=["raises", 7, "str"])
async def test_a_hook_that_fails_fails_the_operation_and_loses_nothing(
    name: str, hook: Callable[[Any], Any]
) -> None:
    harness = AgentHarness(ScriptedModel(["One.", "Two."]))
    await harness.prompt("first")
    await harness.next_turn("waiting")
    first = harness.session.branch()[0].id
    remove = harness.on(name, hook)

    with pytest.raises(PiError) as failed:
        await (harness.navigate(first) if "tree" in name else harness.prompt("second"))

    assert failed.value.code == "hook"
    assert name in failed.value.message
    assert harness.phase == "idle"
    remove()
    remove()
    assert (await harness.prompt("third")).text == "Two."
    assert _said(harness.session).count("waiting") == 1


async def test_a_system_prompt_that_fails_is_a_failed_hook_and_loses_nothing() -> None:
    broken = True

    def prompt(_context: Any) -> Any:
        if broken:
            raise RuntimeError("no prompt")
        return "SYS"

    harness = AgentHarness(ScriptedModel(["Fine."]), system_prompt=prompt)
    await harness.next_turn("waiting")

    with pytest.raises(PiError) as failed:
        await harness.prompt("go")
    broken = False
    await harness.prompt("again")

    assert failed.value.code == "hook"
    assert _said(harness.session) == ["waiting", "again", "Fine."]


async def test_steering_that_was_taken_by_a_run_that_then_failed_comes_back(
    make_tool: Make,
) -> None:
    turns = 0

    def prompt(_context: Any) -> str:
        nonlocal turns
        turns += 1
        if turns == 2:
            raise RuntimeError("no prompt")
        return "SYS"

    async def steer(_context: Any) -> str:
        await harness.steer("turn left")
        return "ran"

    harness = AgentHarness(
        ScriptedModel([reply(call("a")), "Fine."]),
        tools=[make_tool("a", steer)],
        system_prompt=prompt,
    )

    with pytest.raises(PiError):
        await harness.prompt("go")
    await harness.prompt("again")

    assert _said(harness.session) == ["go", "", "ran", "turn left", "again", "Fine."]


@pytest.mark.parametrize("name", ["tool_call", "tool_result"])
@pytest.mark.parametrize("hook", [_raise, lambda _: True], ids=["raises", "says True"])
async def test_a_tool_hook_that_fails_fails_its_call_and_the_run_goes_on(
    make_tool: Make, name: str, hook: Callable[[Any], Any]
) -> None:
    ran: list[str] = []
    harness = AgentHarness(
        ScriptedModel([reply(call("a")), "Fine."]),
        tools=[make_tool("a", lambda _: ran.append("a"))],
    )
    harness.on(name, hook)

    result = await harness.prompt("go")

    assert result.text == "Fine."
    assert result.messages[2].is_error
    assert ran == (["a"] if name == "tool_result" else []), "an odd answer never lets a call run"


async def test_hooks_are_asked_in_order_and_see_what_the_one_before_left(make_tool: Make) -> None:
    model = ScriptedModel([reply(call("a")), "Fine."])
    harness = AgentHarness(model, tools=[make_tool("a")])
    for letter in "xy":
        harness.on(
            "tool_result",
            lambda e, n=letter: ResultPatch(content=(TextContent(text=e.result.text + n),)),
        )
        harness.on("context", lambda e, n=letter: [*e.messages, CustomMessage(custom_type=n)])
        harness.on(
            "before_agent_start",
            lambda e, n=letter: StartPatch(
                e.system_prompt + n, (CustomMessage(custom_type=n, content=n),)
            ),
        )

    result = await harness.prompt("go")

    assert text_of(result.messages[4].content) == "axy"
    assert [m.role for m in result.messages[:3]] == ["user", "custom", "custom"]
    assert model.requests[1].system_prompt == "y", "the last one wins"


async def test_the_first_hook_that_blocks_decides(make_tool: Make) -> None:
    asked: list[str] = []
    harness = AgentHarness(ScriptedModel([reply(call("a")), "Fine."]), tools=[make_tool("a")])
    harness.on("tool_call", lambda _: asked.append("one"))
    harness.on("tool_call", lambda _: Blocked("two says no"))
    harness.on("tool_call", lambda _: asked.append("three"))

    result = await harness.prompt("go")

    assert text_of(result.messages[2].content) == "two says no"
    assert asked == ["one"]


async def test_an_empty_system_prompt_from_a_hook_is_one() -> None:
    model = ScriptedModel(["Fine.", "Fine."])
    harness = AgentHarness(model, system_prompt="SYS")
    remove = harness.on("before_agent_start", lambda _: StartPatch(""))

    await harness.prompt("go")
    remove()
    await harness.prompt("again")

    assert [request.system_prompt for request in model.requests] == ["", "SYS"]


async def test_a_message_from_a_hook_before_a_call_comes_after_the_results(
    make_tool: Make, strict: Callable[..., None]
) -> None:
    """L-06."""
    model = ScriptedModel([reply(call("a"), call("a")), "Fine."])
    harness = AgentHarness(model, tools=[make_tool("a")])

    async def note(_event: Any) -> None:
        await harness.append_message(CustomMessage(custom_type="note", content="from a hook"))

    harness.on("tool_call", note)

    await harness.prompt("go")

    assert _said(harness.session)[2:4] == ["a", "a"]
    assert _said(harness.session).count("from a hook") == 2
    strict(model.requests[1].messages)


def test_a_hook_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(PiError) as wrong:
        AgentHarness(ScriptedModel()).on("before_tool", _raise)

    assert wrong.value.code == "invalid_argument"
    assert all(name in wrong.value.message for name in HOOKS)


async def test_a_request_hook_changes_what_is_asked_and_a_broken_one_fails_the_prompt() -> None:
    model = ScriptedModel(["a", "b"])
    harness = AgentHarness(model, system_prompt="SYS")
    leave = harness.on(
        "before_provider_request", lambda hook: hook.request.having(system_prompt="OTHER")
    )

    await harness.prompt("one")
    leave()

    assert model.requests[0].system_prompt == "OTHER"
    assert harness.requests[-1].request.system_prompt == "OTHER"

    def broken(_hook: Any) -> None:
        raise RuntimeError("no")

    harness.on("before_provider_request", broken)
    with pytest.raises(PiError) as raised:
        await harness.prompt("two")
    assert raised.value.code == "hook"
    assert harness.phase == "idle"


HI = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}


async def test_a_payload_hook_sees_and_changes_the_body_that_is_sent(loopback: Any) -> None:
    for _ in range(2):
        loopback.answer(sse(HI, "[DONE]"))
    model = Model(id="m", provider="p", base_url=f"{loopback.url}/v1")
    harness = AgentHarness(OpenAICompletions(model, api_key="sk-canary-1234567890"))
    seen: list[Any] = []

    def patch(hook: PayloadHook) -> dict[str, Any]:
        seen.append(hook.payload)
        return {**hook.payload, "top_k": 3}

    leave = harness.on("before_provider_payload", patch)
    await harness.prompt("one")
    leave()
    await harness.prompt("two")

    first, second = (request.json for request in loopback.requests)
    assert first["top_k"] == 3
    assert "top_k" not in second
    assert "canary" not in repr(seen) + repr(harness.requests)


async def test_a_payload_hook_that_raises_fails_the_prompt_and_nothing_is_sent(
    loopback: Any,
) -> None:
    model = Model(id="m", provider="p", base_url=f"{loopback.url}/v1")
    harness = AgentHarness(OpenAICompletions(model))

    def broken(_hook: Any) -> None:
        raise RuntimeError("no")

    harness.on("before_provider_payload", broken)

    with pytest.raises(PiError) as raised:
        await harness.prompt("one")

    assert raised.value.code == "hook"
    assert loopback.requests == []
    stored = [item.message.role for item in harness.session.context().items]
    assert stored == ["user", "assistant"]
    assert harness.phase == "idle"


async def test_what_the_host_offers_no_more_is_named_and_the_model_is_told() -> None:
    async def echo(_arguments: dict[str, Any], _context: Any) -> ToolResult:
        return answer("ok")

    one, two = (AgentTool(ToolSpec(name=name), echo) for name in ("one", "two"))
    session = Session.create(None, cwd="/w")
    first = AgentHarness(ScriptedModel([]), session=session, tools=[one, two])
    await first.set_active_tools(["one", "two"])
    model = ScriptedModel(["ok"])

    harness = AgentHarness(model, session=session, tools=[two], system_prompt="SYS")
    await harness.prompt("go")

    assert session.missing == ("one",)
    assert harness.active_tools == ("two",)
    assert model.requests[0].system_prompt.startswith("SYS\n\n")
    assert "not there any more: one." in model.requests[0].system_prompt
