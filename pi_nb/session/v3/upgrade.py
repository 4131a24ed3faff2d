"""Makes v3 lines of a v1 or v2 file. The ids are those that opening the file gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pi_nb.js import dumps
from pi_nb.session.index import Index, Place

from .bodies import parsed


def upgraded(lines: Iterable[tuple[bytes, Place]], index: Index) -> Iterator[bytes]:
    """The lines of the file as v3 has them; those that hold no entry stay as they are."""
    entries = {index.place_of(entry_id).offset: entry_id for entry_id in index.tree}
    begun = False
    for line, place in lines:
        entry_id = entries.get(place.offset)
        if entry_id is not None:
            yield _encoded(as_v3(parsed(line), entry_id, index))
        elif not begun and (header := _header(line)):
            begun = True
            yield _encoded({"type": "session", "version": 3, **header})
        else:
            yield line if line.endswith(b"\n") else line + b"\n"


def as_v3(data: dict[str, Any], entry_id: str, index: Index) -> dict[str, Any]:
    """The object of an entry with its id and parent, and the names of v3 for what it says."""
    rest = {key: value for key, value in data.items() if key not in ("type", "id", "parentId")}
    said = data.get("parentId")  # not in every file a text
    parent = said if isinstance(said, str) and said else index.tree.parent(entry_id)
    if "firstKeptEntryIndex" in rest:
        place = rest.pop("firstKeptEntryIndex")
        if "firstKeptEntryId" not in rest and isinstance(place, int):
            rest["firstKeptEntryId"] = _kept(place, index)
    message = rest.get("message")
    if isinstance(message, dict) and message.get("role") == "hookMessage":
        rest["message"] = {**message, "role": "custom"}
    return {"type": data.get("type"), "id": entry_id, "parentId": parent, **rest}


def _kept(place: int, index: Index) -> str:
    """The entry that v1 named by its place among header and entries, from 0 (rule 15)."""
    found = index.tree.id_at(place) if 0 < place <= len(index.tree) else None
    return found or ""


def _header(line: bytes) -> dict[str, Any] | None:
    try:
        data = parsed(line)
    except (ValueError, RecursionError):
        return None
    if data.get("type") != "session":
        return None
    return {key: value for key, value in data.items() if key not in ("type", "version")}


def _encoded(data: dict[str, Any]) -> bytes:
    return dumps(data).encode() + b"\n"
