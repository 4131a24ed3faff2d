"""An entry in words: on one line for whoever looks at a list of them, in full for a search.

Session text is hostile: what goes on a line holds nothing that a terminal would obey.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
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
from pi_nb.text import one_line, safe_line

from .entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
)

WIDTH = 80
"""Characters of a line's text, about."""


def entry_line(entry: Entry) -> str:
    """What an entry says, on one line."""
    match entry:
        case MessageEntry():
            return message_line(entry.message)
        case ModelChangeEntry():
            return f"[model: {safe_line(f'{entry.provider}/{entry.model_id}')}]"
        case ThinkingLevelChangeEntry():
            return f"[thinking: {safe_line(entry.thinking_level)}]"
        case ActiveToolsChangeEntry():
            return f"[tools: {safe_line(', '.join(entry.active_tool_names)) or 'none'}]"
        case CompactionEntry():
            return f"[compaction: {entry.tokens_before:,} tokens] {safe_line(entry.summary)}"
        case BranchSummaryEntry():
            return f"[branch summary] {safe_line(entry.summary)}"
        case CustomEntry():
            return f"[data: {safe_line(entry.custom_type)}]"
        case CustomMessageEntry():
            return f"{safe_line(entry.custom_type)}: {_blocks(blocks_of(entry.content))}"
        case ContextEditEntry():
            what = "leaves out" if entry.replacement is None else "replaces"
            return f"[edit: {what} an entry]"
        case LabelEntry():
            return f"[label: {safe_line(entry.label or '') or 'none'}]"
        case SessionInfoEntry():
            return f"[name: {safe_line(entry.name or '') or 'none'}]"
        case _:
            return f"[{safe_line(entry.type)}]"


def message_line(message: AgentMessage) -> str:
    """Who says it, and the beginning of what: text, calls and images; thinking is left out."""
    match message:
        case UserMessage():
            return f"user: {_blocks(blocks_of(message.content))}"
        case AssistantMessage():
            ended = message.stop_reason
            how = f" ({ended})" if ended in ("error", "aborted", "length") else ""
            said = _blocks(message.content) or safe_line(message.error_message or "")
            return f"assistant{how}: {said}".rstrip()
        case ToolResultMessage():
            how = "error" if message.is_error else "ok"
            return f"{safe_line(message.tool_name)} {how}: {_blocks(message.content)}".rstrip()
        case BashExecutionMessage():
            code = f" (exit code {message.exit_code})" if message.exit_code else ""
            return f"user ran: {safe_line(message.command)}{code}"
        case CustomMessage():
            return f"{safe_line(message.custom_type)}: {_blocks(blocks_of(message.content))}"
        case _:
            return f"[{safe_line(message.role)}]"


def _blocks(blocks: Sequence[object]) -> str:
    """Text, calls as `[name: argument]`, images; thinking is left out."""
    parts = []
    for block in blocks:
        if isinstance(block, TextContent):
            parts.append(safe_line(block.text))
        elif isinstance(block, ToolCall):
            parts.append(f"[{call_line(block)}]")
        elif isinstance(block, ImageContent):
            parts.append("[image]")
    return one_line(" ".join(part for part in parts if part), WIDTH)


def call_line(call: ToolCall) -> str:
    """The name, and the argument that tells one call from another: the first that is text."""
    texts = [value for value in call.arguments.values() if isinstance(value, str)]
    told = next(filter(None, texts), "")
    return f"{safe_line(call.name)}: {safe_line(told)}" if told else safe_line(call.name)


def whole_text(entry: Entry) -> str:
    """Everything an entry says, uncut, for a search: summaries, thinking and calls too.

    Each text stands as it was written; pictures, ids and numbers are left out.
    """
    return "\n".join(filter(None, _texts(entry)))


def _texts(entry: Entry) -> Iterator[str]:
    match entry:
        case MessageEntry():
            yield from _said(entry.message)
        case CompactionEntry():
            yield entry.summary
            for message in entry.retained_tail or ():
                yield from _said(message)
        case BranchSummaryEntry():
            yield entry.summary
        case CustomMessageEntry():
            yield entry.custom_type
            yield from _in_blocks(blocks_of(entry.content))
        case CustomEntry():
            yield entry.custom_type
        case ModelChangeEntry():
            yield entry.provider
            yield entry.model_id
        case ThinkingLevelChangeEntry():
            yield entry.thinking_level
        case ActiveToolsChangeEntry():
            yield from entry.active_tool_names
        case ContextEditEntry() if entry.replacement is not None:
            yield from _strings(entry.replacement.content)
        case LabelEntry():
            yield entry.label or ""
        case SessionInfoEntry():
            yield entry.name or ""


def _said(message: AgentMessage) -> Iterator[str]:
    match message:
        case UserMessage() | SystemMessage():
            yield from _in_blocks(blocks_of(message.content))
        case AssistantMessage():
            yield from _in_blocks(message.content)
            yield message.error_message or ""
        case ToolResultMessage():
            yield message.tool_name
            yield from _in_blocks(message.content)
        case BashExecutionMessage():
            yield message.command
            yield message.output
        case CustomMessage():
            yield message.custom_type
            yield from _in_blocks(blocks_of(message.content))
        case BranchSummaryMessage() | CompactionSummaryMessage():
            yield message.summary


def _in_blocks(blocks: Sequence[object]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, TextContent):
            yield block.text
        elif isinstance(block, ThinkingContent):
            yield block.thinking
        elif isinstance(block, ToolCall):
            yield block.name
            yield from _strings(block.arguments)


def _strings(value: Any) -> Iterator[str]:
    """Every string in plain data, the keys of its objects too, however deep it goes."""
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case dict() as fields:
                yield from map(str, fields)
                pending += reversed(fields.values())
            case list() | tuple() as items:
                pending += reversed(items)
