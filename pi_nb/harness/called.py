"""Functions of the user's, called so that they can neither hold up a run nor break it.

The loop thread holds every session and every timer: a function that takes its time would
stop them all, and an interrupt with them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pi_nb.own_thread import in_own_thread

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
    if waits:
        said = function(given)
    else:
        name = f"pi_nb {getattr(function, '__name__', 'function')}"
        said = await in_own_thread(lambda: _tamed(function, given), name)
    return await said if inspect.isawaitable(said) else said


def _tamed(function: Callable[[T], Any], given: T) -> Any:
    """Raises:
    Exception: what the function raises; what else leaves it, and what a future refuses to
        carry, as `RuntimeError`.
    """
    try:
        return function(given)
    except StopIteration as error:
        raise RuntimeError(f"it raised StopIteration({error.value!r})") from None
    except Exception:
        raise
    except BaseException as error:
        raise RuntimeError(f"it raised {type(error).__name__}") from None


def watched(function: Callable[P, Any]) -> Callable[P, None]:
    """A function that only watches: what it raises is logged, and ends nothing."""

    def watch(*given: P.args, **named: P.kwargs) -> None:
        with logged("a function that is told of a summary"):
            function(*given, **named)

    return watch
