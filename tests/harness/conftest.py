"""What the tests of the harness share: a tool by its name, and a strict reader of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import LlmMessage
from pi_nb.models.types import ToolSpec


@pytest.fixture
def make_tool() -> Callable[..., AgentTool]:
    """A tool by its name; its body is a function of the context, by default an echo."""

    def make(name: str, body: Callable[[ToolContext], Any] | None = None, **options: Any) -> Any:
        async def execute(_arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            value = body(context) if body else name
            value = await value if hasattr(value, "__await__") else value
            return answer(str(value))

        spec = ToolSpec(name=name, parameters={"type": "object", "properties": {}})
        return AgentTool(spec, execute, **options)

    return make


@pytest.fixture
def strict() -> Callable[[Sequence[LlmMessage]], None]:
    """Refuse what a strict provider refuses: written from their rules, not from `pairing`."""

    def check(messages: Sequence[LlmMessage]) -> None:
        waiting: list[str] = []
        for message in messages:
            if message.role == "toolResult":
                assert message.tool_call_id in waiting, "a result without its call before it"
                waiting.remove(message.tool_call_id)
                continue
            assert not waiting, f"no result right after the calls {waiting}"
            if message.role == "assistant":
                waiting = [call.id for call in message.tool_calls]
                assert message.content, "an empty assistant message"
        assert not waiting, "the last calls have no result"
        assert messages[-1].role != "assistant", "ends in an answer: nothing is asked"

    return check
