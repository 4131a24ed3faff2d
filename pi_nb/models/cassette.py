"""A cassette: a real run is recorded once, then played without a key and without a network.

    cassette = Cassette("run.jsonl")                  # mode="auto": play, record what is new
    model = cassette.playing(live)                    # `live` may be missing once it is recorded
    tools = cassette_tools(cassette, tools)           # pi_nb.loop.cassette_tools

A request is found again by what it asks (`question`), so nothing has to happen at the same
time as it did; equal requests get their answers in the order in which they were made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Literal

from pi_nb.abort import AbortSignal
from pi_nb.result import PiError
from pi_nb.text import safe_line

from .exchange import Timed
from .keys import scrub_keys, secret_values
from .playback import paced
from .question import Question
from .reel import Asked, Reel
from .types import ChatModel, End, Model, Request, StreamEvent

Pace = float | Literal["recorded"] | None

_log = logging.getLogger("pi_nb")
_UNWRITABLE = (TypeError, ValueError, RecursionError)


class Cassette(Reel):
    """A tape of requests, answers and tool calls.

    No key gets on it: header values are not written, and what is one of `secrets`, or has
    the form of a well-known kind of key, is written as `[key]` wherever it stands. Text
    that only looks like a key (a name such as `hf_hub_download`) is hidden too, and played
    so. Prompts, files and answers are on it in plain text.

    An answer that was aborted is kept, and played as aborted. A tool's progress while it
    runs is not kept.

    Args:
        path: A JSONL file, made with mode 0600 when the first thing is recorded.
        mode: `play`: only what is on the tape, which is not changed. `record`: a new tape.
            `auto`: what is on the tape is played, the rest is asked and recorded.
        secrets: Texts that must not get on the tape, such as the key in use.

    Raises:
        PiError: `invalid_argument`: no such mode; nothing to play, or something there that
            would be recorded over; the file is no tape, or broken before its last line.
            `invalid_state`: `record`, and somebody else records there.
    """

    def recording(self, model: ChatModel) -> RecordingModel:
        """A model that asks `model` every time and records what it answers."""
        return RecordingModel(model, self)

    def playing(
        self, model: ChatModel | None = None, *, id: str | None = None, pace: Pace = None
    ) -> PlayingModel:
        """A model that plays the tape, from its start; see `PlayingModel`."""
        return PlayingModel(self, model, id=id, pace=pace)


class RecordingModel:
    """A `ChatModel` that asks another one and writes everything down.

    An exchange is on the tape before its `End` is told. If it cannot be written, the stream
    ends with an error that says so.

    Raises:
        PiError: `invalid_state`: the cassette is only played.
    """

    def __init__(self, model: ChatModel, cassette: Reel) -> None:
        if cassette.mode == "play":
            raise PiError("invalid_state", f"{cassette.path} is only played; use mode='auto'.")
        self._live = model
        self._cassette = cassette
        self._asked = Asked(cassette)

    def __repr__(self) -> str:
        return f"RecordingModel({self.model}, {self._cassette!r})"

    @property
    def model(self) -> Model:
        return self._live.model

    async def stream(
        self, request: Request, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        """Ask and record. A signal that is aborted already records nothing."""
        if signal.aborted:
            yield End(reason="aborted")
            return
        try:
            question = self._asked.question(self.model, request)
            _ = question.digest  # what has no JSON form shows here
        except _UNWRITABLE as error:
            yield _error(f"The request cannot be recorded: {error}")
            return
        async with aclosing(self.record(question, request, signal)) as events:
            async for event in events:
                yield event

    async def record(
        self, question: Question, request: Request, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        """As `stream`, for a request whose question is known."""
        cassette = self._cassette
        order = cassette.begin()
        clock = asyncio.get_running_loop().time
        begin = clock()
        heard: list[Timed] = []

        def keep(event: StreamEvent) -> None:
            heard.append((round((clock() - begin) * 1000), event))

        try:
            async with aclosing(_held(self._live, request, signal)) as events:
                async for event in events:
                    keep(event)
                    if not isinstance(event, End):
                        yield event
        except BaseException:
            # Whoever listened has left. What came so far was paid for, and is kept.
            keep(End(reason="aborted"))
            try:
                cassette.add_exchange(order, question, request, heard)
            except (PiError, *_UNWRITABLE) as error:
                _log.error("an aborted answer could not be recorded: %s", error)
            raise
        end = heard[-1][1]
        try:
            cassette.add_exchange(order, question, request, heard)
        except (PiError, *_UNWRITABLE) as error:
            end = _error(f"The answer could not be recorded: {error}")
        yield end


async def _held(
    model: ChatModel, request: Request, signal: AbortSignal
) -> AsyncGenerator[StreamEvent, None]:
    """The model's stream, held to its contract: one `End`, and no exception."""
    end = _error("The stream ended early.", "cut_off")
    stream = model.stream(request, signal)
    try:
        async for event in stream:
            if isinstance(event, End):
                end = event
                break
            yield event
        else:
            if signal.aborted:
                end = End(reason="aborted", error_message=signal.reason)
    except Exception as error:
        words = f"The model's stream failed: {type(error).__name__}: {error}"
        end = _error(scrub_keys(words, secret_values(request.options.headers)))
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    yield end


class PlayingModel:
    """A `ChatModel` that answers from a tape.

    A request that is not on it goes to `model` and is recorded, as far as the cassette's
    mode allows; else the stream ends with an error that names what differs.

    Args:
        model: Whom to ask; None: nobody. In mode `play` it is never asked.
        id: Which of the tape's models to be; None: `model`, else the first on the tape.
        pace: None: as fast as it is read. `recorded`: as it came. A number: seconds between
            two events.

    Raises:
        PiError: `invalid_argument`: no such model on the tape, or none at all.
    """

    def __init__(
        self,
        cassette: Reel,
        model: ChatModel | None = None,
        *,
        id: str | None = None,
        pace: Pace = None,
    ) -> None:
        self._cassette = cassette
        self._live = RecordingModel(model, cassette) if model and cassette.mode != "play" else None
        self._model = model.model if model and id is None else _model_on(cassette, id)
        self._pace = pace
        self._asked = Asked(cassette)
        self._head = cassette.exchange_head()

    def __repr__(self) -> str:
        return f"PlayingModel({self._model}, {self._cassette!r})"

    @property
    def model(self) -> Model:
        return self._model

    async def stream(
        self, request: Request, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        """Play the answer. A signal that is aborted already takes nothing from the tape."""
        if signal.aborted:
            yield End(reason="aborted")
            return
        try:
            question = self._asked.question(self._model, request)
            found = self._head.take(question.digest)
        except _UNWRITABLE as error:
            yield _error(f"The request cannot be looked up: {error}")
            return
        if found is not None:
            events = paced(self._waits(found.events), signal)
        elif self._live is not None:
            events = self._live.record(question, request, signal)
        else:
            yield _error(self._cassette.why_no_answer(question))
            return
        async with aclosing(events):
            async for event in events:
                yield event

    def _waits(self, events: Iterable[Timed]) -> Iterator[tuple[float, StreamEvent]]:
        before = 0
        for ms, event in events:
            yield ((ms - before) / 1000 if self._pace == "recorded" else self._pace or 0), event
            before = ms


def _model_on(cassette: Reel, id: str | None) -> Model:
    models: dict[str, Model] = {}
    for exchange in cassette.exchanges:
        models.setdefault(exchange.model.id, exchange.model)
    if not models:
        text = f"{cassette.path} holds no answers yet. Give the model to record: playing(model)."
        raise PiError("invalid_argument", text)
    if id is None:
        return next(iter(models.values()))
    if id not in models:
        known = ", ".join(map(safe_line, models))
        raise PiError("invalid_argument", f"{cassette.path} has no model {id!r}. It has: {known}.")
    return models[id]


def _error(text: str, failure: str = "invalid") -> End:
    return End(reason="error", error_message=text, failure=failure)
