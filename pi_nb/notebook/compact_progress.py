"""What a cell shows while a summary is written: the text as it arrives, which piece of a long
history is read. At the end one line stays."""

from __future__ import annotations

from pi_nb.html import element, inert, safe_markdown
from pi_nb.text import plain

from .in_place import InPlace
from .kernel import in_kernel


class SummaryProgress:
    """One summary. Begun and left by the cell; `text` and `piece` are told on the loop thread."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._kernel = in_kernel()
        self._place = InPlace(self._shown)
        self._pieces: list[str] = []
        self._size = 0
        self._head = "writing the summary…"

    def begin(self) -> None:
        """Nothing arrived yet; on the thread that runs cells."""
        if self._quiet:
            return
        if self._kernel:
            self._place.begin(self._head)
        else:
            print(self._head)

    def text(self, delta: str) -> None:
        """A piece of the summary arrived."""
        self._pieces.append(delta)
        self._size += len(delta)
        if self._kernel and not self._quiet:
            self._place.changed(self._size)

    def piece(self, piece: int, pieces: int) -> None:
        """Another piece of the history is read: what was written is rewritten with it."""
        self._pieces.clear()
        if pieces > 1:
            self._head = f"reading piece {piece} of {pieces}…"
        if self._quiet:
            return
        if self._kernel:
            self._place.changed(self._size, whole=True)
        elif pieces > 1:  # a terminal keeps what was printed: the text comes once, at the end
            print(self._head)

    def leave(self, words: str) -> None:
        """How it ended, which stays in the cell."""
        if self._kernel and not self._quiet:
            self._place.leave(str(element("sub", inert(words))), words)

    def _shown(self) -> tuple[str, str]:
        said = "".join(self._pieces)
        head = str(element("em", inert(self._head)))
        return f"{head}\n\n{safe_markdown(said)}", f"{self._head}\n{plain(said)}"
