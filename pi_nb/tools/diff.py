"""What a change did to a text, for people: a unified diff of bounded size and cost.

Python's difflib is quadratic, and a line may have megabytes (known fault F-15). So what is
the same at both ends is taken off first, what is left is compared only if it is small, and
long lines are shown around the place where they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from pi_nb.text import count
from pi_nb.wire import Wire

CONTEXT = 3
MAX_LINES = 200
MAX_LINE = 200
"""Characters shown of a line."""
_COMPARED = 1_000
"""Lines, of both sides together, that difflib is trusted with."""

Range = tuple[int, int, int, int]
"""Lines `a[0]..a[1]` became `b[2]..b[3]`; from 0, the ends not included."""


class FileChange(Wire):
    """What a tool did to a file; the `details` of write and edit."""

    path: str
    diff: str = ""
    """Unified, without a head; cut with a note where it is long."""
    added: int = 0
    """Lines."""
    removed: int = 0
    created: bool = False


def change_of(path: str, before: str | None, after: str) -> FileChange:
    """The change from one text to another; `before` is None for a file that was not there."""
    old = _lines(before or "")
    new = _lines(after)
    ranges = list(_ranges(old, new))
    lines = list(_unified(old, new, ranges))
    if len(lines) > MAX_LINES:
        left_out = count(len(lines) - MAX_LINES, "more line")
        lines = [*lines[:MAX_LINES], f"[{left_out} of the diff left out]"]
    return FileChange(
        path=path,
        diff="\n".join(lines),
        added=sum(b_end - b for _, _, b, b_end in ranges),
        removed=sum(a_end - a for a, a_end, _, _ in ranges),
        created=before is None,
    )


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _ranges(old: Sequence[str], new: Sequence[str]) -> Iterator[Range]:
    """Where they differ, in order."""
    start = 0
    shorter = min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    a = old[start : len(old) - end]
    b = new[start : len(new) - end]
    if not a and not b:
        return
    if not a or not b or len(a) + len(b) > _COMPARED:
        yield start, start + len(a), start, start + len(b)
        return
    for tag, a_from, a_to, b_from, b_to in SequenceMatcher(None, a, b, False).get_opcodes():
        if tag != "equal":
            yield start + a_from, start + a_to, start + b_from, start + b_to


def _unified(old: Sequence[str], new: Sequence[str], ranges: Sequence[Range]) -> Iterator[str]:
    for group in _near(ranges):
        first, last = group[0], group[-1]
        lead = min(CONTEXT, first[0])
        trail = min(CONTEXT, len(old) - last[1])
        a_size = last[1] - first[0] + lead + trail
        b_size = last[3] - first[2] + lead + trail
        # Counted from 1; of an empty side the line before it.
        a_start = first[0] - lead + (a_size > 0)
        b_start = first[2] - lead + (b_size > 0)
        yield f"@@ -{a_start},{a_size} +{b_start},{b_size} @@"
        at = first[0] - lead
        for a, a_end, b, b_end in group:
            yield from (f" {_shown(line)}" for line in old[at:a])
            yield from _changed(old[a:a_end], new[b:b_end])
            at = a_end
        yield from (f" {_shown(line)}" for line in old[at : at + trail])


def _near(ranges: Sequence[Range]) -> list[list[Range]]:
    """Changes whose context would touch, together."""
    groups: list[list[Range]] = []
    for found in ranges:
        if groups and found[0] - groups[-1][-1][1] <= 2 * CONTEXT:
            groups[-1].append(found)
        else:
            groups.append([found])
    return groups


def _changed(removed: Sequence[str], added: Sequence[str]) -> Iterator[str]:
    # Lines that stand for each other are shown around the place where they begin to differ.
    places = [
        common_prefix(a, b) if max(len(a), len(b)) > MAX_LINE else 0
        for a, b in zip(removed, added, strict=False)
    ]
    for sign, lines in (("-", removed), ("+", added)):
        for index, line in enumerate(lines):
            yield sign + _shown(line, places[index] if index < len(places) else 0)


def _shown(line: str, place: int = 0) -> str:
    line = line.removesuffix("\r")
    if len(line) <= MAX_LINE:
        return line
    start = max(place - MAX_LINE // 3, 0)
    before = f"[{start:,} characters]" if start else ""
    after = len(line) - start - MAX_LINE
    more = f"[{after:,} characters]" if after > 0 else ""
    return f"{before}{line[start : start + MAX_LINE]}{more}"


def common_prefix(a: str, b: str) -> int:
    """How many characters two texts have in common at the beginning.

    By halves, on slices: a loop over megabytes of characters would take seconds.
    """
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
