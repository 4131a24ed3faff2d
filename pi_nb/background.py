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
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from types import FrameType
from typing import Any, ClassVar, Generic, TypeVar

from pi_nb.abort import Aborted

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
            # `sys.exit` in one piece of work ends that piece, which has it as its outcome;
            # asyncio lets it out of the loop too, and everything else lives here.
            while True:
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()

        self.thread = threading.Thread(target=serve, name="pi_nb-loop", daemon=True)
        self.thread.start()
        ready.wait()


_lock = threading.Lock()
_thread: _LoopThread | None = None


def _start_afresh() -> None:
    global _lock, _thread
    _lock = threading.Lock()
    _thread = None


if hasattr(os, "register_at_fork"):
    # A forked child has no loop thread, and maybe a lock that a lost thread holds for ever.
    os.register_at_fork(after_in_child=_start_afresh)


def loop() -> asyncio.AbstractEventLoop:
    """The loop of the loop thread, started when first asked for. One a process."""
    global _thread
    with _lock:
        if _thread is None:
            _thread = _LoopThread()
        return _thread.loop


def _on_loop_thread() -> bool:
    return _thread is not None and threading.current_thread() is _thread.thread


def call(work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Do short work on the loop thread and wait for it, from any other thread.

    For look-ups and settings, not for runs: it serves no main-thread jobs.

    Raises:
        RuntimeError: called on the loop thread itself, which would wait for ever.
        TimeoutError: it took longer than `timeout` seconds; it goes on.
    """
    target = loop()
    if _on_loop_thread():
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
            main = threading.main_thread()
            if self._in_job and threading.current_thread() is not main and main.ident:
                # The job is user code on the main thread: only a signal reaches it. Under
                # the lock, so that it cannot arrive when the job is over.
                signal.pthread_kill(main.ident, signal.SIGINT)

    def _tell_abort(self) -> None:
        if self._task is None or not self._task.done():
            self._on_abort()

    async def on_main(self, job: Callable[[], Any]) -> Any:
        """Have the waiting cell run `job` on its thread; on the loop thread only.

        Returns what it returns, raises what it raises.

        Raises:
            Aborted: the job was interrupted; the run has been told to stop.
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
        """Run the jobs that wait, here and now.

        Raises:
            KeyboardInterrupt: a job was interrupted; the run is told to stop.
        """
        while True:
            try:
                job, answer = self._jobs.get_nowait()
            except queue.Empty:
                return
            if answer.cancelled():
                continue
            give: Callable[[asyncio.Future[Any]], object]
            try:
                with _interruptible(self):
                    value = self._do(job)
                give = partial(_return, value)
            except KeyboardInterrupt:
                # First, so that whoever is told that the job stopped sees why.
                self.abort()
                self._answer(answer, partial(_raise, Aborted("interrupted by user")))
                raise
            except BaseException as error:
                give = partial(_raise, error)
            self._answer(answer, give)

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
        if run._in_job:
            raise KeyboardInterrupt
        run._pressed = True

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

    def __init__(self, run: Run[Any], interrupted: type[BaseException]) -> None:
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
            self._run.abort()
        elif now - self._first >= AGAIN:
            self._gave_up = True

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
        if (late or self._gave_up) and not self._run.finished:
            raise self._error(
                "The run did not stop in time and was left behind; its session says where it was."
            )

    def over(self) -> None:
        if self in self._listening:
            self._listening.remove(self)
            if not self._listening:
                _give_back(_Patience._before)


def _all_interrupted(_number: int, _frame: FrameType | None) -> None:
    for patience in tuple(_Patience._listening):
        patience.interrupted()


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
        RuntimeError: called on the loop thread itself, which would wait for ever; the run
            is aborted.
    """
    if _on_loop_thread():
        run.abort()
        raise RuntimeError("already on the loop thread: await it instead")
    woken = threading.Event()
    patience = _Patience(run, RunAborted)
    run._wake = woken.set
    # From the first moment: a press is a note for this loop and never an exception in it.
    patience.listen()
    try:
        while not run.finished:
            try:
                run._serve()
                woken.wait(BEAT)
                woken.clear()
            except KeyboardInterrupt:
                patience.interrupted()
            patience.check()
    finally:
        patience.over()
        run._wake = _nobody
    if patience.lost:
        raise RunAborted("Aborted.")
    return run.outcome()


def _nobody() -> None:
    """Nobody waits."""
