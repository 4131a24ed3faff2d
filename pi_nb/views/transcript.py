"""The entries of a session as articles: everything that was said, shown as text.

Session text is hostile, and none of it is markup here: Markdown stays source, only its
fences are set apart. A picture is shown if it is one that every browser knows, and valid.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any

from pi_nb.html import Html, details, element
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    Content,
    CustomMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from pi_nb.result import PiError
from pi_nb.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
)
from pi_nb.session.in_words import entry_line
from pi_nb.session.markdown import LONG, apart, title_of
from pi_nb.session.reader import SessionReader
from pi_nb.text import count, plain, safe_line, straight

from .facts import moment
from .paths import Anchors, End, Fork, reading_order

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
# All its tildes at once: else each fewer of them would be tried, and a long row takes for ever.
_FENCE = re.compile(
    r"^ {0,3}(`{3,}|~{3,}(?!~))[^\n`]*\n(.*?)(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S
)


def transcript(session: SessionReader, anchors: Anchors) -> Iterator[str]:
    """Every entry, in the tree's order; a line before each branch."""
    labels = session.labels
    for step in reading_order(session):
        match step:
            case Fork():
                yield _fork(step, anchors)
            case End():
                pass
            case entry_id:
                yield _article(session, anchors, entry_id, labels.get(entry_id))


def _fork(fork: Fork, anchors: Anchors) -> Html:
    name = f"Branch {fork.number} of {fork.count}, "
    if fork.parent is None:
        return element("p", f"{name}from the beginning", class_="fork")
    to = element(
        "a", f"after #{anchors.number(fork.parent)}", href=f"#{anchors.anchor(fork.parent)}"
    )
    return element("p", name, to, class_="fork")


def _article(session: SessionReader, anchors: Anchors, entry_id: str, label: str | None) -> Html:
    number, anchor = anchors.number(entry_id), anchors.anchor(entry_id)
    parent = session.anchor(session.parent_id(entry_id))
    link = element(
        "a", f"#{number}", href=f"#{anchor}", class_="link", aria_label=f"Link to entry {number}"
    )
    try:
        entry = session.entry(entry_id)
        title, body, kind = title_of(entry), list(_body(entry)), _kind(entry)
        if not title:
            title = entry_line(entry)
        when: object = moment(entry.timestamp)
    except PiError as error:
        title, body, kind, when = "Cannot be read", [_text(error.message)], "odd", ""
    about: list[object] = [element("h3", straight(safe_line(title, 200))), when]
    if label:
        about.append(element("span", f"label: {_clean(label)}", class_="label"))
    if not anchors.is_active(entry_id):
        about.append(element("span", "on another branch", class_="elsewhere"))
    return element(
        "article",
        element("header", *about, link),
        *body,
        id=anchor,
        tabindex="-1",
        class_=kind,
        data_number=f"{number}",
        data_parent=anchors.anchor(parent) if parent is not None else "",
    )


def _kind(entry: Entry) -> str:
    match entry:
        case MessageEntry(message=UserMessage() | BashExecutionMessage() | CustomMessage()):
            return "user"
        case MessageEntry(message=ToolResultMessage() as result):
            return "failed" if result.is_error else "tool"
        case MessageEntry(message=AssistantMessage() as said):
            return "failed" if said.stop_reason == "error" else "assistant"
        case CompactionEntry() | BranchSummaryEntry():
            return "summary"
        case CustomMessageEntry():
            return "user"
        case _:
            return "setting"


def _body(entry: Entry) -> Iterator[Html]:
    match entry:
        case MessageEntry():
            yield from _message(entry.message)
        case CompactionEntry() | BranchSummaryEntry():
            yield _text(entry.summary)
            if entry.details:
                yield _folded("details", _json(entry.details))
        case CustomMessageEntry():
            yield from _content(entry.content)
        case CustomEntry() if entry.data is not None:
            yield _folded("data", _json(entry.data))
        case _ if entry.model_extra and type(entry) is Entry:
            yield _folded("fields", _json(entry.model_extra))


def _message(message: AgentMessage) -> Iterator[Html]:
    match message:
        case AssistantMessage():
            for block in message.content:
                yield from _said(block)
            if message.error_message:
                yield element("p", _clean(message.error_message), class_="error")
        case ToolResultMessage():
            yield from map(_result, message.content)
        case BashExecutionMessage():
            yield _code(message.command)
            yield _long("output", message.output)
        case UserMessage() | CustomMessage():
            yield from _content(message.content)
        case SystemMessage():
            for name, text in [("prompt", _joined(message.content)), *_sections(message)]:
                if text:
                    yield _folded(name, text)
        case _:
            yield _folded("fields", _json(message.to_wire()))


def _sections(message: SystemMessage) -> list[tuple[str, str]]:
    return [(name, text or "") for name, text in (message.sections or {}).items()]


def _said(block: Any) -> Iterator[Html]:
    match block:
        case TextContent():
            if block.text.strip():
                yield _text(block.text)
        case ThinkingContent():
            if said := block.thinking or ("(hidden by the provider)" if block.redacted else ""):
                yield _folded("thinking", said)
        case ToolCall():
            yield element("p", "Calls ", element("code", _clean(block.name)), class_="call")
            if block.raw_arguments is not None:
                yield _code(block.raw_arguments)
                return
            short, long = apart(block.arguments)
            if short or not long:
                yield _code(_json(short))
            yield from (_long(name, text) for name, text in long.items())
        case _:
            yield _other(block)


def _content(content: Content) -> Iterator[Html]:
    for block in blocks_of(content):
        yield _text(block.text) if isinstance(block, TextContent) else _other(block)


def _joined(content: Content) -> str:
    return "\n".join(b.text for b in blocks_of(content) if isinstance(b, TextContent))


def _result(block: Any) -> Html:
    return _long("result", block.text) if isinstance(block, TextContent) else _other(block)


def _other(block: Any) -> Html:
    """A picture, or a note of what cannot be shown."""
    if not isinstance(block, ImageContent):
        return element("p", f"[{_clean(str(block.type))}]", class_="note")
    size = count(len(block.data) * 3 // 4, "byte")
    about = f"picture, {_clean(block.mime_type)}, {size}"
    if block.mime_type not in _PICTURES or not _is_base64(block.data):
        return element("p", f"[{about}, not shown]", class_="note")
    source = f"data:{block.mime_type};base64,{block.data}"
    return element("img", src=source, alt=about, loading="lazy")


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _text(text: str) -> Html:
    """Prose as it was written; what stands in fences is code."""
    source = _clean(text)
    parts: list[object] = []
    end = 0
    for found in _FENCE.finditer(source):
        parts += [_prose(source[end : found.start()]), _code(found[2].removesuffix("\n"))]
        end = found.end()
    return element("div", *filter(None, [*parts, _prose(source[end:])]), class_="text")


def _prose(source: str) -> Html | None:
    return element("p", source.strip("\n"), dir="auto") if source.strip() else None


def _code(text: str) -> Html:
    return element("pre", element("code", _clean(text)))


def _long(title: str, text: str) -> Html:
    """Text that stands open if it is short, else folded."""
    lines = _clean(text).count("\n") + 1
    if lines <= LONG and len(text) <= LONG * 120:
        return _code(text)
    return _folded(f"{title}, {count(lines, 'line')}", text)


def _folded(title: str, text: str) -> Html:
    return details(_clean(title), _code(text))


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


def _clean(text: str) -> str:
    return straight(plain(text))
