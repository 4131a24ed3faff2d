"""A run that goes on while other cells run: what `agent.start(...)` and `%%agent -b` give."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from pi_nb import background
from pi_nb.background import Run, RunAborted, drive, drive_blocking
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.turn import TurnResult
from pi_nb.messages import ImageContent

from .kernel import in_cell


class BackgroundRun:
    """One run in the background. `await run` or `run.result()` wait for it; nothing has to.

    What needs the main thread (the python tool, `@tool(main_thread=True)`) waits until a cell
    waits for the run: other cells run the user's code then. Interrupting a cell that waits
    aborts the run, as it aborts one that was asked there.
    """

    def __init__(self, harness: AgentHarness, run: Run[TurnResult]) -> None:
        self._harness = harness
        self._run = run

    @property
    def done(self) -> bool:
        """Whether it ended, well or badly."""
        return self._run.finished

    def steer(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Put a message in before its next request.

        Raises:
            PiError: `invalid_state`, nothing runs any more.
        """
        background.call(self._harness.steer(text, images))

    def follow_up(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Put a message in when it has nothing left to do.

        Raises:
            PiError: `invalid_state`, nothing runs any more.
        """
        background.call(self._harness.follow_up(text, images))

    def abort(self) -> None:
        """Ask it to stop, and return at once. One that ended is left as it is."""
        self._run.abort()

    def result(self) -> TurnResult:
        """Wait for its end, blocking, and serve its jobs for the main thread meanwhile.

        Raises:
            RunAborted: the cell that waits was interrupted; the run is aborted.
            PiError: as `Agent.prompt`.
        """
        return drive_blocking(self._run)

    def __await__(self) -> Generator[Any, None, TurnResult]:
        interrupted = RunAborted if in_cell() else asyncio.CancelledError
        return drive(self._run, interrupted).__await__()

    def __repr__(self) -> str:
        state = self._harness.phase if not self.done else "done"
        return f"BackgroundRun({state})"
