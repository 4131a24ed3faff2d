"""Runs on the loop thread, the jobs that need the main thread, and the two ways to wait.

A cell only waits for its run, and while it waits it serves jobs: pieces of work that must
happen on the main thread.

    cell --start--> Run on the loop thread --on_main(job)--> cell serves it --> Run goes on

`drive` waits by await (a top-level cell), `drive_blocking` by blocking (anything else).
An interrupt aborts the run once; the wait then lasts `GRACE` at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from types import FrameType
from typing import Any, ClassVar, Generic, TypeVar

from pi_nb.abort import Aborted
from pi_nb.loop_thread import call, loop, on_loop_thread

__all__ = ["CannotAwait", "Run", "RunAborted", "call", "drive", "drive_blocking", "loop"]
T = TypeVar("T")

BEAT = 0.1
"""Seconds. ipykernel's interrupt of an awaited cell does not wake an idle loop (its issue
881), so the wait wakes by itself this often."""
Waiting = tuple[Coroutine[Any, Any, Any], "asyncio.Future[Any]"]
"""What a job gave to be awaited, and who is told what came of it."""
GRACE = 1.5
"""Seconds that an aborted run has to end before the cell stops waiting for it."""
AGAIN = 1.0
"""A second interrupt later than this after the first gives up waiting at once."""


class RunAborted(KeyboardInterrupt):
    """The run was interrupted. Shown as one line; as an interrupt it stops Run All too."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class CannotAwait(RuntimeError):
    """A job has to be awaited, and whoever serves it cannot."""


class Run(Generic[T]):
    """One piece of work on the loop thread that somebody may wait for, and abort.

    It keeps the context variables of the place that started it, so that what it displays
    lands in the cell it belongs to.
    """

    def __init__(
        self, work: Callable[[Run[T]], Coroutine[Any, Any, T]], on_abort: Callable[[], None]
    ) -> None:
        """
        Args:
            work: Called on the loop thread with this run.
            on_abort: Called once, on the loop thread, by the first `abort()`; not if the
                run has ended by then, so that it never stops what came after this run.
        """
        self._on_abort = on_abort
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]]]
        self._jobs = queue.SimpleQueue()
        self._finished = threading.Event()
        # Re-entrant: a handler of SIGINT calls `abort` in the middle of anything.
        self._lock = threading.RLock()
        self._task: asyncio.Task[T] | None = None
        self._wake: Callable[[], None] = _nobody
        self._in_job = False
        self._stop_job: Callable[[], object] = _nobody
        self._pressed = False
        self.aborted = False
        self._loop = loop()
        context = contextvars.copy_context()

        async def whole() -> T:  # so that `work` itself may fail
            return await work(self)

        def start() -> None:
            self._task = self._loop.create_task(whole(), context=context)
            self._task.add_done_callback(self._done)

        self._loop.call_soon_threadsafe(start)

    def _done(self, task: asyncio.Task[T]) -> None:
        # Asking for the exception keeps asyncio from logging one that nobody waits for.
        if not task.cancelled():
            task.exception()
        self._finished.set()
        self._wake()

    @property
    def finished(self) -> bool:
        return self._finished.is_set()

    def abort(self) -> None:
        """Ask it to stop. Any thread; the second and later calls do nothing."""
        with self._lock:
            if self.aborted or self.finished:
                return
            self.aborted = True
            self._loop.call_soon_threadsafe(self._tell_abort)
            self._stop_job()
            main = threading.main_thread()
            if self._in_job and threading.current_thread() is not main and main.ident:
                # The job is user code on the main thread: only a signal reaches it. Under
                # the lock, so that it cannot arrive when the job is over.
                signal.pthread_kill(main.ident, signal.SIGINT)

    def _tell_abort(self) -> None:
        if self._task is None or not self._task.done():
            self._on_abort()

    async def on_main(self, job: Callable[[], Any]) -> Any:
        """Have the waiting cell run `job` on its thread; on the loop thread only. While no
        cell waits for the run, the job waits too.

        Returns what it returns, raises what it raises. A coroutine that it returns is awaited
        there, and its result is the job's.

        Raises:
            Aborted: the job was interrupted; the run has been told to stop.
            CannotAwait: a coroutine, and the cell waits by blocking.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._jobs.put((job, answer))
        self._wake()
        return await answer

    def outcome(self) -> T:
        """The result. Raises what the work raised; `RunAborted` if it was cancelled."""
        task = self._task
        assert task is not None, "only asked after `finished`"
        if task.cancelled():
            raise RunAborted("Aborted.")
        return task.result()

    def _serve(self) -> Waiting | None:
        """Run the jobs that wait, here and now, up to one that has to be awaited.

        Raises:
            KeyboardInterrupt: a job was interrupted; the run is told to stop.
        """
        while True:
            try:
                job, answer = self._jobs.get_nowait()
            except queue.Empty:
                return None
            if self.aborted:  # what waits behind a job that was stopped is not begun
                self._answer(answer, partial(_raise, Aborted("aborted by user")))
                continue
            if answer.cancelled():
                continue
            give: Callable[[asyncio.Future[Any]], object]
            try:
                with _interruptible(self):
                    value = self._do(job)
                if inspect.iscoroutine(value):
                    return value, answer
                give = partial(_return, value)
            except KeyboardInterrupt:
                # First, so that whoever is told that the job stopped sees why.
                self.abort()
                self._answer(answer, partial(_raise, Aborted("interrupted by user")))
                raise
            except BaseException as error:
                give = partial(_raise, error)
            self._answer(answer, give)

    async def _serve_awaiting(self, patience: _Patience) -> None:
        """As `_serve`, awaiting what has to be. A press stops only that."""
        while (waiting := self._serve()) is not None:
            work, answer = waiting
            here = asyncio.get_running_loop()
            task = here.create_task(_awaited(work))
            with self._lock:
                self._stop_job = partial(here.call_soon_threadsafe, task.cancel)
                self._in_job = patience in patience._listening
            if self.aborted:
                self._stop_job()
            try:
                while not task.done():
                    try:
                        await asyncio.wait({task}, timeout=BEAT)
                    except (asyncio.CancelledError, KeyboardInterrupt):
                        patience.interrupted()
                    patience.check()
            finally:
                with self._lock:
                    self._in_job, self._stop_job = False, _nobody
                self._answer(answer, _given_by(task))

    def _serve_blocking(self) -> None:
        """As `_serve`; what would have to be awaited is refused."""
        while (waiting := self._serve()) is not None:
            work, answer = waiting
            work.close()
            refusal = CannotAwait("the cell waits by blocking, and nothing can be awaited in it")
            self._answer(answer, partial(_raise, refusal))

    def _do(self, job: Callable[[], Any]) -> Any:
        on_main = threading.current_thread() is threading.main_thread()
        try:
            self._in_job = on_main
            return job()
        finally:
            with self._lock:
                self._in_job = False

    def _answer(
        self, answer: asyncio.Future[Any], give: Callable[[asyncio.Future[Any]], object]
    ) -> None:
        def deliver() -> None:
            if not answer.done():
                give(answer)

        self._loop.call_soon_threadsafe(deliver)


async def _awaited(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except KeyboardInterrupt:  # in a task it would end the kernel's loop
        raise Aborted("interrupted by user") from None


def _in_awaited(frame: FrameType | None) -> bool:
    """Whether a signal arrived in code that `_awaited` awaits, which may be interrupted there."""
    while frame is not None and (frame := frame.f_back) is not None:
        if frame.f_code is _awaited.__code__:
            return True
    return False


def _given_by(task: asyncio.Task[Any]) -> Callable[[asyncio.Future[Any]], object]:
    if not task.done() or task.cancelled():
        return partial(_raise, Aborted("interrupted by user"))
    error = task.exception()
    return partial(_return, task.result()) if error is None else partial(_raise, error)


def _return(value: Any, answer: asyncio.Future[Any]) -> None:
    answer.set_result(value)


def _raise(error: BaseException, answer: asyncio.Future[Any]) -> None:
    if isinstance(error, StopIteration):  # a future refuses it
        error = RuntimeError(f"the job raised StopIteration({error})")
    answer.set_exception(error)


@contextlib.contextmanager
def _interruptible(run: Run[Any]) -> Iterator[None]:
    """Make SIGINT a KeyboardInterrupt in a job; ipykernel makes it something else in async
    cells. It is raised inside the job, or here when the job is over: nowhere in between.

    On another thread than the main one nothing is changed: it gets no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def pressed(_number: int, _frame: FrameType | None) -> None:
        # Noted also here: the job may be one that catches it.
        run._pressed = True
        if run._in_job:
            raise KeyboardInterrupt

    run._pressed = False
    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        _give_back(before)
    if run._pressed:
        raise KeyboardInterrupt


def _give_back(handler: Any) -> None:
    # None: it was not installed from Python, so Python cannot install it again.
    signal.signal(signal.SIGINT, signal.default_int_handler if handler is None else handler)


class _Patience:
    """How long to wait after an abort, and whether a second press ended the patience."""

    _listening: ClassVar[list[_Patience]] = []
    _before: ClassVar[Any] = None

    def __init__(self, run: Run[Any] | None, interrupted: type[BaseException]) -> None:
        self._run = run
        self._error = interrupted
        self._first: float | None = None
        self._gave_up = False

    @property
    def lost(self) -> bool:
        """An interrupt came while waiting."""
        return self._first is not None

    def interrupted(self) -> None:
        """The first press aborts; a later one, not a bounce of the first, gives up."""
        now = time.monotonic()
        if self._first is None:
            self._first = now
            self.listen()
            if self._run is not None:
                self._run.abort()
        elif now - self._first >= AGAIN:
            self._gave_up = True

    def begun(self, run: Run[Any]) -> None:
        """What it waits for exists now; a press that came before is for it."""
        self._run = run
        if self.lost:
            run.abort()

    def listen(self) -> None:
        """Take the presses from now on. One handler for all who wait in this process: two
        runs that are awaited side by side do not end in the order in which they began."""
        if threading.current_thread() is not threading.main_thread() or self in self._listening:
            return
        self._listening.append(self)
        if len(self._listening) == 1:
            _Patience._before = signal.signal(signal.SIGINT, _all_interrupted)

    def check(self) -> None:
        """Raises `interrupted`: it did not stop in time, or the user pressed again."""
        late = self._first is not None and time.monotonic() > self._first + GRACE
        if (late or self._gave_up) and self._run is not None and not self._run.finished:
            raise self._error(
                "The run did not stop in time and was left behind; its session says where it was."
            )

    def over(self) -> None:
        if self in self._listening:
            self._listening.remove(self)
            if not self._listening:
                _give_back(_Patience._before)


def _all_interrupted(_number: int, frame: FrameType | None) -> None:
    for patience in tuple(_Patience._listening):
        patience.interrupted()
    if _in_awaited(frame):
        raise KeyboardInterrupt


async def drive(run: Run[T], interrupted: type[BaseException] = asyncio.CancelledError) -> T:
    """Wait for a run on the caller's loop, serving its main-thread jobs in between.

    An interrupt (ipykernel delivers it as a cancellation) aborts the run once and waits for
    its end, so that what it had to write is written.

    Args:
        interrupted: What to raise after an interrupt, also where the run did not stop within
            `GRACE`. A cell wants `RunAborted`; in a task of its own that would end the
            caller's loop, as every KeyboardInterrupt does.

    Raises:
        BaseException: `interrupted`; else as `Run.outcome`.
    """
    here = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody waits
            here.call_soon_threadsafe(woken.set)

    patience = _Patience(run, interrupted)
    run._wake = wake
    if interrupted is not asyncio.CancelledError:
        # A cell: ipykernel would deliver a press up to a heartbeat late, when the next job
        # may have begun. Elsewhere the signal belongs to whoever runs the loop.
        patience.listen()
    try:
        while not run.finished:
            try:
                await run._serve_awaiting(patience)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT):
                        await woken.wait()
                woken.clear()
            except (asyncio.CancelledError, KeyboardInterrupt):
                patience.interrupted()
            patience.check()
    finally:
        patience.over()
        run._wake = _nobody
    if patience.lost:
        raise interrupted("Aborted.")
    return run.outcome()


def drive_blocking(begin: Run[T] | Callable[[], Run[T]]) -> T:
    """Wait for a run by blocking this thread, serving its main-thread jobs in between.

    Args:
        begin: The run, or what starts it: then a press that comes while it is started is
            for the run too, and no moment is left in which it would be an exception.

    Raises:
        RunAborted: it was interrupted, or did not stop within `GRACE` after it.
        RuntimeError: called on the loop thread itself, which would wait for ever; the run
            is aborted.
    """
    if on_loop_thread():
        if isinstance(begin, Run):
            begin.abort()
        raise RuntimeError("already on the loop thread: await it instead")
    woken = threading.Event()
    patience = _Patience(None, RunAborted)
    run: Run[T] | None = None
    # From the first moment: a press is a note for this loop and never an exception in it.
    patience.listen()
    try:
        run = begin if isinstance(begin, Run) else begin()
        run._wake = woken.set
        patience.begun(run)
        while not run.finished:
            try:
                run._serve_blocking()
                woken.wait(BEAT)
                woken.clear()
            except KeyboardInterrupt:
                patience.interrupted()
            patience.check()
    finally:
        patience.over()
        if run is not None:
            run._wake = _nobody
    if patience.lost:
        raise RunAborted("Aborted.")
    return run.outcome()


def _nobody() -> None:
    """Nobody waits."""
