"""What was asked: the last requests as they were sent, each beside the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pi_nb.grown import common
from pi_nb.html import Html, element, table
from pi_nb.models.pairing import Change
from pi_nb.models.types import Model, Request
from pi_nb.session.in_words import message_line
from pi_nb.text import count, safe_line
from pi_nb.tokens import Estimate, estimate_all

KEPT = 50
"""Requests that a harness keeps. Each shares its messages with the session's context."""


@dataclass(frozen=True, slots=True, repr=False)
class SentRequest:
    """One request to a model, after hooks and pairing, before the adapter's own form.

    No key and no header of a connection is in it: those belong to the model object.
    """

    request: Request
    model: Model
    changes: tuple[Change, ...] = ()
    """What pairing left out, moved or added, so that the provider accepts the history."""
    same: int = 0
    """Messages at the beginning that the request before it had too: what a prompt cache can
    serve, if system prompt and tools are the same as well."""
    differs: tuple[str, ...] = ()
    """What besides the messages differs from the request before it."""
    purpose: str = "turn"
    """`turn`, or what was to be summarised: `compaction`, `branch_summary`."""

    @classmethod
    def after(
        cls,
        before: SentRequest | None,
        request: Request,
        model: Model,
        changes: tuple[Change, ...],
        purpose: str = "turn",
    ) -> SentRequest:
        """The request beside the one before it."""
        if before is None:
            return cls(request, model, changes, purpose=purpose)
        named = {
            "model": before.model == model,
            "system prompt": before.request.system_prompt == request.system_prompt,
            "tools": before.request.tools == request.tools,
            "options": before.request.options == request.options,
        }
        differs = tuple(name for name, equal in named.items() if not equal)
        same = common(before.request.messages, request.messages)
        return cls(request, model, changes, same, differs, purpose)

    @property
    def size(self) -> Estimate:
        """Tokens of the messages, estimated; the system prompt and the tools not counted."""
        return estimate_all(self.request.messages)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: model, request, and the comparison."""
        return {
            "model": self.model.to_wire(),
            "request": self.request.to_wire(),
            "purpose": self.purpose,
            "same": self.same,
            "differs": list(self.differs),
            "changes": [
                {"code": change.code, "words": change.words, "index": change.index}
                for change in self.changes
            ],
        }

    def _rows(self) -> list[tuple[str, str]]:
        messages = self.request.messages
        rows = [
            ("for", self.purpose.replace("_", " ")),
            ("model", str(self.model)),
            ("system prompt", count(len(self.request.system_prompt), "character")),
            ("tools", ", ".join(tool.name for tool in self.request.tools) or "none"),
            ("messages", f"{len(messages):,}, {self.size}"),
            ("as before", count(self.same, "message")),
        ]
        if self.differs:
            rows.append(("other than before", ", ".join(self.differs)))
        rows += [("repaired", safe_line(change.words)) for change in self.changes]
        return rows

    def __repr__(self) -> str:
        return "\n".join(f"{name:<18} {value}" for name, value in self._rows())

    def _repr_html_(self) -> Html:
        asked = [
            (str(number), message_line(message))
            for number, message in enumerate(self.request.messages, 1)
        ]
        return Html(
            table(("", ""), self._rows())
            + element("details", element("summary", "messages"), table(("", ""), asked))
        )
