"""What line magics answer with: values that read well as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pi_nb.html import Html, element, table
from pi_nb.js import dumps
from pi_nb.messages import AssistantMessage, ToolCall, ToolResultMessage
from pi_nb.models.types import Model
from pi_nb.session.entries import MessageEntry
from pi_nb.session.filters import BOOKKEEPING
from pi_nb.session.in_words import entry_line
from pi_nb.session.records import ApprovalRecord
from pi_nb.session.session import Session
from pi_nb.text import count, plain, safe_line
from pi_nb.tokens import Estimate


class Rows:
    """A table that prints as aligned text and shows as an HTML table. Its text is escaped."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
        self.head = tuple(head)
        self.rows = [tuple(plain(cell) for cell in row) for row in rows]
        self.note = note

    def __str__(self) -> str:
        lines = [self.head, *self.rows] if any(self.head) and self.rows else self.rows
        widths = (
            [max(len(line[i]) for line in lines) for i in range(len(self.head))] if lines else []
        )
        text = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([*text, *([self.note] if self.note else [])])

    __repr__ = __str__

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.rows)

    def _repr_html_(self) -> Html:
        body = table(self.head, self.rows) if self.rows else Html("")
        return Html(body + element("p", *_with_code(self.note))) if self.note else body


def _with_code(note: str) -> Iterator[object]:
    """A note's words, what stands between backticks as code; one without a partner stays."""
    pieces = note.split("`")
    if len(pieces) % 2 == 0:
        pieces[-2:] = ["`".join(pieces[-2:])]
    for place, piece in enumerate(pieces):
        yield element("code", piece) if place % 2 else piece


@dataclass(frozen=True, slots=True)
class Status:
    """Where an agent stands."""

    session: str
    name: str | None
    cwd: str
    model: Model
    thinking_level: str
    tools: tuple[str, ...]
    approve: str
    messages: int
    context: Estimate
    used: tuple[str, str] | None
    """Provider and id of the model that the session used last."""
    phase: str
    recovered: str = ""
    to_edit: str = ""
    """What the user may want to ask otherwise."""

    def _rows(self) -> Rows:
        model = f"{self.model}, window {self.model.context_window:,}"
        if self.model.provider == "none":
            model = (
                "none yet"
                if self.used is None
                else f"none; the session used {self.used[1]} of {self.used[0]}"
            )
        if self.thinking_level != "off":
            model += f", thinking {self.thinking_level}"
        share = f"{self.context.tokens / max(self.model.context_window, 1):.0%} of the window"
        rows = [
            ("session", f"{self.name} — {self.session}" if self.name else self.session),
            ("folder", self.cwd),
            ("model", model),
            ("context", f"{count(self.messages, 'message')}, {self.context}, {share}"),
            ("tools", ", ".join(self.tools) or "none"),
            ("approve", self.approve),
        ]
        if self.recovered:
            rows.append(("note", self.recovered))
        if self.to_edit:
            rows.append(("text to edit", self.to_edit))
        if self.phase != "idle":
            rows.append(("phase", self.phase))
        return Rows(("", ""), rows)

    def __str__(self) -> str:
        return str(self._rows())

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        return self._rows()._repr_html_()


def audit(session: Session, lane: str) -> Rows:
    """Every tool call on a lane's branch, oldest first, with its approval and its outcome."""
    by = {
        record.tool_call_id: f"{record.decision} by {record.by}"
        for record in session.records()
        if isinstance(record, ApprovalRecord)
    }
    results: dict[str, ToolResultMessage] = {}
    calls: list[ToolCall] = []
    for message in session.context(lane).messages:
        if isinstance(message, AssistantMessage):
            calls += message.tool_calls
        elif isinstance(message, ToolResultMessage):
            results[message.tool_call_id] = message
    rows = []
    for call in calls:
        result = results.get(call.id)
        outcome = "no result" if result is None else "error" if result.is_error else "ok"
        said = "" if result is None else safe_line(result.text, 60)
        about = safe_line(dumps(call.arguments), 60)
        rows.append((call.name, about, by.get(call.id, "not asked"), outcome, said))
    return Rows(("tool", "arguments", "approval", "outcome", "result"), rows)


def sentence(words: str) -> str:
    """What is odd, in words of one line, as a sentence among others. May be hostile."""
    line = safe_line(words, 300).rstrip(".")
    return f"{line[:1].upper()}{line[1:]}."


def leaf_line(session: Session, leaf: str | None) -> str:
    """Where the leaf is, by the number of a row that the outline shows: the same on every run.

    A change of model or a label is no row there: then it is the nearest row above.
    """
    seen = row_of(session, leaf)
    if seen is None:
        return "The leaf is now before the first entry."
    return f"The leaf is now {numbered(session, seen)}"


def row_of(session: Session, entry_id: str | None) -> str | None:
    """The entry in whose row an outline marks this one; None: it has none above it."""
    while entry_id is not None and not is_row(session, entry_id):
        entry_id = session.parent_id(entry_id)
    return entry_id


def is_row(session: Session, entry_id: str) -> bool:
    """Whether an outline shows an entry as it comes, without a filter."""
    if session.type_of(entry_id) in BOOKKEEPING:
        return False
    entry = session.entry(entry_id)
    return not (isinstance(entry, MessageEntry) and entry.message.role == "system")


def numbered(session: Session, entry_id: str) -> str:
    """`4, user: why?`: an entry by its number in the outline."""
    said = safe_line(entry_line(session.entry(entry_id)), 60)
    return f"{session.number(entry_id)}, {said}"
