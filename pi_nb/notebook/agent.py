"""`pi_nb.agent(...)`: one conversation as a value in the notebook.

An `Agent` is a harness with its session, its tools on real files, and the functions behind
the magics. The harness lives on the loop thread; every method here may be called from a
cell, a callback or a plain thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pi_nb import background
from pi_nb.abort import AbortSignal
from pi_nb.background import Run, RunAborted, drive, drive_blocking
from pi_nb.harness.approval import ApprovalRequest, Decision
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.operations import Recovered
from pi_nb.harness.steps import Gate, Step, SteppedRun
from pi_nb.harness.turn import (
    AbortResult,
    TurnResult,
)
from pi_nb.loop.types import ToolContext
from pi_nb.messages import ImageContent, ToolCall
from pi_nb.result import PiError
from pi_nb.text import count, one_line

from . import current
from .cells import Cell, Cells, Walked
from .compacting import AgentCompacting
from .context_view import ContextView
from .display import LiveCell, footer
from .kernel import ask_by_input, can_ask, cell_id, in_cell, on_main_thread
from .kernel_tools import PYTHON
from .model_choice import NoModel, no_model
from .running import BackgroundRun
from .snapshot_views import SnapshotViews

T = TypeVar("T")


class Agent(AgentCompacting, ContextView, SnapshotViews):
    """A conversation with a model that may use tools, written to a session file.

    Made by `pi_nb.agent(...)`. `agent.last` is the last result, `agent.session` the tree,
    `agent.harness` everything underneath.
    """

    def __init__(self, harness: AgentHarness) -> None:
        self.harness = harness
        self.last: TurnResult | None = None
        """What the last prompt came to; None before the first."""
        self.closed = False
        self.recovered = Recovered()
        """What a process that ended had left open in the session, until the next prompt."""
        self._cells = Cells(harness)
        self._told = harness.session.diagnostics
        self._run: Run[Any] | None = None
        self._stepped: SteppedRun | None = None
        self._starting = threading.Lock()
        self._can_ask = False
        harness.approval.asker = self._ask
        if harness.compaction.asker is None:
            harness.compaction.asker = self._ask_to_compact

    # --- what it is -------------------------------------------------------------------

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.harness.phase
        entries = count(len(self.session), "entry", "entries")
        return f"Agent({self.model}, {entries}, {state})"

    # --- asking -----------------------------------------------------------------------

    async def prompt(
        self,
        text: str,
        images: Sequence[ImageContent] = (),
        *,
        show: bool | LiveCell = False,
        cell: Cell | None = None,
    ) -> TurnResult:
        """Ask, and wait for the end of the run without blocking the kernel.

        Args:
            show: Stream the run into the cell, as `%%agent` does; or into this display.
            cell: The cell that asks, for the record; see `enter`.

        Returns:
            The result, also of a failed or aborted run: see `TurnResult.ok`.

        Raises:
            RunAborted: the cell was interrupted; what had arrived is in the session.
            PiError: `busy`; `invalid_state`: no model, or the agent is closed.
        """
        # In a kernel a cancellation is the user's interrupt; elsewhere it is the caller's.
        with self._watched(show) as watch:
            run = self._start(text, images, watch, cell)
            return await drive(run, RunAborted if in_cell() else asyncio.CancelledError)

    def prompt_sync(
        self,
        text: str,
        images: Sequence[ImageContent] = (),
        *,
        show: bool | LiveCell = False,
        cell: Cell | None = None,
    ) -> TurnResult:
        """Ask, and block until the run ended. Works in any cell, callback or thread.

        Raises:
            As `prompt`.
        """
        with self._watched(show) as watch:
            return drive_blocking(lambda: self._start(text, images, watch, cell))

    def start(
        self,
        text: str,
        images: Sequence[ImageContent] = (),
        *,
        show: bool | LiveCell = True,
        cell: Cell | None = None,
    ) -> BackgroundRun:
        """Ask, and return at once: the run goes on while other cells run.

        Its output goes on in the cell that started it. Approvals are by policy: what has to
        be asked for is denied. Jobs for the main thread wait for a cell that waits for the run.

        Raises:
            PiError: as `prompt`.
        """
        watch = _Watch(show if isinstance(show, LiveCell) else LiveCell(quiet=not show))
        return BackgroundRun(self.harness, self._start(text, images, watch, cell, alone=True))

    def steer(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Put a message in before the next request of what runs; see also `follow_up`.

        Raises:
            PiError: `invalid_state`, nothing runs.
        """
        background.call(self.harness.steer(text, images))

    def follow_up(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Put a message in when what runs has nothing left to do.

        Raises:
            PiError: `invalid_state`, nothing runs.
        """
        background.call(self.harness.follow_up(text, images))

    def enter(self, cell: Cell, *, fresh: bool = False) -> Walked | str:
        """Go to where a cell begins; what was asked there before is walked, not asked again.

        Returns:
            What was walked, or in words why it has to be asked: see `Cells.enter`.
        """
        self.check_open()
        entered = background.call(self._cells.enter(cell, fresh=fresh))
        if isinstance(entered, Walked):
            self.last = entered.result
        return entered

    def repeat_in_kernel(self, walked: Walked) -> list[ToolCall]:
        """Run the recorded calls of the python tool again in the user's namespace, in order,
        so that the variables are there that the answer speaks of. No other tool is run.

        Returns:
            The calls that were run; none where the agent has no python tool.

        Raises:
            RunAborted: it was interrupted.
        """
        python = next((tool for tool in self.tools if tool.name == PYTHON), None)
        calls = [call for call in walked.calls if call.name == PYTHON]
        if python is None or not calls:
            return []
        signal = AbortSignal()

        async def work(run: Run[None]) -> None:
            for call in calls:
                context = ToolContext(call.id, PYTHON, signal, on_main=run.on_main)
                await python.execute(call.arguments, context)

        drive_blocking(Run(work, signal.abort))
        return calls

    def begin_pass(self) -> None:
        """Go to before the first entry; from here on each cell is walked or asked in turn.

        Raises:
            PiError: `busy`.
        """
        background.call(self.harness.move(None))
        self._cells = Cells(self.harness, from_root=True)

    def cell(self, text: str) -> Cell:
        """The cell that runs now and asks this."""
        return self._cells.cell(text, cell_id())

    def _start(
        self,
        text: str,
        images: Sequence[ImageContent],
        watch: _Watch,
        cell: Cell | None,
        *,
        alone: bool = False,
    ) -> Run[TurnResult]:
        """
        Args:
            alone: No cell waits for it, to ask the user or to leave its display.
        """
        _check_says_something(text, images)

        async def work(_run: Run[TurnResult]) -> TurnResult:
            leave = self.harness.subscribe(watch.live.add)
            try:
                wire = None if cell is None else cell.to_wire()
                result = await self.harness.prompt(text, images, cell=wire)
            except BaseException as error:
                if alone:
                    watch.live.finish(str(error) or type(error).__name__)
                raise
            finally:
                leave()
            if alone:
                self._keep(watch.live, result)
            return result

        with self._starting:  # two threads must not both find it idle
            self.check_ready()
            self.recovered = Recovered()
            self._can_ask = not alone and can_ask() and on_main_thread()
            watch.live.begin()
            self._run = watch.run = Run(work, self._abort_soon)
        return watch.run

    @contextlib.contextmanager
    def _watched(self, show: bool | LiveCell) -> Iterator[_Watch]:
        """Keep what a run came to, also where the cell was interrupted, and leave its display."""
        watch = _Watch(show if isinstance(show, LiveCell) else LiveCell(quiet=not show))
        try:
            yield watch
        finally:
            if (run := watch.run) is not None:
                run.abort()  # does nothing to one that ended; nobody waits for another
                note = "" if run.finished else "Left behind: it did not stop in time."
                try:
                    self._keep(watch.live, run.outcome())
                except (Exception, KeyboardInterrupt):
                    watch.live.finish(note)

    def _keep(self, live: LiveCell, result: TurnResult) -> None:
        """A run ended: remember what it came to, and leave what stays in its cell."""
        self.last = result
        footing = footer(result, self.harness.size)
        footing = "\n".join(filter(None, (footing, self.news())))
        live.finish(result.ending, footing, result.message.stop_reason)

    def _abort_soon(self) -> None:
        """On the loop thread. The harness keeps the task alive until it is settled."""
        self._aborting = asyncio.ensure_future(self.harness.abort())

    def abort(self) -> AbortResult:
        """Stop what runs and wait until it is written. While idle it does nothing."""

        async def stop() -> AbortResult:
            stopping = asyncio.ensure_future(self.harness.abort())
            if self._run is not None:
                self._run.abort()  # reaches user code on the main thread too
            return await stopping

        return background.call(stop())

    async def _ask(self, request: ApprovalRequest) -> Decision:
        run = self._run
        if run is None or not self._can_ask:
            reason = (
                f"{request.tool.name} needs an approval, and nobody can be asked here. "
                "Make the agent with approve='allow', or run it where input() works."
            )
            return Decision(False, "policy", reason)
        decision: Decision = await run.on_main(lambda: ask_by_input(request))
        return decision

    async def _on_main(self, job: Callable[[], Any]) -> Any:
        if self._run is None:
            raise RuntimeError("nobody serves jobs for the main thread here")
        return await self._run.on_main(job)

    # --- action by action -------------------------------------------------------------

    def step(self, text: str | None = None, images: Sequence[ImageContent] = ()) -> Step:
        """Perform the next action of a run, and stop before the one after it.

        The first call takes the prompt. Between two steps everything can be looked at, hooks
        and settings changed, messages steered; `finish` runs the rest. Blocks as
        `prompt_sync` does.

        Raises:
            RunAborted: the cell was interrupted, and the whole run with it.
            PiError: `busy`, a prompt is given while a run is paused; `invalid_state`, none is
                given and no run is paused; else as `prompt`.
        """
        if text is not None:
            _check_says_something(text, images)
            self.check_ready()
            self.recovered = Recovered()
            self._stepped = SteppedRun(lambda gate: self._kept(text, images, gate), self.session)
        stepped = self._under_way()
        return drive_blocking(lambda: self._serving(stepped.step))

    def finish(self) -> TurnResult:
        """Run the rest of a stepped run without stopping.

        Raises:
            RunAborted: the cell was interrupted.
            PiError: `invalid_state`, no run is paused.
        """
        stepped = self._under_way()
        return drive_blocking(lambda: self._serving(stepped.finish))

    def _under_way(self) -> SteppedRun:
        self.check_open()
        if self._stepped is None or self._stepped.over:
            raise PiError("invalid_state", 'No run is paused. `agent.step("...")` begins one.')
        return self._stepped

    def _serving(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Run[T]:
        """Go on with the stepped run; whoever waits for this serves its main-thread jobs."""
        self._check_idle()
        self._can_ask = can_ask() and on_main_thread()
        self._run = run = Run(lambda _run: work(), self._abort_soon)
        return run

    async def _kept(self, text: str, images: Sequence[ImageContent], gate: Gate) -> TurnResult:
        self.last = result = await self.harness.prompt(text, images, gate=gate)
        return result

    def close(self) -> None:
        """Abort what runs, and give the session file free. The second call does nothing."""
        if self.closed:
            return
        try:
            if self._stepped is not None and self._stepped.paused:
                with contextlib.suppress(TimeoutError):
                    background.call(self.harness.abort(), timeout=background.GRACE + 1)
            if self._run is not None and not self._run.finished:
                self._run.abort()
                with contextlib.suppress(TimeoutError):  # what will not stop holds no file
                    background.call(self.harness.wait(), timeout=background.GRACE + 1)
        finally:  # also where somebody does not want to wait for it
            self.closed = True
            self.session.close()
            current.forget(self)

    def check_ready(self) -> None:
        """Whether a prompt could run now.

        Raises:
            PiError: `invalid_state`, no model or closed; `busy`, it is at work.
        """
        self.check_open()
        if isinstance(self.harness.model, NoModel):
            used = self.session.context(self.harness.lane).model
            raise PiError("invalid_state", no_model(used))
        self._check_idle()
        if self._stepped is not None and self._stepped.paused:
            raise PiError(
                "busy",
                "A run is paused between two steps. `agent.step()` goes on, `agent.finish()` runs "
                "the rest, `agent.abort()` ends it.",
            )

    def _check_idle(self) -> None:
        if self._run is not None and not self._run.finished:
            raise PiError(
                "busy", "This agent is at work. Wait for it, `agent.steer(...)`, `agent.abort()`."
            )

    def check_open(self) -> None:
        """Raises:
        PiError: `invalid_state`, it was closed.
        """
        if self.closed:
            raise PiError(
                "invalid_state",
                "This agent is closed. `%agent resume` goes on with the latest session, "
                "`%agent new` starts another; in Python, pi_nb.agent(...).",
            )

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(slots=True)
class _Watch:
    """One prompt while it is waited for: its display, and its run once that has begun."""

    live: LiveCell
    run: Run[TurnResult] | None = None


def _check_says_something(text: object, images: Sequence[ImageContent]) -> None:
    """A notebook has no type checker, and an empty prompt costs a request for nothing."""
    if not isinstance(text, str) or not (text.strip() or images):
        raise PiError("invalid_argument", f"A prompt is a text, not {one_line(repr(text))}.")
