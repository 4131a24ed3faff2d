"""A session as Markdown: what was asked, thought, called and answered, to read or to share.

Session text is hostile and stays text: prose goes through `safe_markdown`, everything else
into fences that it cannot close. Thinking and long results are folded. Nothing says when it
was made, so the same session gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pi_nb.html import details, element, fence, inert, safe_markdown
from pi_nb.js import dumps
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
from pi_nb.text import count, plain, straight

from .entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
)
from .in_words import entry_line
from .reader import SessionReader

LONG = 12
"""Lines of a tool's result that stand open; what is longer is folded."""


def to_markdown(
    session: SessionReader,
    *,
    lane: str = "main",
    whole: bool = False,
    note: Callable[[], str] | None = None,
) -> Iterator[str]:
    """The branch of a lane as pieces of Markdown, each ending with a blank line.

    Args:
        whole: All branches, in the order of the file. What does not follow the entry above
            it says which one it follows.
        note: Asked when all else was given: a line for the end, such as what was left out.

    Raises:
        PiError: `invalid_argument`: no such lane; `session`: the file cannot be read.
    """
    chosen = session.entry_ids() if whole else session.branch_ids(lane)
    numbers = {entry_id: n for n, entry_id in enumerate(session.entry_ids(), 1)}
    labels = session.labels
    yield f"# {_inline(session.name or 'A session')}\n\n{_facts(session, lane, len(chosen))}\n"
    above: str | None = None
    for entry_id in chosen:
        if session.is_own(entry_id):
            continue
        try:
            entry = session.entry(entry_id)
        except PiError as error:
            yield f"### {numbers[entry_id]}\n\n*Cannot be read: {_inline(error.message)}*\n"
            continue
        title = _inline(title_of(entry))
        body = entry_markdown(entry)
        follows = session.anchor(session.parent_id(entry_id))
        if title or body:
            heading = f"### {numbers[entry_id]} · {title or _inline(entry_line(entry))}"
            if entry_id in labels:
                heading += f" · label: {_inline(labels[entry_id])}"
            yield heading + "\n"
            if whole and follows != above:
                where = f"entry {numbers[follows]}" if follows else "the beginning"
                yield f"*Another branch: this follows {where}.*\n"
            yield from (f"{part}\n" for part in body)
        above = entry_id
    if note is not None and (last := note()):
        yield f"---\n\n{_inline(last)}\n"


def entry_markdown(entry: Entry) -> list[str]:
    """The body of an entry, as paragraphs; none where the entry's one line says it all."""
    match entry:
        case MessageEntry():
            return _message(entry.message)
        case CompactionEntry():
            return [_prose(entry.summary)]
        case BranchSummaryEntry():
            return [_prose(entry.summary)]
        case CustomMessageEntry():
            return _content(entry.content)
        case _:
            return []


def _facts(session: SessionReader, lane: str, shown: int) -> str:
    began = datetime.fromtimestamp(session.created_at / 1000, UTC)
    facts = [
        f"- Session: `{_code(session.id)}`",
        f"- Begun: {began:%Y-%m-%d %H:%M} UTC",
        f"- Folder: `{_code(session.cwd)}`",
        f"- Shown: {count(shown, 'entry', 'entries')} of {len(session):,}"
        + (f", lane {_inline(lane)}" if len(session.lanes) > 1 else ""),
    ]
    facts += [f"- Odd: {_inline(str(odd))}" for odd in session.diagnostics]
    return "\n".join(facts) + "\n"


def title_of(entry: Entry) -> str:
    """Who speaks in an entry, or what it is; empty where its one line says it all. Hostile."""
    match entry:
        case MessageEntry(message=AssistantMessage() as said):
            model = "/".join(filter(None, (said.provider, said.model)))
            ended = "" if said.stop_reason in ("stop", "toolUse") else f" ({said.stop_reason})"
            return f"Assistant{f', {model}' if model else ''}{ended}"
        case MessageEntry(message=ToolResultMessage() as result):
            return f"Result of {result.tool_name}{', failed' if result.is_error else ''}"
        case MessageEntry(message=UserMessage()):
            return "User"
        case MessageEntry(message=BashExecutionMessage()):
            return "User ran a command"
        case MessageEntry(message=SystemMessage()):
            return "System"
        case CompactionEntry():
            return f"Compaction of {entry.tokens_before:,} tokens"
        case BranchSummaryEntry():
            return "Summary of a branch that was left"
        case CustomMessageEntry():
            return entry.custom_type
        case _:
            return ""


def _message(message: AgentMessage) -> list[str]:
    match message:
        case AssistantMessage():
            parts = [part for block in message.content for part in _said(block)]
            return parts + (
                [f"*{_inline(message.error_message)}*"] if message.error_message else []
            )
        case ToolResultMessage():
            return [_result(block) for block in message.content]
        case BashExecutionMessage():
            return [_fenced(message.command, "sh"), _folded_if_long("output", message.output)]
        case UserMessage() | CustomMessage():
            return _content(message.content)
        case SystemMessage():
            sections = [f"[{k}]\n{v}" for k, v in (message.sections or {}).items() if v]
            texts = [*(_text(block) for block in blocks_of(message.content)), *sections]
            return [_folded("system prompt", "\n\n".join(filter(None, texts)))]
        case _:
            return [_fenced(dumps(message.to_wire()), "json")]


def _said(block: Any) -> list[str]:
    match block:
        case TextContent():
            return [_prose(block.text)] if block.text.strip() else []
        case ThinkingContent():
            said = block.thinking or ("(hidden by the provider)" if block.redacted else "")
            return [_folded("thinking", said)] if said else []
        case ToolCall():
            called = f"Calls **{_inline(block.name)}**"
            raw = block.raw_arguments
            if raw is not None:
                return [f"{called} with arguments that are no JSON:", _fenced(raw)]
            return [f"{called}:", *_arguments(block.arguments)]
        case _:
            return [_prose(_text(block))]


def _arguments(arguments: Mapping[str, Any]) -> list[str]:
    short, long = apart(arguments)
    parts = [_fenced(dumps(short), "json")] if short or not long else []
    return parts + [_folded_if_long(name, value) for name, value in long.items()]


def apart(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A call's arguments for JSON, and apart from them the texts of several lines, to be read."""
    long = {k: v for k, v in arguments.items() if isinstance(v, str) and "\n" in v}
    return {k: v for k, v in arguments.items() if k not in long}, long


def _content(content: Content) -> list[str]:
    return [_prose(_text(block)) for block in blocks_of(content)]


def _result(block: Any) -> str:
    if isinstance(block, TextContent):
        return _folded_if_long("result", block.text)
    return _prose(_text(block))


def _text(block: Any) -> str:
    """A block as text; a picture as a note of its type and size."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent):
        return f"[picture, {block.mime_type}, {count(len(block.data) * 3 // 4, 'byte')}]"
    return f"[{block.type}]"


def _folded_if_long(title: str, text: str) -> str:
    lines = plain(text).count("\n") + 1
    if lines <= LONG:
        return _fenced(text)
    return _folded(f"{title}, {count(lines, 'line')}", text)


def _folded(title: str, text: str) -> str:
    """A fence inside `<details>`. Blank lines around it make it Markdown again."""
    opened = str(details(element("code", inert(title)))).removesuffix("</details>")
    return f"{opened}\n\n{_fenced(text)}\n\n</details>"


def _fenced(text: str, language: str = "") -> str:
    return fence(straight(plain(text)), language)


def _prose(text: str) -> str:
    return straight(safe_markdown(text)) or "*(empty)*"


def _inline(text: str) -> str:
    # Whoever reads the file as it is should meet as few escapes as can be: a colon before a
    # space begins neither an address nor a name of a picture.
    return str(inert(straight(plain(text)))).replace("&#58; ", ": ")


def _code(text: str) -> str:
    """For a code span: on one line and without the mark that would close it."""
    return straight(plain(text)).replace("`", "'").replace("\n", " ")
