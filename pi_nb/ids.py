"""Identifiers and the clock: the only place that asks the machine for the time or for chance."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Container

_lock = threading.Lock()
_last = 0


def _start_afresh() -> None:
    global _lock, _last
    _lock = threading.Lock()
    _last = 0


if hasattr(os, "register_at_fork"):
    # A forked child would count up from the same number as its parent, and wait for ever
    # on a lock that a thread held which the child does not have.
    os.register_at_fork(after_in_child=_start_afresh)


def now_ms() -> int:
    """Milliseconds since 1970, the unit of every timestamp in messages and v4 sessions."""
    return time.time_ns() // 1_000_000


def uuid7() -> str:
    """A UUIDv7 (RFC 9562): sorts by time, and within one process strictly by order of call.

    The 74 bits after the millisecond are random at the first call of a millisecond and
    counted up within it, so that two ids of one moment keep their order.
    """
    global _last
    with _lock:
        # 73 random bits of the 74: room to count up without touching the clock.
        fresh = (now_ms() << 74) | int.from_bytes(os.urandom(10)) >> 7
        _last = value = max(fresh, _last + 1)
    millis, rest = value >> 74, value & ((1 << 74) - 1)
    number = (
        (millis & ((1 << 48) - 1)) << 80
        | 0x7 << 76
        | (rest >> 62) << 64
        | 0b10 << 62
        | rest & ((1 << 62) - 1)
    )
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def short_id(taken: Container[str]) -> str:
    """Eight hex digits that are not in `taken`, the form of entry ids in v3 files.

    After a hundred collisions a UUIDv7, as pi does when the short ids are used up.
    """
    for _ in range(100):
        candidate = os.urandom(4).hex()
        if candidate not in taken:
            return candidate
    return uuid7()
