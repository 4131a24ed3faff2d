"""What the events of an Anthropic Messages answer mean, streamed or in one document.

A message is a list of blocks; each begins, grows and ends under an index of its own. Blocks
of a type that is not known here (tools that run on the server) are passed over whole.

    message_start  (content_block_start  content_block_delta*  content_block_stop)*
    message_delta  message_stop          and pings in between
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pi_nb.js import dumps
from pi_nb.messages import StopReason, Usage

from .answer import Answer, count_of, reason_of, text_in
from .call_deltas import UNREADABLE, new_call_id
from .errors import ServerError
from .types import CallDelta, CallStart, Start, StreamEvent, TextDelta, ThinkingDelta, UsageUpdate

REASONS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
}
"""The provider's words for an ordinary end. `refusal` and a window that is full are errors:
what was said until then is no answer, and a full window asks for a compaction."""

_KINDS: Mapping[str, str] = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


@dataclass(slots=True)
class _Block:
    """A block that grows. `kind` is the provider's word, `index` the place in our message."""

    kind: str
    index: int = -1
    given: dict[str, Any] = field(default_factory=dict)
    """Arguments that came whole with the block's beginning, as some servers send them."""


class Events(Answer):
    """Reads the events of one answer: a stream's, or the one document of a whole answer."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        super().__init__()
        self._new_id = new_id
        self._open: dict[int, _Block] = {}
        self._last = 0
        self._started = self._done = self._called = False
        self._finish = ""
        self._details: Mapping[str, Any] = {}
        self._usage: dict[str, Any] = {}

    @property
    def over(self) -> bool:
        return self._done or super().over

    def _ended(self) -> StopReason | ServerError | None:
        if not self._finish and not (self._done and self._started):
            return None
        if self._finish == "refusal":
            return _refusal(self._details)
        return reason_of(self._finish or "end_turn", REASONS, calls=self._called)

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        match chunk.get("type"):
            case "message_start":
                yield from self._message(_object(chunk, "message"))
            case "content_block_start":
                yield from self._begin(self._index(chunk), _object(chunk, "content_block"))
            case "content_block_delta":
                yield from self._grow(self._index(chunk), _object(chunk, "delta"))
            case "content_block_stop":
                yield from self._arguments(self._index(chunk))
            case "message_delta":
                yield from self._finished(_object(chunk, "delta"))
                yield from self._usage_of(chunk.get("usage"))
            case "message_stop":
                yield from self._all_arguments()
                self._done = True
            case "message":
                yield from self._message(chunk)
                content = chunk.get("content")
                for index, block in enumerate(content if isinstance(content, list) else []):
                    if isinstance(block, dict):
                        yield from self._begin(index, block)
                yield from self._all_arguments()
                self._done = True

    def _message(self, message: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """What a message says of itself, where a stream begins and in a whole answer."""
        if not self._started:
            self._started = True
            yield Start(
                response_id=text_in(message, "id"), response_model=text_in(message, "model")
            )
        yield from self._finished(message)
        yield from self._usage_of(message.get("usage"))

    def _finished(self, said: Mapping[str, Any]) -> Iterator[StreamEvent]:
        finish = text_in(said, "stop_reason")
        if finish:
            yield from self._all_arguments()
            self._finish = finish
            self._details = _object(said, "stop_details")

    def _index(self, chunk: Mapping[str, Any]) -> int:
        index = chunk.get("index")
        if isinstance(index, int):
            self._last = index
        return self._last

    def _begin(self, index: int, block: Mapping[str, Any]) -> Iterator[StreamEvent]:
        kind = block.get("type")
        opened = self._open[index] = _Block(kind if isinstance(kind, str) else "")
        match kind:
            case "text":
                yield from self._text(opened, text_in(block, "text"))
            case "thinking":
                signature = text_in(block, "signature")
                yield from self._thinking(opened, text_in(block, "thinking"), signature)
            case "redacted_thinking":
                if data := text_in(block, "data"):
                    place = self._next_block()
                    yield ThinkingDelta(index=place, delta="", signature=data, redacted=True)
            case "tool_use":
                identity, name = text_in(block, "id"), text_in(block, "name")
                opened.given = dict(_object(block, "input"))
                yield self._call(opened, identity or self._new_id(), name or "")

    def _grow(self, index: int, delta: Mapping[str, Any]) -> Iterator[StreamEvent]:
        kind = delta.get("type")
        wanted = _KINDS.get(kind) if isinstance(kind, str) else None
        block = self._open.get(index)
        if block is None and wanted is not None:
            block = self._open[index] = _Block(wanted)  # its beginning was left out or lost
        if block is None or block.kind != wanted:
            return
        match kind:
            case "text_delta":
                yield from self._text(block, text_in(delta, "text"))
            case "thinking_delta":
                yield from self._thinking(block, text_in(delta, "thinking"), None)
            case "signature_delta":
                yield from self._thinking(block, None, text_in(delta, "signature"))
            case "input_json_delta":
                if block.index < 0:
                    yield self._call(block, self._new_id(), "")
                if text := text_in(delta, "partial_json"):
                    block.given = {}
                    yield CallDelta(index=block.index, delta=text)

    def _text(self, block: _Block, text: str | None) -> Iterator[TextDelta]:
        if text:
            yield TextDelta(index=self._place(block), delta=text)

    def _thinking(
        self, block: _Block, text: str | None, signature: str | None
    ) -> Iterator[ThinkingDelta]:
        # A signature without text is thinking too: it has to go back (known fault V-02).
        if text or signature:
            yield ThinkingDelta(index=self._place(block), delta=text or "", signature=signature)

    def _call(self, block: _Block, identity: str, name: str) -> CallStart:
        self._called = True
        return CallStart(index=self._place(block), id=identity, name=name)

    def _place(self, block: _Block) -> int:
        """The block's place in our message, which it takes with its first content."""
        if block.index < 0:
            block.index = self._next_block()
        return block.index

    def _arguments(self, index: int) -> Iterator[CallDelta]:
        block = self._open.pop(index, None)
        if block is not None and block.given:
            yield CallDelta(index=block.index, delta=_written(block.given))

    def _all_arguments(self) -> Iterator[CallDelta]:
        """For servers that do not end their blocks."""
        for index in sorted(self._open):
            yield from self._arguments(index)

    def _usage_of(self, usage: Any) -> Iterator[UsageUpdate]:
        """Counts are cumulative, and a later event says what has changed. Some servers write
        0 there for what they leave out: a number that is known stays (known fault X-16)."""
        if not isinstance(usage, dict):
            return
        known = dict(self._usage)
        for key, value in usage.items():
            if isinstance(value, dict):
                old = known.get(key)
                new = {name: count for name, count in value.items() if count_of(count)}
                known[key] = {**(old if isinstance(old, dict) else {}), **new}
            elif count_of(value):
                known[key] = value
        if known != self._usage and (read := read_usage(known)) is not None:
            yield UsageUpdate(usage=read)
        self._usage = known


def read_usage(usage: Mapping[str, Any]) -> Usage | None:
    """Usage in this project's terms, or None where it holds no count.

    The provider's `input_tokens` hold no cached ones, as here (known fault C-29).
    """
    fresh, output = count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens"))
    read = count_of(usage.get("cache_read_input_tokens"))
    by_time = _object(usage, "cache_creation")
    hour = count_of(by_time.get("ephemeral_1h_input_tokens"))
    minutes = count_of(by_time.get("ephemeral_5m_input_tokens"))
    written = count_of(usage.get("cache_creation_input_tokens")) or hour + minutes
    total = fresh + output + read + written
    if not total:
        return None
    reasoning = count_of(_object(usage, "output_tokens_details").get("thinking_tokens"))
    given: dict[str, int] = {}
    if hour:
        given["cache_write1h"] = min(hour, written)
    if reasoning:
        given["reasoning"] = min(reasoning, output)
    return Usage(
        input=fresh,
        output=output,
        cache_read=read,
        cache_write=written,
        total_tokens=total,
        **given,  # type: ignore[arg-type]
    )


def _refusal(details: Mapping[str, Any]) -> ServerError:
    category, words = text_in(details, "category"), text_in(details, "explanation")
    said = "The model refused to answer" + (f" ({category})" if category else "")
    return ServerError(f"{said}: {words}" if words else said, ("refusal",))


def _written(arguments: Mapping[str, Any]) -> str:
    try:
        return dumps(arguments)
    except ValueError:
        return UNREADABLE


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}
