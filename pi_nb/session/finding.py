"""A text that is looked for in a session: which entries hold it, and where.

Reading a body costs far more than looking at its line, so a line is looked at first: one
that cannot hold the text is never read.
"""

from __future__ import annotations

import re

from pi_nb.result import PiError
from pi_nb.text import one_line, plain

from .entries import Entry
from .in_words import whole_text

AROUND = 30
"""Characters shown on either side of what was found."""

# What JSON writers may spell in another way than by the character itself, short of `\u`.
_SPELLED = re.compile(r'[\x00-\x1f"\\/]')


class Needle:
    """A text to look for, whatever its case: `Straße` is found by `STRASSE`."""

    def __init__(self, text: str) -> None:
        """
        Raises:
            PiError: `invalid_argument`: there is nothing to look for.
        """
        if not text.strip():
            raise PiError("invalid_argument", "find wants some text to look for.")
        self.text = text
        self._folded = text.casefold()
        self._literal = not _SPELLED.search(text)
        self._seen = re.compile(re.escape(text), re.IGNORECASE)

    def may_be_in(self, line: bytes) -> bool:
        """False only where no text of this line of JSON can hold it."""
        if not self._literal or b"\\u" in line:
            return True
        try:
            return self._folded in line.decode().casefold()
        except UnicodeDecodeError:
            return True

    def is_in(self, text: str) -> bool:
        return self._folded in text.casefold()

    def is_said_by(self, entry: Entry) -> bool:
        return self.is_in(whole_text(entry))

    def excerpt(self, text: str) -> str:
        """What was found with a little on either side, on one line; empty if it is not there."""
        found = self._seen.search(text)
        if found is None:
            return ""
        start = max(found.start() - AROUND, 0)
        end = min(found.end(), found.start() + 2 * AROUND) + AROUND
        inside = one_line(plain(text[start:end]), 5 * AROUND)
        return f"{'…' if start else ''}{inside}{'…' if end < len(text) else ''}"

    def split(self, text: str) -> list[str]:
        """A text in pieces: every second one, from the second on, is what was looked for."""
        pieces = []
        end = 0
        for found in self._seen.finditer(text):
            pieces += [text[end : found.start()], found[0]]
            end = found.end()
        return [*pieces, text[end:]]
