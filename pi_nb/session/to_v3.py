"""Writes v3: one lane; whatever is no entry in v4 becomes one of the tree.

Such entries stand in line, not beside it: what follows their neighbour above follows them,
so that pi shows no branches where nobody branched.
"""

from __future__ import annotations

from collections.abc import Iterator

from pi_nb.result import Err

from .codec import Stored
from .entries import CustomEntry, Entry, LabelEntry, LeafEntry, UsageEntry
from .records import Header, LabelFact, LaneMove, NameFact, Record, UsageRecord
from .translate import AsItStands, Translation, native, read_native, wrapped
from .v3.codec import V3
from .v3.lines import LEAF, RECORD

_PLAIN = frozenset(
    {"message", "custom_message", "model_change", "thinking_level_change", "active_tools_change"}
)
"""Types that say nothing of other entries or of the session."""


class ToV3(Translation):
    """A v3 file being made."""

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

    def _same(self, item: AsItStands) -> bytes | None:
        checked = self._codec.check(item.line, self._index)
        if isinstance(checked, Err) or not item.line.endswith(b"\n"):
            return None
        head = checked.value[0]
        parent = head.parent_id
        if head.type not in _PLAIN or parent in self._above or parent != self._under(parent):
            return None
        self._last = self._leaf = head.id
        return self._put(item.line, checked.value)

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
        parent = self._under(self._kept(entry.parent_id))
        fitted = self._fitted(entry, parent, None)
        own = native(fitted)
        written = self._write(own, instead=wrapped(fitted) if own is fitted else fitted)
        self._last = entry.id
        return written

    def _under(self, parent: str | None) -> str | None:
        """Where what follows `parent` stands: after the bookkeeping that follows it already."""
        return self._index.lanes["main"] if parent == self._last else parent

    def _as_entry(self, record: Record) -> Record | Entry:
        """Records are bookkeeping of ours in v3, but for what was a `usage` entry there."""
        if isinstance(record, UsageRecord) and isinstance(record.details, dict):
            head = {"parentId": self._index.lanes["main"], "timestamp": record.timestamp}
            if record.details.get("type") == "usage":
                found = read_native(
                    {**record.details, "id": record.id, **head, "usage": record.usage}
                )
                if isinstance(found, UsageEntry):
                    return found
        return record.having(lane="main")
