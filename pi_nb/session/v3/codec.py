"""Reads and writes pi's own files, so that pi opens them again and sees the same branch.

What v4 keeps in lines of their own stands in the tree here: labels and names as pi writes
them, our leaf moves and records as `custom` entries that pi passes over.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Literal

from pi_nb.ids import now_ms, short_id
from pi_nb.js import dumps, trim
from pi_nb.result import Err, Ok, Result
from pi_nb.session.codec import Loaded, Stored
from pi_nb.session.entries import Entry, LabelEntry, SessionInfoEntry, why
from pi_nb.session.index import Diagnostic, Index, Place
from pi_nb.session.jsonl import Log
from pi_nb.session.records import Header, LabelFact, LaneMove, NameFact, Record, read_record
from pi_nb.text import safe_line, scrub_data

from .bodies import iso, milliseconds, parsed, read_body
from .lines import LEAF, RECORD, Line, read_line
from .loading import Loading, Orphans, note
from .upgrade import as_v3

CURRENT = 3
HEAD = 1 << 16
"""Bytes before a header in which it is looked for."""


class V3:
    """The codec of v1 to v3; see `pi_nb.session.codec.Codec` for the contract."""

    format: Literal["v3"] = "v3"
    one_lane = True

    def __init__(self, orphans: Orphans = "roots") -> None:
        self._orphans: Orphans = orphans

    def open(self, log: Log) -> Result[Loaded, Diagnostic]:
        """Take in a file whose `sniff` says v3, or an empty one. Never an error."""
        blocks = log.blocks()
        offset, first = next(blocks, (0, b""))
        header, version, odd, before = _find_header(first)
        loading = Loading(header, version=version, orphans=self._orphans)
        for diagnostic in odd:
            loading.odd(diagnostic.line, diagnostic.code, diagnostic.message)
        loading.number = first.count(b"\n", 0, before)
        for start, data in _rest(blocks, offset + before, first[before:]):
            loading.block(start, data)
        index = loading.finish()
        because = ""
        if not first:
            loading.diagnostics.clear()  # an empty file becomes a session: nothing is missing
        elif not version:
            because = "the file has no header; session.export(...) writes one that has"
        elif version > CURRENT:
            because = f"the file is of version {version}; pi's form is written here as {CURRENT}"
        return Ok(
            Loaded(
                index,
                loading.end,
                torn=loading.torn,
                unterminated=loading.unterminated,
                version=version or CURRENT,
                read_only=because,
                diagnostics=tuple(loading.diagnostics),
            )
        )

    def new_id(self, index: Index) -> str:
        return short_id(index.tree)

    def header_line(self, header: Header) -> bytes:
        wire = header.to_wire()
        line: dict[str, Any] = {
            "type": "session",
            "version": CURRENT,
            "id": header.id,
            "timestamp": iso(header.created_at),
            "cwd": header.cwd,
        }
        if header.legacy_parent_session_path is not None:
            line["parentSession"] = header.legacy_parent_session_path
        for name in ("version", "id", "createdAt", "cwd", "legacyParentSessionPath"):
            wire.pop(name, None)
        return _encoded({**line, **wire})

    def encode(self, value: Stored, index: Index) -> bytes:
        return _encoded(self._line(value, index))

    def _line(self, value: Stored, index: Index) -> dict[str, Any]:
        leaf = index.lanes["main"]
        said: dict[str, Any]
        match value:
            case Entry():
                return _entry_line(value)
            case NameFact(name=name):
                return self._own(index, leaf, "session_info", {"name": name or ""})
            case LabelFact(target_id=target, label=label):
                said = {"targetId": target, **({"label": label} if label else {})}
                return self._own(index, leaf, "label", said)
            case LaneMove(lane="main", leaf_id=under):
                return self._own(index, under, "custom", {"customType": LEAF})
            case Record(lane="main"):
                said = {"customType": RECORD, "data": value.to_wire()}
                return self._own(index, leaf, "custom", said)
        raise ValueError("a v3 session has one lane, main")

    def _own(
        self, index: Index, parent: str | None, type: str, said: dict[str, Any]
    ) -> dict[str, Any]:
        head = {"type": type, "id": self.new_id(index), "parentId": parent}
        return {**head, "timestamp": iso(now_ms()), **said}

    def check(self, line: bytes, index: Index) -> Result[tuple[Line, bytes], str]:
        try:
            read = read_line(line)
        except (ValueError, RecursionError) as error:
            return Err(why(error))
        complaint = None
        if read.id in index.tree:
            complaint = f"the id {read.id} is taken"
        elif read.parent_id is not None and read.parent_id not in index.tree:
            complaint = f"the parent {read.parent_id} is not there"
        elif read.type == "message" and read.role is None:
            complaint = "message without a message"
        return Err(safe_line(complaint, 200)) if complaint else Ok((read, line))

    def apply(self, change: tuple[Line, bytes], place: Place, index: Index) -> None:
        line, raw = change
        index.add_entry(
            line.id, line.parent_id, type=line.type, role=line.role, lane="main", place=place
        )
        note(index, line, raw, place)
        index.lines += 1

    def read(self, line: bytes) -> Stored:
        data = parsed(line)
        custom = data.get("customType") if data.get("type") == "custom" else None
        if custom == LEAF:
            return LaneMove(lane="main", leaf_id=data.get("id"))
        if custom == RECORD and isinstance(data.get("data"), dict):
            return _record(data["data"])
        entry = read_body({"id": "", "parentId": None, **data})
        match entry:
            case LabelEntry(target_id=target, label=label):
                return LabelFact(target_id=target, label=label or None)
            case SessionInfoEntry(name=name):
                return NameFact(name=trim(name or "") or None)
        return entry

    def entry(self, line: bytes, entry_id: str, index: Index) -> Entry:
        return read_body(as_v3(parsed(line), entry_id, index))

    def lane_of(self, entry: Entry) -> str | None:
        return "main"


def _record(data: dict[str, Any]) -> Record:
    """A record of ours; what somebody else wrote under its name is one without its fields."""
    try:
        return read_record(data)
    except ValueError:
        known = {"type": str(data.get("type")), "id": str(data.get("id"))}
        return Record.model_validate(known)


def _entry_line(entry: Entry) -> dict[str, Any]:
    body = entry.to_wire()
    for name in ("lane", "type", "id", "parentId", "timestamp"):
        body.pop(name, None)
    head = {"type": entry.type, "id": entry.id, "parentId": entry.parent_id}
    return {**head, "timestamp": iso(entry.timestamp), **body}


def _find_header(
    first: bytes,
) -> tuple[Header, int, list[Diagnostic], int]:
    """The header in a file's first block, its version (0: none), and where it ends."""
    odd: list[Diagnostic] = []
    start = 0
    for number in count(1):
        end = first.find(b"\n", start) + 1 or len(first)
        if start >= min(end, HEAD):
            break
        line = first[start:end]
        found = read_header(line)
        if found is not None:
            header, version, complaint = found
            if complaint:
                odd.append(Diagnostic(number, "odd_version", complaint))
            return header, version, odd, end
        if line.strip():
            odd.append(Diagnostic(number, "before_header", "a line before the session's header"))
        start = end
    missing = Diagnostic(1, "no_header", "the file has no session header")
    return Header(version=3, id="", created_at=0, cwd=""), 0, [missing], 0


def read_header(line: bytes) -> tuple[Header, int, str] | None:
    """A v1 to v3 header, its version, and what is odd about that; None for another line."""
    try:
        data = parsed(line)
    except (ValueError, RecursionError):
        return None
    if data.get("type") != "session" or not isinstance(data.get("id"), str) or not data["id"]:
        return None
    if not {"timestamp", "cwd", "version"} & data.keys():
        return None  # somebody else's log has such lines too
    version, complaint = _version(data.get("version", 1))
    known = ("type", "version", "id", "timestamp", "cwd", "parentSession", "metadata")
    fields: dict[str, Any] = {key: value for key, value in data.items() if key not in known}
    if isinstance(data.get("parentSession"), str):
        fields["legacyParentSessionPath"] = data["parentSession"]
    if isinstance(data.get("metadata"), dict):
        fields["metadata"] = data["metadata"]
    fields["cwd"] = data["cwd"] if isinstance(data.get("cwd"), str) else ""
    created = milliseconds(data.get("timestamp")) or 0
    header = {**fields, "version": version, "id": data["id"], "createdAt": created}
    try:
        return Header.model_validate(header), version, complaint
    except ValueError:
        bare = Header(version=version, id=data["id"], created_at=created, cwd=fields["cwd"])
        return bare, version, complaint


def _version(said: Any) -> tuple[int, str]:
    number = int(said) if isinstance(said, str) and said.strip().isdecimal() else said
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**31:
        return 1, f"the version is {safe_line(repr(said), 30)}; read as version 1"
    odd = f"the version is a text, {safe_line(repr(said), 30)}" if isinstance(said, str) else ""
    newer = f"the file is of version {number}, newer than what this program knows of pi's form"
    return number, odd or (f"{newer}: read as version {CURRENT}" if number > CURRENT else "")


def _rest(
    blocks: Iterator[tuple[int, bytes]], offset: int, first: bytes
) -> Iterator[tuple[int, bytes]]:
    if first:
        yield offset, first
    yield from blocks


def _encoded(line: dict[str, Any]) -> bytes:
    return dumps(scrub_data(line)).encode() + b"\n"
