"""Anthropic Messages, as its maker and the compatible servers of others speak it.

`request_body` writes a history in the provider's form, which knows two roles that take
turns. `anthropic_events` reads the answer; `anthropic_thinking` knows what each model takes.

    u a(x,y) t(x) t(y) u   ->   user: text
                                assistant: thinking, text, tool_use x, tool_use y
                                user: tool_result x, tool_result y, text
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pi_nb.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    blocks_of,
)

from .adapter import Adapter
from .anthropic_events import Events
from .anthropic_schema import input_schema
from .anthropic_thinking import COMPATIBLE, Thinks, plan, thinks
from .keys import bearer
from .pairing import same_maker
from .types import Model, Request, ToolSpec

API = "anthropic-messages"
VERSION = "2023-06-01"
BETA = "anthropic-beta"

BEGINNING = "(the conversation begins with the next message)"
GO_ON = "(go on)"
IMAGE_FOLLOWS = "(the result is an image, after the results)"
NOT_OFFERED = "Called earlier in this conversation. It is not there any more."

_ID_LENGTH = 64
_NAME_LENGTH = 128
_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where servers differ in what they accept."""

    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    """The header that carries the key."""
    thinks: Thinks | None = None
    """How its models think; None: by the model's id."""
    betas: bool = True
    """It knows the header for what is not in general use."""
    cache_tools: bool = True
    """It takes a cache mark on a tool."""
    cache_hour: bool = True
    """It keeps a cache for an hour where that is asked for."""
    session_header: str = ""
    """The header that leads a conversation to where its cache is."""


DIALECTS: Mapping[str, Dialect] = {
    "fireworks": Dialect(
        auth="bearer",
        thinks=COMPATIBLE,
        betas=False,
        cache_tools=False,
        cache_hour=False,
        session_header="x-session-affinity",
    ),
    "minimax": Dialect(auth="bearer", betas=False, cache_hour=False),
}
"""By provider. Any other server is taken for the maker's own, or a proxy before it."""


# --- the request ----------------------------------------------------------------------------


def request_body(model: Model, request: Request, dialect: Dialect = Dialect()) -> Json:
    """The JSON of one request, without `extra_body`.

    Expects messages as `pairing` leaves them. A conversation has to begin and end with the
    user here; where it does not, a few words in brackets stand in that place.
    """
    options = request.options
    row = dialect.thinks or thinks(model.id)
    thinking = plan(model, options, row)
    messages = _messages(request, model, thinking.replayed)
    if row.strict and _unthinking(messages):
        thinking = plan(model, options, row, may_think=False)
    body: Json = {"model": model.id, "max_tokens": thinking.limit, "stream": True}
    body |= thinking.fields
    if options.temperature is not None and thinking.temperature:
        body["temperature"] = options.temperature
    if user_id := options.metadata.get("user_id"):
        body["metadata"] = {"user_id": user_id}
    if request.system_prompt.strip():
        body["system"] = [{"type": "text", "text": request.system_prompt}]
    body |= _tools(request.tools, messages)
    body["messages"] = messages
    if options.cache != "none":
        mark: Json = {"type": "ephemeral"}
        if options.cache == "long" and dialect.cache_hour:
            mark["ttl"] = "1h"
        _mark_cache(body, mark, tools=dialect.cache_tools)
    return body


def _mark_cache(body: Json, mark: Json, *, tools: bool) -> None:
    """Four marks at most are allowed: behind the tools, behind the system prompt, and behind
    the last two user messages. The later of those writes what the next request reads; the
    one before finds again what the request before wrote, however long the turn was."""
    ends = [body["tools"][-1]] if tools and body.get("tools") else []
    if "system" in body:
        ends.append(body["system"][-1])
    ends += [one["content"][-1] for one in body["messages"] if one["role"] == "user"][-2:]
    for block in ends:
        block["cache_control"] = mark


def _tools(tools: Sequence[ToolSpec], messages: Sequence[Json]) -> Json:
    """The tools, and those that a history without tools still speaks of: calls of tools that
    nobody declares are refused."""
    if tools:
        return {"tools": [_tool(tool) for tool in tools]}
    blocks = (block for message in messages for block in message["content"])
    called = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    if not called:
        return {}
    gone = [_tool(ToolSpec(name=name, description=NOT_OFFERED)) for name in called]
    return {"tools": gone, "tool_choice": {"type": "none"}}


def _tool(tool: ToolSpec) -> Json:
    wire: Json = {"name": tool.name, "input_schema": input_schema(tool.parameters)}
    return wire | ({"description": tool.description} if tool.description else {})


# --- its messages ---------------------------------------------------------------------------


class CallIds:
    """Ids of calls in the provider's form: letters, digits, `_` and `-`, at most 64, and none
    twice in a conversation.

    What an id becomes depends on what stands before it alone, so that a conversation that
    grows keeps its prefix and with it its cache.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._now: dict[str, str] = {}

    def new(self, given: str) -> str:
        """The id of a call. Results that come after it are found by the id given here."""
        base = _plain_id(given)
        made, number = base, 1
        while made in self._taken:
            number += 1
            end = f"_{number}"
            made = base[: _ID_LENGTH - len(end)] + end
        self._taken.add(made)
        self._now[given] = made
        return made

    def of_result(self, given: str) -> str:
        """The id of the last call that had this id."""
        return self._now.get(given) or self.new(given)


def _plain_id(given: str) -> str:
    plain = _STRANGE.sub("_", given)
    if plain == given and 0 < len(given) <= _ID_LENGTH:
        return given
    # The digest keeps ids apart that differ only in what was replaced or cut off.
    digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain[: _ID_LENGTH - 11] or 'call'}_{digest}"


def _messages(request: Request, model: Model, replayed: bool) -> list[Json]:
    """The history as turns of user and assistant; messages of one side in a row are one."""
    ids = CallIds()
    turns: list[Json] = []
    images: list[Json] = []

    def say(role: str, blocks: list[Json]) -> None:
        if turns and blocks and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})

    for message in request.messages:
        if isinstance(message, ToolResultMessage):
            block, later = _result(message, ids.of_result(message.tool_call_id))
            say("user", [block])
            images += later
            continue
        say("user", images)
        images = []
        if isinstance(message, AssistantMessage):
            own = replayed and same_maker(message, model)
            say("assistant", list(_said(message, ids, own)))
        else:
            say("user", list(_shown(blocks_of(message.content))))
    say("user", images)
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": BEGINNING}]})
    if not turns or turns[-1]["role"] == "assistant":
        say("user", [{"type": "text", "text": GO_ON}])
    return turns


def _said(message: AssistantMessage, ids: CallIds, own: bool) -> Iterator[Json]:
    """The blocks of a reply in their order. Thinking goes back byte for byte, or not at all
    (known fault V-01); behind everything else it is refused."""
    wire = [_reply(block, ids, own) for block in message.content]
    blocks = [block for block in wire if block is not None]
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()
    yield from blocks


def _reply(block: object, ids: CallIds, own: bool) -> Json | None:
    match block:
        case TextContent() if block.text.strip():
            return {"type": "text", "text": block.text}
        case ThinkingContent() if own and block.thinking_signature:
            if block.redacted:
                return {"type": "redacted_thinking", "data": block.thinking_signature}
            signature = block.thinking_signature
            return {"type": "thinking", "thinking": block.thinking, "signature": signature}
        case ToolCall():
            name = _STRANGE.sub("_", block.name)[:_NAME_LENGTH] or "unknown"
            identity = ids.new(block.id)
            return {"type": "tool_use", "id": identity, "name": name, "input": block.arguments}
        case _:
            return None


def _shown(blocks: Sequence[UserBlock]) -> Iterator[Json]:
    for block in blocks:
        if isinstance(block, TextContent) and block.text.strip():
            yield {"type": "text", "text": block.text}
        elif isinstance(block, ImageContent):
            source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
            yield {"type": "image", "source": source}


def _result(message: ToolResultMessage, identity: str) -> tuple[Json, list[Json]]:
    """A result, and the images that have to wait until all results are there: the provider
    takes none in the result of a failed call (known fault V-08)."""
    content, later = list(_shown(message.content)), []
    if message.is_error:
        later = [block for block in content if block["type"] == "image"]
        content = [block for block in content if block["type"] != "image"]
        if later and not content:
            content = [{"type": "text", "text": IMAGE_FOLLOWS}]
    wire: Json = {"type": "tool_result", "tool_use_id": identity}
    if content:
        wire["content"] = content
    if message.is_error:
        wire["is_error"] = True
    return wire, later


def _unthinking(messages: Sequence[Json]) -> bool:
    """The request goes on with calls of a reply that did not begin with thinking."""
    if len(messages) < 2 or messages[-1]["content"][0]["type"] != "tool_result":
        return False
    return messages[-2]["content"][0]["type"] not in ("thinking", "redacted_thinking")


# --- the exchange ---------------------------------------------------------------------------


class Anthropic(Adapter[Dialect]):
    """A `ChatModel` behind an Anthropic Messages server.

    Args:
        model: `base_url` is the part before `/v1/messages`.
        api_key: Sent as `x-api-key`, or as Bearer where the dialect says so.
        dialect: Where the server differs; None: as `DIALECTS` has it for the provider.
    """

    api = API

    def standard(self) -> Dialect:
        return DIALECTS.get(self._model.provider, Dialect())

    def url(self) -> str:
        return f"{self._model.base_url.rstrip('/').removesuffix('/v1')}/v1/messages"

    def headers(self, secret: str, request: Request) -> dict[str, str]:
        """The key, the version of the API, and what of it is not in general use.

        Such uses that the caller asks for are added to these, not put in their place.
        """
        dialect, session = self.dialect, request.options.session_id
        head = {"anthropic-version": VERSION}
        if dialect.auth == "bearer":
            head |= bearer(secret)
        elif secret:
            head["x-api-key"] = secret
        if dialect.session_header and session and request.options.cache != "none":
            head[dialect.session_header] = _plain_id(session)
        betas = (dialect.thinks or thinks(self._model.id)).betas
        if dialect.betas and self._model.reasoning and betas:
            head[BETA] = ",".join(betas)
        return head

    def body(self, request: Request) -> Json:
        return request_body(self._model, request, self.dialect)

    def answer(self) -> Events:
        return Events()

    def _head(self, request: Request, secret: str) -> dict[str, str]:
        asked = [self.headers(secret, request), self._headers, request.options.headers]
        found = [value for head in asked for name, value in head.items() if name.lower() == BETA]
        head = super()._head(request, secret)
        if not found:
            return head
        words = [word.strip() for value in found for word in value.split(",")]
        others = {name: value for name, value in head.items() if name.lower() != BETA}
        return others | {BETA: ",".join(dict.fromkeys(filter(None, words)))}
