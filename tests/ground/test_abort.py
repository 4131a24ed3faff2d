from __future__ import annotations

import asyncio
import os
import signal as os_signal
import threading
from functools import partial

import pytest

from pi_nb.abort import Aborted, AbortSignal

pytestmark = pytest.mark.anyio


def test_a_signal_is_set_once_and_its_first_reason_stays() -> None:
    signal = AbortSignal()
    assert not signal.aborted

    signal.abort("stop button")
    signal.abort("second thoughts")

    assert signal.aborted
    assert signal.reason == "stop button"
    with pytest.raises(Aborted, match="stop button"):
        signal.raise_if_aborted()


def test_a_signal_that_is_not_set_raises_nothing() -> None:
    AbortSignal().raise_if_aborted()


def test_a_callback_is_told_once_also_when_it_comes_late() -> None:
    signal = AbortSignal()
    told: list[str] = []
    signal.on_abort(lambda: told.append("early"))

    signal.abort()
    signal.abort()
    signal.on_abort(lambda: told.append("late"))

    assert told == ["early", "late"]


def test_a_callback_that_was_taken_back_is_not_told() -> None:
    signal = AbortSignal()
    told: list[str] = []
    forget = signal.on_abort(lambda: told.append("never"))

    forget()
    forget()
    signal.abort()

    assert told == []


def test_a_callback_may_take_another_back_while_the_signal_is_being_told() -> None:
    signal = AbortSignal()
    told: list[str] = []
    signal.on_abort(lambda: forget())
    forget = signal.on_abort(lambda: told.append("never"))

    signal.abort()

    assert told == []


def test_a_callback_that_fails_does_not_keep_the_others_in_the_dark() -> None:
    signal = AbortSignal()
    told: list[str] = []
    signal.on_abort(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    signal.on_abort(lambda: told.append("still told"))

    with pytest.raises(ExceptionGroup) as failed:
        signal.abort()

    assert failed.group_contains(ZeroDivisionError)
    assert told == ["still told"]
    assert signal.aborted


def race() -> list[int]:
    """Four threads listen twenty times each while a fifth aborts; who was told."""
    signal = AbortSignal()
    told: list[int] = []
    start = threading.Barrier(5)

    def listen(number: int) -> None:
        start.wait()
        for i in range(number, number + 20):
            signal.on_abort(partial(told.append, i))

    def stop() -> None:
        start.wait()
        signal.abort()

    threads = [threading.Thread(target=listen, args=(n,)) for n in (0, 20, 40, 60)]
    threads.append(threading.Thread(target=stop))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def test_every_callback_is_told_exactly_once_when_threads_race() -> None:
    for _ in range(50):
        assert sorted(race()) == list(range(80))


def test_an_interrupt_handler_may_abort_while_its_thread_is_telling() -> None:
    """The handler runs inside whatever the main thread is doing, an abort included."""
    signal = AbortSignal()
    told: list[str] = []
    signal.on_abort(lambda: os.kill(os.getpid(), os_signal.SIGUSR1))
    signal.on_abort(lambda: told.append("once"))
    before = os_signal.signal(os_signal.SIGUSR1, lambda *_: signal.abort("handler"))

    try:
        signal.abort("main")
    finally:
        os_signal.signal(os_signal.SIGUSR1, before)

    assert signal.reason == "main"
    assert told == ["once"]


async def test_waiting_ends_when_another_thread_aborts() -> None:
    signal = AbortSignal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)
    assert not waiting.done()

    threading.Thread(target=signal.abort).start()

    await asyncio.wait_for(waiting, 5)


async def test_waiting_for_what_has_happened_returns() -> None:
    signal = AbortSignal()
    signal.abort()

    await asyncio.wait_for(signal.wait(), 5)


async def test_a_wait_that_was_cancelled_leaves_nothing_behind() -> None:
    signal = AbortSignal()
    waiting = asyncio.create_task(signal.wait())
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert signal._callbacks == {}


def test_an_abort_after_the_loop_is_gone_is_quiet() -> None:
    signal = AbortSignal()

    async def left_waiting() -> None:
        # The callback of a wait, without the wait: it outlives its loop.
        loop = asyncio.get_running_loop()
        task = loop.create_task(signal.wait())
        await asyncio.sleep(0)
        callbacks.update(signal._callbacks)
        task.cancel()

    callbacks: dict[int, object] = {}
    asyncio.run(left_waiting())
    signal._callbacks.update(callbacks)  # type: ignore[arg-type]

    signal.abort()

    assert signal.aborted
