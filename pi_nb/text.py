"""Cutting and cleaning text without lying about it: every cut says what is missing.

Lines are split at byte 0x0A only. Python's `splitlines` also splits at U+2028 and its
like, which are ordinary characters inside a line of JSON or of a program's output.
"""

from __future__ import annotations

import re
from typing import Any

# ECMA-48: CSI; OSC, which stays on its line; DCS and its kin; two-byte escapes. A string
# ends at BEL or ST, or where the text was cut off. What matches none of these loses its
# escape character alone, so that nothing readable disappears with it.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|\x9b[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|\x1b\][^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\|\x9c|\Z)"
    r"|\x1b[PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|\Z)"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BACKTICKS = re.compile("`+")
_NO_LANGUAGE = re.compile(r"[^\w+#.-]")


def scrub(text: str) -> str:
    """Text that can be written as UTF-8: each lone surrogate becomes U+FFFD.

    Halves that stand side by side are one character, as they are in JavaScript.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def scrub_data(value: Any) -> Any:
    """Plain data with `scrub` done to every string in it, keys included."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {scrub(str(key)): scrub_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_data(item) for item in value]
    return value


def plain(text: str) -> str:
    """Terminal output as text: escapes gone, progress lines shown as they ended.

    A carriage return overwrites its line; what was there before it is dropped unless
    nothing follows. A backspace takes the character before it. CRLF is a line end. Give
    it the joined stream: an escape that is split over two pieces is none in either.
    """
    text = _ESCAPE.sub("", text).replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(map(_overwritten, text.split("\n")))
    return scrub(_CONTROL.sub("", text))


def _overwritten(line: str) -> str:
    shown = next((part for part in reversed(line.split("\r")) if part), "")
    if "\b" not in shown:
        return shown
    kept: list[str] = []
    for char in shown:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)


def clip(text: str, limit: int, *, what: str = "characters") -> str:
    """At most `limit` characters of the beginning, then a note of how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[{len(text) - limit:,} more {what} left out]"


def one_line(text: str, limit: int = 80) -> str:
    """The text on one line, cut with an ellipsis; for rows, titles and reprs."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: max(limit - 1, 0)] + "…"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 turn`, `2 turns`, `1,200 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def fence(code: str, language: str = "") -> str:
    """A fenced Markdown block that its content cannot close."""
    longest = max(map(len, _BACKTICKS.findall(code)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{_NO_LANGUAGE.sub('', language)}\n{scrub(code)}\n{mark}"
