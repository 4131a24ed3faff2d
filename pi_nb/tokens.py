"""How many tokens something is, and how we know.

A number without its source is a guess that looks like a fact, so every estimate says
where it comes from. Today: what a provider reported, and `pi`, the original's rule
(characters / 4), with which the reference vectors agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pi_nb.js import dumps, utf16_len
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

IMAGE_UNITS = 4_800
"""UTF-16 units that an image counts as, whatever its size (rule 3)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number of tokens and its source: `provider`, `provider+estimate`, or `pi`."""

    tokens: int
    source: str
    reported: int = 0
    """How many of them a provider reported."""

    def __str__(self) -> str:
        return f"{'' if self.source == 'provider' else '≈'}{self.tokens:,} ({self.source})"


def estimate_tokens(message: AgentMessage) -> int:
    """Tokens of one message by rule `pi`: UTF-16 units / 4, rounded up (rule 3)."""
    return -(-_units(message) // 4)


def _units(message: AgentMessage) -> int:
    match message:
        case UserMessage() | CustomMessage() | ToolResultMessage():
            return _content_units(message.content)
        case AssistantMessage():
            total = 0
            for block in message.content:
                if isinstance(block, TextContent):
                    total += utf16_len(block.text)
                elif isinstance(block, ThinkingContent):
                    total += utf16_len(block.thinking)
                elif isinstance(block, ToolCall):
                    total += utf16_len(block.name) + utf16_len(dumps(block.arguments))
            return total
        case BashExecutionMessage():
            return utf16_len(message.command) + utf16_len(message.output)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return utf16_len(message.summary)
        case _:
            return 0


def _content_units(content: Content) -> int:
    if isinstance(content, str):
        return utf16_len(content)
    return sum(
        utf16_len(block.text)
        if isinstance(block, TextContent)
        else IMAGE_UNITS
        if isinstance(block, ImageContent)
        else 0
        for block in content
    )


def estimate_all(messages: Iterable[AgentMessage]) -> Estimate:
    """The sum over messages by rule `pi`."""
    return Estimate(sum(map(estimate_tokens, messages)), "pi")


def context_size(messages: Sequence[AgentMessage], believed_from: int = 0) -> Estimate:
    """What the next request holds: the newest usage a provider reported, and what came since.

    Usage of failed and aborted answers and usage of zero is not believed (rule 4), nor is
    one that is older than a summary: it measured what the summary stands for. Without any,
    the messages alone are estimated; the system prompt and the tools are then not in it.

    Args:
        believed_from: The first message that is newer than every compaction and edit of the
            branch, where that is known (`SessionContext.size` knows it).
    """
    summarised = max(
        (m.timestamp for m in messages if isinstance(m, CompactionSummaryMessage)), default=-1
    )
    if believed_from:
        summarised = -1  # places in the branch say it better than clocks
    for index in range(len(messages) - 1, believed_from - 1, -1):
        said = messages[index]
        if not isinstance(said, AssistantMessage) or said.stop_reason in ("error", "aborted"):
            continue
        if said.usage.total_tokens and said.timestamp > summarised:
            since = estimate_all(messages[index + 1 :]).tokens
            source = "provider+estimate" if since else "provider"
            reported = said.usage.total_tokens
            return Estimate(reported + since, source, reported)
    return estimate_all(messages)
