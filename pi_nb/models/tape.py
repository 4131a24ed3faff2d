"""The file of a cassette: a header, then lines that are written whole or not at all.

Reading writes nothing and locks nothing. The first append takes the lock of `<file>.lock`,
drops what a crash left of a half-written last line, and fails if somebody else wrote to
the file since it was read.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pi_nb.js import dumps
from pi_nb.result import PiError
from pi_nb.text import safe_line

VERSION = 1
_TYPE = "pi_nb.cassette"
_HEADER = (dumps({"type": _TYPE, "version": VERSION}) + "\n").encode()
_PRIVATE = 0o600


class Tape:
    """The lines of one file. Any thread may append.

    Not synced to the disk: a recording can be made again, and a streamed answer should not
    wait for a disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.RLock()
        self._seen = 0
        """Bytes that were there when it was read."""
        self._end = 0
        """Bytes up to the end of the last whole line."""
        self._unterminated = False
        self._lock: FileLock | None = None
        self._fd: int | None = None
        self._closed = False

    def read(self) -> list[tuple[int, dict[str, Any]]]:
        """Every line after the header with its number; none where there is no file yet.

        Raises:
            PiError: `invalid_argument`: it cannot be read, is no cassette, or a line that
                is not the last is broken.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise PiError("invalid_argument", f"{self.path}: {error.strerror}") from None
        self._seen = len(data)
        *whole, tail = data.split(b"\n")
        self._end = len(data) - len(tail)
        lines = [(number, _parsed(line)) for number, line in enumerate(whole, 1)]
        if (last := _parsed(tail)) is not None:
            lines.append((len(lines) + 1, last))
            self._end, self._unterminated = len(data), True
        if not lines and _HEADER.startswith(tail):
            return []  # empty, or a crash came while the header was written
        self._check_header(lines[0][1] if lines else None)
        read: list[tuple[int, dict[str, Any]]] = []
        for number, line in lines[1:]:
            if line is None:
                raise PiError("invalid_argument", f"{self.path}: line {number} is broken")
            read.append((number, line))
        return read

    def _check_header(self, header: dict[str, Any] | None) -> None:
        if header is None or header.get("type") != _TYPE:
            raise PiError("invalid_argument", f"{self.path} is not a cassette")
        if header.get("version") != VERSION:
            found = safe_line(str(header.get("version")))
            text = f"{self.path} has version {found}; this pi_nb plays version {VERSION}"
            raise PiError("invalid_argument", text)

    def claim(self) -> None:
        """Become the one writer; does nothing if we are it.

        Raises:
            PiError: `invalid_state`: somebody else is, or has written since, or the file
                cannot be written, or this tape was closed.
        """
        with self._mutex:
            if self._closed:
                raise PiError("invalid_state", f"{self.path} is closed")
            if self._fd is not None:
                return
            # A mutex of threads does not do: another process may record on the same file.
            lock = FileLock(f"{self.path}.lock", timeout=0, mode=_PRIVATE, thread_local=False)
            try:
                lock.acquire()
            except Timeout:
                text = f"{self.path} is being recorded elsewhere; close() that cassette first"
                raise PiError("invalid_state", text) from None
            except OSError as error:
                text = f"{self.path} cannot be recorded: {error.strerror}"
                raise PiError("invalid_state", text) from None
            try:
                self._fd = self._opened()
            except BaseException:
                lock.release()
                raise
            self._lock = lock

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            fd = os.open(self.path, flags, _PRIVATE)
        except OSError as error:
            text = f"{self.path} cannot be recorded: {error.strerror}"
            raise PiError("invalid_state", text) from None
        try:
            if os.fstat(fd).st_size != self._seen:
                text = f"{self.path} was changed since it was read; open the cassette again"
                raise PiError("invalid_state", text)
            if not self._end:
                os.fchmod(fd, _PRIVATE)  # an empty file that was there may be anybody's to read
            os.ftruncate(fd, self._end)
            self._write(fd, b"\n" if self._unterminated else b"")
            self._unterminated = False
            self._write(fd, b"" if self._end else _HEADER)
        except OSError as error:
            os.close(fd)
            text = f"{self.path} cannot be recorded: {error.strerror}"
            raise PiError("invalid_state", text) from None
        except BaseException:
            os.close(fd)
            raise
        return fd

    def append(self, line: dict[str, Any]) -> None:
        """Add a line, all of it or nothing.

        Raises:
            PiError: as `claim`, or the disk refused.
            TypeError: something in it has no JSON form.
            ValueError: it is nested too deeply.
        """
        data = (dumps(line) + "\n").encode()
        with self._mutex:
            self.claim()
            assert self._fd is not None
            try:
                self._write(self._fd, data)
            except OSError as error:
                text = f"{error.strerror}; nothing was written to {self.path}"
                raise PiError("invalid_state", text) from None

    def _write(self, fd: int, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except BaseException:
            os.ftruncate(fd, self._end)
            raise
        self._end += len(data)

    def close(self) -> None:
        """Let go of the file. The second and later calls do nothing."""
        with self._mutex:
            self._closed = True
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
