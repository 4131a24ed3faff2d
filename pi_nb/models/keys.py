"""Keys: held here, sent in a header, and never shown, not even their first letters.

A notebook is saved and shared with everything that was printed into it, so no repr, error
or event may hold key material (known fault Z-01). Servers echo keys in their errors, whole
or with stars in the middle; `scrub_keys` takes out both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

HIDDEN = "[key]"
ApiKey = str | Callable[[], str | None] | None
"""A key, a function that gives it when a request is made, or none."""

_TOKEN = re.compile(r"[^\s\"'`<>(){}\[\],;:=]+")
_MASKED = re.compile(r"\*{2,}|\.{3}|…")
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|gsk|xai|hf)[-_][A-Za-z0-9_\-*.]{6,}"
    r"|(?<=\bBearer )\S+"
    r"|\bAIza[A-Za-z0-9_\-*]{8,}",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"^(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
_SHORTEST_KEY = 4
_SHORTEST_PART = 6
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


class Key:
    """An API key that does not show itself."""

    __slots__ = ("_source",)

    def __init__(self, source: ApiKey = None) -> None:
        self._source = source

    def __repr__(self) -> str:
        return f"Key({'none' if self._source is None else 'set'})"

    def __reduce__(self) -> tuple[type[Key], tuple[()]]:
        # A copy in a file or another process would be a key in a file.
        return (Key, ())

    @property
    def is_set(self) -> bool:
        """Whether there is a key, or a function to ask for one."""
        return self._source is not None

    def read(self) -> str:
        """The key's text without white space around it; empty where there is none.

        Asked at every request, so a function may renew it. What that function raises goes
        through to the caller.
        """
        found = self._source() if callable(self._source) else self._source
        return (found or "").strip()


def bearer(secret: str) -> dict[str, str]:
    """The header that carries a key; nothing where there is none."""
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def secret_values(headers: Mapping[str, str]) -> list[str]:
    """The values of headers that carry a secret, by their names, without the word `Bearer`."""
    return [
        _SCHEME.sub("", value) for name, value in headers.items() if _SECRET_HEADER.search(name)
    ]


def scrub_keys(text: str, secrets: Iterable[str] = ()) -> str:
    """Text without key material: `[key]` in the place of each.

    Taken out are the secrets themselves, parts of them from six characters on, words that
    are masked in the way servers mask keys, and what looks like a key of a well-known form.
    A secret of less than four characters is none, and stays.
    """
    known = [secret for secret in secrets if len(secret) >= _SHORTEST_KEY]
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)

    def hidden(found: re.Match[str]) -> str:
        word = found[0]
        part = len(word) >= _SHORTEST_PART and any(word in secret for secret in known)
        return HIDDEN if part or (_MASKED.search(word) and _like(word, known)) else word

    if known:
        text = _TOKEN.sub(hidden, text)
    return _LOOKS_LIKE_A_KEY.sub(HIDDEN, text)


def scrub_keys_data(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Plain data with `scrub_keys` done to every string in it, names included."""
    known = tuple(secrets)
    if isinstance(value, str):
        return scrub_keys(value, known)
    if isinstance(value, dict):
        return {
            scrub_keys(str(name), known): scrub_keys_data(item, known)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [scrub_keys_data(item, known) for item in value]
    return value


def _like(masked: str, secrets: Iterable[str]) -> bool:
    """What the mask leaves to see is the beginning or the end of one of the secrets."""
    parts = [part for part in _MASKED.split(masked) if part]
    return bool(parts) and any(
        secret.startswith(parts[0]) or secret.endswith(parts[-1]) for secret in secrets
    )


def shown_url(url: str) -> str:
    """A URL without what may be secret in it: user, password, query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(no URL)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
