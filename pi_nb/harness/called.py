"""Functions of the user's, called so that they can neither hold up a run nor break it.

The loop thread holds every session and every timer: a function that takes its time would
stop them all, and an interrupt with them.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from .host import logged

P = ParamSpec("P")
T = TypeVar("T")


async def called(function: Callable[[T], Any], given: T) -> Any:
    """What a function says: an async one is awaited, a plain one runs in a thread of its own.

    Cancelled, it leaves the thread behind, and what that says is thrown away.

    Raises:
        Exception: what the function raises; `RuntimeError` for a `sys.exit`.
    """
    waits = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
    said = function(given) if waits else await _in_thread(function, given)
    return await said if inspect.isawaitable(said) else said


async def _in_thread(function: Callable[[T], Any], given: T) -> Any:
    """Not in the loop's executor: its threads are few, and Python waits for them at exit."""
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
            value = function(given)
        except Exception as error:
            failure = error
            if isinstance(error, StopIteration):  # a future refuses to carry it
                failure = RuntimeError(f"it raised StopIteration({error.value!r})")
        except BaseException as error:
            failure = RuntimeError(f"it raised {type(error).__name__}")
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    run = contextvars.copy_context().run
    name = f"pi_nb {getattr(function, '__name__', 'function')}"
    threading.Thread(target=run, args=(work,), name=name, daemon=True).start()
    return await done


def watched(function: Callable[P, Any]) -> Callable[P, None]:
    """A function that only watches: what it raises is logged, and ends nothing."""

    def watch(*given: P.args, **named: P.kwargs) -> None:
        with logged("a function that is told of a summary"):
            function(*given, **named)

    return watch
