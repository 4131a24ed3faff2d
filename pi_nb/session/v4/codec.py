"""Reads and writes v4 logs, and refuses whatever breaks a rule, with its line number.

Only a last line that a crash left unfinished is no error: it was never acknowledged, so
nobody relies on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from pi_nb.ids import uuid7
from pi_nb.js import dumps
from pi_nb.result import Err, Ok, Result
from pi_nb.session.codec import Loaded, Stored
from pi_nb.session.entries import Entry, read_entry, why
from pi_nb.session.index import Diagnostic, Index, Place
from pi_nb.session.jsonl import Log
from pi_nb.session.records import Header, LabelFact, LaneMove, NameFact, Record, read_record
from pi_nb.text import safe_line, scrub_data

from .lines import EntryLine, FactLine, HeaderLine, LaneLine, Line, RecordLine

BOM = b"\xef\xbb\xbf"

_HEADER = msgspec.json.Decoder(HeaderLine)
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)

# Fields of the line itself: a body cannot bring its own.
_OWN = ("kind", "seq")


class V4:
    """The codec of v4; see `pi_nb.session.codec.Codec` for the contract."""

    format: Literal["v4"] = "v4"
    one_lane = False

    def open(self, log: Log) -> Result[Loaded, Diagnostic]:
        return self.load(log.lines())

    def new_id(self, index: Index) -> str:
        return uuid7()

    def load(self, lines: Iterable[tuple[bytes, Place]]) -> Result[Loaded, Diagnostic]:
        """Check a whole file, line by line, and index it."""
        index: Index | None = None
        end = 0
        unterminated = False
        number = 0
        for number, (line, place) in enumerate(lines, 1):
            whole = line.endswith(b"\n")
            if index is None:
                header = _header(line.removeprefix(BOM))
                if isinstance(header, Err):
                    return Err(Diagnostic(1, "invalid_entry", header.error))
                index = Index(header.value)
            else:
                match self.check(line, index):
                    case Ok(change):
                        self.apply(change, place, index)
                    case Err(complaint):
                        # Half an object is never JSON, so what JSON can read was meant
                        # to be a line, and a wrong one is an error like any other.
                        if not whole and not _is_json(line):
                            return Ok(Loaded(index, end, torn=place.length))
                        return Err(Diagnostic(number, "invalid_entry", complaint))
            end += place.length
            unterminated = not whole
        if index is None:
            return Err(Diagnostic(1, "invalid_entry", "the file is empty"))
        return Ok(Loaded(index, end, unterminated=unterminated))

    def header_line(self, header: Header) -> bytes:
        return _encode({"kind": "header", **header.to_wire()})

    def encode(self, value: Stored, index: Index) -> bytes:
        body = value.to_wire()
        line: dict[str, Any] = {"kind": _kind(value), "seq": index.lines}
        if isinstance(value, Entry):
            # `parentId` is always written, null for a root; `lane` never as null.
            if body.get("lane") is None:
                body.pop("lane", None)
            line |= {"type": value.type, "id": value.id, "parentId": value.parent_id}
        line |= {key: item for key, item in body.items() if key not in _OWN}
        return _encode(line)

    def check(self, line: bytes, index: Index) -> Result[Line, str]:
        decoded = _decode(_LINE, line)
        if isinstance(decoded, Err):
            return decoded
        complaint = _complaint(decoded.value, index)
        return Err(safe_line(complaint, 200)) if complaint else decoded

    def apply(self, change: Line, place: Place, index: Index) -> None:
        match change:
            case EntryLine():
                index.add_entry(
                    change.id,
                    change.parent_id,
                    type=change.type,
                    role=None if change.message is UNSET else change.message.role,
                    lane=None if change.lane is UNSET else change.lane,
                    place=place,
                )
            case LaneLine():
                index.lanes[change.lane] = change.leaf_id
            case FactLine(fact="name"):
                index.name = change.name or None
            case FactLine():
                index.set_label(str(change.target_id), change.label or None)
            case RecordLine():
                index.records.append(place)
                if change.type == "operation_started":
                    index.open_operations[change.id] = place
                elif change.type == "operation_finished":
                    index.open_operations.pop(str(change.run_id), None)
        index.lines += 1

    def read(self, line: bytes) -> Stored:
        data = _plain(line)
        kind = data.pop("kind", None)
        data.pop("seq", None)
        match kind:
            case "entry":
                return read_entry(data)
            case "record":
                return read_record(data)
            case "lane":
                return LaneMove.model_validate(data)
            case "fact" if data.get("fact") == "name":
                return NameFact.model_validate(data)
            case "fact":
                return LabelFact.model_validate(data)
        raise ValueError(f"a line of kind {kind!r}")

    def entry(self, line: bytes, entry_id: str, index: Index) -> Entry:
        entry = self.read(line)
        assert isinstance(entry, Entry)
        return entry

    def lane_of(self, entry: Entry) -> str | None:
        return entry.lane


def _complaint(line: Line, index: Index) -> str | None:
    """What rule 16 has against this line as the next one; None where it is fine."""
    if line.seq != index.lines:
        return f"seq is {line.seq}, not {index.lines}"
    match line:
        case EntryLine():
            return _entry_complaint(line, index)
        case LaneLine(leaf_id=leaf) if leaf is not None and leaf not in index.tree:
            return f"lane {line.lane} is set to {leaf}, which is not there"
        case FactLine(fact="label", target_id=target) if target not in index.tree:
            return "a label without targetId" if target is UNSET else f"{target} is not there"
        case RecordLine(lane=lane) if lane not in index.lanes:
            return f"lane {lane} was never begun"
        case RecordLine(type="operation_started", intent=intent) if intent is UNSET:
            return "operation_started without intent"
        case RecordLine(type="operation_finished", run_id=run) if run is UNSET:
            return "operation_finished without runId"
    return None


def _entry_complaint(line: EntryLine, index: Index) -> str | None:
    if line.id in index.tree:
        return f"the id {line.id} is taken"
    if line.parent_id is not None and line.parent_id not in index.tree:
        return f"the parent {line.parent_id} is not there"
    if line.type == "custom" and line.custom_type is UNSET:
        return "custom without customType"
    if line.type == "message" and line.message is UNSET:
        return "message without a message"
    if line.lane is UNSET:
        return None
    if line.lane not in index.lanes:
        return f"lane {line.lane} was never begun"
    leaf = index.lanes[line.lane]
    if line.parent_id != leaf:
        return f"the parent is {line.parent_id}, but the leaf of {line.lane} is {leaf}"
    return None


def _header(line: bytes) -> Result[Header, str]:
    checked = _decode(_HEADER, line)
    if isinstance(checked, Err):
        return checked
    try:
        return Ok(Header.model_validate({k: v for k, v in _plain(line).items() if k != "kind"}))
    except ValueError as error:
        return Err(why(error))


def _decode(decoder: msgspec.json.Decoder[Any], line: bytes) -> Result[Any, str]:
    """Decode a line; its complaint names what is wrong and where in the line."""
    try:
        if not line.isascii():
            line.decode()  # msgspec looks at the UTF-8 of those strings only that it keeps
        if _may_hold_surrogates(line):
            line = _encode(_plain(line))
        return Ok(decoder.decode(line))
    except UnicodeDecodeError as error:
        return Err(f"not UTF-8 at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return Err(why(error))


def _may_hold_surrogates(line: bytes) -> bool:
    r"""Whether `\ud8..` to `\udf..` stands in the line, alone or as one of a pair."""
    return b"\\ud" in line or b"\\uD" in line


def _plain(line: bytes) -> dict[str, Any]:
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError("a line that is no object")
    # Escaped halves of a character can be read but never written again (known fault S-29).
    return scrub_data(data) if _may_hold_surrogates(line) else data


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _encode(line: dict[str, Any]) -> bytes:
    return dumps(scrub_data(line)).encode() + b"\n"


def _kind(value: Stored) -> str:
    match value:
        case Entry():
            return "entry"
        case Record():
            return "record"
        case LaneMove():
            return "lane"
        case _:
            return "fact"
