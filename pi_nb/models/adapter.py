"""A model behind a server: one question is one HTTP exchange in the provider's wire format.

What differs between providers is pure and stands in the adapters: where to ask, the JSON of
a request (`body`), the meaning of an answer's events (`Answer`). Here is what they share:

    Request -> body -> hooks -> http.post -> SseParser -> Answer -> StreamEvent
                                                            └ usage that was missing, or
                                                              cannot be true, is estimated
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Generic, TypeVar

from pi_nb.abort import AbortSignal
from pi_nb.text import scrub_data

from .advice import advised
from .answer import Answer
from .errors import ServerError
from .fold import Fold
from .http import ANSWER_LIMIT, HttpFailure, Timeouts, post
from .keys import HIDDEN, ApiKey, Key, bearer, scrub_keys, secret_values, shown_url
from .sse import SseEvent, SseParser, TooLong
from .types import End, Model, Request, RequestOptions, StreamEvent, UsageUpdate, WireRequest
from .usage import Estimating, possible

A_PAGE = "The server answered with a web page, not with a model's answer. Check the URL"

D = TypeVar("D")


class Adapter(ABC, Generic[D]):
    """A `ChatModel` that speaks one wire format. Holds the key, and shows it nowhere.

    Args:
        model: `base_url` is what comes before the path of the wire format.
        api_key: A key, or a function that is asked at every request.
        key_name: What the user calls the key, mostly an environment variable; for words.
        needs_key: Without a key nobody is asked; the answer is an error that names `key_name`.
        headers: Sent with every request; may hold secrets.
        dialect: Where this server differs from others that speak the format; data.
    """

    api: ClassVar[str]

    def __init__(
        self,
        model: Model,
        *,
        api_key: ApiKey = None,
        key_name: str = "api_key",
        needs_key: bool = False,
        headers: Mapping[str, str] | None = None,
        dialect: D | None = None,
    ) -> None:
        self._model = model
        self._key = Key(api_key)
        self._headers = dict(headers or {})
        self._estimating = Estimating(model)
        self.key_name = key_name
        self.needs_key = needs_key
        self.dialect = self.standard() if dialect is None else dialect

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model}, {self._key})"

    @property
    def model(self) -> Model:
        return self._model

    # --- what a wire format says ----------------------------------------------------------

    @abstractmethod
    def standard(self) -> D:
        """The dialect of a server of which nothing is known."""

    @abstractmethod
    def url(self) -> str:
        """Where a request goes."""

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """The JSON of a request whose messages `pairing` left. Pure."""

    @abstractmethod
    def answer(self) -> Answer:
        """A reader for one answer."""

    def headers(self, secret: str, request: Request) -> dict[str, str]:
        """What goes into the head of a request, the key included, if there is one."""
        return bearer(secret)

    # --- the exchange ---------------------------------------------------------------------

    def wire(self, request: Request) -> WireRequest:
        """The request as it would go out, without the key."""
        return self._shown(request, HIDDEN if self._key.is_set else "", None)

    async def stream(
        self, request: Request, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        """Ask once; see `ChatModel.stream`."""
        try:
            secret = self._key.read()
        except Exception as error:
            words = f"The function that gives the key failed with {type(error).__name__}"
            yield self._end(ServerError(words, ("invalid_api_key",)))
            return
        if self.needs_key and not secret:
            yield self._end(ServerError("There is no key", ("no_key",)))
            return
        secrets = (secret, *secret_values({**self._headers, **request.options.headers}))
        try:
            sent = await self._body(request)
        except Exception as error:
            words = scrub_keys(str(error) or type(error).__name__, secrets)
            yield End(reason="error", error_message=words, failure="invalid")
            return
        options = request.options
        if options.on_sent is not None:
            changed = sent if options.on_payload is not None else None
            options.on_sent(self._shown(request, secret, changed))
        answer = post(
            self.url(),
            sent,
            signal=signal,
            headers=self._head(request, secret),
            timeouts=_timeouts(options),
            secrets=secrets,
        )
        fold, believed = Fold(self._model), True
        async with aclosing(answer), aclosing(read(answer, self.answer())) as events:
            async for event in events:
                if isinstance(event, UsageUpdate) and not possible(event.usage, self._model, sent):
                    believed = False
                    continue
                if isinstance(event, End):
                    missing = not (believed and fold.has_usage)
                    if missing and event.reason not in ("error", "aborted"):
                        said = self._estimating.usage(request, fold.message())
                        yield UsageUpdate(usage=said)
                    yield self._told(event, secrets, bool(secret))
                    return
                fold.apply(event)
                yield event

    async def _body(self, request: Request) -> dict[str, Any]:
        """The JSON that goes out: options and hooks have the last word.

        Raises:
            Exception: it has no JSON form, or a hook refused it.
        """
        try:
            body = self._plain(request)
        except RecursionError:
            raise ValueError("The request cannot be written as JSON: nested too deep") from None
        except ValueError as error:
            raise ValueError(f"The request cannot be written as JSON: {error}") from error
        on_payload = request.options.on_payload
        return body if on_payload is None else await on_payload(body)

    def _plain(self, request: Request) -> dict[str, Any]:
        """Without surrogate halves, which no server takes."""
        clean: dict[str, Any] = scrub_data(self.body(request) | request.options.extra_body)
        return clean

    def _head(self, request: Request, secret: str) -> dict[str, str]:
        return {**self.headers(secret, request), **self._headers, **request.options.headers}

    def _shown(self, request: Request, secret: str, body: dict[str, Any] | None) -> WireRequest:
        head = self._head(request, secret)
        secrets = (secret, *secret_values(head))
        shown = {
            name: HIDDEN if secret_values({name: value}) else scrub_keys(value, secrets)
            for name, value in head.items()
        }
        return WireRequest(
            shown_url(self.url()), shown, lambda: self._plain(request) if body is None else body
        )

    def _end(self, error: ServerError) -> End:
        """The end of a stream that was none."""
        failure = error.failure
        end = End(reason="error", error_message=error.message, failure=failure.kind)
        return self._told(end, (), "no_key" not in error.codes)

    def _told(self, end: End, secrets: tuple[str, ...], has_key: bool) -> End:
        """The end in words for people: who failed, how, and what to do, without the key."""
        if end.reason != "error":
            return end
        words = advised(end, self._model, self.key_name, has_key=has_key)
        return end.having(error_message=scrub_keys(words, secrets))


def _timeouts(options: RequestOptions) -> Timeouts:
    return Timeouts(options.connect_timeout, options.idle_timeout, options.first_byte_timeout)


class _Whole:
    """A body that is one JSON document, in the place of a stream's parser."""

    def __init__(self) -> None:
        self._body = bytearray()

    def feed(self, chunk: bytes) -> list[SseEvent | TooLong]:
        self._body += chunk
        return [TooLong(ANSWER_LIMIT)] if len(self._body) > ANSWER_LIMIT else []

    def close(self) -> list[SseEvent | TooLong]:
        return [SseEvent(self._body.decode("utf-8", "replace"))]


async def read(
    answer: AsyncIterator[bytes | HttpFailure], events: Answer
) -> AsyncGenerator[StreamEvent, None]:
    """The events of an answer, whether its bytes are a stream or one JSON document."""
    reader: SseParser | _Whole | None = None
    failure: HttpFailure | None = None
    async for item in answer:
        if isinstance(item, HttpFailure):
            failure = item
            break
        if reader is None:
            # What a body is shows in its first character; content types are often wrong.
            item = item.lstrip()
            if not item:
                continue
            if item.startswith(b"<"):
                failure = HttpFailure(ServerError(A_PAGE, ("invalid",)))
                break
            reader = _Whole() if item.startswith((b"{", b"[")) else SseParser()
        for event in _said(events, reader.feed(item)):
            yield event
        if events.over:
            break
    if reader is not None and not events.over:
        for event in _said(events, reader.close()):
            yield event
    for event in events.close(failure):
        yield event


def _said(events: Answer, found: list[SseEvent | TooLong]) -> Iterator[StreamEvent]:
    for one in found:
        if isinstance(one, TooLong):
            words = f"The server sent more than {one.limit:,} bytes at once"
            yield from events.close(HttpFailure(ServerError(words, ("invalid",))))
        else:
            yield from events.feed(one.data)
