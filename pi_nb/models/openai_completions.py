"""Chat Completions, as OpenAI made it and as every local server speaks it.

Two pure halves around one HTTP exchange: `request_body` makes the JSON, `Events` (in
`completions_events`) reads the answer, streamed or in one piece. Only `OpenAICompletions`
touches the network.

    Request -> request_body -> http.post -> SseParser -> Events -> StreamEvent
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pi_nb.js import dumps
from pi_nb.messages import (
    AssistantMessage,
    ImageContent,
    LlmMessage,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserBlock,
    UserMessage,
    blocks_of,
    text_of,
)
from pi_nb.text import scrub_data

from .adapter import Adapter
from .completions_events import REASONING_KEYS, Events
from .types import Model, Request

API = "openai-completions"

A_PAGE = "The server answered with a web page, not with a model's answer. Check the URL."
IMAGE_FOLLOWS = "(the result is the image in the next message)"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where servers differ in what they accept."""

    max_tokens_field: str = "max_tokens"
    """OpenAI's newer models want `max_completion_tokens`."""
    system_role: str = "system"
    """`developer` is refused by most servers but OpenAI's own."""
    empty_content: str | None = None
    """The content of a message that only calls tools: null, or "" where null is refused."""
    replay_reasoning: bool = True
    """Send reasoning back that came from the same model through this adapter."""
    stream_usage: bool = True
    """Ask for usage at the end of the stream."""


# --- the request ----------------------------------------------------------------------------


def request_body(model: Model, request: Request, dialect: Dialect = Dialect()) -> dict[str, Any]:
    """The JSON of one request, without `extra_body`.

    Expects messages as `pairing` leaves them. Images inside tool results are not accepted
    by this API; they follow in a user message after the batch of results.
    """
    options = request.options
    body: dict[str, Any] = {
        "model": model.id,
        "messages": list(_messages(request, dialect)),
        "stream": True,
    }
    if dialect.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    if (limit := options.max_tokens or model.max_tokens) is not None:
        body[dialect.max_tokens_field] = limit
    if model.reasoning and options.thinking_level != "off":
        # Reasoning models refuse a temperature while they reason.
        body["reasoning_effort"] = options.thinking_level
    elif options.temperature is not None:
        body["temperature"] = options.temperature
    return body


def _messages(request: Request, dialect: Dialect) -> Iterator[dict[str, Any]]:
    if request.system_prompt.strip():
        yield {"role": dialect.system_role, "content": request.system_prompt}
    images: list[ImageContent] = []
    for message in request.messages:
        if images and not isinstance(message, ToolResultMessage):
            yield {"role": "user", "content": _parts(images)}
            images = []
        if isinstance(message, ToolResultMessage):
            images += [block for block in message.content if isinstance(block, ImageContent)]
        yield from _message(message, dialect)
    if images:
        yield {"role": "user", "content": _parts(images)}


def _message(message: LlmMessage, dialect: Dialect) -> Iterator[dict[str, Any]]:
    match message:
        case UserMessage():
            blocks = blocks_of(message.content)
            plain = all(isinstance(block, TextContent) for block in blocks)
            yield {"role": "user", "content": text_of(blocks) if plain else _parts(blocks)}
        case ToolResultMessage():
            has_image = any(isinstance(block, ImageContent) for block in message.content)
            yield {
                "role": "tool",
                "tool_call_id": message.tool_call_id,
                "content": message.text or (IMAGE_FOLLOWS if has_image else ""),
            }
        case AssistantMessage():
            yield _assistant(message, dialect)


def _assistant(message: AssistantMessage, dialect: Dialect) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": message.text}
    if dialect.replay_reasoning:
        for block in message.content:
            if isinstance(block, ThinkingContent) and block.thinking_signature in REASONING_KEYS:
                key = block.thinking_signature
                wire[key] = wire.get(key, "") + block.thinking
    if message.tool_calls:
        wire["content"] = message.text or dialect.empty_content
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": dumps(scrub_data(call.arguments))},
            }
            for call in message.tool_calls
        ]
    return wire


def _parts(blocks: Sequence[UserBlock]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextContent) and block.text:
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageContent):
            url = f"data:{block.mime_type};base64,{block.data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


# --- the exchange ---------------------------------------------------------------------------


class OpenAICompletions(Adapter[Dialect]):
    """A `ChatModel` behind a Chat Completions server.

    Args:
        model: `base_url` is the part before `/chat/completions`, usually ending in `/v1`.
        api_key: Sent as Bearer; a function is asked at every request. Local servers need
            none. It is shown nowhere.
        dialect: Where the server differs from the rest.
    """

    api = API

    def standard(self) -> Dialect:
        return Dialect()

    def url(self) -> str:
        return f"{self._model.base_url.rstrip('/')}/chat/completions"

    def body(self, request: Request) -> dict[str, Any]:
        return request_body(self._model, request, self.dialect)

    def answer(self) -> Events:
        return Events()
