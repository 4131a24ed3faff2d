"""One change at a time for each file, in the order in which the calls came.

Two edits of one file in one message would otherwise both read it before either writes,
and the later would undo the earlier (known fault L-15).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from pi_nb.env.types import FileSystem

from .paths import plain_name

_queues: WeakKeyDictionary[FileSystem, dict[str, _Turn]] = WeakKeyDictionary()


class _Turn:
    """A lock that is served in order of arrival, and how many hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


@asynccontextmanager
async def turn(env: FileSystem, path: str) -> AsyncIterator[None]:
    """Wait for the earlier changes of this file; names and links of one file are one.

    The place in the queue is taken before the first await. All calls on one environment
    run on one event loop.
    """
    queue = _queues.setdefault(env, {})
    name = plain_name(env.resolve(path))
    mine = queue.setdefault(name, _Turn())
    mine.users += 1
    try:
        async with mine.lock:
            yield
    finally:
        mine.users -= 1
        if not mine.users:
            del queue[name]
