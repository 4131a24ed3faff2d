"""Which lines stay where not all of them fit: by weight, shown in their order.

So a section is as long as it may be and no longer, however many compactions it lived through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pi_nb.text import one_line, scrub

from .finds import word_set

LINE = 300
"""Characters of one line at most."""
_MARKED = 3
"""What a bullet and a line break take."""
_NOTE = 30
"""What the line takes that says how many were left out."""
_OURS = re.compile(
    r"<(?=/?(?:summary|branch_summary|conversation|earlier_summary|pinned|files-|read-files"
    r"|modified-files))",
    re.IGNORECASE,
)
_TURN = re.compile(r"#+(?= Turn in Progress)")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_HEAD = re.compile(r"^\s*(?:#{1,6}\s+|>\s+|(?:`{3,}|~{3,})\w*\s*)+")
_NOTED = re.compile(r"\((\d[\d,]*) more left out\)\Z")


@dataclass(frozen=True, slots=True)
class Line:
    """One line that may stand in a section."""

    text: str
    weight: float = 1.0
    """What is lighter goes first."""


def as_line(text: str, limit: int = LINE) -> str:
    """Somebody's words as one line of a summary, which cannot change its shape.

    Words and their order stay. A bullet stands before it, so no heading and no fence begins
    in it; the tags that are put around a summary are broken.
    """
    flat = _OURS.sub("‹", _TURN.sub("", _CONTROL.sub("", scrub(text[: 4 * limit]))))
    return one_line(_HEAD.sub("", flat, count=1) or flat, limit)


class Focus:
    """The words of what a user asked a summary to look at; a line that has one of them
    weighs more."""

    def __init__(self, instructions: str | None) -> None:
        text = (instructions or "")[:2_000].casefold()
        latin = {word for word in re.findall(r"[^\W_]{4,}", text) if word.isascii()}
        other = re.findall(r"[^\x00-\x7f]+", text)
        pairs = {part[i : i + 2] for part in other for i in range(max(len(part) - 1, 1))}
        self._words = (latin - _COMMON) | {pair for pair in pairs if pair.isalnum()}

    def weigh(self, line: str) -> float:
        """What is added to a line's weight: 0 or 5."""
        folded = line.casefold()
        return 5.0 if any(word in folded for word in self._words) else 0.0


_COMMON = word_set("focus look what about above with that this please summary keep especially from")


def merged(new: Sequence[Line], old: Iterable[str], weight: float) -> list[Line]:
    """Lines of an earlier summary before new ones; what says the same stands once, as the new.

    Args:
        weight: Of the newest of the old lines; those before it weigh a little less each.
    """
    said = {_key(line.text) for line in new}
    kept = [text for text in old if _key(text) not in said]
    step = 0.5 / max(len(kept), 1)
    carried = [
        Line(as_line(text), weight - step * (len(kept) - place))
        for place, text in enumerate(kept, start=1)
    ]
    return [*carried, *new]


def _key(text: str) -> str:
    """What a line is about: of `bash pytest: ok` what stands before the outcome."""
    flat = " ".join(text.casefold().split())
    head, found, _ = flat.partition(": ok")
    head, failed, _ = head.partition(": failed")
    return head if found or failed else flat


def chosen(lines: Iterable[Line], limit: int, focus: Focus) -> list[str]:
    """The heaviest lines that fit `limit` characters, in the order that they came in.

    At least the heaviest stands there, cut if it must be. The last line says how many were
    left out, those of earlier times included.
    """
    known: dict[str, float] = {}
    before = 0
    for line in lines:
        if note := _NOTED.match(line.text):
            before += int(note[1].replace(",", ""))
        elif line.text:
            weight = line.weight + focus.weigh(line.text)
            known[line.text] = max(weight, known.get(line.text, weight))
    order = {text: place for place, text in enumerate(known)}
    if not known:
        return [_left_out(before)] if before else []
    room = limit - _NOTE
    kept: list[str] = []
    for text in sorted(known, key=lambda text: (-known[text], -order[text])):
        short = text if kept else one_line(text, max(room - _MARKED, 20))
        if len(short) + _MARKED <= room:
            kept.append(short)
            order.setdefault(short, order[text])
            room -= len(short) + _MARKED
    kept.sort(key=lambda text: order[text])
    left = before + len(known) - len(kept)
    return [*kept, _left_out(left)] if left else kept


def shares(needs: Mapping[str, int], limits: Mapping[str, int], total: int) -> dict[str, int]:
    """How many of `total` characters each section gets: what it needs within its limit, and
    where that is too much for all, its part of the whole and of what the others leave."""
    wanted = {name: min(need, limits[name]) for name, need in needs.items()}
    given: dict[str, int] = {}
    while len(given) < len(wanted):
        left = total - sum(given.values())
        parts = {name: limits[name] for name in wanted if name not in given}
        fair = {name: left * part // sum(parts.values()) for name, part in parts.items()}
        content = {name: wanted[name] for name in parts if wanted[name] <= fair[name]}
        given |= content or fair
    return given


def needed(lines: Iterable[Line]) -> int:
    """Characters that all of the lines take."""
    return sum(len(line.text) + _MARKED for line in lines) + _NOTE


def is_note(text: str) -> bool:
    """Whether a line only says how many others were left out."""
    return _NOTED.match(text) is not None


def _left_out(lines: int) -> str:
    return f"({lines:,} more left out)"
