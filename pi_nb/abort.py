"""A signal that something should stop: set once, seen from any thread or event loop.

It never stops anything by itself. Whoever does the work asks `aborted`, waits for it, or
is told by a callback.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class Aborted(Exception):
    """The work was stopped because its signal was set. Not an error of anybody's."""


class AbortSignal:
    """One run's wish to stop. It belongs to that run alone and is never cleared."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0
        self.reason = ""

    @property
    def aborted(self) -> bool:
        return self._event.is_set()

    def abort(self, reason: str = "aborted by user") -> None:
        """Set the signal. The second and later calls do nothing. Any thread may call it."""
        with self._lock:
            if self._event.is_set():
                return
            self.reason = reason
            self._event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once, from the aborting thread; at once if it is already set.

        Returns:
            A function that takes the callback back.
        """
        with self._lock:
            if not self._event.is_set():
                key = self._next = self._next + 1
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    def _forget(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)

    def raise_if_aborted(self) -> None:
        """Raises:
        Aborted: the signal is set.
        """
        if self.aborted:
            raise Aborted(self.reason)

    async def wait(self) -> None:
        """Return when the signal is set, on the loop of the caller."""
        loop = asyncio.get_running_loop()
        seen = asyncio.Event()

        def wake() -> None:
            # The loop may be gone when a late abort arrives; then nobody waits any more.
            if not loop.is_closed():
                loop.call_soon_threadsafe(seen.set)

        forget = self.on_abort(wake)
        try:
            await seen.wait()
        finally:
            forget()
