"""The loop thread, the jobs that need the main thread, and the two ways to wait for a run.

Everything lasting (sessions, HTTP, timers, runs) lives on one event loop in a daemon thread,
so that it needs neither the kernel's loop nor a free main thread. A cell only waits, and
while it waits it serves jobs: pieces of work that must happen on the main thread.

    cell --start--> Run on the loop thread --on_main(job)--> cell serves it --> Run goes on

`drive` waits by await (a top-level cell), `drive_blocking` by blocking (anything else).
An interrupt aborts the run once; the wait then lasts `GRACE` at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

BEAT = 0.1
"""Seconds. ipykernel's interrupt of an awaited cell does not wake an idle loop (its issue
881), so the wait wakes by itself this often."""
GRACE = 1.5
"""Seconds that an aborted run has to end before the cell stops waiting for it."""
AGAIN = 1.0
"""A second interrupt later than this after the first gives up waiting at once."""


class RunAborted(KeyboardInterrupt):
    """The run was interrupted. Shown as one line; as an interrupt it stops Run All too."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class _LoopThread:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()

        def serve() -> None:
            asyncio.set_event_loop(self.loop)
            self.loop.call_soon(ready.set)
            self.loop.run_forever()

        self.thread = threading.Thread(target=serve, name="pi_nb-loop", daemon=True)
        self.thread.start()
        ready.wait()


_lock = threading.Lock()
_thread: _LoopThread | None = None


def loop() -> asyncio.AbstractEventLoop:
    """The loop of the loop thread, started when first asked for. One a process."""
    global _thread
    with _lock:
        if _thread is None or not _thread.thread.is_alive():  # also after a fork
            _thread = _LoopThread()
        return _thread.loop


def call(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Do short work on the loop thread and wait for it, from any other thread.

    For look-ups and settings, not for runs: it serves no main-thread jobs.

    Raises:
        RuntimeError: called on the loop thread itself, which would wait for ever.
        TimeoutError: it took longer than `timeout` seconds; it goes on.
    """
    target = loop()
    if _thread is not None and threading.current_thread() is _thread.thread:
        work.close()
        raise RuntimeError("already on the loop thread: await it instead")
    return asyncio.run_coroutine_threadsafe(work, target).result(timeout)


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
            on_abort: Called once, on the loop thread, by the first `abort()`.
        """
        self._on_abort = on_abort
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]]]
        self._jobs = queue.SimpleQueue()
        self._finished = threading.Event()
        self._lock = threading.Lock()
        self._task: asyncio.Task[T] | None = None
        self._wake: Callable[[], None] = _nobody
        self._in_job = False
        self.aborted = False
        self._loop = loop()
        context = contextvars.copy_context()

        def start() -> None:
            self._task = self._loop.create_task(work(self), context=context)
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
            in_job = self._in_job
        self._loop.call_soon_threadsafe(self._on_abort)
        main = threading.main_thread()
        if in_job and threading.current_thread() is not main and main.ident is not None:
            # The job is user code on the main thread: only a signal reaches it.
            signal.pthread_kill(main.ident, signal.SIGINT)

    async def on_main(self, job: Callable[[], Any]) -> Any:
        """Have the waiting cell run `job` on its thread; on the loop thread only.

        Returns what it returns, raises what it raises. An interrupt inside it aborts the
        run, and `CancelledError` is raised here.
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

    def _serve(self) -> None:
        """Run the jobs that wait, here and now."""
        while True:
            try:
                job, answer = self._jobs.get_nowait()
            except queue.Empty:
                return
            if answer.cancelled():
                continue
            self._in_job = True
            try:
                with _interruptible():
                    value = job()
            except KeyboardInterrupt:
                self._in_job = False
                self._answer(answer, asyncio.Future.cancel)
                self.abort()
                raise
            except BaseException as error:
                self._answer(answer, partial(_raise, error))
            else:
                self._answer(answer, partial(_return, value))
            finally:
                self._in_job = False

    def _answer(
        self, answer: asyncio.Future[Any], give: Callable[[asyncio.Future[Any]], object]
    ) -> None:
        def deliver() -> None:
            if not answer.done():
                give(answer)

        self._loop.call_soon_threadsafe(deliver)


def _return(value: Any, answer: asyncio.Future[Any]) -> None:
    answer.set_result(value)


def _raise(error: BaseException, answer: asyncio.Future[Any]) -> None:
    if isinstance(error, StopIteration):  # a future refuses it
        error = RuntimeError(f"the job raised StopIteration({error})")
    answer.set_exception(error)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Make SIGINT a KeyboardInterrupt here; ipykernel makes it something else in async cells.

    On another thread than the main one nothing is changed: it gets no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Patience:
    """How long to wait after an abort, and whether a second press ended the patience."""

    def __init__(self, run: Run[Any]) -> None:
        self._run = run
        self._first: float | None = None
        self._before: Any = None
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
            self._run.abort()
            if threading.current_thread() is threading.main_thread():
                self._before = signal.signal(signal.SIGINT, self._pressed)
        elif now - self._first >= AGAIN:
            self._gave_up = True

    def _pressed(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupted()

    def check(self) -> None:
        """Raises:
        RunAborted: it did not stop in time, or the user pressed again.
        """
        late = self._first is not None and time.monotonic() > self._first + GRACE
        if late or self._gave_up:
            raise RunAborted(
                "The run did not stop in time and was left behind; its session says where it was."
            )

    def over(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None


async def drive(run: Run[T], interrupted: type[BaseException] = asyncio.CancelledError) -> T:
    """Wait for a run on the caller's loop, serving its main-thread jobs in between.

    An interrupt (ipykernel delivers it as a cancellation) aborts the run once and waits for
    its end, so that what it had to write is written.

    Args:
        interrupted: What to raise after an interrupt; a cell wants `RunAborted`.

    Raises:
        RunAborted: it did not stop within `GRACE`; or as `Run.outcome`.
    """
    here = asyncio.get_running_loop()
    woken = asyncio.Event()

    def wake() -> None:
        if not here.is_closed():
            here.call_soon_threadsafe(woken.set)

    patience = _Patience(run)
    run._wake = wake
    try:
        while not run.finished:
            try:
                run._serve()
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


def drive_blocking(run: Run[T]) -> T:
    """Wait for a run by blocking this thread, serving its main-thread jobs in between.

    Raises:
        RunAborted: it was interrupted, or did not stop within `GRACE` after it.
    """
    woken = threading.Event()
    patience = _Patience(run)
    run._wake = woken.set
    try:
        with _interruptible():
            while not run.finished:
                try:
                    run._serve()
                    woken.wait(BEAT)
                    woken.clear()
                except KeyboardInterrupt:
                    patience.interrupted()
                patience.check()
    except KeyboardInterrupt as pressed:  # between two statements of the loop
        if isinstance(pressed, RunAborted):
            raise
        run.abort()
        run._finished.wait(GRACE)
        raise RunAborted("Aborted.") from None
    finally:
        patience.over()
        run._wake = _nobody
    if patience.lost:
        raise RunAborted("Aborted.")
    return run.outcome()


def _nobody() -> None:
    """Nobody waits."""
