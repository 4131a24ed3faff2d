"""`pi_nb.agent(...)`: one conversation as a value in the notebook.

An `Agent` is a harness with its session, its tools on real files, and the functions behind
the magics. The harness lives on the loop thread; every method here may be called from a
cell, a callback or a plain thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from pi_nb import background
from pi_nb.background import Run, RunAborted, drive, drive_blocking
from pi_nb.env.types import ExecutionEnv
from pi_nb.harness.approval import ApprovalRequest, Decision
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.operations import Recovered
from pi_nb.harness.requests import SentRequest
from pi_nb.harness.steps import Gate, Step, SteppedRun
from pi_nb.harness.turn import (
    AbortResult,
    NavigateResult,
    TurnResult,
)
from pi_nb.loop.types import AgentTool
from pi_nb.messages import ImageContent
from pi_nb.models.types import ChatModel, Model
from pi_nb.result import PiError
from pi_nb.session.entries import Entry
from pi_nb.session.outline import Outline
from pi_nb.session.session import Session
from pi_nb.text import count, one_line
from pi_nb.tokens import context_size

from . import current
from .cells import Cell, Cells, Walked
from .display import LiveCell, footer
from .kernel import ask_by_input, can_ask, cell_id, in_cell, on_main_thread
from .model_choice import NoModel, chat_model, no_model
from .status import Rows, Status, audit

T = TypeVar("T")


class Agent:
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
        self._run: Run[Any] | None = None
        self._stepped: SteppedRun | None = None
        self._can_ask = False
        harness.approval.asker = self._ask

    # --- what it is -------------------------------------------------------------------

    @property
    def session(self) -> Session:
        return self.harness.session

    @property
    def env(self) -> ExecutionEnv | None:
        return self.harness.env

    @property
    def model(self) -> Model:
        return self.harness.model.model

    @property
    def tools(self) -> tuple[AgentTool, ...]:
        return self.harness.tools

    @property
    def requests(self) -> Sequence[SentRequest]:
        """The last requests as they were sent, the newest last: `agent.requests[-1]`."""
        return self.harness.requests

    def audit(self) -> Rows:
        """Every tool call on the present branch: what it was, who let it run, what came of it."""
        return audit(self.session, self.harness.lane)

    def outline(self) -> Outline:
        """The session's tree as text and HTML."""
        return self.session.outline()

    def status(self) -> Status:
        """Where it stands: session, model, size of the context, tools, approvals."""
        items = self.session.context(self.harness.lane).items
        approve = self.harness.approval.approve
        return Status(
            session=str(self.session.path or "in memory"),
            name=self.session.name,
            cwd=self.env.cwd if self.env else "",
            model=self.model,
            thinking_level=self.harness.thinking_level,
            tools=self.harness.active_tools,
            approve=approve if isinstance(approve, str) else "by a function",
            messages=len(items),
            recovered=str(self.recovered) if self.recovered else "",
            context=context_size([item.message for item in items]),
            used=self.session.context(self.harness.lane).model,
            phase=self.harness.phase,
        )

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
        live, run = self._start(text, images, show, cell)
        # In a kernel a cancellation is the user's interrupt; elsewhere it is the caller's.
        with self._watched(live, run):
            await drive(run, RunAborted if in_cell() else asyncio.CancelledError)
        return run.outcome()

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
        live, run = self._start(text, images, show, cell)
        with self._watched(live, run):
            drive_blocking(run)
        return run.outcome()

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
        show: bool | LiveCell,
        cell: Cell | None,
    ) -> tuple[LiveCell, Run[TurnResult]]:
        _check_says_something(text, images)
        self.check_ready()
        self.recovered = Recovered()
        self._can_ask = can_ask() and on_main_thread()
        live = show if isinstance(show, LiveCell) else LiveCell(quiet=not show)

        async def work(_run: Run[TurnResult]) -> TurnResult:
            leave = self.harness.subscribe(live.add)
            try:
                wire = None if cell is None else cell.to_wire()
                return await self.harness.prompt(text, images, cell=wire)
            finally:
                leave()

        self._run = run = Run(work, self._abort_soon)
        return live, run

    @contextlib.contextmanager
    def _watched(self, live: LiveCell, run: Run[TurnResult]) -> Iterator[None]:
        """Keep what a run came to, also where the cell was interrupted, and leave its display."""
        note, footing, reason = "Left behind: it did not stop in time.", "", ""
        try:
            yield
        finally:
            if run.finished:
                note = ""
                with contextlib.suppress(Exception, KeyboardInterrupt):
                    self.last = result = run.outcome()
                    note, reason = result.ending, result.message.stop_reason
                    messages = self.session.context(self.harness.lane).messages
                    footing = footer(result, context_size(messages))
            live.finish(note, footing, reason)

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

    # --- moving and settings ----------------------------------------------------------

    def goto(self, where: str | int | Entry) -> NavigateResult:
        """Move the leaf to an entry: the next prompt branches from there.

        At a user message the leaf goes to before it, and its text comes back for editing.

        Args:
            where: An entry, its number in the outline, its label, or its id (the beginning
                or the end of it will do).

        Raises:
            PiError: `invalid_argument`, nothing or more than one entry fits; `busy`.
        """
        self.check_open()
        entry = where if isinstance(where, Entry) else self.session.find(str(where))
        return background.call(self.harness.navigate(entry.id))

    def use_model(self, model: ChatModel | str, *, window: int | None = None) -> Model:
        """Use another model from the next turn on: an object, or a server's address.

        Args:
            model: A `ChatModel`; `http://host:port`, with `#name` for one of its list; or
                the name of another model of the present server.
            window: Tokens of its context window, where the server does not say it right.

        Raises:
            PiError: `invalid_argument`, with what is wrong and the next step.
        """
        self.check_open()
        chosen = chat_model(model, window, beside=self.model)
        background.call(self.harness.set_model(chosen))
        return chosen.model

    def close(self) -> None:
        """Abort what runs, and give the session file free. The second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if self._stepped is not None and self._stepped.paused:
            with contextlib.suppress(TimeoutError):
                background.call(self.harness.abort(), timeout=background.GRACE + 1)
        if self._run is not None and not self._run.finished:
            self._run.abort()
            with contextlib.suppress(TimeoutError):  # what will not stop must not hold the file
                background.call(self.harness.wait(), timeout=background.GRACE + 1)
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
            raise PiError("busy", "This agent is at work. Wait for it, or `agent.abort()`.")

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


def _check_says_something(text: object, images: Sequence[ImageContent]) -> None:
    """A notebook has no type checker, and an empty prompt costs a request for nothing."""
    if not isinstance(text, str) or not (text.strip() or images):
        raise PiError("invalid_argument", f"A prompt is a text, not {one_line(repr(text))}.")
