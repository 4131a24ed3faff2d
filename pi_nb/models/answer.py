"""What the events of one answer mean: what is the same for every provider.

An adapter says what one piece of JSON means (`_chunk`) and what an ordinary end of its
protocol looks like (`_ended`). Here is the rest: data that is no JSON is passed over, an
error in the middle of a stream that began well ends it, and a stream that just stops is a
failure, whatever had come.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from pi_nb.messages import StopReason
from pi_nb.text import scrub

from .errors import ServerError, read_error
from .http import HttpFailure
from .types import End, StreamEvent

NOTES_KEPT = 20


class Answer(ABC):
    """Reads one answer of a server. Pure: no network, no clock.

    Feed each event's data, then `close`. Only an explicit end of the answer is success;
    everything else is an error that can be tried again.
    """

    def __init__(self) -> None:
        self._blocks = 0
        self._ended_with: End | None = None
        self.notes: list[str] = []
        """What was passed over because it is no JSON; the first few."""

    @property
    def over(self) -> bool:
        """Nothing that may still come changes the answer."""
        return self._ended_with is not None

    def feed(self, data: str) -> list[StreamEvent]:
        """The events of one piece of data; none after the end."""
        if self.over:
            return []
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            if len(self.notes) < NOTES_KEPT:
                self.notes.append(f"Data that is no JSON was passed over: {scrub(data[:80])!r}")
            return []
        if isinstance(chunk, list):
            # Some servers wrap the pieces of a whole answer in one list.
            return [event for piece in chunk for event in self._piece(piece)]
        return list(self._piece(chunk))

    def close(self, failure: HttpFailure | None = None) -> list[StreamEvent]:
        """The bytes are over: the `End`, unless an error gave it already.

        Args:
            failure: Why they are over, where the transport knows. An answer that had come
                to its end is not made worse by it.
        """
        if self._ended_with is not None:
            return []
        if failure is not None and failure.aborted:
            return self._end(End(reason="aborted"))
        ended = self._ended()
        if isinstance(ended, ServerError):
            return self._fail(ended)
        if ended is not None:
            return self._end(End(reason=ended))
        if failure is not None:
            return self._fail(failure.error)
        words = "The stream ended early, before the answer was complete"
        if self.notes:
            words += f". {self.notes[0]}"
        return self._fail(ServerError(words, ("cut_off",)))

    # --- what an adapter says -------------------------------------------------------------

    @abstractmethod
    def _chunk(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        """The events of one piece of JSON that is no error."""

    @abstractmethod
    def _ended(self) -> StopReason | ServerError | None:
        """How the answer ended by its own words; None: it did not say that it ended."""

    # --- what an adapter uses -------------------------------------------------------------

    def _next_block(self) -> int:
        """The index for a block of content that begins."""
        self._blocks += 1
        return self._blocks - 1

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
        self._ended_with = end
        return [end]

    def _piece(self, chunk: Any) -> Iterator[StreamEvent]:
        if self.over or not isinstance(chunk, dict):
            return
        if chunk.get("error") or chunk.get("object") == "error" or chunk.get("type") == "error":
            yield from self._fail(read_error(chunk))
        else:
            yield from self._chunk(chunk)


def reason_of(
    word: str, table: Mapping[str, StopReason], *, calls: bool
) -> StopReason | ServerError:
    """A provider's word for the end of an answer.

    An ordinary end is one for tools if there are calls, whatever the word; a word that is
    not in the table is an error that shows it (known fault X-15).
    """
    reason = table.get(word)
    if reason is None:
        return ServerError(f"The server ended the answer with the reason {word!r}", (word,))
    return "toolUse" if reason == "stop" and calls else reason


def count_of(value: Any) -> int:
    """A number of tokens as servers write them; what cannot be one is 0."""
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**53
    return int(value) if whole else 0


def text_in(data: Mapping[str, Any], key: str) -> str | None:
    """The text under a key; None where it is absent, empty or no text."""
    value = data.get(key)
    return value if isinstance(value, str) and value else None
