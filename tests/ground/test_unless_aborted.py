from __future__ import annotations

import asyncio

import pytest

from pi_nb.abort import Aborted, AbortSignal, unless_aborted

pytestmark = pytest.mark.anyio


async def test_work_that_ends_gives_its_result() -> None:
    assert await unless_aborted(asyncio.sleep(0, "done"), AbortSignal()) == "done"


async def test_what_the_work_raises_goes_through() -> None:
    async def fail() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await unless_aborted(fail(), AbortSignal())


async def test_an_abort_ends_the_work_after_it_cleaned_up() -> None:
    signal, cleaned = AbortSignal(), []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    asyncio.get_running_loop().call_later(0.01, signal.abort, "enough")

    with pytest.raises(Aborted, match="enough"):
        await unless_aborted(work(), signal)
    assert cleaned == [True]


async def test_an_abort_from_another_thread_is_heard() -> None:
    signal = AbortSignal()
    work = unless_aborted(asyncio.sleep(60), signal)

    aborting = asyncio.get_running_loop().run_in_executor(None, signal.abort)

    with pytest.raises(Aborted):
        await asyncio.wait_for(work, 2)
    await aborting


async def test_work_does_not_begin_after_an_abort() -> None:
    signal, begun = AbortSignal(), []
    signal.abort()

    async def work() -> None:
        begun.append(True)

    with pytest.raises(Aborted):
        await unless_aborted(work(), signal)
    assert begun == []


async def test_cancelling_the_waiter_is_no_abort_and_cancels_the_work() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    waiter = asyncio.ensure_future(unless_aborted(work(), AbortSignal()))
    await asyncio.sleep(0.01)
    waiter.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert ended.is_set()


async def test_nothing_is_left_behind_on_the_signal() -> None:
    signal = AbortSignal()

    for _ in range(50):
        await unless_aborted(asyncio.sleep(0), signal)

    assert signal._callbacks == {}
