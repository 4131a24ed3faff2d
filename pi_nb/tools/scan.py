"""Matches in the lines of one file after another, with the lines around them.

a.py:12: the line that matches
a.py-13- a line of its context
--                                lines were left out here, or another file begins
"""

from __future__ import annotations

import time
from collections import deque

from pi_nb.abort import AbortSignal
from pi_nb.text import visible

from .pattern import Pattern
from .search_folder import Lines
from .text_lines import Splitter

MAX_SHOWN = 500
"""Characters shown of a line."""


class Scan:
    """Collects up to `limit` matches in `out`; it is `over` when it wants no more.

    Memory is bounded by the answer and by one piece of text. It stops between two lines, at
    the deadline (`time.monotonic`; it is `late` then) or when the signal is set.
    """

    def __init__(
        self, pattern: Pattern, *, context: int, limit: int, deadline: float, signal: AbortSignal
    ) -> None:
        # Context and separators come on top of the matches.
        self.out = Lines(limit * (2 * context + 2))
        self.matches = 0
        self.over = False
        self.late = False
        self.cut = 0
        """Lines of which only the beginning was searched."""
        self._pattern = pattern
        self._context = context
        self._limit = limit
        self._deadline = deadline
        self._signal = signal
        self.begin("")

    def begin(self, name: str) -> None:
        """The next file; `name` stands before its lines."""
        self._name = name
        self._splitter = Splitter(self._pattern.max_line)
        self._number = 0
        self._before: deque[str] = deque(maxlen=self._context)
        self._after = 0
        """Lines of context still to come."""
        self._shown = -1
        """The number of the last line that was put out; -1: none of this file."""

    def feed(self, text: str, *, last: bool) -> None:
        """Take the next piece of the file; `last` ends it."""
        literal = self._pattern.literal
        if literal is not None and not self._context and not last:
            # Most files hold it nowhere, and looking at them whole is much quicker.
            skipped = self._splitter.skip(text, literal)
            if skipped is not None:
                self._number += skipped
                return
        for line in self._splitter.lines(text, last=last):
            if self.over or self._stopped():
                return
            self._line(line)
        if last:
            self.cut += self._splitter.cut

    def _stopped(self) -> bool:
        if time.monotonic() > self._deadline:
            self.late = self.over = True
        return self.over or self._signal.aborted

    def _line(self, line: str) -> None:
        self._number += 1
        match = self._pattern.regex.search(line)
        if match is not None and self.matches < self._limit:
            self._match(line, match.start())
        elif match is not None:
            self.over = True
        elif self._after:
            self._after -= 1
            self._put("-", self._number, line, 0)
        else:
            self._before.append(line)

    def _match(self, line: str, place: int) -> None:
        first = self._number - len(self._before)
        if self._context and self.out.lines and first > self._shown + 1:
            self.out.add("--")
        for number, before in enumerate(self._before, first):
            self._put("-", number, before, 0)
        self._before.clear()
        if self._put(":", self._number, line, place):
            self.matches += 1
        self._after = self._context

    def _put(self, mark: str, number: int, line: str, place: int) -> bool:
        self._shown = number
        taken = self.out.add(f"{self._name}{mark}{number}{mark} {_around(line, place)}")
        self.over = self.over or not taken
        return taken


def _around(line: str, place: int) -> str:
    """The part of a long line around the match, what cannot be seen spelled out."""
    if len(line) <= MAX_SHOWN:
        return visible(line)
    start = max(min(place - MAX_SHOWN // 4, len(line) - MAX_SHOWN), 0)
    after = len(line) - start - MAX_SHOWN
    shown = visible(line[start : start + MAX_SHOWN])
    before = f"[{start:,} characters]" if start else ""
    return f"{before}{shown}[{after:,} characters]" if after else f"{before}{shown}"
