"""What the chunks of a Chat Completions answer mean.

Servers agree on the frame and on little inside it. What they do with tool calls is in
`call_deltas`; here are reasoning under three keys, usage in three places, finish reasons of
all kinds, and errors in the middle of a stream that began well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pi_nb.messages import StopReason, Usage
from pi_nb.text import scrub

from .call_deltas import CallDeltas, new_call_id
from .errors import ServerError, read_error
from .http import HttpFailure
from .types import End, Start, StreamEvent, TextDelta, ThinkingDelta, UsageUpdate

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

NOTES_KEPT = 20


class Events:
    """Reads the chunks of one answer and says what they mean. Pure: no network, no clock.

    Feed each event's data, then `close`. Only an explicit end of the answer (a finish
    reason, or `[DONE]`) is success; everything else is an error that can be tried again.
    """

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        self._blocks = 0
        self._open: tuple[str, int] | None = None
        self._calls = CallDeltas(self._next_block, new_id)
        self._started = self._answered = self._done = self._ended = False
        self._finish = ""
        self._usage: dict[str, Any] = {}
        self.notes: list[str] = []
        """What was passed over because it is no JSON; the first few."""

    @property
    def over(self) -> bool:
        """Nothing that may still come changes the answer."""
        return self._done or self._ended

    def feed(self, data: str) -> list[StreamEvent]:
        """The events of one chunk; none after the end."""
        if self.over:
            return []
        if data.strip() == "[DONE]":
            self._done = True
            return []
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            if len(self.notes) < NOTES_KEPT:
                self.notes.append(f"Data that is no JSON was passed over: {scrub(data[:80])!r}")
            return []
        if not isinstance(chunk, dict):
            return []
        if chunk.get("error") or chunk.get("object") == "error" or chunk.get("type") == "error":
            return self._fail(read_error(chunk))
        return list(self._chunk(chunk))

    def close(self, failure: HttpFailure | None = None) -> list[StreamEvent]:
        """The bytes are over: the `End`, unless an error gave it already.

        Args:
            failure: Why they are over, where the transport knows. An answer that had come
                to its end is not made worse by it.
        """
        if self._ended:
            return []
        if failure is not None and failure.aborted:
            return self._end(End(reason="aborted"))
        if self._finish or (self._done and self._answered):
            return self._finished()
        if failure is not None:
            return self._fail(failure.error)
        words = "The stream ended early, before the answer was complete"
        if self.notes:
            words += f". {self.notes[0]}"
        return self._fail(ServerError(words, ("cut_off",)))

    def _finished(self) -> list[StreamEvent]:
        word = self._finish or "stop"
        reason = FINISH.get(word)
        if reason is None:
            words = f"The server ended the answer with the reason {word!r}"
            return self._fail(ServerError(words, (word,)))
        if reason == "stop" and self._calls:
            reason = "toolUse"
        return self._end(End(reason=reason))

    def _fail(self, error: ServerError) -> list[StreamEvent]:
        failure = error.failure
        end = End(
            reason="error",
            error_message=error.message or "The server reported an error without words",
            failure=failure.kind,
            retry_after=failure.retry_after,
        )
        return self._end(end)

    def _end(self, end: End) -> list[StreamEvent]:
        self._ended = True
        return [end]

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        if not self._started:
            self._started = True
            yield Start(response_id=_str(chunk, "id"), response_model=_str(chunk, "model"))
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
            self._finish = _str(choice, "finish_reason") or self._finish
            if choice.get("error"):
                yield from self._fail(read_error(choice))
                return
        yield from self._usage_of(chunk.get("usage"))

    def _delta(self, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        key = next((key for key in REASONING_KEYS if _str(delta, key)), None)
        if key is not None:
            index = self._block("thinking")
            yield ThinkingDelta(index=index, delta=delta[key], signature=key)
        text = _content_text(delta.get("content")) or _str(delta, "refusal")
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
        self._blocks += 1
        return self._blocks - 1

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
    prompt, output = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if not prompt and not output:
        return None
    details, made = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    details = details if isinstance(details, dict) else {}
    made = made if isinstance(made, dict) else {}
    hit = _count(details.get("cached_tokens")) or _count(usage.get("prompt_cache_hit_tokens"))
    cached = min(hit, prompt)
    written = min(_count(details.get("cache_write_tokens")), prompt - cached)
    reasoning = _count(made.get("reasoning_tokens"))
    given = {"reasoning": reasoning} if reasoning else {}
    return Usage(
        input=prompt - cached - written,
        output=output,
        cache_read=cached,
        cache_write=written,
        total_tokens=prompt + output,
        **given,  # type: ignore[arg-type]
    )


def _count(value: Any) -> int:
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**53
    return int(value) if whole else 0


def _str(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) and value else None


def _content_text(content: Any) -> str:
    """Content is text, or with some servers a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(_str(part, "text") or "" for part in parts if isinstance(part, dict))
