"""What the chunks of a Chat Completions answer mean.

Servers agree on the frame and on little inside it. What they do with tool calls is in
`call_deltas`; here are reasoning under three keys, usage in three places, finish reasons of
all kinds, and errors in the middle of a stream that began well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pi_nb.messages import StopReason, Usage

from .answer import Answer, count_of, reason_of, text_in
from .call_deltas import CallDeltas, new_call_id
from .errors import ServerError, read_error
from .types import Start, StreamEvent, TextDelta, ThinkingDelta, UsageUpdate

REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_text")
"""Where servers put reasoning; the first one that holds text counts. The key is kept as the
block's signature, so that the text goes back under the key it came with."""

FINISH: Mapping[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "tool_calls": "stop",
    "tool_use": "stop",
    "function_call": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
}
"""What servers call an ordinary end. Whether it is one for tools is decided by the calls
that arrived, not by this word; any other word is an error that shows it."""


class Events(Answer):
    """Reads the chunks of one answer: a stream's, or the one of a whole answer."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        super().__init__()
        self._open: tuple[str, int] | None = None
        self._calls = CallDeltas(self._next_block, new_id)
        self._started = self._answered = self._done = False
        self._finish = ""
        self._usage: dict[str, Any] = {}

    @property
    def over(self) -> bool:
        return self._done or super().over

    def feed(self, data: str) -> list[StreamEvent]:
        if data.strip() == "[DONE]" and not self.over:
            self._done = True
            return []
        return super().feed(data)

    def _ended(self) -> StopReason | ServerError | None:
        if not (self._finish or (self._done and self._answered)):
            return None
        return reason_of(self._finish or "stop", FINISH, calls=bool(self._calls))

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        if not self._started:
            self._started = True
            yield Start(response_id=text_in(chunk, "id"), response_model=text_in(chunk, "model"))
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict):
            self._answered = True
            # A whole answer has `message` where a stream has `delta`.
            self._done = self._done or isinstance(choice.get("message"), dict)
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                yield from self._delta(delta)
            yield from self._usage_of(choice.get("usage"))
            self._finish = text_in(choice, "finish_reason") or self._finish
            if choice.get("error"):
                yield from self._fail(read_error(choice))
                return
        yield from self._usage_of(chunk.get("usage"))

    def _delta(self, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        key = next((key for key in REASONING_KEYS if text_in(delta, key)), None)
        if key is not None:
            index = self._block("thinking")
            yield ThinkingDelta(index=index, delta=delta[key], signature=key)
        text = _content_text(delta.get("content")) or text_in(delta, "refusal")
        if text:
            yield TextDelta(index=self._block("text"), delta=text)
        calls = delta.get("tool_calls")
        calls = list(calls) if isinstance(calls, list) else []
        if isinstance(delta.get("function_call"), dict):  # the form before tools
            calls.append({"function": delta["function_call"]})
        for call in calls:
            if isinstance(call, dict):
                yield from self._calls.feed(call)

    def _block(self, kind: str) -> int:
        """The index of the block that grows now; another kind begins another block."""
        if self._open is None or self._open[0] != kind:
            self._open = (kind, self._next_block())
        return self._open[1]

    def _next_block(self) -> int:
        self._open = None
        return super()._next_block()

    def _usage_of(self, usage: Any) -> Iterator[UsageUpdate]:
        if not isinstance(usage, dict):
            return
        # Some chunks repeat only a part of it: what they leave out stays.
        known = self._usage | {key: value for key, value in usage.items() if value is not None}
        if known != self._usage and (read := read_usage(known)) is not None:
            yield UsageUpdate(usage=read)
        self._usage = known


def read_usage(usage: Mapping[str, Any]) -> Usage | None:
    """Usage in this project's terms, or None where it holds no count.

    Here `prompt_tokens` include the cached ones, there they do not. More cached tokens than
    prompt tokens cannot be; then they are taken as all of the prompt.
    """
    prompt, output = count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens"))
    if not prompt and not output:
        return None
    details, made = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    details = details if isinstance(details, dict) else {}
    made = made if isinstance(made, dict) else {}
    hit = count_of(details.get("cached_tokens")) or count_of(usage.get("prompt_cache_hit_tokens"))
    cached = min(hit, prompt)
    written = min(count_of(details.get("cache_write_tokens")), prompt - cached)
    reasoning = count_of(made.get("reasoning_tokens"))
    given = {"reasoning": reasoning} if reasoning else {}
    return Usage(
        input=prompt - cached - written,
        output=output,
        cache_read=cached,
        cache_write=written,
        total_tokens=prompt + output,
        **given,  # type: ignore[arg-type]
    )


def _content_text(content: Any) -> str:
    """Content is text, or with some servers a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(text_in(part, "text") or "" for part in parts if isinstance(part, dict))
