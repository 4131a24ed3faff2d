"""Cutting and cleaning text without lying about it: every cut says what is missing.

Lines are split at byte 0x0A only. Python's `splitlines` also splits at U+2028 and its
like, which are ordinary characters inside a line of JSON or of a program's output.
"""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")

# ECMA-48: CSI and OSC (and their kin, ended by BEL or ST), two-byte escapes, lone ST.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|\x1b$"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def scrub(text: str) -> str:
    """Replace lone surrogates by U+FFFD, so that the text can be written as UTF-8."""
    return _SURROGATE.sub("\ufffd", text) if not text.isascii() else text


def plain(text: str) -> str:
    """Terminal output as text: escapes gone, progress lines shown as they ended.

    A carriage return overwrites its line; what was there before it is dropped unless
    nothing follows. CRLF is a line end.
    """
    text = _ESCAPE.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(_overwritten(line) for line in text.split("\n"))
    return scrub(_CONTROL.sub("", text))


def _overwritten(line: str) -> str:
    shown = [part for part in line.split("\r") if part]
    return shown[-1] if shown else ""


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
