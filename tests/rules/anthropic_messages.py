"""The published rules of Anthropic Messages, held against the JSON of a request.

Written after the provider's documentation (docs, `platform.claude.com/docs/en/`) and the
words of its refusals where a rule is documented nowhere else; it shares nothing with the
adapter. Beside each rule stands where it comes from.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
PICTURES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING = ("thinking", "redacted_thinking")
FIELDS = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "metadata",
    "temperature", "top_p", "top_k", "stop_sequences", "thinking", "output_config",
    "cache_control", "service_tier", "container", "inference_geo", "speed",
}  # fmt: skip
MESSAGE_LIMIT = 100_000

Json = dict[str, Any]

# build-with-claude/thinking-troubleshooting, the table of types by model; effort, its table
# of levels. By model: the types that are taken, the levels, whether a temperature is.
MODELS: tuple[tuple[str, set[str], tuple[str, ...], bool], ...] = (
    (r"claude-(fable|mythos)-", {"adaptive"}, EFFORTS, False),
    (r"claude-opus-5-5", {"adaptive"}, EFFORTS, False),
    (r"claude-sonnet-5-5", {"adaptive", "between_tools"}, EFFORTS, False),
    (r"claude-haiku-5-5", {"adaptive", "disabled"}, EFFORTS, False),
    (r"claude-(opus|sonnet)-5", {"adaptive", "disabled"}, EFFORTS, False),
    (r"claude-opus-4-[78]", {"adaptive", "disabled"}, EFFORTS, False),
    (
        r"claude-\w+-4-6",
        {"adaptive", "enabled", "disabled"},
        ("low", "medium", "high", "max"),
        True,
    ),
    (r"claude-opus-4-5", {"enabled", "disabled"}, ("low", "medium", "high"), True),
    (r"claude-", {"enabled", "disabled"}, (), True),
)
KEEPS_HISTORY = re.compile(r"claude-(fable-5-[12]|mythos-5-[12]|opus-5-5|sonnet-5-5|haiku-5-5)")
"""build-with-claude/preserved-thinking: models whose thinking is bound to what it followed."""


def broken_rules(body: Json) -> list[str]:
    """One sentence for every rule that a request breaks; none for a request in order."""
    return [*_fields(body), *_thinking(body), *_tools(body), *_history(body), *_marks(body)]


def _fields(body: Json) -> Iterator[str]:
    # api/messages/create: required are model, max_tokens and messages; unknown fields are
    # refused ("Extra inputs are not permitted").
    yield from (f"no {name}" for name in ("model", "max_tokens", "messages") if name not in body)
    yield from (f"unknown field {name}" for name in body if name not in FIELDS)
    if not _whole(body.get("max_tokens"), 1):
        yield "max_tokens is no whole number above 0"
    # api/messages/create: temperature ranges from 0.0 to 1.0.
    if "temperature" in body and not 0 <= body["temperature"] <= 1:
        yield "temperature outside 0 to 1"
    # api/messages/create, metadata: user_id alone, at most 256 characters.
    metadata = body.get("metadata", {})
    if set(metadata) - {"user_id"}:
        yield "metadata beside user_id"
    if len(metadata.get("user_id") or "") > 256:
        yield "user_id too long"
    system = body.get("system", [])
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        if block.get("type") != "text":
            yield "system prompt of something else than text"
        elif not block["text"].strip():
            yield "empty text in the system prompt"


def _thinking(body: Json) -> Iterator[str]:
    model = body.get("model", "")
    row = next((row for row in MODELS if re.search(row[0], model)), None)
    thinking, effort = body.get("thinking", {}), body.get("output_config", {}).get("effort")
    kind = thinking.get("type")
    if row is not None:
        _, kinds, efforts, temperature = row
        if thinking and kind not in kinds:
            yield f"thinking of type {kind} is not taken by {model}"
        if effort is not None and effort not in efforts:
            yield f"effort {effort} is not taken by {model}"
        # about-claude/models/migration-guide: sampling parameters are refused from 4.7 on.
        if "temperature" in body and not temperature:
            yield f"temperature is not taken by {model}"
    if effort is not None and effort not in EFFORTS:
        yield f"unknown effort {effort}"
    # build-with-claude/effort: with thinking off, high is the most.
    if kind in ("disabled", "between_tools") and effort in ("xhigh", "max"):
        yield f"effort {effort} without thinking"
    # build-with-claude/extended-thinking: budget_tokens >= 1,024 and below max_tokens.
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not _whole(budget, 1024):
            yield "budget below 1,024 tokens"
        elif budget >= body.get("max_tokens", 0):
            yield "budget not below max_tokens"
    elif "budget_tokens" in thinking:
        yield f"budget with thinking of type {kind}"
    # build-with-claude/extended-thinking, feature compatibility: no temperature, and no forced
    # tool while a model thinks.
    if kind in ("enabled", "adaptive"):
        if "temperature" in body:
            yield "temperature together with thinking"
        if body.get("tool_choice", {}).get("type") in ("any", "tool"):
            yield "forced tool together with thinking"
    if thinking.get("display") not in (None, "summarized", "omitted"):
        yield "unknown display of thinking"
    if kind not in ("enabled", "adaptive") and {"display", "block_binding"} & set(thinking):
        yield f"settings of thinking with type {kind}"
    # build-with-claude/preserved-thinking/fix-bound-to-a-different-conversation: a history that
    # a compaction or an edit may have changed says what is to become of its thinking, and a
    # request that switches thinking off carries none.
    blocks = [block for message in body.get("messages", []) for block in _blocks(message)]
    replayed = any(block.get("type") in THINKING for block in blocks)
    on_change = thinking.get("block_binding", {}).get("prefix_mismatch_behavior")
    if KEEPS_HISTORY.search(model) and replayed and on_change != "drop_block":
        yield "bound thinking without a rule for a changed history"
    # build-with-claude/extended-thinking, preserving thinking blocks: "Expected `thinking` or
    # `redacted_thinking`, but found `tool_use`" for a turn that goes on with results.
    messages = body.get("messages", [])
    if kind == "enabled" and re.search(r"claude-", model) and len(messages) > 1:
        results = any(block.get("type") == "tool_result" for block in _blocks(messages[-1]))
        if results and _blocks(messages[-2])[0].get("type") not in THINKING:
            yield "a turn with tools does not begin with thinking"


def _tools(body: Json) -> Iterator[str]:
    tools = body.get("tools", [])
    names = [tool.get("name", "") for tool in tools]
    # agents-and-tools/tool-use/define-tools: the pattern of names, and each name once.
    yield from (f"tool name {name!r}" for name in names if not NAME.fullmatch(name))
    if len(set(names)) != len(names):
        yield "two tools of one name"
    for tool in tools:
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            yield "a tool without input_schema"
            continue
        # define-tools: an object; "input_schema does not support oneOf, allOf, or anyOf at the
        # top level".
        if schema.get("type") != "object":
            yield "input_schema is no object"
        for word in ("oneOf", "allOf", "anyOf", "$ref"):
            if word in schema:
                yield f"{word} at the top of input_schema"
        # "Property keys should match pattern".
        for name in schema.get("properties", {}):
            if not PROPERTY.fullmatch(name):
                yield f"property name {name!r}"
        yield from _draft(schema)
    # "Requests which include `tool_use` or `tool_result` blocks must define tools".
    used = any(
        block.get("type") in ("tool_use", "tool_result")
        for message in body.get("messages", [])
        for block in _blocks(message)
    )
    if used and not tools:
        yield "calls in the history and no tools"
    if "tool_choice" in body and not tools:
        yield "tool_choice without tools"


def _draft(schema: Any) -> Iterator[str]:
    """define-tools: "must match JSON Schema draft 2020-12"."""
    if isinstance(schema, dict):
        if isinstance(schema.get("items"), list):
            yield "a list of items is no draft 2020-12"
        for word in ("exclusiveMinimum", "exclusiveMaximum"):
            if isinstance(schema.get(word), bool):
                yield f"a boolean {word} is no draft 2020-12"
        if "2020-12" not in schema.get("$schema", "2020-12"):
            yield "$schema of another draft"
        for value in schema.values():
            yield from _draft(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _draft(value)


def _history(body: Json) -> Iterator[str]:
    messages = body.get("messages", [])
    # api/messages/create: at least one message, at most 100,000.
    if not 1 <= len(messages) <= MESSAGE_LIMIT:
        yield f"{len(messages)} messages"
        return
    roles = [message.get("role") for message in messages]
    if set(roles) - {"user", "assistant"}:
        yield "unknown role"
    # api/messages/create: the conversation begins with the user; api/errors, prefill not
    # supported: it ends with the user.
    if roles[0] != "user":
        yield "the first message is not the user's"
    if roles[-1] != "user":
        yield "the last message is not the user's"
    # build-with-claude/working-with-messages: turns alternate (the maker merges those of one
    # side, compatible servers need not).
    if any(one == other for one, other in pairwise(roles)):
        yield "two messages of one side in a row"
    seen: set[str] = set()
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        blocks = _blocks(message)
        # "messages.N: all messages must have non-empty content".
        if not blocks:
            yield f"{where}: no content"
            continue
        for block in blocks:
            yield from (f"{where}: {words}" for words in _block(block, message["role"]))
        yield from _pairs(where, message, messages[at + 1 :], seen)
        # "The final block in an assistant message cannot be `thinking`."
        if message["role"] == "assistant" and blocks[-1].get("type") in THINKING:
            yield f"{where}: ends with thinking"
    yield from _answers(messages)


def _block(block: Json, role: str) -> Iterator[str]:
    kind = block.get("type")
    allowed = {
        "user": {"text", "image", "tool_result"},
        "assistant": {"text", "tool_use", *THINKING},
    }[role]
    if kind not in allowed:
        yield f"{kind} in a message of the {role}"
    elif kind == "text":
        # "text content blocks must contain non-whitespace text".
        if not block["text"].strip():
            yield "empty text"
    elif kind == "image":
        yield from _image(block)
    elif kind == "tool_use":
        # "tool_use.id: String should match pattern"; at most 64 characters.
        if not ID.fullmatch(block.get("id", "")) or len(block["id"]) > 64:
            yield f"id {block.get('id')!r}"
        if not NAME.fullmatch(block.get("name", "")):
            yield f"name of a call {block.get('name')!r}"
        # "tool_use.input: Input should be a valid dictionary".
        if not isinstance(block.get("input"), dict):
            yield "input of a call is no object"
    elif kind == "tool_result":
        yield from _result(block)
    elif kind == "thinking":
        # build-with-claude/thinking: text (it may be empty) and signature as they came.
        if not isinstance(block.get("thinking"), str) or not block.get("signature"):
            yield "thinking without text or signature"
    elif not block.get("data"):
        yield "redacted thinking without data"


def _result(block: Json) -> Iterator[str]:
    content = block.get("content", [])
    for inner in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        # agents-and-tools/tool-use/handle-tool-calls: text and images (documents apart).
        if inner.get("type") == "text":
            if not inner["text"].strip():
                yield "empty text in a result"
        elif inner.get("type") == "image":
            yield from _image(inner)
            # "all content must be type \"text\" if \"is_error\" is true".
            if block.get("is_error"):
                yield "an image in the result of a failed call"
        else:
            yield f"{inner.get('type')} in a result"
    if not isinstance(block.get("is_error", False), bool):
        yield "is_error is neither true nor false"


def _image(block: Json) -> Iterator[str]:
    # build-with-claude/vision: base64 of four types.
    source = block.get("source", {})
    if source.get("type") != "base64" or source.get("media_type") not in PICTURES:
        yield f"an image of type {source.get('media_type')}"
    try:
        if not base64.b64decode(source.get("data", ""), validate=True):
            yield "an image without data"
    except ValueError:
        yield "an image that is no base64"


def _pairs(where: str, message: Json, after: list[Json], seen: set[str]) -> Iterator[str]:
    """ "Each `tool_use` block must have a corresponding `tool_result` block in the next
    message", and "`tool_use` ids must be unique"."""
    calls = [block["id"] for block in _blocks(message) if block.get("type") == "tool_use"]
    for call in calls:
        if call in seen:
            yield f"{where}: a second call {call!r}"
        seen.add(call)
    if calls:
        answered = [
            block.get("tool_use_id")
            for block in (_blocks(after[0]) if after else [])
            if block.get("type") == "tool_result"
        ]
        yield from (
            f"{where}: call {call!r} without result" for call in calls if call not in answered
        )


def _answers(messages: list[Json]) -> Iterator[str]:
    """agents-and-tools/tool-use/handle-tool-calls: results come first in their message, each
    for a call of the message before ("unexpected `tool_use_id` found in `tool_result`")."""
    before: list[str] = []
    for at, message in enumerate(messages):
        kinds = [block.get("type") for block in _blocks(message)]
        given = [
            block["tool_use_id"] for block in _blocks(message) if block.get("type") == "tool_result"
        ]
        if "tool_result" in kinds[kinds.count("tool_result") :]:
            yield f"messages.{at}: a result behind something else"
        yield from (
            f"messages.{at}: result of no call {one!r}" for one in given if one not in before
        )
        if len(set(given)) != len(given):
            yield f"messages.{at}: two results of one call"
        before = [block["id"] for block in _blocks(message) if block.get("type") == "tool_use"]


def _marks(body: Json) -> Iterator[str]:
    """build-with-claude/prompt-caching: at most four marks, none on thinking or empty text,
    of 5 minutes or an hour, the longer ones first."""
    places = [*body.get("tools", [])]
    places += body["system"] if isinstance(body.get("system"), list) else []
    places += [block for message in body.get("messages", []) for block in _blocks(message)]
    marked = [place for place in places if "cache_control" in place]
    if len(marked) > 4:
        yield f"{len(marked)} cache marks"
    if any(place.get("type") in THINKING for place in marked):
        yield "a cache mark on thinking"
    times = [place["cache_control"].get("ttl", "5m") for place in marked]
    if any(place["cache_control"].get("type") != "ephemeral" for place in marked):
        yield "a cache mark of unknown type"
    if set(times) - {"5m", "1h"}:
        yield "a cache mark of unknown length"
    if times != sorted(times, key=["1h", "5m"].index if not set(times) - {"5m", "1h"} else str):
        yield "a short cache mark before a long one"


def _blocks(message: Json) -> list[Json]:
    content = message.get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
