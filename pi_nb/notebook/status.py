"""What line magics answer with: values that read well as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pi_nb.html import Html, element, table
from pi_nb.models.types import Model
from pi_nb.text import count, plain
from pi_nb.tokens import Estimate


class Rows:
    """A table that prints as aligned text and shows as an HTML table. Its text is escaped."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
        self.head = tuple(head)
        self.rows = [tuple(plain(cell) for cell in row) for row in rows]
        self.note = note

    def __str__(self) -> str:
        lines = [self.head, *self.rows] if any(self.head) else self.rows
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
        return Html(body + element("p", self.note)) if self.note else body


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
        if self.phase != "idle":
            rows.append(("phase", self.phase))
        return Rows(("", ""), rows)

    def __str__(self) -> str:
        return str(self._rows())

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        return self._rows()._repr_html_()
