"""Waiting before a request is made again, told to whoever watches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pi_nb.messages import AssistantMessage

from .events import RetryAttemptStart, RetryFinished, RetryScheduled
from .host import State
from .limits import Attempts


async def waits(state: State, attempts: Attempts) -> AsyncIterator[int]:
    """Waits, and then gives the number of the attempt to be made, while that makes sense.

    Whoever makes it sets `attempts.newest` to what it added.
    """
    phase = state.phase
    while not state.signal.aborted:
        if (delay := attempts.delay(attempts.newest)) is None:
            break
        attempts.number += 1
        said = attempts.newest[-1]
        words = said.error_message or "" if isinstance(said, AssistantMessage) else ""
        state.phase = "retry"
        event = RetryScheduled(attempt=attempts.number, delay=delay, error_message=words)
        await state.tell(event)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await state.signal.wait()
        state.phase = phase
        await state.tell(RetryAttemptStart(attempt=attempts.number))
        yield attempts.number
    if attempts.number > 1:
        answers = [said for said in attempts.newest if isinstance(said, AssistantMessage)]
        good = answers[-1].stop_reason not in ("error", "aborted")
        await state.tell(RetryFinished(attempt=attempts.number, success=good))
