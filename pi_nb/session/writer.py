"""One thread that writes: jobs run in the order they were given, one at a time.

Because of it a session needs no event loop of its own. Any loop and any thread may ask for
a write and wait for it, and a write that was begun is finished whoever stops waiting.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from pi_nb.result import PiError

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Writer:
    """The thread starts with the first job and ends with `close`, or with its owner."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(1, "pi_nb-session", initializer=self._begin)

    def _begin(self) -> None:
        self._thread = threading.get_ident()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queue a job.

        Raises:
            PiError: `invalid_state`: closed, or this process is a fork of the owner's.
        """
        if os.getpid() != self._process:
            raise PiError("invalid_state", "a forked process cannot write its parent's session")
        try:
            return self._pool.submit(job)
        except RuntimeError:
            raise PiError("invalid_state", "the session is closed") from None

    def run(self, job: Callable[[], T]) -> T:
        """Queue a job and block until it is done. Not from a watcher: it would wait for itself.

        Raises:
            PiError: `invalid_state`; and whatever the job raises.
        """
        if threading.get_ident() == self._thread:
            raise PiError("invalid_state", "a watcher cannot wait for a write")
        return self.submit(job).result()

    async def do(self, job: Callable[[], T]) -> T:
        """Queue a job and await it. A cancelled waiter leaves; the job is done all the same.

        What it raises then is logged: nobody else will look at it.
        """
        waiting = asyncio.wrap_future(self.submit(job))
        try:
            # `wait` leaves the future alone when it is cancelled; awaiting it would not.
            await asyncio.wait({waiting})
            return waiting.result()
        except asyncio.CancelledError:
            waiting.add_done_callback(_left_behind)
            raise

    def close(self, *, wait: bool) -> None:
        """Take no more jobs; with `wait`, return when the queued ones are done.

        Raises:
            PiError: `invalid_state`: a watcher waits for its own thread.
        """
        if wait and threading.get_ident() == self._thread:
            raise PiError("invalid_state", "a watcher cannot close its session")
        self._pool.shutdown(wait=wait and os.getpid() == self._process)


def _left_behind(write: asyncio.Future[Any]) -> None:
    if not write.cancelled() and (error := write.exception()) is not None:
        _log.error("a write whose caller was cancelled failed: %s", error)
