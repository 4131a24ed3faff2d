"""The vocabulary between the harness and a model: request in, events out.

A stream never raises. Whatever goes wrong in the world ends it with an `End` whose reason
is `error` or `aborted`, and what had arrived is kept.

    Start  TextDelta* | ThinkingDelta* | CallStart CallDelta* ...  UsageUpdate*  End
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from pydantic import Field

from pi_nb.abort import AbortSignal
from pi_nb.grown import Grown
from pi_nb.messages import LlmMessage, StopReason, Usage
from pi_nb.text import unquoted
from pi_nb.wire import Brief, Wire

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = (
    "off", "minimal", "low", "medium", "high", "xhigh",
)  # fmt: skip


class Rate(Wire):
    """US dollars for a million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    cache_write1h: float | None = Field(default=None, alias="cacheWrite1h")
    """For a cache that lives an hour; None: twice the input, as Anthropic bills it."""


class Tier(Rate):
    """The rate of requests whose prompt is longer than this many tokens."""

    input_tokens_above: int


class Price(Rate):
    """What a model costs; by the length of the prompt where the provider has tiers."""

    tiers: tuple[Tier, ...] = ()

    def at(self, prompt_tokens: int) -> Rate:
        """The rate of a request with so long a prompt, cached tokens included."""
        above = [tier for tier in self.tiers if prompt_tokens > tier.input_tokens_above]
        return max(above, key=lambda tier: tier.input_tokens_above, default=self)


class Model(Brief):
    """What is known of a model: plain data, no connection."""

    id: str
    provider: str
    api: str = ""
    name: str = ""
    base_url: str = ""
    context_window: int = 8_192
    """Tokens of prompt and answer together."""
    max_tokens: int | None = None
    """Tokens of one answer at most; None where nobody said."""
    reasoning: bool = False
    images: bool = False
    price: Price | None = None
    """None: unknown, which is not the same as free."""

    def about(self) -> str:
        return f"{unquoted(str(self), 60)}, window {self.context_window:,}"

    def __str__(self) -> str:
        return f"{self.provider}/{self.id}"


class ToolSpec(Wire):
    """A tool as a model is told of it. `parameters` is a JSON schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})


CacheRetention = Literal["none", "short", "long"]
"""`short`: minutes, the provider's default. `long`: an hour or a day, as far as it goes."""


class WireRequest:
    """One request as it goes to a server: where to, with which headers, which JSON.

    The body is made again when somebody asks for it, unless a hook changed it: the last
    fifty of a long session do not keep it fifty times.
    """

    __slots__ = ("_make", "headers", "url")

    def __init__(self, url: str, headers: Mapping[str, str], make: Callable[[], Any]) -> None:
        """
        Args:
            url: Without user, password and query.
            headers: Without the secrets in them.
            make: Gives the body; pure.
        """
        self.url = url
        self.headers = dict(headers)
        self._make = make

    @property
    def body(self) -> dict[str, Any]:
        """The JSON as it was sent."""
        made: dict[str, Any] = self._make()
        return made

    def __repr__(self) -> str:
        return f"POST {self.url}"


class RequestOptions(Wire):
    """What a request may say besides the conversation. None: the model's own default."""

    max_tokens: int | None = None
    temperature: float | None = None
    thinking_level: ThinkingLevel = "off"
    connect_timeout: float = 10.0
    """Seconds."""
    first_byte_timeout: float = 300.0
    """Seconds from the request to the first byte of the answer's body."""
    idle_timeout: float = 300.0
    """Seconds of silence after it; a comment line is none."""
    cache: CacheRetention = "short"
    """How long a prompt cache is to be kept, where the provider lets it be chosen."""
    session_id: str | None = None
    """Sent where a provider takes it to find the cache of a conversation again."""
    metadata: dict[str, str] = Field(default_factory=dict)
    """Sent where a provider takes such words about a request; `user_id` among them."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False, exclude=True)
    """May hold a key: never shown, and not part of the wire form."""
    on_payload: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = Field(
        default=None, repr=False, exclude=True
    )
    """Shown the JSON body before it is sent, and gives the one to send. Not in the wire form."""
    on_sent: Callable[[WireRequest], None] | None = Field(default=None, repr=False, exclude=True)
    """Shown what goes to the server, without the key. Not in the wire form."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Merged into the JSON body last, for what this project does not name."""


Messages = Grown[LlmMessage] | tuple[LlmMessage, ...]
"""Messages as they stood at one moment. Those of a branch that grows share one list."""


class Request(Wire):
    """One question to a model. Messages are those of `convert_to_llm`, paired."""

    system_prompt: str = ""
    messages: Messages = ()
    tools: tuple[ToolSpec, ...] = ()
    options: RequestOptions = RequestOptions()


# --- events ---------------------------------------------------------------------------------
# `index` is the place of the block in the message's content, from 0, in order of arrival.


class Start(Wire):
    """The server began to answer. `response_id` and `response_model` where it names them."""

    type: Literal["start"] = "start"
    response_id: str | None = None
    response_model: str | None = None


class TextDelta(Wire):
    type: Literal["text_delta"] = "text_delta"
    index: int
    delta: str
    signature: str | None = None


class ThinkingDelta(Wire):
    """`signature` replaces what came before it; `redacted` marks a block without readable text."""

    type: Literal["thinking_delta"] = "thinking_delta"
    index: int
    delta: str
    signature: str | None = None
    redacted: bool | None = None


class CallStart(Wire):
    type: Literal["call_start"] = "call_start"
    index: int
    id: str
    name: str
    signature: str | None = None
    """A provider's own mark of the call, sent back to it unread."""


class CallDelta(Wire):
    """A piece of the arguments' JSON text. `name` and `signature` where they arrive now."""

    type: Literal["call_delta"] = "call_delta"
    index: int
    delta: str
    name: str | None = None
    signature: str | None = None


class UsageUpdate(Wire):
    """The usage as known so far; a later one replaces it."""

    type: Literal["usage"] = "usage"
    usage: Usage


class End(Wire):
    """The last event of every stream."""

    type: Literal["end"] = "end"
    reason: StopReason
    error_message: str | None = None
    failure: str | None = None
    """For `reason="error"`: the class of `retry.classify`, e.g. `overloaded`, `overflow`."""
    retry_after: float | None = None
    """Seconds the server asked us to wait."""


StreamEvent = Start | TextDelta | ThinkingDelta | CallStart | CallDelta | UsageUpdate | End


class ChatModel(Protocol):
    """What the harness talks to: a description and one way to ask.

    An implementation holds connections and keys; it is never written to a session, and its
    repr shows no key.
    """

    @property
    def model(self) -> Model: ...

    def stream(self, request: Request, signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        """Ask. Ends with exactly one `End`, also after an abort, and never raises."""
        ...
