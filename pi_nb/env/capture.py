"""The end of what a command prints, in bounded memory, however much it prints.

`Tail` is that end; `Capture` adds a file with the whole where it is longer, up to
`MAX_TOTAL`. What is kept depends on the bytes alone, never on how they were cut into reads:
an escape sequence, a character or a CRLF may be split anywhere.

    bytes -> UTF-8 -> escapes out -> carriage returns -> | lines | the line being written |
                                                           both cut at the front
"""

from __future__ import annotations

import codecs
from dataclasses import replace

from pi_nb.text import backspaced, overwritten, without_escapes

from .spill import Spill
from .types import Output

MAX_LINES = 2_000
MAX_BYTES = 50_000
MAX_TOTAL = 256 * 1024 * 1024
"""Bytes after which a command is ended, because nobody will ever read them."""


class Tail:
    """Takes bytes, gives the last lines of them as plain text.

    Whole lines are kept, the last `max_lines` of them in at most `max_bytes` of UTF-8; of
    a last line that is longer than that its end. Invalid bytes become U+FFFD.
    """

    def __init__(self, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> None:
        self.max_lines = max_lines
        self.max_bytes = max_bytes
        self.total_bytes = 0
        self._line_ends = 0
        self._ends_in_line_end = True
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        """An escape sequence that may go on."""
        self._lines = ""
        """Finished lines, at least the last `max_bytes` characters of them."""
        self._line = ""
        """The line being written, at least its last `max_bytes` characters."""
        self._line_cut = False
        self._returned = False
        """A carriage return stands after `_line`: what comes next overwrites it."""
        self._dropped = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Costs their length, and some of what is kept."""
        if not data:
            return
        self.total_bytes += len(data)
        self._line_ends += data.count(b"\n")
        self._ends_in_line_end = data.endswith(b"\n")
        text, self._held = without_escapes(self._held + self._decoder.decode(data))
        self._add(text)

    def output(self) -> Output:
        """What is kept so far. The counts are of all bytes, before anything was cut."""
        text = self._lines + self._line
        shown = _last_lines(text, self.max_lines, self.max_bytes)
        return Output(
            text=shown,
            truncated=self._dropped or self._line_cut or len(shown) < len(text),
            total_lines=self._line_ends + (not self._ends_in_line_end),
            total_bytes=self.total_bytes,
        )

    def _add(self, text: str) -> None:
        first, newline, rest = text.partition("\n")
        self._write(first)
        if not newline:
            return
        body, newline, last = rest.rpartition("\n")
        if "\r" in body or "\b" in body:
            body = "\n".join(map(overwritten, body.split("\n")))
        self._lines += f"{self._line}\n{body}{newline}"
        self._dropped |= self._line_cut
        self._line, self._line_cut, self._returned = "", False, False
        self._write(last)
        # Cut late, so that the cost of cutting is a small part of the cost of adding.
        if len(self._lines) > 4 * self.max_bytes:
            self._lines = self._lines[-self.max_bytes :]
            self._dropped = True

    def _write(self, part: str) -> None:
        """Write on the current line."""
        first, *later = part.split("\r")
        if first:
            self._overwrite(first) if self._returned else self._extend(first)
            self._returned = False
        if later:
            if shown := next((piece for piece in reversed(later) if piece), ""):
                self._overwrite(shown)
            self._returned = not later[-1]

    def _overwrite(self, text: str) -> None:
        self._line, self._line_cut = "", False
        self._extend(text)

    def _extend(self, text: str) -> None:
        text, taken = backspaced(text)
        self._line = self._line[: max(len(self._line) - taken, 0)] + text
        if len(self._line) > 2 * self.max_bytes:
            self._line = self._line[-self.max_bytes :]
            self._line_cut = True


class Capture:
    """The tail of an output, and all of it in a file (`spill`) where it is longer than that.

    Takes `max_total` bytes, then it is `full` and what more comes is dropped. Close it.
    """

    def __init__(self, max_total: int = MAX_TOTAL) -> None:
        self._max_total = max_total
        self._tail = Tail()
        self._spill = Spill(self._tail.max_bytes)

    @property
    def full(self) -> bool:
        return self._tail.total_bytes >= self._max_total

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        data = data[: max(self._max_total - self._tail.total_bytes, 0)]
        self._tail.feed(data)
        self._spill.feed(data)

    def output(self) -> Output:
        """What is kept so far."""
        output = self._tail.output()
        if output.truncated:
            # Too many lines, though not too many bytes.
            self._spill.keep()
        return replace(
            output,
            truncated=output.truncated or self.full,
            full_path=self._spill.path,
            not_kept=self._spill.not_kept,
        )

    def close(self) -> None:
        """No more comes."""
        self._spill.close()


def _last_lines(text: str, max_lines: int, max_bytes: int) -> str:
    """The last whole lines within both limits; the end of the last line if it alone is too long."""
    start = len(text)
    # One more line end than lines: the last line's own does not count.
    for _ in range(max_lines + text.endswith("\n")):
        start = text.rfind("\n", 0, start)
        if start < 0:
            break
    text = text[start + 1 :]
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    begins_line = data[-max_bytes - 1 : -max_bytes] == b"\n"
    text = data[-max_bytes:].decode(errors="ignore")
    end_of_first = text.find("\n", 0, -1)
    return text if begins_line or end_of_first < 0 else text[end_of_first + 1 :]
