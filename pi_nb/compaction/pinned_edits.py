"""What an edit must not take out of a request: pinned words, wherever they stand.

pinned itself     an entry that is edited
in a summary      the words of one that was summarised, in the summary that is edited
behind a call     a result, which no provider takes once the call that it answers is left out
"""

from __future__ import annotations

from collections.abc import Iterable

from pi_nb.messages import CompactionSummaryMessage
from pi_nb.result import PiError

from .assemble import pinned_words
from .branch import Branch
from .operations import takes
from .pairs import calls_of
from .plan import Omit, Replace, after


def check_edits(edits: Iterable[Omit | Replace], branch: Branch) -> None:
    """Raises:
    PiError: `invalid_argument`: an edit would take pinned words out of the next request; the
        entries are named by their rows.
    """
    if not branch.pins:
        return
    by_id = {edit.entry_id: edit for edit in edits}
    for entry_id in by_id:
        if entry_id in branch.pins:
            raise PiError(
                "invalid_argument", f"{_row(branch, entry_id)} is pinned; take the pin out first."
            )
    _check_summary(by_id, branch)
    for result, (place, call) in calls_of(branch.items).items():
        item, pinned = branch.items[place], branch.items[result].entry_id
        if pinned in branch.pins and takes(by_id.get(item.entry_id), item, call):
            raise PiError(
                "invalid_argument",
                f"{_row(branch, item.entry_id)} makes the call whose result is pinned "
                f"({_row(branch, pinned).lower()}); without it the result is not sent.",
            )


def _check_summary(edits: dict[str, Omit | Replace], branch: Branch) -> None:
    item = branch.items[0] if branch.items else None
    edit = edits.get(item.entry_id) if item else None
    if item is None or edit is None or not isinstance(item.message, CompactionSummaryMessage):
        return
    left = after(item.message, edit)
    text = left.summary if isinstance(left, CompactionSummaryMessage) else ""
    here = {item.entry_id for item in branch.items}
    gone: list[str] = []
    for pin in sorted(branch.pins - here, key=branch.number):
        pinned = branch.shown_as(pin)
        words = "" if pinned is None else pinned_words(pinned)
        if words in item.message.summary and words not in text:
            gone.append(_row(branch, pin).lower())
    if gone:
        summary = _row(branch, item.entry_id)
        text = f"{summary} holds pinned words ({', '.join(gone)}), which would be missing."
        raise PiError("invalid_argument", text)


def _row(branch: Branch, entry_id: str) -> str:
    return f"Row {branch.number(entry_id)}"
