"""The lines of a new file, made of what the lines of another one say.

`ToV3` and `ToV4` write one format each, and check every line as opening the file would.
What a format has no place for is left out of its tree: what followed it then follows what
stood above it, and what spoke of it speaks of its neighbour.

    v3 tree    u1 - label - a1 - usage - u2       v4 tree    u1 - a1 - u2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pi_nb.result import Err, Ok, PiError, Result
from pi_nb.text import safe_line
from pi_nb.wire import Wire

from .codec import Codec, Stored
from .entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    LabelEntry,
    read_v3_entry,
    why,
)
from .index import Index, Place
from .records import (
    Header,
    LabelFact,
)
from .v4.lines import EntryType

FOREIGN = "pi."
"""Before the type of an entry that v4 does not have: its `customType` there."""

_V4_TYPES = frozenset(get_args(EntryType))


@dataclass(frozen=True, slots=True)
class AsItStands:
    """An entry's line in a file of the same format. Most lines need no reading to be copied."""

    line: bytes
    lane: str | None
    """Where it has to be; None: where it is."""
    read: Callable[[], Entry]


class Translation:
    """A file being made: what is in it so far, and what was left out of its tree."""

    def __init__(self, codec: Codec, header: Header, *, records: bool) -> None:
        """
        Args:
            records: Take the records along.
        """
        self._codec = codec
        self._records = records
        self._header = header
        self._index = Index(header)
        self._end = 0
        self._above: dict[str, str | None] = {}
        """Left out, to the nearest entry above it that is not."""
        self._followed: dict[str, str | None] = {}
        """The parents that entries had, where they have another one here or are left out."""

    def lines(self, items: Iterable[Stored | AsItStands]) -> Iterator[bytes]:
        """The whole file, header first.

        Raises:
            PiError: `session`: an item does not fit the format.
        """
        header = self._codec.header_line(self._header)
        self._end = len(header)
        yield header
        for item in items:
            if isinstance(item, AsItStands):
                same = self._same(item)
                yield from [same] if same is not None else self._taken(item.read())
            else:
                yield from self._taken(item)
        yield from self._finish()

    def _taken(self, item: Stored) -> list[bytes]:
        try:
            return list(self._take(item))
        except RecursionError:
            raise _unfit(item, "its data is nested too deeply") from None

    def _take(self, item: Stored) -> Iterator[bytes]:
        raise NotImplementedError

    def _same(self, item: AsItStands) -> bytes | None:
        """Its line, where that can be the next one here; None where it has to be read."""
        raise NotImplementedError

    def _finish(self) -> Iterator[bytes]:
        return iter(())

    def _write(self, value: Stored, instead: Entry | None = None) -> bytes:
        """The next line; `instead` is what is written where the format refuses `value`."""
        made = self._checked(value)
        if isinstance(made, Err) and instead is not None:
            made = self._checked(instead)
        if isinstance(made, Err):
            raise _unfit(value, made.error)
        return self._put(*made.value)

    def _put(self, line: bytes, change: Any) -> bytes:
        self._codec.apply(change, Place(self._end, len(line)), self._index)
        self._end += len(line)
        return line

    def _checked(self, value: Stored) -> Result[tuple[bytes, Any], str]:
        try:
            line = self._codec.encode(value, self._index)
        except (TypeError, ValueError, RecursionError) as error:
            return Err(why(error))
        checked = self._codec.check(line, self._index)
        return checked if isinstance(checked, Err) else Ok((line, checked.value))

    def _label(self, target: str, label: str | None) -> Iterator[bytes]:
        """A label, if it is news. That of an entry left out goes to the one above, if that has
        none of its own."""
        kept = self._kept(target)
        if kept is None or kept not in self._index.tree:
            return
        has = self._index.labels.get(kept)
        if has != (label or None) and (kept == target or has is None):
            yield self._write(LabelFact(target_id=kept, **given(label=label)))

    def _leave_out(self, entry: Entry) -> None:
        self._followed[entry.id] = entry.parent_id
        self._above[entry.id] = self._kept(entry.parent_id)

    def _kept(self, entry_id: str | None) -> str | None:
        """The entry itself, or the nearest one above it that is not left out."""
        return self._above.get(entry_id, entry_id) if entry_id is not None else None

    def _fitted(self, entry: Entry, parent: str | None, lane: str | None) -> Entry:
        """An entry under its parent here, and what it says of others said of their neighbours.

        An edit is no such thing: what shows nothing and is left out has no neighbour to hide.
        """
        changes: dict[str, Any] = {"parent_id": parent, "lane": lane}
        if parent != entry.parent_id:
            self._followed[entry.id] = entry.parent_id
        match entry:
            case CompactionEntry():
                changes["first_kept_entry_id"] = self._first_kept(entry)
            case BranchSummaryEntry(from_id=left) if left in self._above:
                changes["from_id"] = self._above[left]
            case LabelEntry(target_id=target):
                changes["target_id"] = self._kept(target) or target
        unchanged = all(getattr(entry, name) == value for name, value in changes.items())
        return entry if unchanged else entry.having(**changes)

    def _first_kept(self, entry: CompactionEntry) -> str:
        """What a compaction keeps first: of an entry left out, the next one on the branch."""
        wanted = entry.first_kept_entry_id
        if wanted not in self._above:
            return wanted
        below = entry.id
        at = entry.parent_id
        while at is not None and at != wanted:
            if at not in self._above:
                below = at
            at = self._followed[at] if at in self._followed else self._index.tree.parent(at)
        return below if at is not None else wanted


def foreign(entry: Entry) -> bool:
    """Whether v4 cannot have the entry as it is: its type is unknown, or its body unreadable."""
    return type(entry) is Entry or entry.type not in _V4_TYPES


def wrapped(entry: Entry) -> CustomEntry:
    """An entry as data, which every format can have."""
    return CustomEntry(
        custom_type=f"{FOREIGN}{entry.type}",
        data=body_of(entry),
        id=entry.id,
        parent_id=entry.parent_id,
        timestamp=entry.timestamp,
        lane=entry.lane,
    )


def native(entry: Entry) -> Entry:
    """An entry that v4 could not have, as it was before it came there."""
    if not isinstance(entry, CustomEntry) or not isinstance(entry.data, dict):
        return entry
    if entry.custom_type != f"{FOREIGN}{entry.data.get('type')}":
        return entry
    head = {"id": entry.id, "parentId": entry.parent_id, "timestamp": entry.timestamp}
    found = read_native({**entry.data, **head})
    return found if found is not None and foreign(found) else entry


def read_native(wire: dict[str, Any]) -> Entry | None:
    """A v3 entry from its wire form; the plain form where the class of its type refuses it."""
    for reader in (read_v3_entry, Entry.model_validate):
        try:
            return reader(wire)
        except ValueError:
            continue
    return None


def body_of(entry: Entry) -> dict[str, Any]:
    """What an entry says, without its place in the tree."""
    place = ("id", "parentId", "timestamp", "lane")
    return {name: value for name, value in entry.to_wire().items() if name not in place}


def given(**fields: Any) -> dict[str, Any]:
    """The fields that say something, so that the others are not written."""
    return {name: value for name, value in fields.items() if value}


def _unfit(value: Wire, complaint: str) -> PiError:
    what = f"entry {safe_line(value.id, 40)}" if isinstance(value, Entry) else type(value).__name__
    return PiError("session", f"{what} cannot be written: {complaint}")
