"""What a server's error says: the same reading for a body, an HTML page and an event.

Servers agree on nothing here. What is looked for, in this order: an `error` object with
`message`, `type` and `code`; an `error` text; `message`; `detail` (FastAPI); the title of a
page that a proxy put in the way; else the text itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any

from pi_nb.text import one_line, scrub

from .retry import Failure, classify

MESSAGE_LIMIT = 1_000
"""Characters of a server's own words that are kept."""

_TITLE = re.compile(r"<(title|h1)[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ServerError:
    """What went wrong on the other side, in its words."""

    message: str = ""
    codes: tuple[str, ...] = ()
    """Its machine-readable words, the most telling first."""
    status: int | None = None
    """The HTTP status, or the number an event gave instead of one."""
    retry_after: float | None = field(default=None, compare=False)

    @property
    def failure(self) -> Failure:
        """Its class: by the first of its codes that decides, with the words and the status."""
        asked = [
            classify(status=self.status, text=self.message, code=code, retry_after=self.retry_after)
            for code in (*self.codes, None)
        ]
        return next((failure for failure in asked if failure.kind != "unknown"), asked[-1])


def read_error(data: Any) -> ServerError:
    """An error from parsed JSON: a body, or the data of an event."""
    if isinstance(data, list) and data:
        return read_error(data[0])
    if not isinstance(data, dict):
        return ServerError(_clean(data) if isinstance(data, str) else "")
    error = data.get("error")
    if isinstance(error, dict):
        return _from_object(error)
    codes = tuple(data[key] for key in ("code", "type") if isinstance(data.get(key), str))
    number = data.get("code")
    status = number if isinstance(number, int) and not isinstance(number, bool) else None
    for words in (error, data.get("message"), _detail(data.get("detail"))):
        if isinstance(words, str) and words.strip():
            return ServerError(_clean(words), codes, status)
    return ServerError("", codes, status)


def _from_object(error: Mapping[str, Any]) -> ServerError:
    inner = read_error({key: value for key, value in error.items() if key != "error"})
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str):  # a router passes on what the provider behind it said
        inner = ServerError(_clean(f"{inner.message}: {raw}"), inner.codes, inner.status)
    return inner


def _detail(detail: Any) -> str | None:
    if isinstance(detail, list):
        texts = [item.get("msg") for item in detail if isinstance(item, dict)]
        return "; ".join(text for text in texts if isinstance(text, str))
    return detail if isinstance(detail, str) else None


def read_error_body(body: bytes, status: int, retry_after: float | None = None) -> ServerError:
    """An error from the body of a refused request, whatever form it has, empty included."""
    text = body.decode("utf-8", "replace").strip()
    try:
        found = read_error(json.loads(text))
    except (ValueError, RecursionError):
        found = ServerError(_clean(_page_words(text)))
    return ServerError(found.message, found.codes, status, retry_after)


def _page_words(text: str) -> str:
    if not text.startswith("<"):
        return text
    title = _TITLE.search(text)
    return unescape(_TAG.sub(" ", title[2] if title else text))


def _clean(text: str) -> str:
    return one_line(scrub(text), MESSAGE_LIMIT)


def read_retry_after(
    headers: Mapping[str, str], now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> float | None:
    """Seconds that a server asks to wait (`retry-after-ms`, `retry-after`), or None.

    A date counts from `now`; one in the past is zero. What cannot be read is None.
    """
    try:
        if (millis := headers.get("retry-after-ms")) is not None:
            return max(float(millis) / 1000, 0.0)
        value = headers.get("retry-after", "").strip()
        if not value:
            return None
        if re.fullmatch(r"[0-9.]+", value):
            return float(value)
        return max((parsedate_to_datetime(value) - now()).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
