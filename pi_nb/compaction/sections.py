"""A summary as sections: the fixed headings, found, read, and changed one at a time.

    ## Goal                     what the work is for
    ## Constraints & Preferences
    ## Progress
    ### Done
    ### In Progress
    ### Blocked
    ## Key Decisions
    ## Next Steps
    ## Critical Context         what must not be lost: names, numbers, errors

A summary may have other sections too; they stay where they are. Headings inside a fence of
code are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pi_nb.result import PiError

SECTIONS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
)
PROGRESS = ("Done", "In Progress", "Blocked")
"""The parts of `Progress`, one level below."""

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")


def headings(text: str) -> list[tuple[int, int, str]]:
    """The headings of a Markdown text: line number from 0, level from 1, words."""
    return [
        (number, len(heading[1]), heading[2])
        for number, line in outside_fences(text)
        if (heading := _HEADING.match(line))
    ]


def outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not code between fences, each with its number from 0."""
    fence = ""
    for number, line in enumerate(text.split("\n")):
        if marks := _FENCE.match(line):
            mark = marks[1]
            if not fence:
                fence = mark
            elif mark[0] == fence[0] and len(mark) >= len(fence):
                fence = ""
        elif not fence:
            yield number, line


def has_shape(text: str) -> bool:
    """Whether a text has at least one of the fixed headings (rule 29)."""
    return any(_known(words) is not None for _, _, words in headings(text))


def sections_of(text: str) -> dict[str, str]:
    """What stands under each of the fixed headings, by their own names, in order.

    `Progress` holds what stands before its parts; those have names of their own. Of two
    sections with one name the texts are joined.
    """
    lines = text.split("\n")
    marks = headings(text)
    found: dict[str, list[str]] = {}
    for place, (number, _, words) in enumerate(marks):
        end = marks[place + 1][0] if place + 1 < len(marks) else len(lines)
        if (name := _known(words)) is not None:
            found.setdefault(name, []).append("\n".join(lines[number + 1 : end]).strip())
    return {name: "\n".join(filter(None, parts)) for name, parts in found.items()}


def with_section(text: str, name: str, new: str) -> str:
    """The text with other words under one heading; every other line stays as it is.

    A heading that is not there yet is added where its place is: a part of `Progress` after
    the parts that come before it, else before the next of the fixed sections, else at the end.

    Args:
        name: One of `SECTIONS` or `PROGRESS`; case does not matter.
        new: Without the heading. Empty: the heading stays, with nothing under it.

    Raises:
        PiError: `invalid_argument`, there is no such section; the names are listed.
    """
    known = _known(name)
    if known is None:
        names = ", ".join((*SECTIONS, *PROGRESS))
        raise PiError("invalid_argument", f"There is no section {name!r}. Sections: {names}.")
    lines = text.split("\n")
    marks = headings(text)
    for place, (number, _, words) in enumerate(marks):
        if _known(words) == known:
            end = marks[place + 1][0] if place + 1 < len(marks) else len(lines)
            return _joined(lines[: number + 1], new, lines[end:])
    after = {*_ORDER[_ORDER.index(known) + 1 :]}
    at = next((number for number, _, words in marks if _known(words) in after), len(lines))
    level = "###" if known in PROGRESS else "##"
    return _joined([*lines[:at], f"{level} {known}"], new, lines[at:])


def rendered(sections: Mapping[str, str | Iterable[str]]) -> str:
    """A summary made of sections, in their fixed order. Lists become bullets; of what is empty
    the heading stays, so that a reader sees that there is nothing."""
    parts = []
    for name in _ORDER:
        given = sections.get(name, "")
        body = given if isinstance(given, str) else "\n".join(f"- {line}" for line in given)
        level = "###" if name in PROGRESS else "##"
        empty = "" if name == "Progress" else "(none)"
        parts.append(f"{level} {name}\n{body.strip() or empty}".rstrip())
    return "\n\n".join(parts)


_AFTER = SECTIONS.index("Progress") + 1
_ORDER = (*SECTIONS[:_AFTER], *PROGRESS, *SECTIONS[_AFTER:])
_BY_WORDS = {name.casefold().replace("&", "and"): name for name in _ORDER}


def _known(words: str) -> str | None:
    plain = words.strip("*_: ").casefold().replace("&", "and")
    return _BY_WORDS.get(" ".join(plain.split()))


def _joined(head: list[str], new: str, tail: list[str]) -> str:
    body = [new.strip()] if new.strip() else []
    gap = [""] if tail and tail[0].strip() else []
    before = [""] if len(head) > 1 and head[-2].strip() and not tail else []
    lines = [*head[:-1], *before, head[-1], *body, *gap, *tail]
    return "\n".join(lines).rstrip("\n")
