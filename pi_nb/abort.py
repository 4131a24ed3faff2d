"""A signal that something should stop: set once, seen from any thread or event loop.

It never stops anything by itself. Whoever does the work asks `aborted`, waits for it, or
is told by a callback.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Aborted(Exception):
    """The work was stopped because its signal was set. Not an error of anybody's."""


class AbortSignal:
    """One run's wish to stop. It belongs to that run alone and is never cleared."""

    def __init__(self) -> None:
        # Re-entrant, and no Event inside: an interrupt handler may call `abort` while the
        # same thread is in the middle of any of these methods.
        self._lock = threading.RLock()
        self._aborted = False
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._next = 0
        self.reason = ""

    @property
    def aborted(self) -> bool:
        return self._aborted

    def abort(self, reason: str = "aborted by user") -> None:
        """Set the signal. The second and later calls do nothing. Any thread may call it.

        Raises:
            ExceptionGroup: callbacks failed; the signal is set and the others were told.
        """
        with self._lock:
            if self._aborted:
                return
            self.reason = reason
            self._aborted = True
            keys = list(self._callbacks)
        failed: list[Exception] = []
        for key in keys:
            try:
                self._tell(key)
            except Exception as error:
                failed.append(error)
        if failed:
            raise ExceptionGroup("callbacks of an abort failed", failed)

    def on_abort(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back once, from the aborting thread; at once if it is already set.

        Returns:
            A function that takes the callback back.
        """
        with self._lock:
            key = self._next = self._next + 1
            self._callbacks[key] = callback
        # Asked after it was put down: an abort in between has either told it or left it.
        if self._aborted:
            self._tell(key)
        return lambda: self._forget(key)

    def _tell(self, key: int) -> None:
        with self._lock:
            callback = self._callbacks.pop(key, None)
        if callback is not None:
            callback()

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
            # The loop may be closed when a late abort arrives; then nobody waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(seen.set)

        forget = self.on_abort(wake)
        try:
            await seen.wait()
        finally:
            forget()


async def unless_aborted(work: Awaitable[T], signal: AbortSignal, *, grace: float = 0) -> T:
    """The result of `work`, which is cancelled when the signal is set.

    With a `grace` it gets that many seconds to end by itself first, also if the signal was
    set before it began.

    Work that was done before the abort arrived keeps its result. It is waited for until it
    has cleaned up after itself, so nothing of it runs on.

    Raises:
        Aborted: the signal came first.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)

    def stop() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing runs on it
            loop.call_soon_threadsafe(cancel)

    def cancel() -> None:
        if grace:
            loop.call_later(grace, task.cancel)
        else:
            task.cancel()

    forget = signal.on_abort(stop)
    if signal.aborted and not grace:
        task.cancel()  # at once, so that not even its first step is taken
    try:
        await asyncio.wait({task})
    finally:
        forget()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if task.cancelled() and signal.aborted:
        raise Aborted(signal.reason)
    return task.result()
