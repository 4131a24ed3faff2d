"""Replacing pieces of a text without touching anything else.

The pieces are looked for in a *view* of the text in which line ends are all alike, and if
that fails in one in which quotes, dashes, widths and trailing spaces are alike too. What
is found is mapped back, and only that part of the text changes (known faults F-01 to F-03,
F-05).

    text   "a\\r\\nb  \\n"     view   "a\\nb\\n"     a view knows what it left out, and where
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from pi_nb.result import Err, Ok, Result
from pi_nb.text import one_line

from .diff import common_prefix

_BOM = "\ufeff"
_LINE_END = re.compile(r"\r(?=\n)")
# Looking behind keeps it linear: a run of spaces is tried once, from its beginning.
_LINE_END_AND_SPACES = re.compile(r"(?<![ \t])[ \t]+(?=\r?\n|\Z)|\r(?=\n)")

_WIDE = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_ALIKE = str.maketrans(
    dict.fromkeys("‘’‚‛′", "'")
    | dict.fromkeys("“”„‟″", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u205f\u3000", " ")
    | _WIDE
)

_COMPARED_LINES = 5_000
_COMPARED_LINE = 300


@dataclass(frozen=True, slots=True)
class Replacement:
    """`old` occurs once in the text and becomes `new`."""

    old: str
    new: str


def replace(text: str, wanted: Sequence[Replacement]) -> Result[str, str]:
    """Make all replacements, each found in the original text, or none of them.

    A byte order mark at the beginning is kept and never matched. Line ends in `old` match
    any style; what `old` and `new` have in common at their ends stays as it is in the
    text; new line ends take the style of those they replace, else of the next one.

    Returns:
        The new text, or why not, in a line for each replacement that cannot be made:
        `old` is empty, is not there (with the closest line), is there more than once (with
        the count), overlaps another, or changes nothing.
    """
    exact = _View(text, _LINE_END)
    loose: _View | None = None
    found: list[_Found] = []
    problems: list[str] = []
    for index, one in enumerate(wanted):
        match = _find(exact, one, loose=False)
        if match is None:
            loose = loose or _View(text, _LINE_END_AND_SPACES, _ALIKE)
            match = _find(loose, one, loose=True)
        if match is None:
            match = f"the text to replace is not in the file. {_closest(text, one.old)}"
        if isinstance(match, str):
            problems.append(f"edits[{index}]: {match}")
        else:
            found.append(_Found(index, *match))
    found.sort(key=lambda one: one.start)
    for a, b in pairwise(found):
        if b.start < a.end:
            problems.append(f"edits[{a.index}] and edits[{b.index}] overlap; make them one.")
    if problems:
        return Err("\n".join(problems))
    return Ok(_made(text, found))


@dataclass(frozen=True, slots=True)
class _Found:
    """A match: where it is in the text, and the part of it that changes to what."""

    index: int
    start: int
    end: int
    core_start: int
    core_end: int
    new: str


def _made(text: str, found: Sequence[_Found]) -> str:
    pieces: list[str] = []
    at = 0
    for one in found:
        pieces += (text[at : one.core_start], one.new)
        at = one.core_end
    pieces.append(text[at:])
    return "".join(pieces)


class _View:
    """A text with some characters left out and others replaced one by one."""

    def __init__(
        self, original: str, left_out: re.Pattern[str], alike: dict[int, str] | None = None
    ) -> None:
        self.original = original
        pieces: list[str] = []
        at = length = 0
        # Where something is left out: the place in the view, and how much up to there.
        self._places: list[int] = []
        self._sums: list[int] = [0]
        if original.startswith(_BOM):
            self._places.append(0)
            self._sums.append(1)
            at = 1
        for match in left_out.finditer(original, at):
            piece = original[at : match.start()]
            pieces.append(piece)
            length += len(piece)
            at = match.end()
            self._places.append(length)
            self._sums.append(self._sums[-1] + len(match.group()))
        pieces.append(original[at:])
        self.text = "".join(pieces)
        if alike:
            self.text = self.text.translate(alike)

    def place(self, at: int) -> int:
        """The place in the original; before what is left out there, except a byte order mark."""
        index = bisect_left(self._places, at)
        if at == 0 and self.original.startswith(_BOM):
            index = 1
        return at + self._sums[index]


def _find(
    view: _View, one: Replacement, *, loose: bool
) -> tuple[int, int, int, int, str] | str | None:
    """The match, or None where there is none, or in words why it is none."""
    old = one.old.removeprefix(_BOM).replace("\r\n", "\n")
    new = one.new.removeprefix(_BOM).replace("\r\n", "\n")
    if not old:
        return "the text to replace is empty. To make a file, use write."
    if old == new:
        return "the text to replace and the new text are the same."
    sought = _View(old, _LINE_END_AND_SPACES, _ALIKE) if loose else _View(old, _LINE_END)
    if not sought.text:
        return None
    start = view.text.find(sought.text)
    if start < 0:
        return None
    if (times := _times(view.text, sought.text, start)) > 1:
        return f"the text to replace is in the file {times} times. Add lines around it."
    end = start + len(sought.text)
    same_there = new.translate(_ALIKE) if loose else new
    # Equal in this view only: then it is the look of the text that is to change.
    prefix, suffix = _common(sought.text, same_there) if sought.text != same_there else (0, 0)
    core_start = view.place(start + prefix)
    core_end = max(view.place(end - suffix), core_start)
    core = new[prefix : len(new) - suffix]
    ends = _ends_for(view.original, core_start, core_end)
    return view.place(start), view.place(end), core_start, core_end, _with_ends(core, ends)


def _times(text: str, sought: str, start: int) -> int:
    """How often it occurs, overlapping ones counted: each could be the one that is meant."""
    times = 0
    while start >= 0:
        times += 1
        start = text.find(sought, start + 1)
    return times


def _common(a: str, b: str) -> tuple[int, int]:
    """How much two texts share at the beginning and, beyond that, at the end."""
    prefix = common_prefix(a, b)
    return prefix, common_prefix(a[prefix:][::-1], b[prefix:][::-1])


def _ends_for(text: str, start: int, end: int) -> list[str]:
    """The line ends that new text at this place should use, in order; the last one for more."""
    inside = re.findall(r"\r?\n", text[start:end])
    if inside:
        return inside
    after = text.find("\n", end)
    at = after if after >= 0 else text.rfind("\n", 0, start)
    return ["\r\n" if at > 0 and text[at - 1] == "\r" else "\n"]


def _with_ends(text: str, ends: list[str]) -> str:
    first, *others = text.split("\n")
    pieces = [first]
    for index, line in enumerate(others):
        pieces += (ends[min(index, len(ends) - 1)], line)
    return "".join(pieces)


def _closest(text: str, old: str) -> str:
    """Where a model may have meant it: the line most like the first line it sent."""
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    wanted = wanted[:_COMPARED_LINE]
    lines = text.split("\n", _COMPARED_LINES)[:_COMPARED_LINES]
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(wanted)
    best, place = 0.6, -1
    for index, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:_COMPARED_LINE])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            best, place = matcher.quick_ratio(), index
    if place < 0:
        return "Read the file again."
    return f"The closest line is {place + 1}: {one_line(lines[place], 120)}"
