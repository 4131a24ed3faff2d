"""A summary against the one before it, section by section: which lines came, which went."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from .assemble import TURN_HEADING, without_extras
from .sections import has_shape, sections_of

MATCHED = 1_000
"""Lines of a section up to which they are matched in order; of longer ones each line counts
as the same wherever it stands, for matching takes the square of them."""

WHOLE = "Summary"
"""The name of the one section of a text without the fixed headings."""


@dataclass(frozen=True, slots=True)
class SectionChange:
    """What happened under one heading. Blank lines do not count."""

    name: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    same: int
    """Lines that stayed as they were."""

    @property
    def changed(self) -> bool:
        return bool(self.added or self.removed)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "added": list(self.added),
            "removed": list(self.removed),
            "same": self.same,
        }


def summary_changes(before: str | None, after: str) -> list[SectionChange]:
    """Compare two summaries by section; pinned words and lists of files are left aside.

    Where one of them has none of the fixed headings, both are compared as a whole. Against
    None everything is new. Sections that both leave empty are not told of.
    """
    whole = not has_shape(after) or (before is not None and not has_shape(before))
    old = {} if before is None else _parts(before, whole)
    new = _parts(after, whole)
    names = [*new, *(name for name in old if name not in new)]
    changes = (_change(name, _lines(old.get(name)), _lines(new.get(name))) for name in names)
    return [change for change in changes if change.changed or change.same]


def _parts(summary: str, whole: bool) -> dict[str, str]:
    text = without_extras(summary)
    if whole:
        return {WHOLE: text}
    body, heading, turn = text.partition(TURN_HEADING)
    return sections_of(body) | ({TURN_HEADING.lstrip("# "): turn} if heading else {})


def _lines(text: str | None) -> list[str]:
    return [line.rstrip() for line in (text or "").split("\n") if line.strip()]


def _change(name: str, old: list[str], new: list[str]) -> SectionChange:
    if max(len(old), len(new)) > MATCHED:
        before, after = set(old), set(new)
        added = [line for line in new if line not in before]
        removed = [line for line in old if line not in after]
        return SectionChange(name, tuple(added), tuple(removed), len(new) - len(added))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    added, removed, same = [], [], 0
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            same += j - i
        else:
            removed += old[i:j]
            added += new[k:m]
    return SectionChange(name, tuple(added), tuple(removed), same)
