"""Two readers of a tool call's argument text: one that may run it, one that may only show it.

A reader that completes what was cut makes a tool run with half a file (known fault L-05).
So what runs comes from `parse_object`, which takes a whole JSON object or nothing, and
what a view shows while the text arrives comes from `read_partial`, which never raises.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Literal

from pi_nb.text import scrub, scrub_data

MAX_DEPTH = 100
"""Objects and lists inside each other. Deeper text is hostile or broken, and would exhaust
the stack of whoever walks the data later (JSON writers, schema checks)."""

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"((?:[^"\\]+|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+)("?)')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[ \t\r\n,\]}])")
_WORD = re.compile(r"true|false|null")

_Kind = Literal["mark", "text", "open text", "value"]


def parse_object(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, or None for everything else.

    Text without anything but white space is `{}`: that is how models call a tool without
    arguments. None: cut or malformed text, junk after the object, another JSON value, NaN
    and numbers beyond what a double holds, more than `MAX_DEPTH` levels. Surrogate halves
    in strings are joined or replaced.
    """
    if not text.strip(" \t\r\n"):
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or _deeper_than(value, MAX_DEPTH):
        return None
    clean: dict[str, Any] = scrub_data(value)
    return clean


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} does not fit a double")
    return value


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def read_partial(text: str) -> dict[str, Any]:
    """What can be read of an object whose text may be cut anywhere, in linear time.

    A cut string is given as far as it came. A cut number, word, key or escape is left out,
    because its beginning says something else than the whole. Reading stops at the first
    thing that is no JSON; what came before it stays. Text that begins no object gives `{}`.
    """
    root: dict[str, Any] = {}
    stack: list[dict[str, Any] | list[Any]] = []
    name: str | None = None  # a string that will be a key if a colon follows
    key: str | None = None  # a key that waits for its value

    for kind, token in _tokens(text):
        if not stack:
            if kind != "mark" or token != "{":
                break
            stack.append(root)
            continue
        top = stack[-1]
        if kind == "mark":
            if token == ":":
                key, name = name, None
            elif token in "},]":
                key = name = None
            if token in "}]":
                stack.pop()
                if not stack:
                    break
            if token not in "{[":
                continue
            token = {} if token == "{" else []
        elif isinstance(top, dict) and key is None:
            if kind != "text":
                break
            name = token
            continue
        if isinstance(top, list):
            top.append(token)
        elif key is not None:
            top[key], key = token, None
        else:
            break
        if isinstance(token, dict | list):
            if len(stack) == MAX_DEPTH:
                break
            stack.append(token)
    return root


def _tokens(text: str) -> Iterator[tuple[_Kind, Any]]:
    """Marks, strings, numbers and words up to the first place that is none of them."""
    at = 0
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches nothing too
        if at >= len(text):
            return
        if text[at] in "{}[]:,":
            yield "mark", text[at]
            at += 1
        elif found := _STRING.match(text, at):
            closed = bool(found[2])
            yield ("text" if closed else "open text"), _unescaped(found[1], closed)
            if not closed:
                return
            at = found.end()
        elif found := _NUMBER.match(text, at) or _WORD.match(text, at):
            try:
                yield "value", json.loads(found[0], parse_float=_finite)
            except ValueError:  # too many digits for a number of this language
                return
            at = found.end()
        else:
            return


def _unescaped(inside: str, closed: bool) -> str:
    value: str = json.loads(f'"{inside}"', strict=False)
    if not closed and value and "\ud800" <= value[-1] <= "\udbff":
        value = value[:-1]  # its other half may still come
    return scrub(value)
