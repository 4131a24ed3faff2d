"""A whole run on a cassette: recorded over a socket, played with the server gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback, sse

from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.cassette_tools import cassette_tools
from pi_nb.loop.events import Event, MessageUpdate
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool
from pi_nb.messages import AgentMessage
from pi_nb.models.cassette import Cassette
from pi_nb.models.openai_completions import OpenAICompletions
from pi_nb.models.replay import ReplayModel
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import ChatModel, Model, RequestOptions

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-0123456789abcdef"
PROMPTS = ("Read the list.", "And now?")


def reads(world: dict[str, str]) -> AgentTool:
    @tool
    async def read(path: str) -> str:
        """Read a file."""
        return world[path]

    return read


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def calls_read(path: str) -> bytes:
    function = {"name": "read", "arguments": json.dumps({"path": path})}
    delta = {"tool_calls": [{"index": 0, "id": f"id_{path}", "function": function}]}
    return sse(chunk({"content": "I look."}), chunk(delta), chunk({}, "tool_calls"), "[DONE]")


def says(*words: str) -> bytes:
    usage = {"usage": {"prompt_tokens": 9, "completion_tokens": 2}, "choices": []}
    return sse(*(chunk({"content": word}) for word in words), chunk({}, "stop"), usage, "[DONE]")


async def run(
    model: ChatModel,
    tools: list[AgentTool],
    prompts: tuple[str, ...] = PROMPTS,
    **options: Any,
) -> tuple[list[Any], list[AgentMessage]]:
    """Everything that was told, and what the session then holds, clocks left out."""
    told: list[Any] = []
    harness = AgentHarness(model, tools=tools, system_prompt="SYS", **options)
    harness.subscribe(lambda event: told.append(shown(event)))
    for prompt in prompts:
        await harness.prompt(prompt)
    return told, [timeless(message) for message in harness.session.context().messages]


def timeless(message: AgentMessage) -> Any:
    return message.having(timestamp=0)


def shown(event: Event) -> Any:
    if isinstance(event, MessageUpdate):
        return event.event
    data = event.to_wire()
    return json.loads(json.dumps(data), object_hook=lambda found: found | {"timestamp": 0})


async def test_two_turns_with_a_tool_are_played_with_the_server_and_the_file_gone(
    loopback: Loopback, tmp_path: Path
) -> None:
    """Z-01 on the way: the key is in no byte of the tape."""
    loopback.answer(calls_read("list.txt"))
    loopback.answer(says("Tea ", "and ", "rice."))
    loopback.answer(says("Still ", "tea."))
    live = OpenAICompletions(
        Model(id="m", provider="here", base_url=f"{loopback.url}/v1"), api_key=CANARY
    )
    options = RequestOptions(headers={"X-Api-Key": CANARY})
    with Cassette(tmp_path / "run.jsonl", "record") as cassette:
        tools = cassette_tools(cassette, [reads({"list.txt": "tea\nrice"})])
        first = await run(cassette.recording(live), tools, options=options)
    assert loopback.requests[0].headers["authorization"] == f"Bearer {CANARY}"

    cassette = Cassette(tmp_path / "run.jsonl", "play")
    again = await run(cassette.playing(), cassette_tools(cassette, [reads({})]))

    assert again == first
    assert len(loopback.requests) == 3
    assert len(again[1]) == 6
    assert "canary" not in (tmp_path / "run.jsonl").read_text()
    assert str(loopback.port) not in (tmp_path / "run.jsonl").read_text()


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Any]:
    async def record(
        answers: list[Any], tools: list[AgentTool], prompts: tuple[str, ...] = ("go",)
    ) -> tuple[list[Any], list[AgentMessage]]:
        with Cassette(tmp_path / "t", "record") as cassette:
            model = cassette.recording(ScriptedModel(answers))
            return await run(model, cassette_tools(cassette, tools), prompts)

    return record


async def test_a_changed_prompt_ends_the_run_and_is_named(record: Any, tmp_path: Path) -> None:
    await record(["a", "b"], [], PROMPTS)

    _, messages = await run(
        Cassette(tmp_path / "t", "play").playing(), [], (PROMPTS[0], "And then?")
    )

    assert messages[-1].stop_reason == "error"
    assert "message 3 (user): recorded 'And now?', asked 'And then?'" in messages[-1].error_message


async def test_equal_calls_side_by_side_get_their_own_results(record: Any, tmp_path: Path) -> None:
    first_waits, ran = asyncio.Event(), iter([1, 2])

    @tool
    async def count() -> str:
        """Count."""
        number = next(ran)
        if number == 1:
            await first_waits.wait()
        else:
            first_waits.set()
        return f"number {number}"

    answers = [reply(call("count"), call("count")), "done"]
    first = await record(answers, [count])

    cassette = Cassette(tmp_path / "t", "play")
    again = await run(cassette.playing(), cassette_tools(cassette, [count]), ("go",))

    assert again[1] == first[1]
    assert [message.text for message in again[1][2:4]] == ["number 1", "number 2"]


async def test_a_tool_that_failed_fails_again(record: Any, tmp_path: Path) -> None:
    first = await record([reply(call("read", path="x")), "oh"], [reads({})])

    cassette = Cassette(tmp_path / "t", "play")
    tools = cassette_tools(cassette, [reads({"x": "there now"})])
    again = await run(cassette.playing(), tools, ("go",))

    assert again == first
    assert again[1][2].is_error


@pytest.mark.slow
async def test_a_call_that_was_stopped_is_stopped_again(tmp_path: Path) -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    with Cassette(tmp_path / "t", "record") as cassette:
        model = cassette.recording(ScriptedModel([reply(call("wait"))]))
        tools = cassette_tools(cassette, [wait])
        harness = AgentHarness(model, tools=tools, system_prompt="SYS")
        running = asyncio.ensure_future(harness.prompt("go"))
        await started.wait()
        await harness.abort("enough")
        await running
    cassette = Cassette(tmp_path / "t", "play")

    _, messages = await run(cassette.playing(), cassette_tools(cassette, [wait]), ("go",))

    stopped = timeless(harness.session.context().messages[2])
    assert messages[2] == stopped
    assert "enough" in stopped.text
    assert "has no answer to this" in messages[3].error_message  # there the recording ended


async def test_a_call_that_is_not_on_the_tape_does_not_run(record: Any, tmp_path: Path) -> None:
    await record([reply(call("read", path="a")), "ok"], [reads({"a": "1"})])
    ran: list[str] = []

    @tool
    async def read(path: str) -> str:
        """Read a file."""
        ran.append(path)
        return "1"

    cassette = Cassette(tmp_path / "t", "play")
    (taped,) = cassette_tools(cassette, [read])
    results = [await taped.execute({"path": path}, None) for path in ("a", "a", "b")]

    assert [result.is_error for result in results] == [False, True, True]
    assert "1 time, and it was made once more. It was not run" in results[1].text
    assert "not at all" in results[2].text
    assert ran == []


async def test_auto_runs_and_records_the_calls_that_are_new(tmp_path: Path) -> None:
    world = {"a": "1"}
    live = ScriptedModel([reply(call("read", path="a")), "one", reply(call("read", path="a")), "x"])
    first: list[Any] = []
    for prompts in (("go",), ("go", "again"), ("go", "again")):
        with Cassette(tmp_path / "t") as cassette:
            tools = cassette_tools(cassette, [reads(world)])
            first.append((await run(cassette.playing(live), tools, prompts))[1])
        world["a"] += "1"

    assert live.remaining == 0
    assert first[2] == first[1]
    assert [m.text for m in first[1] if m.role == "toolResult"] == ["1", "11"]


async def test_the_branch_of_a_session_is_replayed_into_the_same_branch() -> None:
    answers = [reply(call("read", path="a")), "It says 1.", "You are welcome."]
    tools = [reads({"a": "1"})]
    told, messages = await run(ScriptedModel(answers, id="m"), tools)

    again_told, again = await run(ReplayModel(messages), tools)

    assert again == messages
    assert again_told == told
