"""A summary that was written and is not in force yet: to be read, changed, applied or dropped.

Applied, its text goes into the log as it stands, to the letter. It belongs to the branch it
was planned for: where that moved on, applying is refused, because the text would stand for
something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pi_nb.html import details, element, table
from pi_nb.messages import CompactionSummaryMessage, Usage
from pi_nb.result import PiError
from pi_nb.session.context import ContextItem
from pi_nb.text import count, safe_line, straight, visible

from .assemble import assembled, parted, pinned_words, without_extras
from .plan import Plan
from .sections import sections_of, with_section
from .summary import Writer, Written


@dataclass(frozen=True, slots=True, repr=False)
class Proposal:
    """A plan with its summary. `str` is what it would do; `text` what would be stored.

    Changing it gives another one; nothing is written before it is applied.
    """

    plan: Plan
    text: str
    """To the letter what `apply` stores. Empty for a plan that only edits."""
    by: Writer = "model"
    model: str | None = None
    """Who was asked, where a model wrote it."""
    usage: Usage = field(default_factory=Usage)
    """What asking took."""
    edited: bool = False
    """Whether a hand changed what was written."""
    id: str = ""
    """By which the session's log knows it."""

    @property
    def sections(self) -> Mapping[str, str]:
        """What stands under each of the fixed headings."""
        return sections_of(without_extras(self.text))

    @property
    def written_by(self) -> str:
        """In words, for people and for the log: `model, edited by hand`."""
        return f"{self.by}, edited by hand" if self.edited and self.by != "hand" else self.by

    def edit(self, section: str, text: str) -> Proposal:
        """The same with other words under one of the fixed headings.

        Raises:
            PiError: `invalid_argument`, there is no such section; the names are listed.
        """
        # Pinned words and lists of files stand below the last section, and are no part of it.
        body, extras = parted(self.text)
        changed = with_section(body, section, text)
        return self.rewrite("\n\n".join(filter(None, (changed, extras))))

    def rewrite(self, text: str) -> Proposal:
        """The same with another text as a whole.

        Raises:
            PiError: `invalid_argument`, nothing is left of it.
        """
        if not text.strip():
            raise PiError("invalid_argument", "A summary says something; `discard` drops this one.")
        return replace(self, text=text, edited=self.edited or text != self.text)

    def check_pins(self) -> None:
        """Raises:
        PiError: `invalid_argument`, the words of a pinned entry are not in the text any more.
        """
        gone = [
            self.plan.name(item.entry_id)
            for item in pins_in_summary(self.plan)
            if pinned_words(item) not in self.text
        ]
        if gone:
            raise PiError(
                "invalid_argument",
                f"Pinned, and not word for word in the text: {', '.join(gone)}. Put the words "
                "back, or take the pin out.",
            )

    # --- what it comes to -------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """What the summary itself weighs, by the plan's estimator."""
        if not self.text:
            return 0
        weigh = self.plan.branch.estimator.weigh
        return weigh(CompactionSummaryMessage(summary=self.text, tokens_before=0))

    @property
    def tokens_before(self) -> int:
        return self.plan.tokens_before

    @property
    def tokens_after(self) -> int:
        """What the next request will hold, estimated."""
        return self.plan.tokens_with(self.tokens)

    @property
    def grows(self) -> bool:
        """Whether the next request would not get smaller by it."""
        return self.tokens_after >= self.tokens_before

    def entry_details(self) -> dict[str, Any]:
        """What the compaction's entry keeps beside the summary: the files that it lists
        (rule 11), who wrote it, and by which policy."""
        found = self.plan.preparation
        listed: dict[str, Any] = {} if found is None else dict(found.files.details())
        listed |= {"writtenBy": self.written_by, "policy": self.plan.policy}
        return listed | ({"model": self.model} if self.model else {})

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what the log keeps of it, but for the text."""
        return {
            **self.plan.to_dict(),
            "by": self.by,
            "edited": self.edited,
            "model": self.model,
            "summaryTokens": self.tokens,
            "tokensAfterwards": self.tokens_after,
            "usage": self.usage.to_wire(),
        }

    # --- to look at -------------------------------------------------------------------------

    def _facts(self) -> list[tuple[str, str]]:
        size = f"≈{self.tokens_before:,} → ≈{self.tokens_after:,} tokens"
        rows = [("context", f"{size}{', not smaller' if self.grows else ''}")]
        if self.text:
            model = f" {safe_line(self.model)}" if self.model else ""
            who = self.written_by.replace(self.by, f"{self.by}{model}", 1)
            rows.append(("written by", who))
            rows.append(
                ("summary", f"{count(len(self.text), 'character')}, ≈{self.tokens:,} tokens")
            )
            names = ", ".join(name for name, text in self.sections.items() if text)
            rows.append(("sections", names or "none of the fixed ones"))
        if self.usage.total:
            cost = f", ${self.usage.cost.total:.4f}" if self.usage.cost.total else ""
            rows.append(("took", f"{self.usage.input:,} in, {self.usage.output:,} out{cost}"))
        return rows

    def __str__(self) -> str:
        rows = self._facts()
        width = max(len(name) for name, _ in rows)
        return "\n".join(
            [
                "Proposal of a compaction (not applied)",
                *(f"  {name.ljust(width)}  {text}" for name, text in rows),
                *(["", *map(visible, self.text.split("\n"))] if self.text else []),
            ]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = element("p", element("strong", "Proposal of a compaction"), ", not applied yet")
        parts = [str(head), str(table(("", ""), self._facts()))]
        if self.text:
            parts.append(
                str(details("the text as it would be stored", element("pre", straight(self.text))))
            )
        return "".join(parts)


def pins_in_summary(plan: Plan) -> Sequence[ContextItem]:
    """Pinned entries whose words the summary of a plan has to hold, oldest first: those that
    go now, and those that earlier summaries held."""
    if plan.summarise is None:
        return ()
    branch = plan.branch
    here = [item for item in branch.items if item.entry_id in branch.pins]
    gone = [item for item in plan.gone if item.entry_id in branch.pins]
    old = branch.pins - {item.entry_id for item in here}
    before = sorted(old, key=lambda pin: (branch.number(pin), pin))
    return [item for item in map(branch.shown_as, before) if item is not None] + gone


def proposed(plan: Plan, history: Written | None, prefix: Written | None) -> Proposal:
    """The proposal that the parts of a plan's summary make.

    Args:
        history: Of what is older than the split turn; None where there is nothing: what an
            earlier summary said is then kept as it is.
        prefix: Of a split turn's beginning.
    """
    found = plan.preparation
    if plan.summarise is None or found is None:
        return Proposal(plan, "", "function")
    parts = [part for part in (history, prefix) if part is not None]
    body = history.text if history else plan.previous_summary
    pins = [(plan.name(item.entry_id), item) for item in pins_in_summary(plan)]
    return Proposal(
        plan=plan,
        text=assembled(
            body,
            prefix.text if prefix else None,
            pins,
            found.files,
            answered=found.turn_is_answered,
        ),
        by=parts[0].by if parts else "function",
        model=next((part.model for part in parts if part.model), None),
        usage=sum((part.usage for part in parts), Usage()),
    )
