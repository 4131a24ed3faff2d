"""What a cell says of a context that is compacted by itself: one line, from the first decision
to what came of it.

    compacting by itself (threshold): ≈6,210 tokens are more than 6,144; reading piece 2 of 5
    compacted by itself (threshold): ≈6,210 → ≈3,900 tokens; summary by model
    not compacted by itself (threshold): nobody allowed it
"""

from __future__ import annotations

from pi_nb.harness.events import AutoCompaction, SessionCompact, SummaryUpdate
from pi_nb.text import safe_line

_WHY = 300
"""Characters of a reason at most: it may hold a provider's words."""


class AutoLine:
    """One compaction by itself, from its events."""

    def __init__(self) -> None:
        self._last: AutoCompaction | None = None
        self._before = 0
        self._piece = (0, 0)
        self._written_by = ""
        self._made = False
        self.turned = False
        """Whether the last event changed what is said."""

    def add(self, event: AutoCompaction | SummaryUpdate | SessionCompact) -> bool:
        """Take an event in. Returns whether it was the last one: the next is another line's."""
        said = str(self)
        match event:
            case AutoCompaction():
                if self._last is None:
                    self._before = event.tokens
                self._last = event
            case SummaryUpdate():
                self._piece = (event.piece, event.pieces)
            case SessionCompact():
                self._made = True
                # The summary's, where longest results were cut after it.
                self._written_by = event.written_by if event.entry_id else self._written_by
        self.turned = said != str(self)
        return isinstance(event, AutoCompaction) and event.decision != "begins"

    def __str__(self) -> str:
        last = self._last
        if last is None:
            return ""
        why = safe_line(last.why, _WHY).rstrip(".")
        by_itself = f"by itself ({last.trigger})"
        if last.decision == "begins":
            return f"compacting {by_itself}: {why}{self._work()}"
        if not self._made:
            hint = "; `%compact` makes room" if last.decision == "off" else ""
            return f"not compacted {by_itself}: {why}{hint}"
        size = f"≈{self._before:,} → ≈{last.tokens:,} tokens"
        who = f"; summary by {self._written_by}" if self._written_by else ""
        # A compaction that is not enough, or one after which something failed.
        more = "" if last.decision == "done" else f"; {last.decision}: {why}"
        return f"compacted {by_itself}: {size}{who}{more}"

    def _work(self) -> str:
        piece, pieces = self._piece
        if pieces > 1:
            return f"; reading piece {piece} of {pieces}"
        return "; writing the summary" if piece else ""
