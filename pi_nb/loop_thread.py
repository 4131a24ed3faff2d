"""The loop thread: one asyncio loop in a daemon thread, where everything lasting lives.

Sessions, HTTP, timers and runs need neither the kernel's loop nor a free main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _LoopThread:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()

        def serve() -> None:
            asyncio.set_event_loop(self.loop)
            self.loop.call_soon(ready.set)
            # `sys.exit` in one piece of work ends that piece, which has it as its outcome;
            # asyncio lets it out of the loop too, and everything else lives here.
            while True:
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()

        self.thread = threading.Thread(target=serve, name="pi_nb-loop", daemon=True)
        self.thread.start()
        ready.wait()


_lock = threading.Lock()
_thread: _LoopThread | None = None


def _start_afresh() -> None:
    global _lock, _thread
    _lock = threading.Lock()
    _thread = None


if hasattr(os, "register_at_fork"):
    # A forked child has no loop thread, and maybe a lock that a lost thread holds for ever.
    os.register_at_fork(after_in_child=_start_afresh)


def loop() -> asyncio.AbstractEventLoop:
    """The loop of the loop thread, started when first asked for. One a process."""
    global _thread
    with _lock:
        if _thread is None:
            _thread = _LoopThread()
        return _thread.loop


def on_loop_thread() -> bool:
    """Whether this is the loop thread itself, which must wait for nothing."""
    return _thread is not None and threading.current_thread() is _thread.thread


def call(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Do short work on the loop thread and wait for it, from any other thread.

    For look-ups and settings, not for runs: it serves no main-thread jobs.

    Raises:
        RuntimeError: called on the loop thread itself, which would wait for ever.
        TimeoutError: it took longer than `timeout` seconds; it goes on.
    """
    target = loop()
    if on_loop_thread():
        work.close()
        raise RuntimeError("already on the loop thread: await it instead")
    return asyncio.run_coroutine_threadsafe(work, target).result(timeout)
