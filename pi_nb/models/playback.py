"""A finished answer as a stream: in pieces, at a pace, and stopped like any other.

What `scripted`, `replay` and `cassette` share. They differ in where an answer comes from.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import suppress

from pi_nb.abort import AbortSignal
from pi_nb.js import dumps
from pi_nb.messages import AssistantBlock, TextContent, ThinkingContent, ToolCall

from .types import CallDelta, CallStart, End, StreamEvent, TextDelta, ThinkingDelta

_WORD = re.compile(r"\S{1,40}\s{0,40}|\s{1,40}")


def events_of(index: int, block: AssistantBlock) -> Iterator[StreamEvent]:
    """A block in pieces of about a word; an empty block is one empty piece.

    A block of a type we do not know has no events.
    """
    if isinstance(block, TextContent):
        for piece in _pieces(block.text):
            yield TextDelta(index=index, delta=piece)
        if block.text_signature:
            yield TextDelta(index=index, delta="", signature=block.text_signature)
    elif isinstance(block, ThinkingContent):
        for piece in _pieces(block.thinking):
            yield ThinkingDelta(index=index, delta=piece, redacted=block.redacted)
        if block.thinking_signature:
            yield ThinkingDelta(index=index, delta="", signature=block.thinking_signature)
    elif isinstance(block, ToolCall):
        yield CallStart(index=index, id=block.id, name=block.name)
        raw = block.raw_arguments
        for piece in _pieces(dumps(block.arguments) if raw is None else raw):
            yield CallDelta(index=index, delta=piece)


def _pieces(text: str) -> list[str]:
    return _WORD.findall(text) or [""]


async def aborted_within(seconds: float, signal: AbortSignal) -> bool:
    """Wait, or stop waiting at an abort. Zero seconds still lets others run."""
    if seconds > 0:
        with suppress(TimeoutError):
            await asyncio.wait_for(signal.wait(), seconds)
    else:
        await asyncio.sleep(0)
    return signal.aborted


async def paced(
    events: Iterable[tuple[float, StreamEvent]], signal: AbortSignal
) -> AsyncGenerator[StreamEvent, None]:
    """Each event after its wait in seconds. An abort ends the stream with its own `End`."""
    for seconds, event in events:
        if await aborted_within(seconds, signal):
            yield End(reason="aborted")
            return
        yield event
