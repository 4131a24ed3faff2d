"""A function of the user's in a thread of its own, which may be left behind.

The loop thread holds every session and every timer: a function that takes its time would
stop them all. Not in the loop's executor: its threads are few, and Python waits for them at
exit.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def in_own_thread(call: Callable[[], Any], name: str) -> asyncio.Future[Any]:
    """Begin a call in a daemon thread with the context variables of here.

    Returns:
        What it will return or raise, on the running loop. Cancelled, it leaves the thread
        behind, and throws away what that says. A future refuses to carry `StopIteration`: the
        call must not raise it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def work() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = call()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(work,), name=name, daemon=True).start()
    return done
