"""Which format a file has, from its first bytes; the rest of the file is not looked at."""

from __future__ import annotations

import json
from typing import Any, Literal

from .v3.codec import read_header

Kind = Literal["v4", "v3", "empty", "foreign"]

LIMIT = 1 << 16
"""Bytes that are looked at. A header is a few hundred."""

_V3_TYPES = frozenset(
    {
        "message",
        "model_change",
        "thinking_level_change",
        "active_tools_change",
        "compaction",
        "branch_summary",
        "context_edit",
        "custom",
        "custom_message",
        "label",
        "session_info",
        "usage",
    }
)


def sniff(head: bytes) -> Kind:
    """The format of a file that begins so; `foreign` is anything that is no session.

    `v3` stands for pi's own files, versions 1 to 3. A header of theirs may come after other
    lines, and may be missing where the first line is an entry as pi writes them. Other
    programs' logs have lines of the same types, but not with these fields.
    """
    if not head.strip(b"\xef\xbb\xbf \t\r\n\x00"):
        return "empty" if not head else "foreign"
    lines = head[:LIMIT].split(b"\n")
    first = next(filter(None, map(_object, lines)), {})
    if first.get("kind") == "header" and _object(lines[0]) == first:
        return "v4"
    if any(read_header(line) for line in lines) or _is_entry(first):
        return "v3"
    return "foreign"


def _is_entry(data: dict[str, Any]) -> bool:
    named = isinstance(data.get("id"), str) and isinstance(data.get("timestamp"), str)
    return named and "parentId" in data and data.get("type") in _V3_TYPES


def _object(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line.removeprefix(b"\xef\xbb\xbf").strip())
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
