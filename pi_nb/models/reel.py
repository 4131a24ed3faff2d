"""What is on a tape, in memory: found by what was asked, and added to.

`tape` is the file, `exchange` one line of it; `cassette` has the models that play it.
"""

from __future__ import annotations

import bisect
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

from pi_nb.result import PiError
from pi_nb.text import count, safe_line

from .exchange import (
    Exchange,
    RecordedCall,
    Timed,
    call_digest,
    exchange_line,
    read_line,
    without_keys,
)
from .keys import scrub_keys_data, secret_values
from .question import Conversation, Question, difference, likeness, parts_of
from .tape import Tape
from .types import Model, Request

L = TypeVar("L")
Mode = Literal["auto", "play", "record"]


class Head(Generic[L]):
    """Where one player is on a tape: each thing on it is played once."""

    def __init__(self, tape: Mapping[str, Sequence[L]]) -> None:
        self._tape = tape
        self._asked: Counter[str] = Counter()

    def take(self, digest: str) -> L | None:
        """What was recorded for this; None: nothing more. Counts as asked either way."""
        place = self._asked[digest]
        self._asked[digest] += 1
        found = self._tape.get(digest, ())
        return found[place] if place < len(found) else None


class Asked:
    """The requests of one model as what is recorded of them and what they are found by."""

    def __init__(self, reel: Reel) -> None:
        self._reel = reel
        self._secrets: tuple[str, ...] | None = None
        self._conversation = Conversation()

    def question(self, model: Model, request: Request) -> Question:
        """Without keys. Of a conversation that goes on, only what is new is looked at.

        Raises:
            TypeError, ValueError: it cannot be written as JSON.
        """
        secrets = self._reel.secrets_of(request)
        hide = partial(scrub_keys_data, secrets=secrets)
        if secrets != self._secrets:
            self._secrets, self._conversation = secrets, Conversation(hide)
        said = self._conversation.follow(request.messages)
        return Question(hide(parts_of(model, request)), said.plain, said.marks)


class Reel:
    """The storing half of a `Cassette`. Any thread may use it."""

    def __init__(
        self, path: str | Path, mode: Mode = "auto", *, secrets: Iterable[str] = ()
    ) -> None:
        if mode not in ("auto", "play", "record"):
            raise PiError("invalid_argument", f"No mode {mode!r}. Modes: auto, play, record.")
        self.path = Path(path).expanduser()
        self.mode: Mode = mode
        self._secrets = tuple(secrets)
        self._tape = Tape(self.path)
        self._mutex = threading.Lock()
        self._listed: list[Exchange] = []
        self._exchanges: defaultdict[str, list[Exchange]] = defaultdict(list)
        self._calls: defaultdict[str, list[RecordedCall]] = defaultdict(list)
        self._order = 0
        self._load()
        if mode == "record":
            self._tape.claim()

    def _load(self) -> None:
        for number, line in self._tape.read():
            try:
                self._add(read_line(line, self._listed))
            except ValueError as error:
                text = f"{self.path}: line {number}: {safe_line(str(error), 200)}"
                raise PiError("invalid_argument", text) from None
        if self.mode == "play" and not self._order:
            text = f'There is nothing to play in {self.path}. Record it with mode="record".'
            raise PiError("invalid_argument", text)
        if self.mode == "record" and self._order:
            text = f"{self.path} holds a recording. Remove it to record anew, or use mode='auto'."
            raise PiError("invalid_argument", text)

    def _add(self, found: Exchange | RecordedCall) -> None:
        self._order = max(self._order, found.order + 1)
        if isinstance(found, Exchange):
            self._listed.append(found)
            bisect.insort(self._exchanges[found.digest], found, key=lambda one: one.order)
        else:
            bisect.insort(self._calls[found.digest], found, key=lambda one: one.order)

    def __repr__(self) -> str:
        held = f"{count(len(self._listed), 'exchange')}, {count(len(self.calls), 'call')}"
        return f"{type(self).__name__}({str(self.path)!r}, {self.mode}, {held})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others record on the file. What is on the tape can still be played."""
        self._tape.close()

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What was asked and answered, in the order in which the answers ended."""
        return tuple(self._listed)

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The tool calls, in the order in which they began."""
        found = (call for equal in self._calls.values() for call in equal)
        return tuple(sorted(found, key=lambda one: one.order))

    # --- for those who record and play ------------------------------------------------

    def exchange_head(self) -> Head[Exchange]:
        """The exchanges from the start of the tape; none while a new one is recorded."""
        return Head({} if self.mode == "record" else self._exchanges)

    def call_head(self) -> Head[RecordedCall]:
        """The tool calls from the start of the tape; none while a new one is recorded."""
        return Head({} if self.mode == "record" else self._calls)

    def arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What is recorded of the arguments of a call: a copy, without keys."""
        hidden: dict[str, Any] = scrub_keys_data(arguments, self._secrets)
        return hidden

    def secrets_of(self, request: Request) -> tuple[str, ...]:
        """What must not be written of this request or its answer."""
        return (*self._secrets, *secret_values(request.options.headers))

    def begin(self) -> int:
        """The place in order of something that begins now."""
        with self._mutex:
            self._order += 1
            return self._order - 1

    def add_exchange(
        self, order: int, question: Question, request: Request, events: Sequence[Timed]
    ) -> None:
        """Write an exchange; it is on the tape when this returns.

        Raises:
            PiError: `invalid_state`: the tape is only played, closed or somebody else's, or
                the disk refused. Nothing was written.
            TypeError, ValueError: it cannot be written as JSON. Nothing was written.
        """
        hidden = without_keys(events, self.secrets_of(request))
        exchange = Exchange(order, question, hidden)
        with self._mutex:
            self._write(exchange_line(exchange, self._listed))
            self._add(exchange)

    def add_call(
        self,
        order: int,
        tool: str,
        arguments: dict[str, Any],
        *,
        result: dict[str, Any] | None = None,
        aborted: str | None = None,
    ) -> None:
        """Write a tool call with its result in wire form, or with why it was stopped.

        Raises:
            PiError, TypeError, ValueError: as `add_exchange`.
        """
        hidden = scrub_keys_data(result, self._secrets)
        call = RecordedCall(order, tool, self.arguments(arguments), hidden, aborted)
        with self._mutex:
            self._write(call.to_line())
            self._add(call)

    def _write(self, line: dict[str, Any]) -> None:
        if self.mode == "play":
            raise PiError("invalid_state", f"{self.path} is only played; use mode='auto'.")
        self._tape.append(line)

    # --- what is not on it ------------------------------------------------------------

    def why_no_answer(self, question: Question) -> str:
        """In words: that a request is not on the tape, what differs, and what to do."""
        name = safe_line(self.path.name)
        step = "Ask as it was recorded, or open the cassette with mode='auto' and give a model."
        known = len(self._exchanges.get(question.digest, ()))
        if self.mode == "record":
            return f"{name} is being recorded, and there is no model to ask: playing(model)."
        if known:
            times = count(known, "time")
            return f"{name} holds this request {times}, and it was asked once more. {step}"
        if not self._listed:
            return f"{name} holds no answers yet. Give the model to record: playing(model)."
        nearest = max(self._listed, key=lambda one: likeness(one.question, question))
        place = self._listed.index(nearest) + 1
        differs = difference(nearest.question, question)
        return f"{name} has no answer to this. Compared with its request {place}: {differs}. {step}"

    def why_no_result(self, tool: str, arguments: dict[str, Any]) -> str:
        """In words: that a tool call is not on the tape, and what to do."""
        known = len(self._calls.get(call_digest(tool, arguments), ()))
        found = f"{count(known, 'time')}, and it was made once more" if known else "not at all"
        return (
            f"{safe_line(self.path.name)} holds this call of {tool} {found}. It was not run: a "
            "tape is played. Open the cassette with mode='auto' to run and record what is new."
        )
