"""What `%compact` answers with: plans, proposals and results, with what to type next.

Each is the value itself (a `Plan` is one, to be moved and proposed); it only shows more.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pi_nb.compaction.plan import Plan
from pi_nb.compaction.proposal import Proposal
from pi_nb.harness.turn import CompactResult
from pi_nb.html import Html, details, element, table
from pi_nb.session.session import Session
from pi_nb.text import count, plain, safe_line

from .status import Rows, numbered

NEAR = 5
"""Cuts that a plan lists, the chosen one in the middle."""


def _values(of: Any, kind: type[Any]) -> dict[str, Any]:
    return {field.name: getattr(of, field.name) for field in fields(kind)}


class ShownPlan(Plan):
    """A plan, shown with the cuts near its own."""

    __slots__ = ()

    @classmethod
    def of(cls, found: Plan) -> ShownPlan:
        return cls(**_values(found, Plan))

    def _near(self) -> Rows:
        near = self.cuts_near(NEAR)
        rows = [
            (
                "▸" if cut.chosen else "",
                str(cut.number),
                safe_line(cut.text, 60),
                f"≈{cut.kept_tokens:,}",
                "splits a turn" if cut.splits_turn else "",
            )
            for cut in near
        ]
        proposes = "`--propose` instead of `--plan` has it written; without either it is applied."
        if not rows:
            return Rows(("", ""), [], "`%compact` with the same options applies it.")
        more = len(self.places) - len(near)
        where = f"{count(more, 'more place', 'more places')} to cut. " if more else ""
        note = f"{where}`--cut ROW` cuts elsewhere. {proposes}"
        return Rows(("", "row", "first kept", "tokens kept", ""), rows, note)

    def __str__(self) -> str:
        return f"{super().__str__()}\n\n{self._near()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return super()._repr_html_() + self._near()._repr_html_()


class ShownProposal(Proposal):
    """A proposal, shown with what can be done with it."""

    __slots__ = ()

    @classmethod
    def of(cls, found: Proposal) -> ShownProposal:
        return cls(**_values(found, Proposal))

    def _next(self) -> Rows:
        changes = "`%%compact --edit SECTION` and `%%compact --text` change it, "
        note = (
            f"`%compact --apply` puts it in force, {changes if self.text else ''}"
            "`%compact --discard` drops it."
        )
        return Rows(("", ""), [], note)

    def __str__(self) -> str:
        return f"{plain(super().__str__())}\n\n{self._next()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return super()._repr_html_() + self._next()._repr_html_()


@dataclass(frozen=True, slots=True, repr=False)
class ShownResult(CompactResult):
    """What a compaction came to, shown with what is kept and how to take it back."""

    model: str = ""
    """Who wrote the summary, where a model did."""
    kept: str = ""
    """What stays word for word, in words."""

    @classmethod
    def of(cls, done: CompactResult, session: Session, lane: str) -> ShownResult:
        """As the branch is right after it."""
        model = kept = ""
        if done.entry is not None:
            known = done.entry.details if isinstance(done.entry.details, dict) else {}
            names = (known.get("provider"), known.get("model"))
            model = "/".join(name for name in names if isinstance(name, str))
            items = session.context(lane).items[1:]
            kept = f"{count(len(items), 'message')} word for word"
            if items:
                kept += f", from row {numbered(session, items[0].entry_id)}"
        return cls(**_values(done, CompactResult), model=model, kept=kept)

    def _head(self) -> str:
        note = ", not smaller" if self.grew else ""
        return f"Compacted: ≈{self.before:,} → ≈{self.after:,} tokens{note}"

    def _facts(self) -> list[tuple[str, str]]:
        rows = []
        if self.entry is not None:
            by, comma, changed = self.written_by.partition(",")
            who = " ".join(filter(None, (by, safe_line(self.model))))
            rows.append(("written by", f"{who}{comma}{changed}"))
        if self.edits:
            said = f"{count(self.edits, 'entry', 'entries')} left out or replaced"
            rows.append(("edited", said))
        if self.kept:
            rows.append(("kept", self.kept))
        if self.usage.total:
            cost = f", ${self.usage.cost.total:.4f}" if self.usage.cost.total else ""
            took = f"{self.usage.input:,} tokens in, {self.usage.output:,} out{cost}"
            rows.append(("took", took))
        return rows

    def __repr__(self) -> str:
        rows = self._facts()
        width = max((len(name) for name, _ in rows), default=0)
        lines = [f"  {name.ljust(width)}  {text}" for name, text in rows]
        return "\n".join([self._head(), *lines, "`%compact --undo` takes it back."])

    def _repr_html_(self) -> str:
        parts: list[Html] = [element("p", element("strong", self._head()))]
        parts.append(table(("", ""), self._facts()))
        if self.summary:
            parts.append(details("summary", element("pre", self.summary)))
        parts.append(element("p", element("code", "%compact --undo"), " takes it back."))
        return "".join(parts)
