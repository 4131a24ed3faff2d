"""Globs: which paths below a folder are meant, in the form in which the tools print them.

    *.py             that name, at any depth
    src/*.ts         from the searched folder, with or without `./` before it
    src/**/test_*    `**` is any number of folders, also none; at the end, all that is there
    *.{ts,tsx}       one of these

Matching a path costs its length times the glob's, whatever stars there are: a model writes
the glob, and somebody else the names (known fault F-12 is why the rest is as it is).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pi_nb.result import Err, Ok, Result

_MAX_LENGTH = 1_000
_MAX_CHOICES = 100
_CLASS = re.compile(r"\[([!^]?)(\]?[^\]]*)\]")
_INNER_BRACES = re.compile(r"\{([^{}]*)\}")

_Segments = tuple[re.Pattern[str] | None, ...]
"""One pattern a name; None stands for `**`."""


@dataclass(frozen=True, slots=True)
class Glob:
    """Made by `glob_of`."""

    hidden: bool
    """It spells a name that begins with a dot, so such names are meant."""
    folders_only: bool
    """It ends in a slash."""
    _choices: tuple[_Segments, ...]

    def matches(self, path: str) -> bool:
        """Whether a path is meant; relative to the searched folder, without `./`."""
        names = path.split("/")
        return any(_matches(segments, names) for segments in self._choices)


def glob_of(text: str, folder: str) -> Result[Glob, str]:
    """Read a glob for a search in this absolute folder.

    Returns:
        The glob, or in words why it is none: empty, too long, or it leads out of the folder.
    """
    if len(text) > _MAX_LENGTH:
        return Err(f"The glob is longer than {_MAX_LENGTH:,} characters.")
    below = folder.rstrip("/") + "/"
    relative = text.removeprefix(below)
    while relative.startswith("./"):
        relative = relative[2:].lstrip("/")
    bare = relative.rstrip("/")
    names = bare.split("/")
    if not bare or bare == ".":
        return Err('The glob is empty. For everything use "**".')
    if bare.startswith("/") or text.startswith("~") or ".." in names:
        return Err("The glob leads out of the searched folder. Give that folder as path.")
    choices = _without_braces(bare)
    if choices is None:
        return Err(f"The braces of the glob stand for more than {_MAX_CHOICES} globs.")
    hidden = any(name.startswith(".") for one in choices for name in one.split("/"))
    segments = tuple(found for one in choices if (found := _segments(one)))
    return Ok(Glob(hidden, relative.endswith("/"), segments))


def _without_braces(text: str) -> list[str] | None:
    """The globs that its braces stand for; None if there are too many."""
    done: list[str] = []
    ahead = [text]
    while ahead:
        if len(ahead) + len(done) > _MAX_CHOICES:
            return None
        one = ahead.pop()
        if braces := _INNER_BRACES.search(one):
            before, after = one[: braces.start()], one[braces.end() :]
            ahead += [before + choice + after for choice in braces[1].split(",")]
        else:
            done.append(one)
    return done


def _segments(text: str) -> _Segments:
    names = [name for name in text.split("/") if name not in ("", ".")]
    if len(names) == 1 and names[0] != "**":
        names.insert(0, "**")  # a bare name is meant at any depth
    if names[-1:] == ["**"]:
        names.append("*")  # what is in a folder, not the folder
    return tuple(None if name == "**" else _name(name) for name in names)


def _name(text: str) -> re.Pattern[str]:
    """A regular expression that never tries a place twice.

    Between two stars the first place that fits is as good as any, so it is never given up
    (`(?>...)`); what follows the last star has one length, so its place is known.
    """
    first, *pieces = _pieces(text)
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[:-1])
    last = f".*{pieces[-1]}" if pieces else ""
    return re.compile(first + middle + last, re.DOTALL)


def _pieces(text: str) -> list[str]:
    """What stands between the stars, as regular expressions of one length."""
    pieces = [""]
    at = 0
    while at < len(text):
        char = text[at]
        if char == "*":
            pieces.append("")
        elif char == "?":
            pieces[-1] += "."
        elif char == "[" and (found := _CLASS.match(text, at)):
            pieces[-1] += _class(found[1], found[2])
            at = found.end()
            continue
        elif char == "\\" and at + 1 < len(text):
            at += 1
            pieces[-1] += re.escape(text[at])
        else:
            pieces[-1] += re.escape(char)
        at += 1
    return pieces


def _class(negated: str, members: str) -> str:
    """A class of characters. A range that runs backwards holds nothing."""
    inside = ""
    at = 0
    while at < len(members):
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            low, high = members[at], members[at + 2]
            inside += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
            at += 3
        else:
            inside += re.escape(members[at])
            at += 1
    if not inside:
        return "." if negated else "(?!)."
    return f"[{'^' if negated else ''}{inside}]"


def _matches(segments: _Segments, names: list[str]) -> bool:
    at = place = 0
    retry: tuple[int, int] | None = None
    """After the last `**`: the segment, and the name to try it at next."""
    while at < len(names):
        segment = segments[place] if place < len(segments) else None
        if place < len(segments) and segment is None:
            place += 1
            retry = (place, at)
        elif segment is not None and segment.fullmatch(names[at]):
            at, place = at + 1, place + 1
        elif retry is not None:
            retry = (retry[0], retry[1] + 1)
            place, at = retry
        else:
            return False
    return all(segment is None for segment in segments[place:])
