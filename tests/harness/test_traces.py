"""The harness against runs of the original: events, entries, requests and results in order.

`tests/vectors/harness_traces.json` holds the runs; rules 21 to 29 say how they were taken.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.hooks import ResultPatch, StartPatch
from pi_nb.harness.steps import SteppedRun
from pi_nb.harness.turn import CompactResult, NavigateResult, TurnResult
from pi_nb.loop.calls import Blocked
from pi_nb.loop.events import Event
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import (
    CustomMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    blocks_of,
    convert_to_llm,
)
from pi_nb.models.scripted import Script, ScriptedModel
from pi_nb.models.types import ToolSpec
from pi_nb.result import PiError
from pi_nb.session.codec import Format, Stored
from pi_nb.session.entries import Entry
from pi_nb.session.records import LaneMove
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


VECTORS = Path(__file__).parent.parent / "vectors" / "harness_traces.json"


def _expanded(value: Any) -> Any:
    """`<<x*40000>>` stands for 40,000 times `x`."""
    if isinstance(value, str):
        return re.sub(r"<<(.)\*(\d+)>>", lambda m: m[1] * int(m[2]), value)
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    if isinstance(value, dict):
        return {key: _expanded(item) for key, item in value.items()}
    return value


CASES = _expanded(json.loads(VECTORS.read_text("utf-8")))
# Rule 21: the summaries of the traces are short, and the original weighs characters.
SETTINGS = {"check_shape": False, "estimator": "pi"}


@pytest.mark.parametrize(
    ("format", "stepped"),
    [("v4", False), ("v4", True), ("v3", False)],
    ids=["free", "stepped", "in v3"],
)
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
async def test_the_harness_does_what_the_original_did(
    case: dict[str, Any], format: Format, stepped: bool
) -> None:
    """Also action by action: stopping in between changes nothing of what happens. And in v3,
    whose tree holds our bookkeeping too: nobody who looks at the conversation sees it."""
    trace = Trace(case, stepped=stepped, format=format)

    await trace.run()

    expect = case["expect"]
    assert trace.events == expect["events"]
    assert trace.results == expect["results"]
    assert trace.entries() == _unworded(expect.get("entries", []), trace.entries())
    assert trace.leaf() == expect["leaf"]
    assert trace.requests() == _unworded(expect.get("requests", []), trace.requests())
    assert [i.message.role for i in trace.session.context().items] == expect["context_roles"]
    if "pending_responses" in expect:
        assert trace.script.remaining == expect["pending_responses"]


class Trace:
    """One case: a harness made by its description, and what happened."""

    def __init__(
        self, case: dict[str, Any], *, stepped: bool = False, format: Format = "v4"
    ) -> None:
        self.case = case
        self.stepped = stepped
        self.script = Script(case["responses"])
        self.models = {
            name: ScriptedModel(self.script, id=name, provider="faux", context_window=200_000)
            for name in ("faux-a", "faux-b")
        }
        self.session = Session.create(None, cwd="/w", format=format)
        self.harness = AgentHarness(
            self.models["faux-a"],
            session=self.session,
            tools=[_tool(tool) for tool in case.get("tools", [])],
            system_prompt="SYS",
            compaction=CompactionSettings(**SETTINGS),
        )
        self.events: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.seen: dict[str, int] = {}
        self.written: list[Stored] = []
        self.session.watch(self.written.append)
        self._register_hooks(case.get("hooks", {}))
        self.harness.subscribe(self._record)

    async def run(self) -> None:
        for call in self.case["calls"]:
            try:
                row = _result(await self._call(call))
                if "first_kept" in row:
                    row["first_kept"] = self._place(row["first_kept"])
                self.results.append(row)
            except PiError as error:
                print(f"{call['op']}: {error}")  # shown where the case fails
                self.results.append({"error": error.code})

    async def _call(self, call: dict[str, Any]) -> Any:
        match call["op"]:
            case "prompt" if self.stepped:
                return await self._step_by_step(call["text"])
            case "prompt":
                return await self.harness.prompt(call["text"])
            case "navigate":
                target = self._lines()[call["target"]]
                return await self.harness.navigate(
                    target.id, summarize=call.get("summarize", False)
                )
            case "compact":
                return await self.harness.compact(call.get("instructions"))
            case "steer" | "follow_up" | "next_turn":
                return await getattr(self.harness, call["op"])(call["text"])
            case "set_model":
                return await self.harness.set_model(self.models[call["model"]])
            case "set_active_tools":
                return await self.harness.set_active_tools(call["tools"])
            case other:
                raise AssertionError(f"this test does not know the call {other}")

    async def _step_by_step(self, text: str) -> TurnResult:
        run = SteppedRun(lambda gate: self.harness.prompt(text, gate=gate), self.harness.session)
        step = await run.step()
        while step.next is not None:
            assert self.harness.phase == "turn"
            step = await run.step()
        assert not run.paused
        return await run.finish()

    # --- hooks, actions, what was asked -------------------------------------------------

    def _register_hooks(self, hooks: dict[str, Any]) -> None:
        harness = self.harness
        for name, spec in hooks.items():
            match name:
                case "tool_call":
                    harness.on(name, lambda e, s=spec: _blocked(s.get(e.call.name)))
                case "tool_result":
                    harness.on(name, lambda e, s=spec: _patched(s.get(e.call.name)))
                case "before_agent_start":
                    message = CustomMessage(custom_type="hook", content=spec["message"])
                    patch = StartPatch(spec["system_prompt"], (message,))
                    harness.on(name, lambda _, p=patch: p)
                case "context":
                    harness.on(name, lambda e, n=spec["keep_last"]: e.messages[-n:])
                case "session_before_tree" | "session_before_compact":
                    harness.on(name, lambda _, s=spec: s)
                case other:
                    raise AssertionError(f"this test does not know the hook {other}")
        # Last in line: what the model is asked, before pairing (rule 21).
        harness.on("context", self._asked)

    def _asked(self, event: Any) -> None:
        self.asked.append(
            {
                "model": self.harness.model.model.id,
                "messages": [
                    {"role": m.role, "text": _text(m.content)}
                    for m in convert_to_llm(event.messages)
                ],
            }
        )

    async def _record(self, event: Event) -> None:
        row = _row(event)
        if row is not None and not (row["type"] == "message_update" and self.events[-1] == row):
            self.events.append(row)
        index = self.seen[event.type] = self.seen.get(event.type, 0) + 1
        for action in self.case.get("actions", []):
            if action["on"] == event.type and action.get("nth", 1) == index:
                await self._act(action)

    async def _act(self, action: dict[str, Any]) -> None:
        harness = self.harness
        try:
            match action["do"]:
                case "set_model":
                    await harness.set_model(self.models[action["model"]])
                case "append_message":
                    await harness.append_message(
                        CustomMessage(custom_type="note", content=action["text"])
                    )
                case "steer" | "follow_up":
                    await getattr(harness, action["do"])(action["text"])
                case "prompt_expect_error":
                    await harness.prompt("x")
                case "compact_expect_error":
                    await harness.compact()
                case "abort":
                    await harness.abort()
                case other:
                    raise AssertionError(f"this test does not know the action {other}")
        except PiError as error:
            self.events.append({"action_error": error.code})

    # --- afterwards ---------------------------------------------------------------------

    def _lines(self) -> list[Entry | LaneMove]:
        return [line for line in self.written if isinstance(line, Entry | LaneMove)]

    def entries(self) -> list[dict[str, Any]]:
        """Entries and leaf moves in file order, parents as indexes."""
        rows: list[dict[str, Any]] = []
        leaf: str | None = None
        for line in self._lines():
            if isinstance(line, LaneMove):
                rows.append(
                    {
                        "type": "leaf",
                        "parent": self._place(leaf),
                        "target": self._place(line.leaf_id),
                    }
                )
                leaf = line.leaf_id
            else:
                row = _entry_row(line, self._place(line.parent_id))
                if line.type == "compaction":
                    row["first_kept"] = self._place(line.first_kept_entry_id)
                elif line.type == "branch_summary":
                    row["from"] = self._place(line.from_id)
                rows.append(row)
                leaf = line.id
        return rows

    def leaf(self) -> int | None:
        return self._place(self.session.leaf())

    def _place(self, entry_id: str | None) -> int | None:
        entry_id = self.session.anchor(entry_id)
        ids = [getattr(line, "id", None) for line in self._lines()]
        return None if entry_id is None else ids.index(entry_id)

    def requests(self) -> list[dict[str, Any]]:
        """What was asked before pairing, with the settings that the model was sent."""
        asked = iter(self.asked)
        rows: list[dict[str, Any]] = []
        for sent in self.harness.requests:
            if sent.purpose != "turn":
                rows.append({"model": sent.model.id, "purpose": "summary"})
                continue
            question = next(asked)
            assert question["model"] == sent.model.id
            rows.append(
                {
                    "model": sent.model.id,
                    "purpose": "turn",
                    "system_prompt": sent.request.system_prompt,
                    "tools": [tool.name for tool in sent.request.tools],
                    "messages": question["messages"],
                }
            )
        assert not list(asked), "the hook was asked about what was not sent"
        received = sum(len(model.requests) for model in self.models.values())
        assert received == len(rows)
        return rows


def _tool(spec: dict[str, Any]) -> AgentTool:
    async def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if "throws" in spec:
            raise RuntimeError(spec["throws"])
        if spec.get("wait_for_abort"):
            await context.signal.wait()
            return answer("aborted", is_error=True)
        text = spec.get("result", "") + (arguments.get("text") or "")
        return answer(text).having(terminate=spec.get("terminate", False))

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return AgentTool(ToolSpec(name=spec["name"], parameters=schema), execute, mode=spec.get("mode"))


def _blocked(spec: dict[str, Any] | None) -> Blocked | None:
    return Blocked(spec["reason"]) if spec and spec.get("block") else None


def _patched(spec: dict[str, Any] | None) -> ResultPatch | None:
    return ResultPatch(content=(TextContent(text=spec["text"]),)) if spec else None


def _row(event: Event) -> dict[str, Any] | None:
    row: dict[str, Any] = {"type": event.type}
    message = getattr(event, "message", None)
    match event.type:
        case "tool_execution_update":
            return None
        case "message_start" | "message_update" | "turn_end":
            row["role"] = message.role
        case "message_end":
            row["role"] = message.role
            if message.role == "assistant":
                row["stopReason"] = message.stop_reason
        case "tool_execution_start":
            row["tool"] = event.tool_name
        case "tool_execution_end":
            row |= {"tool": event.tool_name, "is_error": event.is_error}
        case "queue_update":
            row |= {
                "steer": event.steer,
                "follow_up": event.follow_up,
                "next_turn": event.next_turn,
            }
        case "save_point":
            row["had_pending"] = event.had_pending
    return row


def _result(value: Any) -> dict[str, Any]:
    if isinstance(value, TurnResult):
        row: dict[str, Any] = {
            "role": value.message.role,
            "stopReason": value.message.stop_reason,
            "text": value.text,
        }
        if value.aborted:
            row["abort"] = {"steer": value.aborted.steer, "follow_up": value.aborted.follow_up}
        return row
    if isinstance(value, CompactResult):
        return {"first_kept": value.first_kept_entry_id, "has_summary": bool(value.summary)}
    if isinstance(value, NavigateResult):
        return {
            "cancelled": value.cancelled,
            "editor_text": value.editor_text,
            "has_summary": value.summary_entry_id is not None,
        }
    return {"ok": True}


def _entry_row(entry: Any, parent: int | None) -> dict[str, Any]:
    row: dict[str, Any] = {"type": entry.type, "parent": parent}
    if entry.type == "model_change":
        row["model"] = entry.model_id
    elif entry.type == "message":
        message = entry.message
        row["role"] = message.role
        if message.role == "assistant":
            row["stopReason"] = message.stop_reason
        row["text"] = _text(message.content)
        if message.role == "toolResult":
            row["is_error"] = message.is_error
    return row


def _text(content: Any) -> str:
    parts = []
    for block in blocks_of(content):
        match block:
            case TextContent():
                parts.append(block.text)
            case ThinkingContent():
                parts.append("<thinking>")
            case ToolCall():
                parts.append(f"<call {block.name}>")
    return "|".join(parts)


def _unworded(expected: Any, actual: Any) -> Any:
    """The expectation, with our own words where the original's are not given (`null`)."""
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [_unworded(e, a) for e, a in zip(expected, actual, strict=True)]
    if isinstance(expected, dict) and isinstance(actual, dict):
        return {
            key: actual.get(key)
            if key == "text" and value is None and actual.get(key)
            else _unworded(value, actual.get(key))
            for key, value in expected.items()
        }
    return expected
