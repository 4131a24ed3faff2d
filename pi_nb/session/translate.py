"""The lines of a new file, made of what the lines of another one say.

Each class writes one format and checks every line as opening the file would. What a format
has no place for is left out of its tree: what followed it then follows what stood above
it, and what spoke of it speaks of its neighbour.

    v3 tree    u1 - label - a1 - usage - u2       v4 tree    u1 - a1 - u2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    LeafEntry,
    SessionInfoEntry,
    UsageEntry,
    read_v3_entry,
    why,
)
from .index import Index, Place
from .records import (
    RECORD_TYPES,
    Header,
    LabelFact,
    LaneMove,
    NameFact,
    Record,
    UsageRecord,
    read_record,
)
from .v3.codec import V3
from .v3.lines import LEAF, RECORD
from .v4.codec import V4
from .v4.lines import EntryType

FOREIGN = "pi."
"""Before the type of an entry that v4 does not have: its `customType` there."""

_V4_TYPES = frozenset(get_args(EntryType))


class _Copy:
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

    def lines(self, items: Iterable[Stored]) -> Iterator[bytes]:
        """The whole file, header first.

        Raises:
            PiError: `session`: an item does not fit the format.
        """
        header = self._codec.header_line(self._header)
        self._end = len(header)
        yield header
        for item in items:
            yield from self._take(item)
        yield from self._finish()

    def _take(self, item: Stored) -> Iterator[bytes]:
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
        line, change = made.value
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
            yield self._write(LabelFact(target_id=kept, **_given(label=label)))

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


class ToV4(_Copy):
    """Writes v4: labels, names and records get lines of their own, and every lane its moves."""

    def __init__(self, header: Header, *, records: bool = True) -> None:
        super().__init__(V4(), header.having(version=4), records=records)

    def _take(self, item: Stored) -> Iterator[bytes]:
        match item:
            case Entry():
                yield from self._entry(item)
            case Record():
                yield from self._record(item)
            case LaneMove(lane=lane):
                leaf = self._kept(item.leaf_id)
                if lane not in self._index.lanes or self._index.lanes[lane] != leaf:
                    yield self._write(LaneMove(lane=lane, leaf_id=leaf))
            case LabelFact(target_id=target, label=label):
                yield from self._label(target, label)
            case NameFact(name=name):
                if name != self._index.name:
                    yield self._write(item)

    def _entry(self, entry: Entry) -> Iterator[bytes]:
        match entry:
            case LabelEntry(target_id=target, label=label):
                self._leave_out(entry)
                if target in self._index.tree:
                    yield from self._label(target, label)
            case SessionInfoEntry(name=name):
                self._leave_out(entry)
                if (name or None) != self._index.name:
                    yield self._write(NameFact(**_given(name=name)))
            case UsageEntry():
                self._leave_out(entry)
                yield self._write(_usage_record(entry))
            case CustomEntry(custom_type=kind) if kind == RECORD and (record := _record(entry)):
                self._leave_out(entry)
                # Lanes are gone in v3; that its record names one brings none back.
                lane = record.lane if record.lane in self._index.lanes else "main"
                yield from self._record(record.having(lane=lane))
            case LeafEntry():
                self._leave_out(entry)
            case CustomEntry(custom_type=kind) if kind == LEAF:
                self._leave_out(entry)
            case _:
                yield from self._in_lane(entry)

    def _in_lane(self, entry: Entry) -> Iterator[bytes]:
        parent, lane = self._kept(entry.parent_id), entry.lane
        lanes = self._index.lanes
        if lane is not None and (lane not in lanes or lanes[lane] != parent):
            yield self._write(LaneMove(lane=lane, leaf_id=parent))
        fitted = self._fitted(entry, parent, lane)
        wrapped = _wrapped(fitted)
        yield self._write(wrapped if _foreign(fitted) else fitted, instead=wrapped)

    def _record(self, record: Record) -> Iterator[bytes]:
        if not self._records:
            return
        if record.lane not in self._index.lanes:
            yield self._write(LaneMove(lane=record.lane, leaf_id=self._source(record)))
        yield self._write(record)

    def _source(self, record: Record) -> str | None:
        """Where a lane stands that is first heard of by a record."""
        source = self._kept(getattr(record, "source_leaf_id", None))
        return source if source in self._index.tree else None


class ToV3(_Copy):
    """Writes v3: one lane; whatever is no entry in v4 becomes one of the tree.

    Such entries stand in line, not beside it: what follows their neighbour above follows
    them, so that pi shows no branches where nobody branched.
    """

    def __init__(self, header: Header, *, records: bool = True) -> None:
        super().__init__(V3(), header.having(version=3), records=records)
        self._last: str | None = None
        """The newest entry of the source's tree; what stands after it here is bookkeeping."""
        self._leaf: str | None = None

    def _take(self, item: Stored) -> Iterator[bytes]:
        match item:
            case Entry():
                if item.lane == "main":
                    self._leaf = item.id
                if self._has_place(item):
                    yield self._entry(item)
                else:
                    self._leave_out(item)
            case Record():
                if self._records:
                    yield self._write(self._as_entry(item))
            case LaneMove(lane="main"):
                self._leaf = item.leaf_id
            case LabelFact(target_id=target, label=label):
                yield from self._label(target, label)
            case NameFact(name=name):
                if name != self._index.name:
                    yield self._write(item)

    def _finish(self) -> Iterator[bytes]:
        leaf = self._kept(self._leaf)
        if leaf != self._last:
            yield self._write(LaneMove(lane="main", leaf_id=leaf))

    def _has_place(self, entry: Entry) -> bool:
        match entry:
            case LeafEntry():
                return False
            case CustomEntry(custom_type=kind) if kind == LEAF:
                return False
            case CustomEntry(custom_type=kind) if kind == RECORD:
                return self._records
            case LabelEntry(target_id=target):
                return self._kept(target) in self._index.tree
        return True

    def _entry(self, entry: Entry) -> bytes:
        parent = self._kept(entry.parent_id)
        if parent == self._last:
            parent = self._index.lanes["main"]
        fitted = self._fitted(entry, parent, None)
        native = _native(fitted)
        written = self._write(native, instead=_wrapped(fitted) if native is fitted else fitted)
        self._last = entry.id
        return written

    def _as_entry(self, record: Record) -> Record | Entry:
        """Records are bookkeeping of ours in v3, but for what was a `usage` entry there."""
        if isinstance(record, UsageRecord) and isinstance(record.details, dict):
            head = {"parentId": self._index.lanes["main"], "timestamp": record.timestamp}
            if record.details.get("type") == "usage":
                found = _read({**record.details, "id": record.id, **head, "usage": record.usage})
                if isinstance(found, UsageEntry):
                    return found
        return record.having(lane="main")


def _foreign(entry: Entry) -> bool:
    """Whether v4 cannot have the entry as it is: its type is unknown, or its body unreadable."""
    return type(entry) is Entry or entry.type not in _V4_TYPES


def _wrapped(entry: Entry) -> CustomEntry:
    """An entry as data, which every format can have."""
    return CustomEntry(
        custom_type=f"{FOREIGN}{entry.type}",
        data=_body(entry),
        id=entry.id,
        parent_id=entry.parent_id,
        timestamp=entry.timestamp,
        lane=entry.lane,
    )


def _native(entry: Entry) -> Entry:
    """An entry that v4 could not have, as it was before it came there."""
    if not isinstance(entry, CustomEntry) or not isinstance(entry.data, dict):
        return entry
    if entry.custom_type != f"{FOREIGN}{entry.data.get('type')}":
        return entry
    head = {"id": entry.id, "parentId": entry.parent_id, "timestamp": entry.timestamp}
    found = _read({**entry.data, **head})
    return found if found is not None and _foreign(found) else entry


def _read(wire: dict[str, Any]) -> Entry | None:
    for reader in (read_v3_entry, Entry.model_validate):
        try:
            return reader(wire)
        except ValueError:
            continue
    return None


def _record(entry: CustomEntry) -> Record | None:
    try:
        record = read_record(entry.data)
    except (AttributeError, TypeError, ValueError):
        return None  # somebody else used our name
    return record if record.type in RECORD_TYPES and record.id else None


def _usage_record(entry: UsageEntry) -> UsageRecord:
    details = _body(entry)
    details.pop("usage", None)
    return UsageRecord(
        id=entry.id,
        timestamp=entry.timestamp,
        cause="adjustment",
        details=details,
        **_given(usage=entry.usage),
    )


def _body(entry: Entry) -> dict[str, Any]:
    """What an entry says, without its place in the tree."""
    place = ("id", "parentId", "timestamp", "lane")
    return {name: value for name, value in entry.to_wire().items() if name not in place}


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that say something, so that the others are not written."""
    return {name: value for name, value in fields.items() if value}


def _unfit(value: Wire, complaint: str) -> PiError:
    what = f"entry {safe_line(value.id, 40)}" if isinstance(value, Entry) else type(value).__name__
    return PiError("session", f"{what} cannot be written: {complaint}")
