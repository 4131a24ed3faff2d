"""A log on disk: lines that are appended whole, or not at all.

Lines end at byte 0x0A and nowhere else: U+2028, U+0085 and their like are ordinary
characters in JSON (known fault S-28). What a line means is a codec's matter.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, Protocol

from pi_nb.ids import uuid7
from pi_nb.result import PiError

from .index import Place

Durability = Literal["fsync", "flush"]
"""`fsync`: an append returns when the line is on the disk; `flush`: when the system has it,
so that it survives this process but not a power failure."""

_PRIVATE = 0o600
_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_BLOCK = 1 << 18
"""Bytes read at once: more is slower, as it leaves the processor's cache."""


class Log(Protocol):
    """Where lines are kept. Reads may come from any thread, appends from one at a time."""

    def lines(self) -> Iterator[tuple[bytes, Place]]:
        """Every line from the start; the last one may lack its newline."""
        ...

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines, many at a time, and the offset of the first; the last one may lack its
        newline."""
        ...

    def read(self, place: Place) -> bytes: ...

    def append(self, line: bytes) -> Place:
        """Add a line, all of it or nothing.

        Raises:
            PiError: `session`; the log is as it was.
        """
        ...

    def close(self) -> None: ...


class FileLog:
    """A log in a file that nobody else may change meanwhile."""

    def __init__(self, path: Path, fd: int, durability: Durability) -> None:
        self.path = path
        self.durability = durability
        self._fd: int | None = fd
        self._size = os.fstat(fd).st_size
        self._broken = ""

    @classmethod
    def create(cls, path: Path, first_line: bytes, durability: Durability) -> FileLog:
        """A new file with its first line, mode 0600; one that is there must be empty.

        Raises:
            PiError: `session`; what was there is as it was.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        fresh = not path.exists()
        try:
            fd = os.open(path, flags | (os.O_CREAT | os.O_EXCL if fresh else 0), _PRIVATE)
        except OSError as error:
            raise PiError("session", f"{path}: {error.strerror}") from None
        log = cls(path, fd, durability)
        try:
            if log._size:
                raise PiError("session", f"{path} is not empty; Session.open(...) continues it")
            os.fchmod(fd, _PRIVATE)  # an empty file that was there may be anybody's to read
            log.append(first_line)
            if durability == "fsync":
                _sync_folder(path.parent)
        except BaseException:
            log.close()
            if fresh:
                path.unlink(missing_ok=True)
            raise
        return log

    @classmethod
    def open(cls, path: Path, durability: Durability, *, read_only: bool) -> FileLog:
        """An existing file; read-only writes nothing and needs no right to.

        Raises:
            PiError: `session`.
        """
        mode = os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND
        try:
            return cls(path, os.open(path, mode | os.O_CLOEXEC), durability)
        except OSError as error:
            text = f"{path}: {error.strerror}"
            if not read_only and error.errno in _NOT_OURS:
                text += "; Session.open(path, read_only=True) reads it"
            raise PiError("session", text) from None

    def lines(self) -> Iterator[tuple[bytes, Place]]:
        if self._fd is None:
            raise PiError("invalid_state", f"{self.path} is closed")
        offset = 0
        with open(os.dup(self._fd), "rb") as file:
            file.seek(0)
            # A binary file is split at 0x0A only. What somebody appends while we read is
            # not ours to look at.
            while offset < self._size and (line := file.readline(self._size - offset)):
                yield line, Place(offset, len(line))
                offset += len(line)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        offset = 0
        length = _BLOCK
        while offset < self._size:
            length = min(length, self._size - offset)
            data = self.read(Place(offset, length))
            cut = data.rfind(b"\n") + 1
            if offset + length == self._size:
                cut = length
            if not cut:
                length *= 2  # a line longer than a block
                continue
            yield offset, data[:cut]  # what is cut off is read again: cheaper than to join it
            offset += cut
            length = _BLOCK

    def read(self, place: Place) -> bytes:
        if self._fd is None:
            raise PiError("invalid_state", f"{self.path} is closed")
        data = os.pread(self._fd, place.length, place.offset)
        while data and len(data) < place.length:  # one call gives 2 GB at most
            more = os.pread(self._fd, place.length - len(data), place.offset + len(data))
            if not more:
                break
            data += more
        if len(data) < place.length:
            raise PiError("session", f"{self.path} was cut short by somebody else")
        return data

    def append(self, line: bytes) -> Place:
        fd = self._unchanged()
        place = Place(self._size, len(line))
        try:
            _write_all(fd, line)
            self._sync(fd)
        except BaseException as error:
            self._take_back(fd)
            if isinstance(error, OSError):
                text = f"{error.strerror}; nothing was written to {self.path}"
                raise PiError("session", text) from None
            raise
        self._size += len(line)
        return place

    def repair(self, end: int, *, unterminated: bool) -> Path | None:
        """Make the end fit for an append: set torn bytes aside, add a missing newline.

        Returns:
            The file beside this one that holds what was behind `end`, if there was any.

        Raises:
            PiError: `session`; no byte is lost.
        """
        fd = self._unchanged()
        aside = None
        try:
            if end < self._size:
                aside = self._set_aside(self.read(Place(end, self._size - end)))
                os.ftruncate(fd, end)
                self._sync(fd)
                self._size = end
        except OSError as error:
            raise PiError("session", f"{self.path}: cannot repair: {error.strerror}") from None
        if unterminated:
            self.append(b"\n")
        return aside

    def rewrite(self, lines: Iterable[bytes], suffix: str) -> Path:
        """Put other lines in the place of all, and keep the file as it was beside the new one.

        Returns:
            Where the old file is: its name and `suffix`, and a number if that is taken.

        Raises:
            PiError: `session`; the file is as it was.
        """
        old = self._unchanged()
        fresh = self.path.with_name(f".{uuid7()}.part")
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(fresh, flags, stat.S_IMODE(os.fstat(old).st_mode))
            try:
                size = 0
                for line in lines:
                    _write_all(fd, line)
                    size += len(line)
                self._sync(fd)
                kept = self._keep(suffix)
                os.replace(fresh, self.path)
            except BaseException:
                os.close(fd)
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise PiError("session", f"{self.path}: {error.strerror}; it is as it was") from None
        if self.durability == "fsync":
            _sync_folder(self.path.parent)
        self._fd, self._size = fd, size
        os.close(old)
        return kept

    def _keep(self, suffix: str) -> Path:
        """A second name for the file as it is."""
        for number in range(1, 1_000):
            name = f"{self.path.name}{suffix}" + (f"-{number}" if number > 1 else "")
            kept = self.path.with_name(name)
            with contextlib.suppress(FileExistsError):
                os.link(self.path, kept)
                return kept
        raise OSError(errno.EEXIST, "too many copies are kept beside it")

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _unchanged(self) -> int:
        """The descriptor, if the file is still the one we know (known fault S-02)."""
        if self._fd is None:
            raise PiError("invalid_state", f"{self.path} is closed")
        if self._broken:
            raise PiError("session", self._broken)
        ours = os.fstat(self._fd)
        try:
            there = os.stat(self.path)
        except OSError as error:
            text = (
                f"{self.path} is gone ({error.strerror}); nothing was written, and what it held "
                "can still be read here until the session is closed"
            )
            raise PiError("session", text) from None
        if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino):
            raise PiError(
                "session",
                f"{self.path} was replaced by another file; close the session and open it again",
            )
        if ours.st_size != self._size:
            raise PiError(
                "session",
                f"{self.path} was changed by somebody else ({self._size:,} bytes are now "
                f"{ours.st_size:,}); close the session and open it again",
            )
        return self._fd

    def _take_back(self, fd: int) -> None:
        """Leave no half line behind. Where even that fails, nothing more is appended."""
        try:
            os.ftruncate(fd, self._size)
        except OSError as error:
            self._broken = (
                f"{self.path} ends in an unfinished line ({error.strerror}); "
                "close the session and open it again, which repairs it"
            )

    def _set_aside(self, data: bytes) -> Path:
        path = self.path.with_name(f"{self.path.name}.torn-{time.time_ns()}")
        write_private(path, data, sync=self.durability == "fsync")
        return path

    def _sync(self, fd: int) -> None:
        if self.durability == "fsync":
            os.fsync(fd)


def first_line(path: Path, limit: int) -> bytes:
    """The first line of a regular file, or its first `limit` bytes; raises as `first_bytes`."""
    return first_bytes(path, limit).partition(b"\n")[0]


def first_bytes(path: Path, limit: int) -> bytes:
    """The first `limit` bytes of a regular file.

    Raises:
        PiError: `session`: there is no such file, or it is a folder or a device.
    """
    try:
        # A pipe would make `open` wait for its other end.
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
            raise PiError("session", f"{path} is {kind}, not a session file")
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError as error:
        raise PiError("session", f"{path}: {error.strerror}") from None


def make_folder(path: Path) -> None:
    """A folder, and those above it, that only their owner can enter; one that is there is fine.

    Raises:
        PiError: `session`.
    """
    try:
        # `parents=True` alone gives the mode to the last one only.
        for folder in reversed([path, *path.parents]):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise PiError("session", f"{path}: {error.strerror}") from None


def write_private(path: Path, data: bytes, *, sync: bool) -> None:
    """A new file that only its owner can read, whole or not there at all.

    Raises:
        OSError: it exists, or the disk refused.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE)
    try:
        _write_all(fd, data)
        if sync:
            os.fsync(fd)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    if sync:
        _sync_folder(path.parent)


def write_whole(path: Path, lines: Iterable[bytes], *, sync: bool = True) -> None:
    """A new file of these lines, all of it or nothing; no more than a few lines in memory.

    It is written under another name, synced once, and then takes its own, which must be free.

    Raises:
        PiError: `session`: something is there already, or the disk refused. That, and what
            `lines` raises, leaves nothing behind.
    """
    make_folder(path.parent)
    hidden = path.with_name(f".{uuid7()}.part")
    try:
        with open(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
            file.writelines(lines)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        _take_name(hidden, path)
    except FileExistsError:
        raise PiError("session", f"{path} is there already") from None
    except OSError as error:
        raise PiError("session", f"{path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            hidden.unlink(missing_ok=True)
    if sync:
        _sync_folder(path.parent)


def _take_name(file: Path, path: Path) -> None:
    """Rename, but never over another file. Where there are no links, by looking first."""
    try:
        os.link(file, path)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(str(path)) from None
        os.rename(file, path)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _sync_folder(path: Path) -> None:
    """Make a new name durable, where the system lets a folder be synced."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
