"""The loop thread, jobs for the main thread, and waiting for a run: J-01, J-13, `kernel.md` 3.

Signals go to the whole process, so every test that presses Ctrl-C does it in a child.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pi_nb import background
from pi_nb.abort import Aborted
from pi_nb.background import Run, RunAborted, drive, drive_blocking

BOUND = background.GRACE + 0.5
"""Seconds within which an aborted wait is over."""


def _nothing() -> None:
    pass


async def _seven(_run: Run[int]) -> int:
    return 7


def _failing(error: BaseException) -> Callable[[Run[Any]], Any]:
    async def work(_run: Run[Any]) -> None:
        raise error

    return work


# --- the loop thread ------------------------------------------------------------------------


def test_a_run_is_waited_for_from_a_plain_thread() -> None:
    found: list[int] = []

    thread = threading.Thread(target=lambda: found.append(drive_blocking(Run(_seven, _nothing))))
    thread.start()
    thread.join(10)

    assert found == [7]


def test_a_run_is_waited_for_from_a_loop_and_from_inside_a_running_loop() -> None:
    async def cell() -> tuple[int, int]:
        awaited = await drive(Run(_seven, _nothing))
        return awaited, drive_blocking(Run(_seven, _nothing))  # J-01: the loop runs here

    assert asyncio.run(cell()) == (7, 7)


def test_work_sees_the_context_variables_of_the_place_that_started_it() -> None:
    cell = contextvars.ContextVar("cell", default="none")
    cell.set("cell 3")

    async def work(_run: Run[str]) -> str:
        await asyncio.sleep(0)
        return cell.get()

    run = Run(work, _nothing)
    cell.set("cell 4")

    assert drive_blocking(run) == "cell 3"
    assert background.call(work(run)) == "cell 4"


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyError("k"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]
)
def test_what_the_work_raises_comes_back_and_the_loop_thread_lives_on(
    error: BaseException,
) -> None:
    before = background.loop()

    with pytest.raises(type(error)):
        drive_blocking(Run(_failing(error), _nothing))

    assert drive_blocking(Run(_seven, _nothing)) == 7
    assert background.loop() is before


def test_a_stop_iteration_comes_back_as_python_makes_it() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        drive_blocking(Run(_failing(StopIteration(1)), _nothing))


def test_work_that_cannot_even_begin_is_an_outcome_and_no_hang() -> None:
    def broken(_run: Run[None]) -> Any:
        raise ValueError("no coroutine")

    with pytest.raises(ValueError, match="no coroutine"):
        drive_blocking(Run(broken, _nothing))


def test_waiting_on_the_loop_thread_for_itself_is_refused() -> None:
    async def call() -> None:
        background.call(asyncio.sleep(0))

    async def block() -> None:
        drive_blocking(Run(_seven, _nothing))

    for work in (call, block):
        with pytest.raises(RuntimeError, match="already on the loop thread"):
            background.call(work(), timeout=5)


def test_a_call_that_takes_too_long_is_left_and_goes_on() -> None:
    begun, go, done = asyncio.Event(), asyncio.Event(), threading.Event()

    async def slow() -> None:
        begun.set()
        await go.wait()
        done.set()

    with pytest.raises(TimeoutError):
        background.call(slow(), timeout=0.05)
    background.loop().call_soon_threadsafe(go.set)

    assert done.wait(5)


# --- jobs for the main thread -----------------------------------------------------------------


def _asking(jobs: int) -> Callable[[Run[list[int]]], Any]:
    async def work(run: Run[list[int]]) -> list[int]:
        return await asyncio.gather(*(run.on_main(lambda n=n: n) for n in range(jobs)))

    return work


def test_jobs_are_served_in_order_by_the_thread_that_waits() -> None:
    served: list[tuple[int, bool]] = []

    def job(number: int) -> Callable[[], None]:
        here = threading.current_thread
        return lambda: served.append((number, here() is threading.main_thread()))

    async def work(run: Run[None]) -> None:
        await asyncio.gather(*(run.on_main(job(n)) for n in range(5)))

    drive_blocking(Run(work, _nothing))
    asyncio.run(drive(Run(work, _nothing)))

    assert served == [(n, True) for n in range(5)] * 2
    assert drive_blocking(Run(_asking(3), _nothing)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("error", "seen"),
    [(ValueError("v"), ValueError), (SystemExit(2), SystemExit), (StopIteration(4), RuntimeError)],
)
def test_what_a_job_raises_is_raised_where_it_was_asked_for(
    error: BaseException, seen: type[BaseException]
) -> None:
    def job() -> None:
        raise error

    async def work(run: Run[str]) -> str:
        try:
            await run.on_main(job)
        except seen as caught:
            return type(caught).__name__
        return "nothing"

    assert drive_blocking(Run(work, _nothing)) == seen.__name__


def test_a_job_whose_asker_gave_up_is_not_run() -> None:
    ran: list[str] = []

    async def work(run: Run[None]) -> None:
        asked = asyncio.ensure_future(run.on_main(lambda: ran.append("given up")))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait({asked})
        given_up.set()

    given_up = threading.Event()
    run = Run(work, _nothing)
    given_up.wait(5)
    drive_blocking(run)

    assert ran == []


# --- abort ----------------------------------------------------------------------------------


def _stoppable() -> tuple[Run[str], list[str]]:
    told: list[str] = []
    stop = asyncio.Event()

    def on_abort() -> None:
        told.append(threading.current_thread().name)
        stop.set()

    async def work(_run: Run[str]) -> str:
        await stop.wait()
        return "stopped"

    return Run(work, on_abort), told


def test_an_abort_is_told_once_on_the_loop_thread_from_whatever_thread_it_came() -> None:
    run, told = _stoppable()

    threads = [threading.Thread(target=run.abort) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert drive_blocking(run) == "stopped", "an abort of one's own is no interrupt"
    run.abort()
    assert told == ["pi_nb-loop"]


def test_an_abort_that_comes_too_late_is_not_told_to_whoever_runs_next() -> None:
    """J-13: the abort is on its way to the loop while the run ends."""
    told: list[str] = []
    ending, go = threading.Event(), threading.Event()

    async def work(_run: Run[None]) -> None:
        ending.set()
        go.wait(5)  # holds the loop: what is sent now is dealt with after the end

    run = Run(work, lambda: told.append("first"))
    ending.wait(5)
    run.abort()
    go.set()
    drive_blocking(run)
    background.call(asyncio.sleep(0))

    assert told == []


def test_a_cancelled_caller_aborts_the_run_and_waits_for_its_end() -> None:
    run, told = _stoppable()

    async def cell() -> None:
        waiting = asyncio.create_task(drive(run))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cell())

    assert (run.outcome(), told) == ("stopped", ["pi_nb-loop"])


@pytest.mark.slow
def test_a_run_that_refuses_to_stop_is_left_after_the_grace() -> None:
    go = asyncio.Event()

    async def work(_run: Run[None]) -> None:
        await go.wait()

    run = Run(work, _nothing)

    async def cell() -> float:
        begun = time.monotonic()
        cell_task = asyncio.current_task()
        assert cell_task is not None
        asyncio.get_running_loop().call_soon(cell_task.cancel)
        with pytest.raises(RunAborted, match="left behind"):
            await drive(run, RunAborted)
        return time.monotonic() - begun

    took = asyncio.run(cell())
    background.loop().call_soon_threadsafe(go.set)

    assert background.GRACE <= took < BOUND
    assert drive_blocking(run) is None


def test_an_abort_from_another_thread_does_not_touch_the_main_one_while_a_thread_serves() -> None:
    """Only a job on the main thread is interrupted by a signal; here it runs elsewhere."""
    in_job, go = threading.Event(), threading.Event()

    async def work(run: Run[str]) -> str:
        return str(await run.on_main(lambda: (in_job.set(), go.wait(5)) and "whole"))

    run = Run(work, _nothing)
    found: list[str] = []
    waiter = threading.Thread(target=lambda: found.append(drive_blocking(run)))
    waiter.start()
    assert in_job.wait(5)

    run.abort()  # a SIGINT would be a KeyboardInterrupt here, in the test itself
    go.set()
    waiter.join(5)

    assert found == ["whole"]


# --- Ctrl-C, in a child -----------------------------------------------------------------------

PRELUDE = """
import asyncio, os, signal, threading, time
from pi_nb import background, loop_thread
from pi_nb.background import Run, RunAborted, drive, drive_blocking

told = []
stop = asyncio.Event()
def on_abort():
    told.append(1)
    stop.set()
async def until_stopped(run):
    await run.on_main(lambda: None)  # from now on somebody waits
    begun.set()
    await stop.wait()
begun = threading.Event()
def busy():
    begun.set()
    while True:  # one long sleep could begin just after the signal and would not notice it
        time.sleep(0.01)

def press(times=1, gap=0.02):
    def work():
        begun.wait(10)
        for _ in range(times):
            # To the thread that a terminal's or a front end's SIGINT reaches on Linux; some
            # sandboxes give it to any, and then a blocking call does not notice.
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(gap)
    threading.Thread(target=work).start()

handler = lambda *_: told.append("a stray press")
signal.signal(signal.SIGINT, handler)
def over(error):
    assert signal.getsignal(signal.SIGINT) is handler, "the handler of before is back"
    print(type(error).__name__, error)
"""


def _child(code: str) -> tuple[str, float]:
    """What the child prints, and the seconds from its `press` to its end."""
    begun = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout, time.monotonic() - begun


@pytest.mark.parametrize("presses", [1, 3])
def test_an_interrupt_while_waiting_aborts_once(presses: int) -> None:
    """Three presses in 40 ms are one: the second must not cancel the writing of the first."""
    shown, _ = _child(f"""
        press({presses}, 0.013)
        try:
            drive_blocking(Run(until_stopped, on_abort))
        except RunAborted as error:
            over(error)
        print(told)
    """)

    assert shown == "RunAborted Aborted.\n[1]\n"


@pytest.mark.parametrize("way", ["drive_blocking(run)", "asyncio.run(drive(run, RunAborted))"])
def test_an_interrupt_inside_a_job_stops_the_job_and_the_run(way: str) -> None:
    shown, _ = _child(f"""
        async def work(run):
            try:
                await run.on_main(busy)
            except BaseException as error:
                await stop.wait()
                print(type(error).__name__, run.aborted)
        press()
        run = Run(work, on_abort)
        start = time.monotonic()
        try:
            {way}
        except RunAborted as error:
            over(error)
        print(told, time.monotonic() - start < 2)
    """)

    assert shown == "Aborted True\nRunAborted Aborted.\n[1] True\n"


def test_an_abort_from_a_thread_interrupts_the_job_on_the_main_thread() -> None:
    """A stop button while user code runs: only a signal reaches it."""
    shown, _ = _child("""
        async def work(run):
            try:
                await run.on_main(busy)
            finally:
                await stop.wait()
        run = Run(work, on_abort)
        threading.Thread(target=lambda: (begun.wait(10), run.abort())).start()
        start = time.monotonic()
        try:
            drive_blocking(run)
        except RunAborted as error:
            over(error)
        print(told, time.monotonic() - start < 2)
    """)

    assert shown == "RunAborted Aborted.\n[1] True\n"


@pytest.mark.slow
def test_a_second_press_a_second_later_ends_the_wait_at_once() -> None:
    shown, _ = _child("""
        background.GRACE = 20
        async def stubborn(run):
            await run.on_main(lambda: None)
            begun.set()
            await asyncio.sleep(60)
        press(2, background.AGAIN + 0.05)
        start = time.monotonic()
        try:
            drive_blocking(Run(stubborn, on_abort))
        except RunAborted as error:
            over(error)
        print(told, time.monotonic() - start < 3)
    """)

    assert "left behind" in shown
    assert shown.endswith("[1] True\n")


@pytest.mark.slow
def test_presses_at_any_moment_end_in_one_line_and_leave_the_next_run_alone() -> None:
    """J-13, and every moment between two statements: presses rain on many short runs."""
    shown, _ = _child("""
        async def short(run):
            await run.on_main(lambda: sum(range(2000)))
            return 7
        raining = True
        def rain():
            while raining:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.0007)
        drops = threading.Thread(target=rain)
        drops.start()
        ends = set()
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            try:
                ends.add(drive_blocking(Run(short, lambda: None)))
            except RunAborted as error:
                ends.add(str(error))
        raining = False
        drops.join()
        assert signal.getsignal(signal.SIGINT) is handler
        print(ends <= {7, "Aborted."}, drive_blocking(Run(short, lambda: None)))
    """)

    assert shown == "True 7\n"


def test_two_runs_that_are_awaited_together_give_the_handler_back_in_any_order() -> None:
    shown, _ = _child("""
        async def work(run):
            await stop.wait()
        async def slower(run):
            await stop.wait()
            await asyncio.sleep(0.05)
        async def main():
            runs = Run(work, on_abort), Run(slower, on_abort)
            waits = [asyncio.create_task(drive(run)) for run in runs]
            await asyncio.sleep(0)
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
            print([run.outcome() for run in runs])
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        over(RunAborted("both"))
    """)

    assert shown == "[None, None]\nRunAborted both\n"


# --- nothing is left ------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_two_hundred_runs_leave_no_thread_and_no_descriptor() -> None:
    def held() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    drive_blocking(Run(_asking(1), _nothing))
    before = held()

    for _ in range(100):
        drive_blocking(Run(_asking(2), _nothing))
        with pytest.raises(ValueError, match="no"):
            drive_blocking(Run(_failing(ValueError("no")), _nothing))

    # Fewer is fine: what earlier tests left behind may end meanwhile.
    assert all(now <= then for now, then in zip(held(), before, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_loop_thread_of_its_own() -> None:
    shown, _ = _child("""
        print(drive_blocking(Run(lambda run: asyncio.sleep(0, 1), on_abort)), flush=True)
        loop_thread._lock.acquire()  # as if another thread held it at that moment
        child = os.fork()
        if child == 0:
            print(drive_blocking(Run(lambda run: asyncio.sleep(0, 2), on_abort)), flush=True)
            os._exit(0)
        loop_thread._lock.release()
        os.waitpid(child, 0)
        print(drive_blocking(Run(lambda run: asyncio.sleep(0, 3), on_abort)))
    """)

    assert shown == "1\n2\n3\n"


# --- jobs that are awaited ------------------------------------------------------------------


def test_a_job_that_gives_a_coroutine_is_awaited_where_the_run_is_waited_for() -> None:
    async def where() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    async def work(run: Run[Any]) -> Any:
        return await run.on_main(where)

    async def cell() -> Any:
        return await drive(Run(work, _nothing))

    assert asyncio.run(cell()) == threading.get_ident()


def test_what_an_awaited_job_raises_goes_to_whoever_asked_for_it() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("in the job")

    async def work(run: Run[Any]) -> str:
        with pytest.raises(ValueError, match="in the job"):
            await run.on_main(fails)
        return "went on"

    async def cell() -> Any:
        return await drive(Run(work, _nothing))

    assert asyncio.run(cell()) == "went on"


def test_a_job_that_has_to_be_awaited_is_refused_by_a_wait_that_blocks() -> None:
    async def never() -> None:
        raise AssertionError

    async def work(run: Run[Any]) -> str:
        with pytest.raises(background.CannotAwait, match="blocking"):
            await run.on_main(never)
        return "went on"

    assert drive_blocking(Run(work, _nothing)) == "went on"


def test_an_abort_from_elsewhere_ends_a_job_that_is_awaited() -> None:
    async def work(run: Run[Any]) -> str:
        async def sleeps() -> None:
            run.abort()
            await asyncio.sleep(60)

        with pytest.raises(Aborted, match="interrupted"):
            await run.on_main(sleeps)
        return "ended"

    async def cell() -> Any:
        return await drive(Run(work, _nothing))

    assert asyncio.run(asyncio.wait_for(cell(), 5)) == "ended"
