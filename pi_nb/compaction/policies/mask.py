"""Observation masking: old tool outputs give way to a note, the conversation stays whole.

Nothing is summarised and no model is asked. Most of a long context is output that was looked
at once; what came of it stands in the answers.

    u a t a t a t a   keep=1 ->   u a n a n a t a        n a note in the place of a result
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.pairs import Called, calls_of
from pi_nb.compaction.plan import NothingToCompact, Plan, Replace, after
from pi_nb.messages import AgentMessage, ImageContent, ToolResultMessage
from pi_nb.result import PiError
from pi_nb.session.in_words import call_line
from pi_nb.text import count, safe_line

KEEP = 10
"""Tool outputs that stay, the newest."""

_SAVED = "was left out to save space. Call the tool again if it is needed."
_NOTE = re.compile(
    rf"\[Output of .* \((?:failed, )?≈[\d,]+ tokens(?:, \d+ images?)?\) {re.escape(_SAVED)}\]"
)


@dataclass(frozen=True, slots=True)
class Mask:
    """Replaces tool outputs older than the newest `keep` by a note.

    Left alone are pinned ones, those that are a note already, those that a note would not
    make smaller, and those that a compaction holds in itself: they have no entry of their
    own. A call is never parted from its result: the result stays, with other content. Doing
    it again changes nothing. The budget is not asked: it says when, not what.

    Raises:
        PiError: `invalid_argument`: `keep` is not 0 or more.
    """

    keep: int = KEEP

    def __post_init__(self) -> None:
        given: object = self.keep  # a setting may come from anywhere
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            text = f"keep is a number of tool outputs, 0 or more, not {given!r}."
            raise PiError("invalid_argument", text)

    @property
    def name(self) -> str:
        return "mask" if self.keep == KEEP else f"mask:keep={self.keep}"

    def __call__(self, branch: Branch, budget: Budget) -> Plan | NothingToCompact:
        items = branch.items
        results = [i for i, item in enumerate(items) if isinstance(item.message, ToolResultMessage)]
        older = results[: max(len(results) - self.keep, 0)]
        older_than = f"older than the newest {self.keep:,}" if self.keep else "of this branch"
        if not older:
            there = f"has {len(results):,}" if results else "has none"
            return NothingToCompact(f"no tool output is {older_than}: the branch {there}.")
        calls = calls_of(items)
        masked: list[Replace] = []
        freed = 0
        left: Counter[str] = Counter()
        for place in older:
            if why := _why_left(branch, place):
                left[why] += 1
                continue
            weight = branch.weight(place, place + 1)
            message = items[place].message
            assert isinstance(message, ToolResultMessage)
            note = Replace(items[place].entry_id, note_for(message, calls.get(place), weight))
            instead = after(message, note)
            saved = weight - (branch.estimator.weigh(instead) if instead is not None else 0)
            if saved <= 0:
                left["no longer than a note"] += 1
            else:
                masked.append(note)
                freed += saved
        stay = ", ".join(f"{number:,} {why}" for why, number in left.items())
        if not masked:
            return NothingToCompact(f"of the tool outputs {older_than}: {stay}.")
        said = f"notes for {count(len(masked), 'tool output')} {older_than} free ≈{freed:,}"
        return Plan(
            branch=branch,
            budget=budget,
            operations=tuple(masked),
            policy=self.name,
            reasons=(f"{said} tokens", *([f"left as they are: {stay}"] if stay else [])),
        )


def _why_left(branch: Branch, place: int) -> str:
    item = branch.items[place]
    if item.entry_id in branch.pins:
        return "pinned"
    if branch.start and item.entry_id == branch.items[0].entry_id:
        return "held by a compaction"
    return "a note already" if _is_note(item.message) else ""


def _is_note(message: AgentMessage) -> bool:
    if not isinstance(message, ToolResultMessage) or len(message.content) != 1:
        return False
    return _NOTE.fullmatch(message.text) is not None


def note_for(message: ToolResultMessage, called: Called | None, tokens: int) -> str:
    """The note that stands for an output: which tool, what for, and how much it was."""
    what = call_line(called.call) if called else safe_line(message.tool_name) or "a tool"
    images = sum(isinstance(block, ImageContent) for block in message.content)
    facts = ["failed"] if message.is_error else []
    facts.append(f"≈{tokens:,} tokens")
    facts += [count(images, "image")] if images else []
    return f"[Output of {what} ({', '.join(facts)}) {_SAVED}]"
