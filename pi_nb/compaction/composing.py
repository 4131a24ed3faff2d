"""What a branch would send, part by part: each message weighed once and put with its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from pi_nb.js import dumps
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    ThinkingContent,
    ToolResultMessage,
)
from pi_nb.models.types import ToolSpec
from pi_nb.session.context import ContextItem
from pi_nb.session.in_words import message_line
from pi_nb.text import count, safe_line
from pi_nb.tokens import IMAGE_TOKENS, Estimator, reported_by, said

from .branch import Branch

KINDS = (
    "system prompt",
    "tool schemas",
    "skills and context files",
    "summary",
    "branch summaries",
    "user",
    "assistant",
    "thinking",
    "tool results",
    "images",
)
"""Kinds of content, in the order of the request."""
NOT_SENT = "not sent"
"""Failed and aborted answers, and commands kept from the model: a request leaves them out. They
are a row as far as the total counts them, which is where no provider has measured it yet."""
RESOURCES = frozenset({"skills", "context files", "context_files"})
"""Names of sections of a system prompt that are counted as skills and context files."""


class Item(NamedTuple):
    """One thing that takes room."""

    entry_id: str | None
    """None for a section of the system prompt and for a tool."""
    number: int
    """In the session's outline; 0 where it has none there."""
    kind: str
    tokens: int
    text: str
    """What it is, on one line."""


class Found(NamedTuple):
    """An item before it is put in words: a message by its place, or a named text."""

    tokens: int
    kind: str
    place: int
    name: str = ""


class Weighed:
    """Every part of a context, each message weighed once."""

    def __init__(
        self, branch: Branch, prompt: str | Mapping[str, str], tools: Sequence[ToolSpec]
    ) -> None:
        self.tokens = dict.fromkeys((*KINDS, NOT_SENT), 0)
        self.counts = dict.fromkeys((*KINDS, NOT_SENT), 0)
        self._branch = branch
        self._items: Sequence[ContextItem] = tuple(branch.items)
        self._found: list[Found] = []
        self._measured = _measured(branch)
        weigh = branch.estimator.weigh_text
        sections = {"system prompt": prompt} if isinstance(prompt, str) else prompt
        for name, text in sections.items():
            if text:
                kind = "skills and context files" if name in RESOURCES else "system prompt"
                named = f"{name}, {count(len(text), 'character')}"
                self._add(kind, weigh(text), -1, named)
        for tool in tools:
            self._add("tool schemas", weigh(dumps(tool.to_wire())), -1, tool.name)
        for place in range(len(self._items)):
            self._add_message(place)

    def largest(self, number: int) -> list[Found]:
        """The heaviest, of equal ones the older first."""
        return nlargest(number, self._found, key=lambda found: found.tokens)

    def of_message(self, place: int) -> Found:
        kind = _kind(self._items[place])
        return Found(self._branch.weight(place, place + 1), kind, place)

    def item(self, found: Found) -> Item:
        """An item in words."""
        if found.place < 0:
            return Item(None, 0, found.kind, found.tokens, safe_line(found.name))
        entry_id, message = self._items[found.place]
        number = self._branch.number(entry_id)
        return Item(entry_id, number, found.kind, found.tokens, _in_words(message))

    def _add(self, kind: str, tokens: int, place: int, name: str = "") -> None:
        self.tokens[kind] += tokens
        self.counts[kind] += 1
        self._found.append(Found(tokens, kind, place, name))

    def _add_message(self, place: int) -> None:
        """A message counts where its role belongs, but for its thinking and its images."""
        found = self.of_message(place)
        if found.kind == NOT_SENT and place <= self._measured:
            return
        self._found.append(found)
        rest = found.tokens
        if found.kind != NOT_SENT:
            message = self._items[place].message
            for kind, tokens, items in _apart(message, self._branch.estimator):
                taken = min(tokens, rest)
                self.tokens[kind] += taken
                self.counts[kind] += items
                rest -= taken
        self.tokens[found.kind] += rest
        self.counts[found.kind] += 1


def _measured(branch: Branch) -> int:
    """The place of the answer whose usage the size of the branch stands on; -1: none."""
    places = range(len(branch.items) - 1, branch.believed_from - 1, -1)
    return next((i for i in places if reported_by(branch.items[i].message)), -1)


def _kind(item: ContextItem) -> str:
    match item.message:
        case AssistantMessage(stop_reason="error" | "aborted"):
            return NOT_SENT
        case BashExecutionMessage(exclude_from_context=True):
            return NOT_SENT
        case AssistantMessage():
            return "assistant"
        case ToolResultMessage():
            return "tool results"
        case CompactionSummaryMessage():
            return "summary"
        case BranchSummaryMessage():
            return "branch summaries"
        case _:
            return "user"


def _apart(message: AgentMessage, estimator: Estimator) -> Iterator[tuple[str, int, int]]:
    """Kind, tokens and number of what has a row apart from its message's."""
    if isinstance(message, AssistantMessage):
        texts = [b.thinking for b in message.content if isinstance(b, ThinkingContent)]
        if texts:
            yield "thinking", estimator.weigh_text("\n".join(texts)), 1
        return
    images = said(message)[1]
    if images:
        yield "images", images * IMAGE_TOKENS, images


def _in_words(message: AgentMessage) -> str:
    if isinstance(message, CompactionSummaryMessage | BranchSummaryMessage):
        return safe_line(message.summary)
    return message_line(message)
