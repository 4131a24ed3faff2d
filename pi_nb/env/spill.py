"""The whole of a long output in a file of its own, beside the tail that is kept in memory.

The file is in the system's folder for temporary files, readable by its owner alone (known
fault Z-03), and holds every byte as it was printed, escapes included. It stays while this
interpreter lives, so that the user and the model can read what a result names, and goes
with it: what commands print may be secret, and nobody else would ever remove it. So a
session that is opened later may name a file that is gone. Of all files together at most
`MAX_KEPT` bytes stay; the oldest go first.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
import threading
from collections import deque

MAX_KEPT = 1024 * 1024 * 1024
"""Bytes in all files of one interpreter."""


class Kept:
    """The files of one interpreter, oldest first; together at most `most` bytes, but one stays."""

    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._open: set[str] = set()
        self._closed: deque[tuple[str, int]] = deque()
        self._total = 0

    def add(self, path: str) -> None:
        """A file that is being written."""
        with self._lock:
            self._open.add(path)

    def closed(self, path: str, size: int) -> None:
        """It is written; if that is too much now, the oldest go."""
        with self._lock:
            self._open.discard(path)
            self._closed.append((path, size))
            self._total += size
            while self._total > self._most and len(self._closed) > 1:
                oldest, its_size = self._closed.popleft()
                self._total -= its_size
                _unlink(oldest)

    def remove(self, path: str) -> None:
        """It is given up."""
        with self._lock:
            self._open.discard(path)
            _unlink(path)

    def remove_all(self) -> None:
        """At the end of the interpreter."""
        # A forked child has the list, but the files are its parent's.
        if os.getpid() == self._owner:
            for path in [*self._open, *(path for path, _ in self._closed)]:
                _unlink(path)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


KEPT = Kept()
atexit.register(KEPT.remove_all)


class Spill:
    """Takes bytes; once there are more than `room` of them, or when told to, they are a file.

    A disk that is full is no reason to end a command: the file is given up then, and
    `not_kept` says why.
    """

    def __init__(self, room: int, kept: Kept | None = None) -> None:
        self.path: str | None = None
        self.not_kept = ""
        self._room = room
        self._kept = kept or KEPT
        self._held = bytearray()
        self._descriptor: int | None = None
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self.not_kept:
            return
        if self._descriptor is not None:
            self._write(data)
            return
        self._held += data
        if len(self._held) > self._room:
            self.keep()

    def keep(self) -> None:
        """Make the file now, of what came so far and what will come."""
        if self._descriptor is not None or self.not_kept:
            return
        try:
            # Mode 0600 from the beginning, whatever the umask.
            self._descriptor, self.path = tempfile.mkstemp(prefix="pi_nb-", suffix=".out")
        except OSError as error:
            self._give_up(error)
            return
        self._kept.add(self.path)
        self._write(self._held)
        self._held = bytearray()

    def close(self) -> None:
        """No more comes. What is a file stays one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            if self.path is not None:
                self._kept.closed(self.path, self._size)
        self._held = bytearray()

    def _write(self, data: bytes | bytearray) -> None:
        assert self._descriptor is not None
        left = memoryview(data)
        try:
            while left:
                written = os.write(self._descriptor, left)
                self._size += written
                left = left[written:]
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.not_kept = error.strerror or str(error)
        path, self.path = self.path, None
        self.close()
        if path is not None:
            self._kept.remove(path)
