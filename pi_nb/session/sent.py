"""Which entries of a branch a model is sent, and what each weighs there.

`context` answers with the messages themselves and so reads every body that is shown. Here
bodies are read only where they decide who else is shown: compactions and edits. So a list
can say of a hundred thousand entries which ones are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pi_nb.tokens import estimate_all

from .context import Step, build_session_context, edited, project
from .entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    Entry,
    Replacement,
)

Edits = Mapping[str, Replacement | None]


@dataclass(frozen=True, slots=True)
class Sent:
    """What a model is sent at the end of a branch."""

    ids: frozenset[str] = frozenset()
    """The entries that its context items come from."""
    edits: Edits = field(default_factory=dict)
    """The newest edit of each target on the branch; None leaves the target out."""


def sent(steps: Sequence[Step], read: Callable[[str], Entry]) -> Sent:
    """What is sent at the end of a branch, given from its root to its leaf.

    The same entries as the items of `context`, for a branch whose bodies can be read.

    Raises:
        PiError: `session`: a compaction, an edit or a summary does not fit its type.
    """
    edits: dict[str, Replacement | None] = {}
    for step in steps:
        if step.type == "context_edit" and isinstance(edit := read(step.id), ContextEditEntry):
            edits[edit.target_id] = edit.replacement
    newest = next((i for i in range(len(steps) - 1, -1, -1) if _is_compaction(steps[i])), -1)
    shown: list[str] = []
    if newest >= 0 and isinstance(compaction := read(steps[newest].id), CompactionEntry):
        shown.append(compaction.id)
        first = _first_kept(compaction)
        start = next((i for i in range(newest) if steps[i].id == first), newest)
        shown += [step.id for step in steps[start:newest] if _shows(step, read)]
    shown += [step.id for step in steps[newest + 1 :] if _shows(step, read)]
    left_out = {target for target, replacement in edits.items() if replacement is None}
    return Sent(frozenset(shown) - left_out, edits)


def _is_compaction(step: Step) -> bool:
    return step.type == "compaction"


def _first_kept(compaction: CompactionEntry) -> str | None:
    """The entry from which on a compaction keeps its branch; None where it keeps none of it."""
    if compaction.retained_tail is not None or compaction.first_kept_entry_id == compaction.id:
        return None
    return compaction.first_kept_entry_id


def _shows(step: Step, read: Callable[[str], Entry]) -> bool:
    match step.type:
        case "message":
            return step.role != "system"
        case "custom_message":
            return True
        case "branch_summary":
            summary = read(step.id)
            return isinstance(summary, BranchSummaryEntry) and bool(summary.summary)
        case _:
            return False


def weight(entry: Entry, edits: Edits) -> int | None:
    """Tokens of an entry by rule `pi`, with the content that an edit gave it.

    A compaction weighs what stands in its name: its summary and the tail it carries. An
    entry that is left out weighs what it would; one that never shows anything, None.
    """
    messages = build_session_context([entry]).messages
    if not messages:
        return None
    replacement = edits.get(entry.id)
    if replacement is not None:
        messages = [edited(message, replacement) for message in messages]
    return estimate_all(messages).tokens


@dataclass(frozen=True, slots=True)
class Account:
    """What a compaction did to the context at its place."""

    before: int
    """Tokens before it, as whoever wrote it counted them; 0 if they did not."""
    after: int
    """Tokens right after it: as whoever wrote it estimated them, where its details say so, else
    an estimate by rule `pi` of the messages alone."""
    entries: int
    """How many entries were sent before it and are not sent after it."""


def account(
    compaction: CompactionEntry, above: Iterable[Step], read: Callable[[str], Entry]
) -> Account:
    """Give account of a compaction.

    Args:
        above: The branch from the compaction up to its root, itself first. No more of it is
            taken than the context before and after it reaches back.

    Raises:
        PiError: `session`: an entry that is kept cannot be read.
    """
    steps = _reach(compaction, above, read)
    before = sent(steps[:-1], read).ids
    after = sent(steps, read).ids
    said = compaction.details.get("tokensAfter") if isinstance(compaction.details, dict) else None
    if not isinstance(said, int) or isinstance(said, bool) or said < 0:
        said = estimate_all(project(steps, read).snapshot().messages).tokens
    return Account(compaction.tokens_before, said, len(before - after))


def _reach(
    compaction: CompactionEntry, above: Iterable[Step], read: Callable[[str], Entry]
) -> list[Step]:
    """The end of the branch that decides what is sent before and after a compaction.

    It goes back to the compaction before it and to the first entry that either of them
    keeps, or to the root where one of those is not there.
    """
    waiting = {first} if (first := _first_kept(compaction)) else set()
    former = False
    steps: list[Step] = []
    for step in above:
        steps.append(step)
        waiting.discard(step.id)
        if not former and _is_compaction(step) and step.id != compaction.id:
            former = True
            found = read(step.id)
            if isinstance(found, CompactionEntry) and (first := _first_kept(found)):
                waiting.add(first)
        if former and not waiting:
            break
    steps.reverse()
    return steps
