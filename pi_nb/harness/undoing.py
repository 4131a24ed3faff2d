"""What the last compaction or edit of a branch was, and what stood before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from pi_nb.session.entries import ContextEditEntry, CustomEntry
from pi_nb.session.reader import SessionReader
from pi_nb.session.records import OperationFinished, OperationStarted, Record, read_record
from pi_nb.session.v3.lines import RECORD

_CHANGES = ("compaction", "context_edit")
_SHOWN = ("message", "custom_message", "branch_summary")
_WRITES = ("run", "compaction")
"""Kinds of operations that write changes."""


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
    earlier: ContextEditEntry | None
    """The edit of the same entry that was in force before it."""
    kind: str
    """`compaction` or `edit`."""


def last_change(session: SessionReader, lane: str) -> Change | None:
    """The newest compaction or edit on a lane's branch, with what was written in one go with
    it; None where there is none.

    An edit that was taken back where it stands counts no more, nor does what took it back: a
    second undo takes back what is older, and not the first undo.
    """
    written = _Written(session)
    followed, entry_id = 0, session.tip(lane)
    taken_back: set[str] = set()
    while entry_id is not None:
        if entry_id in written.undone:
            taken_back.add(written.undone[entry_id])
        elif session.type_of(entry_id) in _CHANGES and entry_id not in taken_back:
            break
        followed += session.type_of(entry_id) in _SHOWN
        entry_id = session.parent_id(entry_id)
    if entry_id is None:
        return None
    ids = written.with_it(entry_id)
    above = session.parent_id(ids[0])
    entry = session.entry(ids[0]) if len(ids) == 1 else None
    edit = entry if isinstance(entry, ContextEditEntry) else None
    kind = "compaction" if any(session.type_of(i) == "compaction" for i in ids) else "edit"
    return Change(
        entry_ids=tuple(ids),
        before=session.anchor(above),
        followed=followed,
        edit=edit,
        earlier=_edit_of(session, edit.target_id, above) if edit else None,
        kind=kind,
    )


def _edit_of(session: SessionReader, target: str, at: str | None) -> ContextEditEntry | None:
    """The newest edit of an entry on the branch that ends here."""
    while at is not None and at != target:
        if session.type_of(at) == "context_edit":
            entry = session.entry(at)
            if isinstance(entry, ContextEditEntry) and entry.target_id == target:
                return entry
        at = session.parent_id(at)
    return None


class _Written:
    """Which operation wrote a change, read once from the lines in the order of the file.

    Nothing of it is guessed from where a lane stood at the end: the operation may have been
    cut off by a crash, it may have been another lane's, or the run went on after it.
    """

    def __init__(self, session: SessionReader) -> None:
        self._session = session
        self._sources: dict[str, list[str | None]] = {}
        self.undone: dict[str, str] = {}
        """What took an edit back where it stands, to that edit."""
        begun: dict[str, OperationStarted] = {}
        for line in _lines(session):
            if isinstance(line, str):
                if session.type_of(line) in _CHANGES:
                    self._sources[line] = [one.source_leaf_id for one in begun.values()][::-1]
            elif isinstance(line, OperationStarted) and line.intent.get("kind") in _WRITES:
                begun[line.id] = line
            elif isinstance(line, OperationFinished) and line.run_id in begun:
                self._finished(begun.pop(line.run_id), line.leaf_id)

    def _finished(self, begun: OperationStarted, leaf: str | None) -> None:
        undone = begun.intent.get("undo")
        if isinstance(undone, str) and self._wrote(begun.source_leaf_id, leaf):
            assert leaf is not None
            self.undone[leaf] = undone

    def _wrote(self, source: str | None, entry_id: str | None) -> bool:
        """Whether an operation that began at the one entry can have written the other."""
        session = self._session
        if entry_id is None or entry_id not in session or source == entry_id:
            return False
        if source is None:
            return True
        return source in session and session.common_ancestor(source, entry_id) == source

    def with_it(self, entry_id: str) -> list[str]:
        """The changes that were written in one go with this one and before it, oldest first,
        and this one."""
        session = self._session
        sources = self._sources.get(entry_id, [])
        source = next((one for one in sources if self._wrote(one, entry_id)), entry_id)
        ids = [entry_id]
        above = session.parent_id(entry_id) if source != entry_id else None
        while above is not None and above != source and session.type_of(above) not in _SHOWN:
            if session.type_of(above) in _CHANGES:
                ids.append(above)
            above = session.parent_id(above)
        return ids[::-1]


def _lines(session: SessionReader) -> Iterator[str | Record]:
    """Entries and records as they follow one another; in v3 records are entries of the tree."""
    for line in session.in_file_order():
        if isinstance(line, str) and session.is_own(line):
            entry = session.entry(line)
            if isinstance(entry, CustomEntry) and entry.custom_type == RECORD:
                with suppress(ValueError):  # anything may stand there: the file is the user's
                    yield read_record(entry.data if isinstance(entry.data, dict) else {})
        else:
            yield line
