"""The few fields of a v3 line that are kept when a file is opened.

A line is checked as JSON, whole; of its body only the fields here are looked at. What does
not fit this grammar is read again with more patience, by `loading`.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType

LEAF = "pi_nb.leaf"
"""`customType` of our own leaf moves: an entry under the new leaf."""
RECORD = "pi_nb.record"
"""`customType` of our own records: v3 has no place for them but the tree."""
OWN = frozenset({LEAF, RECORD})


class Head(Struct, gc=False):
    """Of a message, its role."""

    role: str


class RecordHead(Struct, gc=False, rename="camel"):
    type: str
    id: str
    run_id: str | UnsetType | None = UNSET


class Line(Struct, gc=False, rename="camel"):
    """An entry as a good v3 file has it."""

    type: str
    id: str
    parent_id: str | None
    message: Head | UnsetType = UNSET
    custom_type: str | UnsetType = UNSET
    target_id: str | UnsetType | None = UNSET
    label: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET

    @property
    def role(self) -> str | None:
        if self.message is UNSET:
            return None
        return self.message.role


class RecordLine(Struct, gc=False):
    data: RecordHead


_LINE = msgspec.json.Decoder(Line)
read_line = _LINE.decode
read_lines = _LINE.decode_lines
read_record_line = msgspec.json.Decoder(RecordLine).decode
