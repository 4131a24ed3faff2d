"""A session's tree as text and as HTML, one row an entry.

A chain without branches stays flat; only a branch point indents what follows it. The rows
say nothing that differs from run to run (no clock, and ids only on demand), so a saved
notebook can be compared. Their numbers are what `goto` takes.

    1 • user: which tests are slow?
    2 • assistant: [bash: pytest --durations=5]
    3   ├─   user: and why?
    4   └─ • user: make them fast
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pi_nb.html import Html, element
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from pi_nb.result import PiError
from pi_nb.text import one_line, safe_line

from .entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
)
from .tree import Tree

DEEPEST = 24
"""Levels of indentation; what branches deeper stays at this one. A tree that forks at every
entry would else take space that grows with the square of its length."""

WIDTH = 80
"""Characters of a row's text, about."""


@dataclass(slots=True)
class Segment:
    """A chain of entries that ends where the tree branches or stops."""

    level: int
    last: bool
    """No sibling follows."""
    ids: list[str] = field(default_factory=list)
    inside: list[Segment] = field(default_factory=list)
    """What is drawn one level deeper, in order."""


@dataclass(frozen=True, slots=True)
class Row:
    """One entry. `active`: it is on the lane's branch. `number`: its place in the file, from 1."""

    number: int
    entry_id: str
    connector: str
    active: bool
    text: str

    def __str__(self) -> str:
        return self.drawn(0)

    def drawn(self, width: int) -> str:
        """The row as text, its number in `width` columns."""
        mark = "•" if self.active else " "
        return f"{self.number:>{width}} {self.connector}{mark} {self.text}"


@dataclass(frozen=True, slots=True)
class Outline:
    """A tree to print, or to show as the value of a cell. It does not follow the session."""

    rows: tuple[Row, ...]
    _top: Segment

    def __str__(self) -> str:
        width = len(str(max((row.number for row in self.rows), default=0)))
        return "\n".join(row.drawn(width) for row in self.rows) or "(no entries)"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Nested lists: readable without a style sheet and by a screen reader."""
        if not self.rows:
            return str(element("p", "(no entries)"))
        shown = {row.entry_id: row for row in self.rows}
        made: dict[int, Html] = {}
        # What is inside comes after in `_walk`, so backwards it is made first.
        for segment in reversed(list(_walk(self._top))):
            count = len(segment.inside)
            below = [
                element("li", _branch(number, count, part, shown), made.pop(id(part)))
                for number, part in enumerate(segment.inside, 1)
            ]
            items = [_item(shown[entry]) for entry in segment.ids]
            made[id(segment)] = element("ul", *items, *below)
        return str(made[id(self._top)])


def build_outline(
    segments: Segment,
    read: Callable[[str], Entry],
    active: frozenset[str],
    labels: Mapping[str, str],
    number_of: Callable[[str], int],
    *,
    ids: bool = False,
) -> Outline:
    """Read the rows of a tree that `segments_of` has laid out.

    Args:
        active: The ids on the branch to mark.
        number_of: The place of an entry in the file, by which `Session.find` finds it.
        ids: Put the last eight digits of the id before each text; the first ones are the
            time, and alike.
    """
    rows = []
    for entry_id, connector in _connected(segments):
        text = _text_of(entry_id, read)
        if entry_id in labels:
            text = f"{text} [label: {safe_line(labels[entry_id])}]"
        if ids:
            text = f"{entry_id[-8:]} {text}"
        rows.append(Row(number_of(entry_id), entry_id, connector, entry_id in active, text))
    return Outline(tuple(rows), segments)


def segments_of(tree: Tree) -> Segment:
    """The tree cut into chains, without recursion; the top one is empty if roots are many."""
    top = Segment(0, True)
    roots = tree.children(None)
    if len(roots) == 1:
        pending = _chain(tree, roots[0], top)
    else:
        pending = [(root, top, i == len(roots) - 1) for i, root in enumerate(roots)][::-1]
    while pending:
        first, home, last = pending.pop()
        segment = Segment(home.level + 1, last)
        home.inside.append(segment)
        below = _chain(tree, first, segment)
        if segment.level >= DEEPEST:
            below = [(child, home, is_last) for child, _, is_last in below]
        pending += below
    return top


def _chain(tree: Tree, first: str, segment: Segment) -> list[tuple[str, Segment, bool]]:
    """Fill a segment from its first entry on; returns what branches off, last one first."""
    children = [first]
    while len(children) == 1:
        segment.ids.append(children[0])
        children = tree.children(children[0])
    return [(child, segment, i == len(children) - 1) for i, child in enumerate(children)][::-1]


def _walk(top: Segment) -> Iterator[Segment]:
    """Every segment, each before what is inside it."""
    pending = [top]
    while pending:
        segment = pending.pop()
        yield segment
        pending += reversed(segment.inside)


def _connected(top: Segment) -> Iterator[tuple[str, str]]:
    """Every id with the lines that tie its row to the tree, in order."""
    pending = [(top, "", "")]
    while pending:
        segment, first, rest = pending.pop()
        for place, entry_id in enumerate(segment.ids):
            yield entry_id, rest if place else first
        margin = rest or ("  " if segment.ids else "")
        pending += [
            (
                part,
                margin + ("└─ " if part is segment.inside[-1] else "├─ "),
                margin + ("   " if part is segment.inside[-1] else "│  "),
            )
            for part in reversed(segment.inside)
        ]


def _item(row: Row) -> Html:
    """The role as code, and strong where the lane's branch goes through the entry."""
    role, colon, rest = row.text.partition(":")
    named = element("code", role) if colon else Html("")
    mark = element("strong", named) if row.active and named else named
    return element("li", f"{row.number} ", mark, rest if colon else row.text)


def _branch(number: int, count: int, segment: Segment, shown: Mapping[str, Row]) -> Html:
    """What a branch is called: its number, its length, and whether the lane is on it."""
    here = any(shown[entry].active for entry in segment.ids[:1])
    return element("em", f"branch {number} of {count}{', here' if here else ''}")


def _text_of(entry_id: str, read: Callable[[str], Entry]) -> str:
    try:
        return entry_line(read(entry_id))
    except PiError as error:
        return f"[cannot be read: {safe_line(error.message)}]"


def entry_line(entry: Entry) -> str:
    """What an entry says, on one line, with nothing in it that a terminal would obey."""
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
