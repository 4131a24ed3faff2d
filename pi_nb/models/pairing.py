"""A history that a provider accepts: every call has its result, every result its call.

Sessions get damaged (a crash between a call and its result, an edit by hand, a file of
another program), and one unpaired message makes every later request fail. The log is never
changed; this is what is sent in its place, and `Paired.changes` says what differs.

    u a(x,y) t(y) u t(x) t(q)   ->   u a(x,y) t(x) t(y) u        x moved, q left out
    u a(x)       u              ->   u a(x) t(x: not finished) u

One message at a time, so that a growing history costs only what is new.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pi_nb.grown import Grown
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
    UserMessage,
    blocks_of,
)
from pi_nb.text import safe_line, scrub, scrub_data

from .types import Messages, Model

NOT_FINISHED = (
    "This tool call did not finish: no result of it was recorded. "
    "Whether it had an effect is not known."
)
NO_OUTPUT = "(no output)"
NO_TEXT = "(empty message)"

SIGNING_APIS = frozenset(
    {
        "anthropic-messages",
        "bedrock-converse-stream",
        "google-generative-ai",
        "google-vertex",
        "openai-responses",
    }
)
"""APIs that refuse reasoning they did not sign. Chat Completions signs nothing: there the
text alone goes back, under the key it came with."""


PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What every provider with pictures takes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the log and what is sent.

    Codes: `result_missing` `result_moved` `result_orphan` `result_duplicate`
    `result_of_failed` `message_failed` `message_empty` `placeholder` `text_empty`
    `thinking_left_out` `image_left_out` `image_broken` `block_unknown` `surrogates` `call_id`.
    """

    code: str
    words: str
    index: int
    """Which of the given messages it is about, from 0."""


@dataclass(frozen=True, slots=True)
class Paired:
    """Messages that can be sent, and how they differ from those given, in their order."""

    messages: Messages
    changes: tuple[Change, ...]


def pair(messages: Sequence[LlmMessage], model: Model | None = None) -> Paired:
    """Make a history that `model` accepts. Pure; doing it twice changes nothing more.

    Args:
        messages: What `convert_to_llm` gives, oldest first.
        model: Who will read it. None: nobody in particular; thinking and images stay.
    """
    pairing = Pairing(model)
    for message in messages:
        pairing.add(message)
    return pairing.paired()


@dataclass(slots=True)
class _Slot:
    """The place of one call's result."""

    call: ToolCall
    result: ToolResultMessage | None = None


@dataclass(slots=True)
class _Turn:
    """A user message, or an assistant message with the places of its results."""

    message: UserMessage | AssistantMessage
    index: int
    slots: list[_Slot] = field(default_factory=list)
    blank: bool = False
    """A user message without content: sent only where a user has to speak."""


class Pairing:
    """The state between two messages. `add` costs its message alone."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model
        self._count = 0
        self._turns: list[_Turn] = []
        # What is sent of the first `_told` turns, and which results are missing there.
        self._sent: list[LlmMessage] = []
        self._missing: list[Change] = []
        self._told = 0
        self._changes: list[Change] = []
        self._ordered: tuple[Change, ...] | None = ()
        # A call's id as its message gave it, to its places in the nearest such message;
        # no turn: that message was left out. Ids may come again in a later turn.
        self._calls: dict[str, tuple[_Turn | None, list[_Slot]]] = {}

    def add(self, message: LlmMessage) -> None:
        """Take the next message of the history."""
        match message:
            case UserMessage():
                self._add_user(message)
            case AssistantMessage():
                self._add_assistant(message)
            case ToolResultMessage():
                self._add_result(message)
        self._count += 1

    def paired(self) -> Paired:
        """The history so far. Costs what is new since it was asked last.

        What was handed out is not changed by what comes later, even where that belongs
        before its end.
        """
        while self._told < len(self._turns):
            self._tell(self._turns[self._told])
            self._told += 1
        if (last := self._blank_to_answer()) is None:
            return Paired(Grown(self._sent), self._in_order())
        # Providers answer a user or a result, never nothing and never themselves.
        spoken = last.message.having(content=(TextContent(text=NO_TEXT),))
        why = Change("placeholder", "A place-holder for an empty message", last.index)
        changes = sorted((*self._in_order(), why), key=_index)
        return Paired((*self._sent, spoken), tuple(changes))

    def _tell(self, turn: _Turn) -> None:
        """Put a turn's messages at the end of what is sent."""
        if turn.blank:
            return
        self._sent.append(turn.message)
        for slot in turn.slots:
            if slot.result is None:
                words = f"The call {slot.call.name} has no result"
                self._missing.append(Change("result_missing", words, turn.index))
                self._ordered = None
            self._sent.append(slot.result or _unfinished(slot.call, turn.message.timestamp))

    def _tell_again(self) -> None:
        """Begin a new list: a message came that belongs between those of the present one."""
        self._sent, self._missing, self._told = [], [], 0
        self._ordered = None

    def _blank_to_answer(self) -> _Turn | None:
        """The last turn, if it says nothing and is all that there is to answer."""
        last = self._turns[-1] if self._turns else None
        if last is None or not last.blank:
            return None
        return last if not self._sent or isinstance(self._sent[-1], AssistantMessage) else None

    def _in_order(self) -> tuple[Change, ...]:
        if self._ordered is None:
            found = (*self._changes, *self._missing)
            self._ordered = tuple(sorted(found, key=_index))
        return self._ordered

    def _note(self, code: str, words: str) -> None:
        self._changes.append(Change(code, words, self._count))
        self._ordered = None

    def _add_user(self, message: UserMessage) -> None:
        blocks = self._user_blocks(blocks_of(message.content))
        if not blocks:
            self._note("message_empty", "A user message without content")
        elif blocks != blocks_of(message.content):
            message = message.having(content=blocks)
        self._turns.append(_Turn(message, self._count, blank=not blocks))

    def _add_assistant(self, message: AssistantMessage) -> None:
        if message.stop_reason in ("error", "aborted"):
            self._note("message_failed", f"A reply that ended with {message.stop_reason}")
            for call in message.tool_calls:
                self._calls[call.id] = (None, [])
            return
        content = tuple(self._assistant_blocks(message))
        if not any(isinstance(block, TextContent | ToolCall) for block in content):
            # Thinking alone says nothing to anybody, and most providers refuse it.
            self._note("message_empty", "A reply without text and without calls")
            return
        if content != message.content:
            message = message.having(content=content)
        turn = _Turn(message, self._count)
        self._turns.append(turn)
        self._open_calls(turn, message)

    def _open_calls(self, turn: _Turn, message: AssistantMessage) -> None:
        """Make a place for each call's result; ids are made unique within the message."""
        seen: set[str] = set()
        renamed = False
        content: list[AssistantBlock] = []
        here: dict[str, list[_Slot]] = {}
        for block in message.content:
            if isinstance(block, ToolCall):
                given, unique = block.id, _unused(scrub(block.id), seen)
                seen.add(unique)
                if unique != given:
                    renamed = True
                    self._note("call_id", f"A call id that is not its own: {given!r}")
                    block = block.having(id=unique)
                slot = _Slot(block)
                turn.slots.append(slot)
                here.setdefault(given, []).append(slot)
            content.append(block)
        if renamed:
            turn.message = message.having(content=tuple(content))
        self._calls.update({given: (turn, slots) for given, slots in here.items()})

    def _add_result(self, message: ToolResultMessage) -> None:
        if message.tool_call_id not in self._calls:
            self._note("result_orphan", "A tool result without a call")
            return
        turn, slots = self._calls[message.tool_call_id]
        if turn is None:
            self._note("result_of_failed", "A result of a call in a failed reply")
            return
        slot = next((slot for slot in slots if slot.result is None), None)
        if slot is None:
            self._note("result_duplicate", "A second result of one call")
            return
        blocks = self._user_blocks(message.content)
        if not blocks:
            self._note("placeholder", "A place-holder for an empty result")
            blocks = (TextContent(text=NO_OUTPUT),)
        if (blocks, slot.call.id) != (message.content, message.tool_call_id):
            message = message.having(content=blocks, tool_call_id=slot.call.id)
        slot.result = message
        if self._told and turn.index <= self._turns[self._told - 1].index:
            self._tell_again()
        place = next(i for i, one in enumerate(turn.slots) if one is slot)
        overtaken = any(later.result is not None for later in turn.slots[place + 1 :])
        if turn is not self._turns[-1] or overtaken:
            self._note("result_moved", "A result that did not stand in its call's order")

    def _user_blocks(self, blocks: Sequence[UserBlock]) -> tuple[UserBlock, ...]:
        kept: list[UserBlock] = []
        for block in blocks:
            if isinstance(block, TextContent):
                kept.extend(self._texts(block))
            elif not isinstance(block, ImageContent):
                self._note("block_unknown", f"A block of the unknown type {block.type!r}")
            elif why := _why_no_picture(block):
                self._note("image_broken", f"An image that {why}")
                mime = safe_line(block.mime_type, 40)
                kept.append(TextContent(text=f"[An image ({mime}) was left out here: it {why}]"))
            elif self._model is not None and not self._model.images:
                self._note("image_left_out", f"{self._model} takes no images")
                kept.append(TextContent(text=f"[An image ({block.mime_type}) was left out here]"))
            else:
                kept.append(block)
        return tuple(kept)

    def _assistant_blocks(self, message: AssistantMessage) -> Iterator[AssistantBlock]:
        for block in message.content:
            if isinstance(block, TextContent):
                yield from self._texts(block)
            elif isinstance(block, ToolCall):
                yield self._call(block)
            elif not isinstance(block, ThinkingContent):
                self._note("block_unknown", f"A block of the unknown type {block.type!r}")
            elif why := self._why_not(block, message):
                self._note("thinking_left_out", why)
            else:
                yield block

    def _texts(self, block: TextContent) -> Iterator[TextContent]:
        """The block as it can be sent, or nothing where it shows nothing."""
        if not block.text.strip():
            self._note("text_empty", "A text block without text")
            return
        clean = scrub(block.text)
        if clean != block.text:
            self._note("surrogates", "Half characters in a text")
            block = block.having(text=clean)
        yield block

    def _call(self, call: ToolCall) -> ToolCall:
        name, arguments = scrub(call.name), scrub_data(call.arguments)
        if (name, arguments) == (call.name, call.arguments):
            return call
        self._note("surrogates", "Half characters in a tool call")
        return call.having(name=name, arguments=arguments)

    def _why_not(self, block: ThinkingContent, message: AssistantMessage) -> str:
        """Why this reasoning cannot go back, or nothing. It goes back as it came or not at all."""
        if not block.thinking and not block.thinking_signature:
            return "Reasoning without text"
        if scrub(block.thinking) != block.thinking:
            return "Reasoning with half characters"
        model = self._model
        if model is None:
            return ""
        if not same_maker(message, model):
            return "Reasoning of another model"
        if model.api in SIGNING_APIS and not block.thinking_signature:
            return "Reasoning without a signature"
        return ""


def same_maker(message: AssistantMessage, model: Model) -> bool:
    """Whether a message is this model's own, by the same wire format: only to it go the marks
    back that a provider put on its text, its reasoning and its calls."""
    maker = (message.provider, message.model, message.api or model.api)
    return maker == (model.provider, model.id, model.api or message.api)


def _index(change: Change) -> int:
    return change.index


def _unused(wanted: str, seen: set[str]) -> str:
    base = wanted or "call"
    candidate, number = base, 1
    while candidate in seen:
        number += 1
        candidate = f"{base}_{number}"
    return candidate


def _unfinished(call: ToolCall, timestamp: int) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextContent(text=NOT_FINISHED),),
        is_error=True,
        timestamp=timestamp,
    )


def _why_no_picture(image: ImageContent) -> str | None:
    """Why a provider would refuse the whole request because of it (known fault S-30)."""
    if image.mime_type not in PICTURES:
        return "is of a type that no provider takes"
    try:
        return None if base64.b64decode(image.data, validate=True) else "is empty"
    except ValueError:
        return "is not base64"
