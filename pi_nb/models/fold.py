"""From the events of one stream to the assistant's message, at any moment of it.

Pieces are kept in lists, so that a stream of n deltas costs n; a snapshot joins them and
costs the length of the text, when somebody asks for it.

    Start  TextDelta(0) TextDelta(0)  CallStart(1) CallDelta(1)  End
           └── TextContent ────────┘  └── ToolCall ──────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pi_nb.ids import now_ms
from pi_nb.messages import (
    AssistantBlock,
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from pi_nb.text import clip, scrub

from .partial_json import parse_object, read_partial
from .types import (
    CallDelta,
    CallStart,
    End,
    Model,
    Start,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from .usage import priced

RAW_LIMIT = 20_000
"""Characters of unreadable arguments that a message keeps: enough to see what went wrong."""


@dataclass(slots=True)
class _Block:
    """One block while it grows. `kind` is the type of content it will be."""

    kind: str
    pieces: list[str] = field(default_factory=list)
    id: str = ""
    name: str = ""
    signature: str | None = None
    redacted: bool | None = None


class Fold:
    """Builds one assistant message from the events of one stream.

    Blocks stand in the order in which their index first appeared; an index that is used
    for two kinds of content makes two blocks. What comes after the `End` is ignored.
    """

    def __init__(self, model: Model, thinking_level: str | None = None) -> None:
        self._model = model
        self._thinking_level = thinking_level
        self._timestamp = now_ms()
        self._start: Start | None = None
        self._usage = Usage()
        self._blocks: dict[tuple[str, int], _Block] = {}
        self.end: End | None = None
        """The last event, once it came."""

    @property
    def has_usage(self) -> bool:
        """Whether a usage came that holds a number."""
        return self._usage.total > 0

    def apply(self, event: StreamEvent) -> None:
        """Take the next event; costs nothing that grows with the message."""
        if self.end is not None:
            return
        match event:
            case Start():
                self._start = event
            case TextDelta():
                block = self._block("text", event.index)
                block.pieces.append(event.delta)
                block.signature = event.signature or block.signature
            case ThinkingDelta():
                block = self._block("thinking", event.index)
                block.pieces.append(event.delta)
                block.signature = event.signature or block.signature
                block.redacted = event.redacted or block.redacted
            case CallStart():
                block = self._block("toolCall", event.index)
                block.id, block.name = event.id, event.name
                block.signature = event.signature or block.signature
            case CallDelta():
                block = self._block("toolCall", event.index)
                block.pieces.append(event.delta)
                block.name = event.name or block.name
                block.signature = event.signature or block.signature
            case UsageUpdate():
                self._usage = event.usage
            case End():
                self.end = event

    def _block(self, kind: str, index: int) -> _Block:
        block = self._blocks.get((kind, index))
        if block is None:
            # A call needs an id even if its start was lost: its result refers to it.
            block = self._blocks[kind, index] = _Block(kind, id=f"call_{index}")
        return block

    def message(self) -> AssistantMessage:
        """The message as far as it has come.

        Until the `End` its stop reason is `aborted`: that is what it will be if nothing
        more comes, and whoever stores such a snapshot by mistake stores something that no
        request repeats and whose calls never run. A call's `arguments` are complete where
        its text is a JSON object (or empty); else they are what can be read, for display,
        and `raw_arguments` holds the text, of which at most `RAW_LIMIT` characters.
        """
        start, end = self._start, self.end
        known = _given(
            response_model=start.response_model if start else None,
            response_id=start.response_id if start else None,
            thinking_level=self._thinking_level,
            error_message=end.error_message if end else None,
            diagnostics=_diagnostics(end) if end else None,
        )
        return AssistantMessage(
            content=tuple(self._content(block) for block in self._blocks.values()),
            api=self._model.api,
            provider=self._model.provider,
            model=self._model.id,
            usage=priced(self._usage, self._model.price),
            stop_reason=end.reason if end else "aborted",
            timestamp=self._timestamp,
            **known,
        )

    def _content(self, block: _Block) -> AssistantBlock:
        text = "".join(block.pieces)
        if self.end is None and "\ud800" <= text[-1:] <= "\udbff":
            text = text[:-1]  # its other half is in the next piece
        text = scrub(text)
        if block.kind == "toolCall":
            return _call(block, text)
        if block.kind == "text":
            return TextContent(text=text, **_given(text_signature=block.signature))
        known = _given(thinking_signature=block.signature, redacted=block.redacted)
        return ThinkingContent(thinking=text, **known)


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value: what was never given is not written to a session."""
    return {name: value for name, value in fields.items() if value is not None}


def _call(block: _Block, text: str) -> ToolCall:
    arguments = parse_object(text)
    signed = _given(thought_signature=block.signature)
    if arguments is not None:
        return ToolCall(id=block.id, name=block.name, arguments=arguments, **signed)
    return ToolCall(
        id=block.id,
        name=block.name,
        arguments=read_partial(text),
        raw_arguments=clip(text, RAW_LIMIT),
        **signed,
    )


def _diagnostics(end: End) -> list[dict[str, object]] | None:
    """The class of a failure, kept with the message: whether to ask again is decided from it."""
    if end.failure is None:
        return None
    said: dict[str, object] = {"failure": end.failure}
    if end.retry_after is not None:
        said["retryAfter"] = end.retry_after
    return [said]
