"""Reads entries of v3 files, those too that lack something or hold it in another form.

Nothing is refused: what fits no class comes back as a plain `Entry`, which is shown by its
type and sent to nobody. What is made up is what the entry's neighbours would say, never
the clock: a file reads the same every time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from pi_nb.messages import UnknownMessage, read_message
from pi_nb.session.entries import Entry, read_v3_entry
from pi_nb.text import scrub_data

_REQUIRED: dict[str, dict[str, Any]] = {
    "model_change": {"provider": "", "modelId": ""},
    "thinking_level_change": {"thinkingLevel": "off"},
    "active_tools_change": {"activeToolNames": []},
    "compaction": {"summary": ""},
    "branch_summary": {"summary": ""},
    "custom": {"customType": ""},
    "custom_message": {"customType": "", "content": ""},
    "label": {"targetId": ""},
}
_MESSAGE: dict[str, dict[str, Any]] = {
    "user": {"content": ""},
    "system": {"content": ""},
    "toolResult": {"toolCallId": ""},
    "bashExecution": {"command": ""},
    "custom": {"customType": "", "content": ""},
    "hookMessage": {"customType": "", "content": ""},
    "branchSummary": {"summary": ""},
    "compactionSummary": {"summary": ""},
}
_BLOCK: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": ""},
    "image": {"data": "", "mimeType": ""},
    "toolCall": {"id": "", "name": "", "arguments": {}},
}
_MOST_ODD = 16
_Form = Callable[[Mapping[str, Any]], dict[str, Any]]
_STOPS = ("stop", "length", "toolUse", "error", "aborted", "deferred")


def parsed(line: bytes) -> dict[str, Any]:
    """The object of a line that `loading` took for an entry."""
    text = line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n\x00")
    data = read_json(text.decode(errors="replace"))
    if not isinstance(data, dict):
        raise ValueError("a line that is no object")
    return scrub_data(data) if b"\\ud" in line or b"\\uD" in line else data


def read_json(text: str) -> Any:
    """JSON as pi reads it: `NaN` and `Infinity`, which Python would take, are none.

    Raises:
        ValueError, RecursionError: it is no JSON.
    """
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def read_body(data: Mapping[str, Any]) -> Entry:
    """An entry from the object of its line, which has an id and a parent by now."""
    moment = milliseconds(data.get("timestamp")) or _said_at(data) or 0
    data = {**data, "timestamp": moment}
    if not isinstance(data.get("lane", ""), str):
        del data["lane"]  # somebody else's field; v3 has no lanes
    message = data.get("message")
    if isinstance(message, dict) and not isinstance(message.get("timestamp"), int):
        said = milliseconds(message.get("timestamp"))
        data["message"] = {**message, "timestamp": moment if said is None else said}
    forms: tuple[_Form, ...] = (dict, _completed, _mended)
    for form in forms:
        try:
            return read_v3_entry(form(data))
        except (ValueError, RecursionError):
            continue
    return Entry.model_validate(
        {**data, "type": str(data.get("type")), "id": data["id"], "parentId": data["parentId"]}
    )


def milliseconds(stamp: Any) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 text, or of a number that is that already."""
    if isinstance(stamp, bool):
        return None
    if isinstance(stamp, int | float):
        return int(stamp) if 0 <= stamp < 2**53 else None
    if not isinstance(stamp, str):
        return None
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # Not `timestamp()`: a float of seconds does not hold every millisecond.
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(stamp: int) -> str:
    """The form of a time in v3: UTC, with milliseconds, as JavaScript writes it."""
    try:
        moment = datetime.fromtimestamp(stamp // 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        moment, stamp = _EPOCH, 0
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{stamp % 1_000:03}Z"


def _said_at(data: Mapping[str, Any]) -> int | None:
    message = data.get("message")
    return milliseconds(message.get("timestamp")) if isinstance(message, dict) else None


def _completed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The object with what its type needs; what is there stays unless it cannot be read."""
    full = _filled(data, _REQUIRED.get(str(data.get("type")), {}))
    if isinstance(full.get("message"), dict):
        full["message"] = _message(full["message"])
    elif full.get("type") == "message":
        full["message"] = UnknownMessage(role="", timestamp=full["timestamp"])
    if full.get("type") == "custom_message":
        full["content"] = _content(full["content"])
    if full.get("type") == "compaction":
        full = _filled(full, {"firstKeptEntryId": "", "tokensBefore": 0})
        tail = full.get("retainedTail")
        if isinstance(tail, list):
            full["retainedTail"] = [_message(item) for item in tail if _is_message(item)]
    if isinstance(full.get("systemMessage"), dict):
        full["systemMessage"] = _message(full["systemMessage"])
    for field in ("usage", "details", "retainedTail", "systemMessage"):
        if field in full and not isinstance(full[field], dict | list):
            del full[field]
    return full


def _mended(data: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what its class refuses: one odd field does not unsay the others."""
    full = _completed(data)
    message = full.get("message")
    if isinstance(message, dict):
        full["message"] = read_message(_fitting(message, read_message))
    return _fitting(full, read_v3_entry)


def _fitting(data: dict[str, Any], read: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The data without what `read` complains of, part by part; a few parts at most."""
    for _ in range(_MOST_ODD):
        try:
            read(data)
        except ValidationError as error:
            rest = _without(data, error.errors(include_url=False)[0]["loc"])
        else:
            break
        if rest is None:
            break
        data = rest
    return data


def _without(data: dict[str, Any], where: Sequence[int | str]) -> dict[str, Any] | None:
    """A copy without the innermost part that a complaint leads to; None: it leads nowhere."""
    way = _way(data, where)
    if not way:
        return None
    whole = dict(data)
    part: Any = whole
    for step in way[:-1]:
        part[step] = part[step].copy()
        part = part[step]
    del part[way[-1]]
    return whole


def _way(data: Any, where: Sequence[int | str]) -> tuple[int | str, ...]:
    """The steps of a complaint that are parts of the data. Others name classes, and may be
    called as a part is: `text` is a block and its text."""
    if not where:
        return ()
    passed = _way(data, where[1:])
    if not _holds(data, where[0]):
        return passed
    taken = (where[0], *_way(data[where[0]], where[1:]))
    return taken if len(taken) > len(passed) else passed


def _holds(data: Any, step: int | str) -> bool:
    if isinstance(data, list):
        return isinstance(step, int) and step < len(data)
    return isinstance(data, dict) and step in data


def _is_message(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get("role"), str)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    full = _filled(message, _MESSAGE.get(str(message.get("role")), {}))
    full["timestamp"] = milliseconds(full.get("timestamp")) or 0
    if "content" in full:
        full["content"] = _content(full["content"])
    if full.get("role") == "assistant":
        if full.get("stopReason") not in _STOPS:
            full.pop("stopReason", None)
        for field in ("api", "provider", "model"):
            if not isinstance(full.get(field, ""), str):
                full[field] = ""
    if not _numbers(full.get("usage")):
        full.pop("usage", None)
    return full


def _content(content: Any) -> Any:
    if content is None:
        return ""
    if not isinstance(content, list):
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return [
        _filled(block, _BLOCK.get(str(block.get("type")), {"type": "unknown"}))
        if isinstance(block, dict)
        else {"type": "text", "text": block if isinstance(block, str) else ""}
        for block in content
    ]


def _filled(given: Mapping[str, Any], required: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, and the required value where a field is missing or of another kind."""
    full = dict(given)
    for name, value in required.items():
        found = full.get(name)
        fits = isinstance(found, type(value)) or (name == "content" and found is not None)
        if not fits:
            full[name] = value
    return full


def _numbers(usage: Any) -> bool:
    """Whether a usage can be read: numbers, and a cost of numbers."""
    if not isinstance(usage, dict):
        return False
    cost = usage.get("cost", {})
    values = [value for name, value in usage.items() if name != "cost"]
    values += cost.values() if isinstance(cost, dict) else [None]
    return all(isinstance(value, int | float) for value in values)
