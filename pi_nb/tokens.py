"""How many tokens something is, and how we know.

A number without its source is a guess that looks like a fact, so every estimate says
where it comes from: what a provider reported; `pi`, the original's rule (characters / 4),
with which the reference vectors agree; `piece/<family>`, which knows words and scripts;
`exact/<family>`, where a tokenizer is installed; `calibrated`, one of them put right by what
a provider reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

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
from pi_nb.pieces import estimate_pieces

IMAGE_UNITS = 4_800
"""UTF-16 units that an image counts as, whatever its size (rule 3)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number of tokens and its source: `provider`, `provider+estimate`, or an estimator's."""

    tokens: int
    source: str
    reported: int = 0
    """How many of them a provider reported."""

    def __str__(self) -> str:
        return f"{'' if self.source == 'provider' else '≈'}{self.tokens:,} ({self.source})"


@dataclass(frozen=True, slots=True)
class Estimator:
    """A way to weigh messages and bare texts, and its name."""

    source: str
    weigh: Callable[[AgentMessage], int] = field(repr=False)
    """Tokens of one message, with what a provider puts around it."""
    weigh_text: Callable[[str], int] = field(repr=False)
    """Tokens of a text that is no message: a system prompt, a tool's schema."""
    around: int = 0
    """How many of a message's tokens are what a provider puts around it."""


def estimate_tokens(message: AgentMessage) -> int:
    """Tokens of one message by rule `pi`: UTF-16 units / 4, rounded up (rule 3)."""
    return -(-_units(message) // 4)


def estimate_text(text: str) -> int:
    """Tokens of a bare text by rule `pi`."""
    return -(-utf16_len(text) // 4)


PI = Estimator("pi", estimate_tokens, estimate_text)
"""The original's rule: characters / 4. What the vectors hold."""


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


WRAPPING = {"claude_v3": 29, "claude_v4.7": 29}
IMAGE_TOKENS = IMAGE_UNITS // 4


def wrapping(family: str) -> int:
    """Tokens that a provider puts around each message of a family: 29 on Anthropic's models,
    4 elsewhere."""
    return WRAPPING.get(family, 4)


def weigh_with(weigh_text: Callable[[str], int], around: int) -> Callable[[AgentMessage], int]:
    """How messages are weighed where texts are weighed like this: a message is its texts, its
    images, and `around` for what is put around it. What is never sent weighs 0."""

    def weigh(message: AgentMessage) -> int:
        text, images = said(message)
        return 0 if text is None else around + weigh_text(text) + images * IMAGE_TOKENS

    return weigh


def weigh_by(family: str) -> Callable[[AgentMessage], int]:
    """How a family of tokenizers weighs messages, by their pieces: source `piece/<family>`.

    Raises:
        PiError: `invalid_argument`: there are no weights for it.
    """
    estimate_pieces("", family)
    return weigh_with(lambda text: estimate_pieces(text, family), wrapping(family))


def said(message: AgentMessage) -> tuple[str | None, int]:
    """The text that a message sends, and its images; no text where nothing is sent."""
    match message:
        case UserMessage() | CustomMessage() | ToolResultMessage():
            if isinstance(message.content, str):
                return message.content, 0
            texts = [block.text for block in message.content if isinstance(block, TextContent)]
            images = sum(isinstance(block, ImageContent) for block in message.content)
            return "\n".join(texts), images
        case AssistantMessage():
            parts = []
            for block in message.content:
                if isinstance(block, TextContent):
                    parts.append(block.text)
                elif isinstance(block, ThinkingContent):
                    parts.append(block.thinking)
                elif isinstance(block, ToolCall):
                    parts += [block.name, dumps(block.arguments)]
            return "\n".join(parts), 0
        case BashExecutionMessage():
            return f"{message.command}\n{message.output}", 0
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return message.summary, 0
        case _:
            return None, 0


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


def context_size(
    messages: Sequence[AgentMessage], believed_from: int = 0, estimator: Estimator = PI
) -> Estimate:
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
        reported = reported_by(messages[index])
        if reported and messages[index].timestamp > summarised:
            since = sum(map(estimator.weigh, messages[index + 1 :]))
            return measured(reported, since)
    return Estimate(sum(map(estimator.weigh, messages)), estimator.source)


def reported_by(message: AgentMessage) -> int:
    """Tokens that a provider reported with a message, its answer included; 0 where it is no
    answer, or one whose usage is not believed (rule 4) or was estimated."""
    if not isinstance(message, AssistantMessage) or message.stop_reason in ("error", "aborted"):
        return 0
    return 0 if message.usage.estimated else message.usage.total


def measured(reported: int, since: int) -> Estimate:
    """What a provider reported, and the estimate of what came since."""
    source = "provider+estimate" if since else "provider"
    return Estimate(reported + since, source, reported)
