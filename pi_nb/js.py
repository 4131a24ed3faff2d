"""Where JavaScript's answer differs from Python's and a file or an estimate depends on it.

Lengths are counted in UTF-16 code units, JSON is written as `JSON.stringify` writes it,
numbers included, and space is what JavaScript takes for it.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, SupportsFloat

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def utf16_len(text: str) -> int:
    """UTF-16 code units: one for `中`, two for `😀`, one for a lone surrogate."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def trim(text: str) -> str:
    """Text as `String.prototype.trim` leaves it: a byte order mark is space there, U+0085 and
    the separators U+001C to U+001F are none."""
    return text.strip(_SPACE)


def well_paired(text: str) -> str:
    """Join surrogate halves that stand side by side, as they do when two pieces of a stream
    meet in the middle of a character. Lone ones stay."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


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

    Keys keep the order they have here; tuples are arrays; anything that has a float value
    (NumPy's numbers, `Decimal`) is a number. Integers beyond 2**53 are rounded to what a
    JavaScript number can hold, beyond its range they are `null`, as infinities are. Lone
    surrogates are escaped (`\\ud83d`).

    Raises:
        TypeError: something in `value` has no JSON form.
        ValueError: it is nested hundreds of levels deep, or holds itself.
    """
    pieces: list[str] = []
    try:
        _write(value, pieces)
    except RecursionError:
        raise ValueError("nested too deeply for JSON, or holds itself") from None
    return "".join(pieces)


def _write(value: Any, pieces: list[str]) -> None:
    # One frame a level, so that whatever `json.loads` read can be written again.
    if isinstance(value, str):
        pieces.append(_text(value))
    elif isinstance(value, dict):
        before = "{"
        for key, item in value.items():
            short = isinstance(key, str) and len(key) < 64
            pieces.append(f"{before}{_name(key) if short else _text(_key(key))}:")
            _write(item, pieces)
            before = ","
        pieces.append("}" if value else "{}")
    elif isinstance(value, list | tuple):
        before = "["
        for item in value:
            pieces.append(before)
            _write(item, pieces)
            before = ","
        pieces.append("]" if value else "[]")
    else:
        pieces.append(_scalar(value))


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) <= 2**53:
        return str(int(value))
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"{type(value).__name__} has no JSON form")
    try:
        return number(float(value))
    except OverflowError:
        return "null"


def _key(key: Any) -> str:
    return key if isinstance(key, str) else _scalar(key)


@lru_cache(maxsize=1024)
def _name(key: str) -> str:
    """A key is one of a few dozen names, again and again."""
    return _text(key)


def _text(text: str) -> str:
    written = encode_basestring(well_paired(text))
    if not written.isascii() and _SURROGATE.search(written):
        return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", written)
    return written
