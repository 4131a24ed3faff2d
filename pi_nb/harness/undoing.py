"""What the last compaction or edit of a branch was, and what stood before it."""

from __future__ import annotations

from dataclasses import dataclass

from pi_nb.session.entries import ContextEditEntry
from pi_nb.session.reader import SessionReader
from pi_nb.session.records import OperationFinished, OperationStarted

_CHANGES = ("compaction", "context_edit")
_SHOWN = ("message", "custom_message", "branch_summary")


@dataclass(frozen=True, slots=True)
class Change:
    """Entries that were written together, oldest first."""

    entry_ids: tuple[str, ...]
    before: str | None
    """The leaf that they follow; None: they stand at the root."""
    followed: int
    """Messages that came after them on the branch."""
    edit: ContextEditEntry | None
    """The edit, where it is one edit alone."""
    kind: str
    """`compaction` or `edit`."""


def last_change(session: SessionReader, lane: str) -> Change | None:
    """The newest compaction or edit on a lane's branch, with what was written in one go with
    it; None where there is none."""
    followed, entry_id = 0, session.tip(lane)
    while entry_id is not None and session.type_of(entry_id) not in _CHANGES:
        followed += session.type_of(entry_id) in _SHOWN
        entry_id = session.parent_id(entry_id)
    if entry_id is None:
        return None
    first = _first_of_operation(session, lane, entry_id)
    ids = [entry_id]
    above = session.parent_id(entry_id)
    while ids[-1] != first and above is not None:
        if session.type_of(above) in _CHANGES:
            ids.append(above)
        above = session.parent_id(above)
    ids.reverse()
    entry = session.entry(ids[0]) if len(ids) == 1 else None
    edit = entry if isinstance(entry, ContextEditEntry) else None
    kind = "compaction" if any(session.type_of(i) == "compaction" for i in ids) else "edit"
    return Change(tuple(ids), session.anchor(session.parent_id(ids[0])), followed, edit, kind)


def _first_of_operation(session: SessionReader, lane: str, entry_id: str) -> str:
    """The oldest change that the operation wrote which wrote this one; else this one."""
    begun: dict[str, OperationStarted] = {}
    source: str | None = None
    found = False
    for record in session.records():
        if isinstance(record, OperationStarted) and record.intent.get("kind") == "compaction":
            begun[record.id] = record
        elif (
            isinstance(record, OperationFinished)
            and record.run_id in begun
            and (record.leaf_id, record.lane) == (entry_id, lane)
        ):
            found, source = True, begun[record.run_id].source_leaf_id
    if not found:
        return entry_id
    first, above = entry_id, session.parent_id(entry_id)
    while above is not None and above != source:
        if session.type_of(above) in _CHANGES:
            first = above
        elif session.type_of(above) in _SHOWN:
            break
        above = session.parent_id(above)
    return first
