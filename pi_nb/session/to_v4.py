"""Writes v4: labels, names and records get lines of their own, and every lane its moves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pi_nb.result import Err

from .codec import Stored
from .entries import (
    CustomEntry,
    Entry,
    LabelEntry,
    LeafEntry,
    SessionInfoEntry,
    UsageEntry,
)
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
from .translate import AsItStands, Translation, body_of, foreign, given, wrapped
from .v3.lines import LEAF, RECORD
from .v4.codec import V4
from .v4.lines import EntryLine

_NUMBERED = re.compile(rb'\{"kind":"entry","seq":\d+,')


class ToV4(Translation):
    """A v4 file being made."""

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

    def _same(self, item: AsItStands) -> bytes | None:
        numbered = _NUMBERED.match(item.line)
        if numbered is None or self._above or not item.line.endswith(b"\n"):
            return None
        line = b'{"kind":"entry","seq":%d,' % self._index.lines + item.line[numbered.end() :]
        checked = self._codec.check(line, self._index)
        if isinstance(checked, Err):
            return None
        change: EntryLine = checked.value
        # Ours of v3 are custom entries, and may stand for a record.
        if change.type == "custom" or item.lane not in (None, change.lane):
            return None
        return self._put(line, change)

    def _entry(self, entry: Entry) -> Iterator[bytes]:
        match entry:
            case LabelEntry(target_id=target, label=label):
                self._leave_out(entry)
                if target in self._index.tree:
                    yield from self._label(target, label)
            case SessionInfoEntry(name=name):
                self._leave_out(entry)
                if (name or None) != self._index.name:
                    yield self._write(NameFact(**given(name=name)))
            case UsageEntry():
                self._leave_out(entry)
                yield self._write(_usage_record(entry))
            case CustomEntry(custom_type=kind) if kind == RECORD and (record := self._ours(entry)):
                self._leave_out(entry)
                yield from self._record(record)
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
        data = wrapped(fitted)
        yield self._write(data if foreign(fitted) else fitted, instead=data)

    def _ours(self, entry: CustomEntry) -> Record | None:
        """The record that an entry of v3 holds; None where somebody else used our name."""
        record = _record(entry)
        if record is None:
            return None
        # Lanes are gone in v3; that its record names one brings none back.
        lane = record.lane if record.lane in self._index.lanes else "main"
        record = record.having(lane=lane)
        return None if isinstance(self._checked(record), Err) else record

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


def _record(entry: CustomEntry) -> Record | None:
    try:
        record = read_record(entry.data)
    except (AttributeError, TypeError, ValueError):
        return None
    return record if record.type in RECORD_TYPES and record.id else None


def _usage_record(entry: UsageEntry) -> UsageRecord:
    details = body_of(entry)
    details.pop("usage", None)
    return UsageRecord(
        id=entry.id,
        timestamp=entry.timestamp,
        cause="adjustment",
        details=details,
        **given(usage=entry.usage),
    )
