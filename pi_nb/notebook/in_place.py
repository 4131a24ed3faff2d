"""One display of a cell that is updated where it stands, from whichever thread.

Updated when its text has grown by a twentieth or something whole was added, at most ten times
a second and less often the longer it is, so that what is sent stays within about twenty times
the text.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable

GROWTH = 1.05
INTERVAL = 0.1
"""Seconds between two updates at least."""
RATE = 200_000
"""Characters a second that updates of a long text send at most."""


class InPlace:
    """Begun and left by the cell on the thread that runs it, changed on the loop thread."""

    def __init__(self, shown: Callable[[], tuple[str, str]]) -> None:
        """
        Args:
            shown: The Markdown and the plain text as they are now.
        """
        self._shown = shown
        self._id = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._begun = self._closed = False
        self._size = self._sent = 0
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, words: str) -> None:
        """Show it for the first time; on the thread that runs cells.

        On ipykernel 6 a display from another thread lands in the wrong cell; an update finds
        its place by the id.
        """
        self._publish("", words)

    def changed(self, size: int, *, whole: bool = False) -> None:
        """Show what came, now or with the next update. On the loop thread.

        Args:
            size: Characters so far.
            whole: Something is complete: it is not waited until more came.
        """
        self._size = size
        if not (whole or size > self._sent * GROWTH):
            return
        wait = self._next - time.monotonic()
        if wait <= 0:
            self._update()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait, self._update)

    def leave(self, markdown: str, text: str) -> None:
        """What stays; nothing is shown after it."""
        self._publish(markdown, text)
        with self._lock:
            self._closed = True

    def _update(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = time.monotonic()
        self._sent = self._size
        markdown, text = self._shown()
        self._publish(markdown, text)
        # A long text waits longer: what is sent and what it costs the loop stay a share of
        # the time, however much is added.
        took = time.monotonic() - now
        self._next = now + max(INTERVAL, took * 10, len(markdown) / RATE)

    def _publish(self, markdown: str, text: str) -> None:
        from IPython.display import publish_display_data

        with self._lock:
            if self._closed:
                return
            publish_display_data(  # type: ignore[no-untyped-call]
                {"text/markdown": markdown, "text/plain": text},
                transient={"display_id": self._id},
                update=self._begun,
            )
            self._begun = True
