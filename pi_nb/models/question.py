"""What a request asks: as plain data, as a digest, and in words where two of them differ.

Two requests are the same question if a model could not tell them apart. Timestamps, usage,
signatures, headers and the address of the server are no part of it, and the ids of calls
count only by the order in which they come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pi_nb.js import dumps
from pi_nb.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    LlmMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    blocks_of,
)
from pi_nb.text import count, safe_line

from .keys import HIDDEN, secret_values
from .types import Model, Request, RequestOptions

Plain = dict[str, Any]
_BEFORE = 20
_SHOWN = 60


@dataclass(frozen=True, slots=True, repr=False)
class Question:
    """A request as plain data."""

    parts: Plain
    """`model`, `systemPrompt`, `tools` and `options`; all four are always there."""
    messages: tuple[Plain, ...]
    marks: tuple[str, ...]
    """For each message a digest of the conversation up to and with it."""

    @property
    def model_id(self) -> str:
        """The name of the model; nothing else of it counts."""
        return str(self.parts["model"]["id"])

    @property
    def digest(self) -> str:
        """Equal for the same questions."""
        return digest([self.parts | {"model": self.model_id}, *self.marks[-1:]])


class Conversation:
    """Messages as plain data, kept from request to request: only what is new costs anything."""

    def __init__(self, hide: Callable[[Any], Any] = lambda plain: plain) -> None:
        """
        Args:
            hide: Takes out of plain data what must not be written.
        """
        self._hide = hide
        self._known: tuple[LlmMessage, ...] = ()
        self._numbers: dict[str, int] = {}
        self.plain: tuple[Plain, ...] = ()
        self.marks: tuple[str, ...] = ()

    def follow(self, messages: Sequence[LlmMessage]) -> Conversation:
        """Become this conversation, from the start if it is another than before.

        Raises:
            TypeError, ValueError: as `digest`.
        """
        told = tuple(messages)
        if told[: len(self._known)] != self._known:
            self._known, self._numbers, self.plain, self.marks = (), {}, (), ()
        new, numbers = told[len(self._known) :], dict(self._numbers)
        plain = tuple(self._hide(plain_message(message, numbers)) for message in new)
        marks = marks_of(plain, self.marks)
        # All at once: a message that was refused above has changed nothing.
        self._known, self._numbers = told, numbers
        self.plain, self.marks = self.plain + plain, marks
        return self


def marks_of(messages: Iterable[Plain], before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The marks of a conversation that goes on from one whose marks are known.

    Raises:
        TypeError, ValueError: as `digest`.
    """
    marks = list(before)
    for message in messages:
        marks.append(digest([*marks[-1:], message]))
    return tuple(marks)


def parts_of(model: Model, request: Request) -> Plain:
    """What a request says besides the conversation."""
    described = model.to_wire()
    described.pop("baseUrl", None)  # it may hold a password, and ports change
    return {
        "model": described,
        "systemPrompt": request.system_prompt,
        "tools": [tool.to_wire() for tool in request.tools],
        "options": _options(request.options),
    }


def plain_message(message: LlmMessage, numbers: dict[str, int]) -> Plain:
    """A message by role and content alone. An image is named by the SHA-256 of its data.

    Args:
        numbers: Of the ids of calls so far; new ones are added.
    """

    def number(call_id: str) -> int:
        return numbers.setdefault(call_id, len(numbers) + 1)

    if isinstance(message, AssistantMessage):
        blocks = [
            {"type": "toolCall", "call": number(block.id)} | _call(block)
            if isinstance(block, ToolCall)
            else _block(block)
            for block in message.content
        ]
        return {"role": "assistant", "content": blocks}
    said: Plain = {"role": message.role}
    if isinstance(message, ToolResultMessage):
        said |= {"call": number(message.tool_call_id), "isError": message.is_error}
    return said | {"content": [_block(block) for block in blocks_of(message.content)]}


def _call(call: ToolCall) -> Plain:
    return {"name": call.name, "arguments": call.arguments}


def _block(block: UserBlock | AssistantBlock) -> Plain:
    match block:
        case TextContent():
            return {"type": "text", "text": block.text}
        case ThinkingContent():
            return {"type": "thinking", "thinking": block.thinking}
        case ImageContent():
            name = hashlib.sha256(block.data.encode("utf-8", "surrogatepass")).hexdigest()
            return {"type": "image", "mimeType": block.mime_type, "sha256": name}
        case _:
            return block.to_wire()


def _options(options: RequestOptions) -> Plain:
    """What changes the answer; how long we wait for it and who we are does not."""
    given = {
        "maxTokens": options.max_tokens,
        "temperature": options.temperature,
        "thinkingLevel": None if options.thinking_level == "off" else options.thinking_level,
        "extraBody": _without_secrets(options.extra_body) or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: HIDDEN
            if isinstance(item, str) and secret_values({str(name): item})
            else _without_secrets(item)
            for name, item in value.items()
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list | tuple) else value


# --- comparing ------------------------------------------------------------------------------


def digest(data: Any) -> str:
    """SHA-256 of plain data, whatever the order of names in it.

    Raises:
        TypeError: something has no JSON form.
        ValueError: it is nested too deeply.
    """
    try:
        text = dumps(_in_order(data))
    except RecursionError:
        raise ValueError("nested too deeply for JSON, or holds itself") from None
    return hashlib.sha256(text.encode()).hexdigest()


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value, key=str)}
    return [_in_order(item) for item in value] if isinstance(value, list | tuple) else value


def common(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many items at the beginning are the same."""
    return sum(1 for _ in takewhile(lambda two: two[0] == two[1], zip(old, new, strict=False)))


def likeness(old: Question, new: Question) -> tuple[int, int]:
    """How near two questions are; a greater one is nearer."""
    same = (old.model_id == new.model_id) + sum(
        old.parts[part] == new.parts[part] for part in ("systemPrompt", "tools", "options")
    )
    return same + common(old.marks, new.marks), -abs(len(old.marks) - len(new.marks))


def difference(recorded: Question, asked: Question) -> str:
    """The first difference in words, in the order a model reads; empty if there is none."""
    there, here = recorded.parts, asked.parts
    if recorded.model_id != asked.model_id:
        return (
            f"the model is {safe_line(asked.model_id)}, recorded was {safe_line(recorded.model_id)}"
        )
    if there["systemPrompt"] != here["systemPrompt"]:
        return f"system prompt: {_where(there['systemPrompt'], here['systemPrompt'])}"
    if there["tools"] != here["tools"]:
        return _tools_difference(there["tools"], here["tools"])
    if there["options"] != here["options"]:
        return f"options: {_where(dumps(there['options']), dumps(here['options']))}"
    return messages_difference(recorded.messages, asked.messages)


def messages_difference(recorded: Sequence[Any], asked: Sequence[Any], *, first: int = 1) -> str:
    """The first difference of two lists of plain messages, in words; else empty.

    Args:
        first: The number of the first message in the request, for the words.
    """
    same = common(recorded, asked)
    if same == len(recorded) == len(asked):
        return ""
    if same == len(recorded):
        more = count(len(asked) - same, "message")
        return f"{more} more than recorded, from message {same + first} ({asked[same]['role']}) on"
    if same == len(asked):
        return f"message {same + first} ({recorded[same]['role']}) of the recording is missing"
    old, new = recorded[same], asked[same]
    if old["role"] != new["role"]:
        return f"message {same + first} is of role {new['role']}, recorded was {old['role']}"
    texts = _said(old), _said(new)
    if texts[0] == texts[1]:
        texts = dumps(old), dumps(new)
    return f"message {same + first} ({new['role']}): {_where(*texts)}"


def _said(message: Plain) -> str:
    blocks = message["content"]
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block.get("text", "") for block in blocks)
    return dumps(blocks)


def _tools_difference(recorded: list[Plain], asked: list[Plain]) -> str:
    there, here = ([tool["name"] for tool in tools] for tools in (recorded, asked))
    if there != here:
        old, new = (safe_line(", ".join(names)) or "none" for names in (there, here))
        return f"the tools are {new}; recorded were {old}"
    same = common(recorded, asked)
    return f"tool {here[same]}: {_where(dumps(recorded[same]), dumps(asked[same]))}"


def _where(recorded: str, asked: str) -> str:
    """Both texts around the place where they part."""
    start = max(common(recorded, asked) - _BEFORE, 0)
    old, new = (
        ("…" if start else "") + safe_line(text[start:], _SHOWN) for text in (recorded, asked)
    )
    return f"recorded '{old}', asked '{new}'"
