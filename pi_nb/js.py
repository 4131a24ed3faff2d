"""Where JavaScript's answer differs from Python's and a file or an estimate depends on it.

Lengths are counted in UTF-16 code units, JSON is written as `JSON.stringify` writes it,
numbers included.
"""

from __future__ import annotations

import json
import math
from typing import Any


def utf16_len(text: str) -> int:
    """UTF-16 code units: one for `中`, two for `😀`, one for a lone surrogate."""
    if text.isascii():
        return len(text)
    return len(text) + sum(1 for char in text if char > "\uffff")


def number(value: float) -> str:
    """A finite number as JavaScript prints it: `1` for 1.0, `1e+21`, `1e-7`; else `null`."""
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    sign, digits, exponent = _shortest(value)
    point = len(digits) + exponent
    if 0 < point <= 21:
        text = digits[:point].ljust(point, "0")
        text += f".{digits[point:]}" if point < len(digits) else ""
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        power = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
        text = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "") + power
    return sign + text


def _shortest(value: float) -> tuple[str, str, int]:
    """Sign, shortest digits without trailing zeros, and the power of ten of the last one."""
    mantissa, _, power = f"{value!r}".lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, part = mantissa.lstrip("-").partition(".")
    digits = (whole + part).lstrip("0")
    stripped = digits.rstrip("0")
    exponent = int(power or 0) - len(part) + len(digits) - len(stripped)
    return sign, stripped, exponent


def dumps(value: Any) -> str:
    """JSON text as `JSON.stringify(value)` writes it: compact, raw unicode, its numbers.

    Lone surrogates are escaped (`\\ud83d`), as well-formed `JSON.stringify` does.
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(str(k))}:{dumps(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dumps, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        # Integers beyond 2**53 are doubles there; below it both print the same digits.
        return str(value) if abs(value) <= 2**53 else number(float(value))
    return number(float(value))


def _text(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    if any("\ud800" <= char <= "\udfff" for char in written):
        written = "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in written)
    return written
