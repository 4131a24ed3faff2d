"""A model that answers turns and writes summaries, with what tests of compactions share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.events import AutoCompaction
from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.types import AgentTool
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    LlmMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    text_of,
    user,
)
from pi_nb.models.scripted import ScriptedModel, reply
from pi_nb.models.types import (
    ChatModel,
    Request,
)
from pi_nb.session.entries import CompactionEntry, MessageEntry
from pi_nb.session.session import Session

SUMMARY = "## Goal\nCount.\n\n## Next Steps\n- go on"
Make = Callable[..., AgentTool]
Strict = Callable[[Sequence[LlmMessage]], None]


def words(tokens: int) -> str:
    """So many tokens by rule `pi`."""
    return "word" * tokens


def of_summary(request: Request) -> bool:
    return request.system_prompt.startswith("You write summaries")


def question(request: Request) -> str:
    return text_of(request.messages[-1].content)


class Talker(ScriptedModel):
    """A model that answers turns one way and requests for summaries another."""

    def __init__(self, turns: Any = "answer", summaries: Any = SUMMARY, **options: Any) -> None:
        turns, summaries = _in_turn(turns), _in_turn(summaries)
        super().__init__(lambda r: summaries(r) if of_summary(r) else turns(r), **options)

    @property
    def asked(self) -> list[Request]:
        return [request for request in self.requests if not of_summary(request)]

    @property
    def summarised(self) -> list[Request]:
        return [request for request in self.requests if of_summary(request)]


def _in_turn(answers: Any) -> Callable[[Request], Any]:
    """A function as it is; of a list one after another, the last one for ever."""
    if callable(answers):
        return answers  # type: ignore[no-any-return]
    left = list(answers) if isinstance(answers, list) else [answers]
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


class Held:
    """A summary that is being written until the test says go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, _request: Request) -> str:
        self.begun.set()
        await self.go_on.wait()
        return SUMMARY


def harness_of(
    model: ChatModel, *, session: Session | None = None, told: list[Any] | None = None, **more: Any
) -> AgentHarness:
    settings = {"estimator": "pi", **more.pop("compaction", {})}
    made = AgentHarness(model, session=session, compaction=CompactionSettings(**settings), **more)
    if told is not None:
        made.subscribe(told.append)
    return made


def says(text: str = "", *calls: str, usage: int = 0, **fields: Any) -> AssistantMessage:
    blocks = [TextContent(text=text)] if text else []
    made = [ToolCall(id=one, name="read", arguments={}) for one in calls]
    return AssistantMessage(
        content=(*blocks, *made),
        usage=Usage(input=usage, total_tokens=usage),
        timestamp=1,
        **fields,
    )


def gives(call_id: str, text: str) -> ToolResultMessage:
    content = (TextContent(text=text),)
    return ToolResultMessage(tool_call_id=call_id, tool_name="read", content=content, timestamp=1)


def session_of(*messages: AgentMessage | str) -> Session:
    made = Session.create(None, cwd="/w")
    grow(made, *messages)
    return made


def grow(made: Session, *messages: AgentMessage | str) -> list[str]:
    said = [user(m, timestamp=1) if isinstance(m, str) else m for m in messages]
    return [made.append_sync(MessageEntry(message=message)).id for message in said]


def log_of(session: Session) -> list[Any]:
    return [entry.to_wire() for entry in session.entries()]


def compactions(session: Session) -> list[CompactionEntry]:
    return [entry for entry in session.entries() if isinstance(entry, CompactionEntry)]


def shown(session: Session) -> list[str]:
    """What the context holds, a summary as an empty text."""
    return [text_of(getattr(message, "content", "")) for message in session.context().messages]


def sent(request: Request) -> list[str]:
    return [text_of(message.content) for message in request.messages]


def decisions(told: list[Any]) -> list[tuple[str, str]]:
    return [(e.trigger, e.decision) for e in told if isinstance(e, AutoCompaction)]


TOO_LONG = reply(error="prompt is too long: 9 tokens > 8 maximum")


def used(tokens: int) -> Usage:
    return Usage(input=tokens, total_tokens=tokens)
