"""The grammar of a v4 line: the few fields that are kept when a file is opened.

A whole line is checked as JSON; of its body only the fields here are looked at (rule 16).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Whole = Annotated[int, Meta(ge=0, le=2**53)]
"""Up to what a JavaScript number can count."""
EntryType = Literal[
    "message",
    "model_change",
    "thinking_level_change",
    "active_tools_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "context_edit",
]
RecordType = Literal[
    "operation_started",
    "operation_finished",
    "abort_requested",
    "step_attempt",
    "tool_started",
    "queue_enqueued",
    "queue_cancelled",
    "write_deferred",
    "usage",
    "proposal",
    "approval",
]


class HeaderLine(Struct, tag_field="kind", tag="header", rename="camel"):
    version: Literal[4]
    id: str
    created_at: Whole
    cwd: str


class Numbered(Struct, tag_field="kind", rename="camel"):
    """Every line after the header: its number in a row from 1."""

    seq: int


class Head(Struct):
    """Of a message, its role."""

    role: str


class EntryLine(Numbered, tag="entry"):
    type: EntryType
    id: str
    parent_id: str | None
    timestamp: Whole
    lane: str | UnsetType = UNSET
    custom_type: str | UnsetType = UNSET
    message: Head | UnsetType = UNSET


class LaneLine(Numbered, tag="lane"):
    lane: str
    leaf_id: str | None


class FactLine(Numbered, tag="fact"):
    fact: Literal["name", "label"]
    name: str | UnsetType | None = UNSET
    label: str | UnsetType | None = UNSET
    target_id: str | UnsetType = UNSET


class Intent(Struct):
    kind: Literal["run", "compaction", "navigation"]


class RecordLine(Numbered, tag="record"):
    type: RecordType
    id: str
    lane: str
    timestamp: Whole
    intent: Intent | UnsetType = UNSET
    run_id: str | UnsetType = UNSET


Line = EntryLine | LaneLine | FactLine | RecordLine
