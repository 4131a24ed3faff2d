from __future__ import annotations

import os
import re
import threading
import time
import uuid

from hypothesis import given
from hypothesis import strategies as st

from pi_nb import ids

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_an_id_is_a_uuid_of_version_7_that_carries_its_millisecond() -> None:
    before = ids.now_ms()
    made = ids.uuid7()
    after = ids.now_ms()

    assert UUID7.fullmatch(made)
    parsed = uuid.UUID(made)
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    # The counter may run ahead of the clock by what was drawn in the same millisecond.
    assert before <= parsed.int >> 80 <= after + 1


def test_ids_of_many_threads_are_all_different_and_rise_in_each() -> None:
    made: list[list[str]] = [[] for _ in range(4)]
    start = threading.Barrier(len(made))

    def draw(mine: list[str]) -> None:
        start.wait()
        mine.extend(ids.uuid7() for _ in range(2_000))

    threads = [threading.Thread(target=draw, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for mine in made:
        assert mine == sorted(set(mine))
        assert all(map(UUID7.fullmatch, mine))
    assert len({one for mine in made for one in mine}) == 8_000


def test_ids_rise_also_when_the_clock_is_set_back() -> None:
    real = time.time_ns
    first = ids.uuid7()

    try:
        time.time_ns = lambda: real() - 3_600 * 10**9
        second = ids.uuid7()
    finally:
        time.time_ns = real

    assert second > first


def test_a_forked_child_draws_its_own_ids_and_waits_for_no_lock() -> None:
    read, write = os.pipe()
    with ids._lock:
        # As if another thread were drawing at this moment: the child has no such thread.
        child = os.fork()
        if child == 0:
            os.write(write, ids.uuid7().encode())
            os._exit(0)
    os.close(write)

    with os.fdopen(read) as pipe:
        made = pipe.read()
    os.waitpid(child, 0)

    assert UUID7.fullmatch(made)
    assert made != ids.uuid7()


@given(st.sets(st.text("0123456789abcdef", min_size=8, max_size=8)))
def test_a_short_id_is_eight_hex_digits_that_nobody_has(taken: set[str]) -> None:
    made = ids.short_id(taken)

    assert re.fullmatch("[0-9a-f]{8}", made)
    assert made not in taken


def test_where_every_short_id_is_taken_a_long_one_is_given() -> None:
    class Everything:
        def __contains__(self, _: object) -> bool:
            return True

    assert UUID7.fullmatch(ids.short_id(Everything()))


def test_the_clock_counts_milliseconds() -> None:
    assert abs(ids.now_ms() - time.time() * 1_000) < 1_000
