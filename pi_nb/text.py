"""Cutting and cleaning text without lying about it: every cut says what is missing.

Lines are split at byte 0x0A only. Python's `splitlines` also splits at U+2028 and its
like, which are ordinary characters inside a line of JSON or of a program's output.
"""

from __future__ import annotations

import re
from typing import Any

# ECMA-48: CSI, strings (OSC and their kin, ended by BEL or ST), two-byte escapes. A string
# stays on its line, and everything has a longest form: otherwise two stray bytes would swallow
# all that follows. What matches none of these loses its introducer alone, so that nothing
# readable disappears with it. No class holds a character that begins another escape, which
# keeps the search linear.
_CSI = r"(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,16}"
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\n\r\x1b\x80-\x9f]{0,65536}"
_ESCAPE = re.compile(rf"{_CSI}[@-~]|{_STRING}(?:\x07|\x1b\\|\x9c)|\x1b[ -/]{{0,16}}[0-~]")
_UNFINISHED = re.compile(rf"(?:{_CSI}|{_STRING}\x1b?|\x1b[ -/]{{0,16}})\Z")
# Tab, newline, carriage return and backspace have a meaning in a line.
_CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Controls but for tab, other line ends, marks that turn the direction, lone surrogates.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
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
    it the joined stream: an escape that is split over two pieces is none in either. One
    that the end cuts off is dropped.
    """
    text, _ = without_escapes(text)
    if "\r" in text or "\b" in text:
        text = "\n".join(map(overwritten, text.split("\n")))
    return scrub(text)


def without_escapes(text: str) -> tuple[str, str]:
    """Escapes and controls gone; tab, newline, carriage return and backspace stay.

    Returns:
        The text, and apart from it an escape at its end that may go on in what comes next:
        put that before the next piece of a stream.
    """
    if not _CONTROL.search(text):
        return text, ""
    held = ""
    if cut := _UNFINISHED.search(text):
        text, held = text[: cut.start()], cut.group()
    return _CONTROL.sub("", _ESCAPE.sub("", text)), held


def overwritten(line: str) -> str:
    """One line as its carriage returns and backspaces leave it."""
    return backspaced(next((part for part in reversed(line.split("\r")) if part), ""))[0]


def backspaced(text: str) -> tuple[str, int]:
    """What backspaces leave of it, and how many characters before it they take as well."""
    if "\b" not in text:
        return text, 0
    kept: list[str] = []
    before = 0
    for char in text:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
        else:
            before += 1
    return "".join(kept), before


def clip(text: str, limit: int, *, what: str = "characters") -> str:
    """At most `limit` characters of the beginning, then a note of how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[{len(text) - limit:,} more {what} left out]"


def one_line(text: str, limit: int = 80) -> str:
    """The text on one line, cut with an ellipsis; for rows, titles and reprs."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: max(limit - 1, 0)] + "…"


def safe_line(text: str, limit: int = 80) -> str:
    """The beginning of somebody else's text on one line, with nothing a terminal would obey,
    and nothing that makes it read in another order.

    It looks at no more than a few times `limit` characters, however long the text is.
    """
    return straight(_plain_line(text, limit))


def _plain_line(text: str, limit: int) -> str:
    return one_line(plain(text[: 4 * limit]), limit)


def visible(text: str) -> str:
    """Somebody else's name or line on one line, with what cannot be seen spelled as an escape.

    Nothing is lost and nothing is obeyed: a line end is a backslash and an `n`, and half a
    character is a backslash, a `u` and its number. A tab stays.
    """
    return _UNSEEN.sub(lambda match: repr(match.group())[1:-1], text)


def straight(text: str) -> str:
    """Text that reads in the order it is stored: overrides and isolates are spelled as escapes.

    They can make a command look like another one, and reach beyond their own paragraph.
    Letters that run from right to left do so by themselves, and stay.
    """
    return _TURNS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def quoted(text: str, limit: int = 40) -> str:
    """Somebody else's text for a repr: quoted, at most `limit` characters between the quotes.

    What is not to be seen, such as marks that turn the direction of a line, is escaped.
    """
    whole = repr(_plain_line(text, limit))  # which spells what turns a line around
    mark, inside = whole[0], whole[1:-1]
    return f"{mark}{inside if len(inside) <= limit else inside[: limit - 1] + '…'}{mark}"


def unquoted(text: str, limit: int = 40) -> str:
    """The same without quotes, for names."""
    return quoted(text, limit)[1:-1]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 turn`, `2 turns`, `1,200 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def fence(code: str, language: str = "") -> str:
    """A fenced Markdown block that its content cannot close."""
    longest = max(map(len, _BACKTICKS.findall(code)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{_NO_LANGUAGE.sub('', language)}\n{scrub(code)}\n{mark}"
