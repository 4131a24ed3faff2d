"""The vocabulary between the harness and a model: request in, events out.

A stream never raises. Whatever goes wrong in the world ends it with an `End` whose reason
is `error` or `aborted`, and what had arrived is kept.

    Start  TextDelta* | ThinkingDelta* | CallStart CallDelta* ...  UsageUpdate*  End
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
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


class Price(Wire):
    """US dollars for a million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0


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


class RequestOptions(Wire):
    """What a request may say besides the conversation. None: the model's own default."""

    max_tokens: int | None = None
    temperature: float | None = None
    thinking_level: ThinkingLevel = "off"
    connect_timeout: float = 10.0
    """Seconds."""
    idle_timeout: float = 300.0
    """Seconds without a byte from the server; a comment line counts as one."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False, exclude=True)
    """May hold a key: never shown, and not part of the wire form."""
    on_payload: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = Field(
        default=None, repr=False, exclude=True
    )
    """Shown the JSON body before it is sent, and gives the one to send. Not in the wire form."""
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


class CallDelta(Wire):
    """A piece of the arguments' JSON text. `name` where it only arrives now."""

    type: Literal["call_delta"] = "call_delta"
    index: int
    delta: str
    name: str | None = None


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
