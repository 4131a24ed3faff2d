"""Takes in a whole v3 file: checks every line, reports what is odd, and refuses nothing.

Good files are read in blocks, column by column, because a session of a hundred thousand
entries should open at once. A block that holds anything odd is read again line by line.
Links are made last, so that a child may stand before its parent (known fault S-23).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import count
from operator import ge, sub
from sys import intern
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from pi_nb.js import trim
from pi_nb.session.index import Diagnostic, Index, Place
from pi_nb.session.records import Header
from pi_nb.text import quoted, safe_line, scrub_data

from .bodies import read_json
from .lines import LEAF, OWN, RECORD, Head, Line, read_lines, read_record_line

BOM = b"\xef\xbb\xbf"
MOST_DIAGNOSTICS = 1_000
"""Of each file; a file of a million bad lines is described by the first ones."""

Orphans = Literal["roots", "previous"]
"""What becomes of entries whose parent is not in the file: roots of their own, as pi has
them, or children of the entry before them, to read what else cannot be reached."""

_SPECIAL = frozenset({"label", "session_info", "leaf", "custom"})


class Loading:
    """One file on its way in. Feed it blocks, then ask for the index."""

    def __init__(self, header: Header, *, version: int, orphans: Orphans) -> None:
        self.header = header
        self.diagnostics: list[Diagnostic] = []
        self._version = version
        self._orphans: Orphans = orphans
        self._rows: dict[str, int] = {}
        self._parents = array("i")
        self._dangling: list[tuple[int, str]] = []
        self._types: list[str] = []
        self._roles: list[str | None] = []
        self._offsets = array("q")
        self._lengths = array("q")
        self._lines = array("i")
        self._leaf: str | None = None
        self._leaf_set = False
        """The leaf was set by a line that says so, not by coming last."""
        self._index = Index(header)
        self.number = 0
        """Lines so far."""
        self.end = 0
        """Bytes of whole lines."""
        self.torn = 0
        self.unterminated = False

    def odd(self, number: int, code: str, text: str) -> None:
        if len(self.diagnostics) < MOST_DIAGNOSTICS:
            self.diagnostics.append(Diagnostic(number, code, text))

    def block(self, offset: int, data: bytes) -> None:
        """Take whole lines; only the last line of a file may lack its newline."""
        if not data.endswith(b"\n") or not self._quickly(offset, data):
            self._patiently(offset, data)
        self.end = offset + len(data) - self.torn

    def finish(self) -> Index:
        """Link what was read, and say where the leaf is."""
        index = self._index
        self._link()
        index.load(
            self._rows,
            self._parents,
            types=self._types,
            roles=self._roles,
            places=(self._offsets, self._lengths),
            lines=self._lines,
            count=max(self.number - bool(self.torn), 1),
        )
        index.lanes["main"] = self._leaf
        newest = index.newest("message")
        if newest is not None and not self._leaf_set and not self._on_branch(newest):
            text = "a newer message lies on another branch; session.newest_leaf() is its entry"
            self.odd(index.line_of(newest), "newer_branch", text)
        return index

    # --- blocks without a fault ---------------------------------------------------------

    def _quickly(self, offset: int, data: bytes) -> bool:
        """Take a block at once; False, and nothing is taken, where anything is odd."""
        try:
            if not data.isascii():
                data.decode()  # msgspec looks at the UTF-8 of those strings only that it keeps
            found = read_lines(data)
        except (ValueError, RecursionError):
            return False
        ends = _ends(data)
        if len(found) != len(ends):
            return False  # blank lines, which the decoder passes over
        ids = [line.id for line in found]
        fresh = dict(zip(ids, count(len(self._rows) + 1), strict=False))
        if len(fresh) < len(ids) or "" in fresh or not self._rows.keys().isdisjoint(fresh):
            return False
        types = [intern(line.type) for line in found]
        kinds = set(types)
        heads = [line.message for line in found]
        roles = [None if head is UNSET else intern(head.role) for head in heads]
        if "session" in kinds or (self._version < 2) or roles.count(None) > _others(types, kinds):
            return False
        starts = [0, *ends[:-1]]
        self._offsets.extend([offset + start for start in starts])
        self._lengths.extend(map(sub, ends, starts))
        self._lines.extend(range(self.number + 1, self.number + len(ends) + 1))
        self._roles += roles if "hookMessage" not in roles else map(_role_now, roles)
        self._types += types
        self._rows |= fresh
        self._point([line.parent_id for line in found])
        if ids:
            self._leaf, self._leaf_set = ids[-1], False
        if not kinds.isdisjoint(_SPECIAL):
            for line, start, end in zip(found, starts, ends, strict=True):
                if line.type in _SPECIAL:
                    note(self._index, line, data[start:end], Place(offset + start, end - start))
            self._settle(found[-1])
        self.number += len(ends)
        return True

    def _point(self, parents: list[str | None]) -> None:
        """Note the rows of parents that are known, and the names of those that are not."""
        rows = self._rows
        start = len(self._parents)
        found = array("i", [0 if parent is None else rows.get(parent, -1) for parent in parents])
        self._parents += found
        if found and min(found) < 0:
            for place, row in enumerate(found):
                if row < 0:
                    self._dangling.append((start + place + 1, str(parents[place])))

    # --- line by line -------------------------------------------------------------------

    def _patiently(self, offset: int, data: bytes) -> None:
        for line, place in _lines(offset, data):
            self.number += 1
            found = self._look(line, place)
            if found is not None:
                self._take(found, line, place)

    def _look(self, raw: bytes, place: Place) -> Line | None:
        """An entry of a line, with what it lacks made up; None where there is none."""
        number = self.number
        whole = raw.endswith(b"\n")
        data = self._parsed(raw, number, whole)
        if data is None:
            return None
        self.unterminated = not whole
        type = data.get("type")
        if type == "session":
            self.odd(number, "second_header", "another session header; the first one counts")
            return None
        if not isinstance(type, str):
            self.odd(number, "no_entry", "an object without a type, which is no entry")
            return None
        message = data.get("message")
        role = message.get("role") if isinstance(message, dict) else None
        if type == "message" and not isinstance(role, str):
            self.odd(number, "no_message", "a message entry without a message that says its role")
        return Line(
            type=type,
            id=self._id(data, number),
            parent_id=self._parent(data, number),
            message=Head(role) if isinstance(role, str) else UNSET,
            custom_type=_text(data, "customType"),
            target_id=_text(data, "targetId"),
            label=_text(data, "label"),
            name=_text(data, "name"),
        )

    def _parsed(self, raw: bytes, number: int, whole: bool) -> dict[str, Any] | None:
        """The object of a line; None for one that is blank, torn or nonsense."""
        text = raw.removeprefix(BOM).strip(b" \t\r\n\x00")
        if not text:
            return None
        try:
            data = read_json(text.decode())
        except UnicodeDecodeError as error:
            try:
                data = read_json(text.decode(errors="replace"))
            except (ValueError, RecursionError):
                data = None
            else:
                self.odd(number, "not_utf8", f"not UTF-8 at byte {error.start}; shown as �")
        except (ValueError, RecursionError):
            data = None
        if isinstance(data, dict):
            return scrub_data(data)  # type: ignore[no-any-return]  # a dict gives a dict
        if whole:
            self.odd(number, "bad_line", f"no JSON object: {quoted(_shown(text))}")
        else:
            self.torn = len(raw)
        return None

    def _id(self, data: dict[str, Any], number: int) -> str:
        found = data.get("id")
        if isinstance(found, str) and found:
            return found
        if self._version >= 2:
            self.odd(number, "missing_id", f"an entry without an id: {_shown_type(data)}")
        return made_id(number, self._rows)

    def _parent(self, data: dict[str, Any], number: int) -> str | None:
        found = data.get("parentId", UNSET)
        if found is None or (isinstance(found, str) and found):
            return found
        if self._version >= 2:
            text = f"an entry without a parent: {_shown_type(data)}; taken to follow the one before"
            self.odd(number, "missing_parent", text)
        return self._leaf

    def _take(self, line: Line, raw: bytes, place: Place) -> None:
        if line.id in self._rows:
            text = f"the id {safe_line(line.id, 40)} is taken; the first entry with it counts"
            self.odd(self.number, "duplicate_id", text)
        else:
            self._rows[line.id] = len(self._rows) + 1
            self._types.append(intern(line.type))
            role = None if line.message is UNSET else intern(line.message.role)
            self._roles.append(_role_now(role))
            self._offsets.append(place.offset)
            self._lengths.append(place.length)
            self._lines.append(self.number)
            self._point([line.parent_id])
            note(self._index, line, raw, place)
        self._leaf, self._leaf_set = line.id, False
        self._settle(line)

    def _settle(self, line: Line) -> None:
        """The leaf after the last line read, where that line says something of it."""
        if line.type == "leaf":
            self._leaf, self._leaf_set = line.target_id or None, True
        elif line.type == "custom" and line.custom_type in OWN:
            self._leaf_set = line.custom_type == LEAF

    # --- links --------------------------------------------------------------------------

    def _link(self) -> None:
        """Find the parents that came later; report those that never came, and cycles."""
        for row, parent in self._dangling:
            number = self._lines[row - 1]
            found = self._rows.get(parent)
            if found is not None:
                self._parents[row - 1] = found
                continue
            before = row - 1 if self._orphans == "previous" else 0
            taken = (
                "read as following the entry before" if before else "it starts a tree of its own"
            )
            text = f"its parent {safe_line(parent, 40)} is not there; {taken}"
            self.odd(number, "unknown_parent", text)
            self._parents[row - 1] = before
        if any(map(ge, self._parents, count(1))):
            late = [row for row, parent in enumerate(self._parents, 1) if parent >= row]
            self._break_cycles()
            for row in late:
                if self._parents[row - 1]:
                    self.odd(self._lines[row - 1], "parent_later", "its parent comes later")
        if self._leaf is not None and self._leaf not in self._rows:
            text = f"the leaf {safe_line(self._leaf, 40)} is not there; the last entry is the leaf"
            self.odd(self.number, "unknown_leaf", text)
            self._leaf = next(reversed(self._rows), None)

    def _break_cycles(self) -> None:
        parents = self._parents
        seen = bytearray(len(parents) + 1)  # 1: on the way that is walked now, 2: leads to a root
        seen[0] = 2
        for start in range(1, len(parents) + 1):
            way = []
            row = start
            while not seen[row]:
                seen[row] = 1
                way.append(row)
                row = parents[row - 1]
            if seen[row] == 1:
                first = min(way[way.index(row) :])
                self.odd(self._lines[first - 1], "cycle", "it is its own ancestor; taken as a root")
                parents[first - 1] = 0
            for row in way:
                seen[row] = 2

    def _on_branch(self, entry_id: str) -> bool:
        """Whether an entry is on the leaf's branch."""
        wanted = self._rows[entry_id]
        row = self._rows.get(self._leaf or "", 0)
        while row and row != wanted:
            row = self._parents[row - 1]
        return row == wanted


def note(index: Index, line: Line, raw: bytes, place: Place) -> None:
    """Take what a line says of the session itself: label, name, our own bookkeeping."""
    if line.type == "label" and isinstance(line.target_id, str):
        index.set_label(line.target_id, line.label or None)
    elif line.type == "session_info":
        index.name = trim(line.name or "") or None
    elif line.type == "custom" and line.custom_type in OWN:
        index.own.add(line.id)
        if line.custom_type == RECORD:
            _note_record(index, raw, place)


def _note_record(index: Index, raw: bytes, place: Place) -> None:
    try:
        record = read_record_line(raw).data
    except (ValueError, RecursionError):
        return  # somebody else used our name; it stays an entry
    index.records.append(place)
    if record.type == "operation_started":
        index.open_operations[record.id] = place
    elif record.type == "operation_finished":
        index.open_operations.pop(str(record.run_id), None)


def made_id(number: int, taken: Iterable[str]) -> str:
    """An id for an entry without one: the same whenever the file is opened."""
    made = f"{number:08x}"
    while made in taken:
        made += "x"
    return made


def _role_now(role: str | None) -> str | None:
    return "custom" if role == "hookMessage" else role  # v2's word for it


def _text(data: dict[str, Any], field: str) -> str | UnsetType:
    found = data.get(field)
    return found if isinstance(found, str) else UNSET


def _others(types: list[str], kinds: set[str]) -> int:
    """How many entries are no messages."""
    return 0 if kinds == {"message"} else len(types) - types.count("message")


def _ends(data: bytes) -> list[int]:
    """Where each line ends, newline included. Cheaper than to split: nothing is copied."""
    ends = []
    end = 0
    find = data.find
    while end := find(b"\n", end) + 1:
        ends.append(end)
    return ends


def _lines(offset: int, data: bytes) -> Iterator[tuple[bytes, Place]]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end], Place(offset + start, end - start)
        start = end


def _shown(text: bytes) -> str:
    return text[:200].decode(errors="replace")


def _shown_type(data: dict[str, Any]) -> str:
    return quoted(str(data.get("type")), 30)
