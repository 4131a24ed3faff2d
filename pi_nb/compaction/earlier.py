"""An earlier summary as lines by section, whoever wrote it, to be carried on.

A model's, a user's, our own: what has no place of its own goes to Critical Context.
"""

from __future__ import annotations

import re

from .assemble import TURN_HEADING, TURN_NOTES
from .prompts import PREFIX_HEADINGS
from .sections import PROGRESS, SECTIONS

_ASKED, _DONE, _NEEDED = PREFIX_HEADINGS
_PLACES = {name.casefold(): name for name in (*SECTIONS, *PROGRESS)} | {
    "constraints and preferences": "Constraints & Preferences",
    "progress": "Done",
    _ASKED.casefold(): "In Progress",
    _DONE.casefold(): "Done",
    _NEEDED.casefold(): "Critical Context",
}
_ELSE = "Critical Context"
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_NOTHING = frozenset({"", "(none)", "none", "n/a", "-", "(no text)"})
_NOTHING |= {note.casefold() for note in TURN_NOTES}
_TAG = re.compile(r"</?[\w-]+(?: [^<>]*)?>")
_LINE = 400


def earlier(previous: str | None) -> dict[str, list[str]]:
    """The lines of each section, in order and without their bullets; no line twice.

    A heading within a fence of code is a line like others. Tags that stand alone on a line
    (pinned words, lists of files), what says that there is nothing, and the note that the rest
    of a split turn follows are left out: it follows no more.
    """
    found: dict[str, dict[str, None]] = {}
    name, fence = _ELSE, ""
    for raw in (previous or "").split("\n"):
        if marks := _FENCE.match(raw):
            mark = marks[1]
            if not fence:
                fence = mark
            elif mark[0] == fence[0] and len(mark) >= len(fence):
                fence = ""
            continue
        if not fence and (heading := _HEADING.match(raw)):
            words = heading[1].strip("*_: ").casefold()
            if words != TURN_HEADING.strip("# ").casefold():
                name = _PLACES.get(" ".join(words.split()), _ELSE)
            continue
        line = " ".join(_BULLET.sub("", raw[: 4 * _LINE], count=1).split())[:_LINE]
        if line.casefold() not in _NOTHING and not _TAG.fullmatch(line):
            found.setdefault(name, {})[line] = None
    return {section: list(lines) for section, lines in found.items()}
