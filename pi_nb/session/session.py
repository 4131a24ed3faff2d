"""A session: one tree of entries, written by one process, read by whoever asks.

Here it is opened, repaired and closed. A file is one object in a process, and has one
writer among all processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
import weakref
from pathlib import Path
from typing import Any, Self

from pi_nb.ids import now_ms, uuid7
from pi_nb.result import Err, PiError
from pi_nb.text import count, quoted

from .appender import SessionAppender
from .codec import Loaded
from .entries import why
from .index import Diagnostic, Index
from .jsonl import Durability, FileLog, Log, first_line, make_folder
from .lock import SessionLock
from .memory import MemoryLog
from .records import Header
from .sniff import LIMIT, sniff
from .v4.codec import V4
from .writer import Writer

# One object a file in a process. Weak: a session that nobody holds is closed, not kept.
_open: weakref.WeakValueDictionary[Path, Session] = weakref.WeakValueDictionary()
_opening = threading.RLock()

_REFUSED = {
    "empty": "is empty; Session.create(path, cwd=...) makes a session of it",
    "foreign": "is not a session: its first line is no header",
    "v3": "is a session of pi itself (v1 to v3), which this version cannot read yet",
}


class Session(SessionAppender):
    """A session that is open: what `SessionReader` answers, what `SessionAppender` writes.

    Made by `Session.create` and `Session.open`. It is closed by `close`, by `with` and
    `async with`, when nobody holds it any more, and when Python ends.
    """

    def __init__(
        self,
        index: Index,
        log: Log,
        path: Path | None,
        lock: SessionLock | None,
        *,
        read_only: bool = False,
        durability: Durability = "fsync",
    ) -> None:
        super().__init__(index, log, V4(), path, read_only=read_only)
        self._durability: Durability = durability
        self._end = weakref.finalize(self, _let_go, os.getpid(), self._writer, log, lock)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        cwd: str | os.PathLike[str],
        id: str | None = None,
        parent_session_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        durability: Durability = "fsync",
    ) -> Self:
        """A new session, its header on the disk; without a path it lives in memory alone.

        Args:
            path: A file that does not exist or is empty; folders above it are made.
            cwd: Where the agent works.

        Raises:
            PiError: `session`: something is there already, or the disk refused;
                `invalid_argument`: metadata that JSON cannot hold.
        """
        header = Header(id=id or uuid7(), created_at=now_ms(), cwd=os.path.abspath(cwd))
        given = {"parent_session_id": parent_session_id, "metadata": metadata}
        header = header.having(**{k: v for k, v in given.items() if v is not None})
        try:
            line = V4().header_line(header)
        except (TypeError, ValueError) as error:
            raise PiError("invalid_argument", f"metadata: {why(error)}") from None
        if path is None:
            return cls(Index(header), MemoryLog(line), None, None, durability=durability)
        file = _resolve(path)
        with _opening:
            if file in _open or _occupied(file):
                raise PiError("session", f"{file} is there already; Session.open(...) continues it")
            with contextlib.ExitStack() as undo:
                make_folder(file.parent)
                lock = SessionLock(file)
                undo.callback(lock.release)
                log = FileLog.create(file, line, durability)
                undo.pop_all()
            _open[file] = session = cls(Index(header), log, file, lock, durability=durability)
        return session

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        durability: Durability = "fsync",
    ) -> Session:
        """An existing session. While one is open, opening it again gives the same object,
        with the durability it has.

        Read-only takes no lock and writes nothing, ever; it shows the file as it is now.
        Otherwise a torn last line is set aside in a file beside it, and a missing newline
        is added; `diagnostics` says so.

        Raises:
            PiError: `session`: it is no session, a line is broken (named), or somebody else
                has it (named). The file is as it was.
        """
        file = _resolve(path)
        with _opening:
            found = _open.get(file)
            if found is not None:
                if found.read_only and not read_only:
                    raise PiError("session", f"{file} is open read-only here; close that first")
                return found
            kind = sniff(first_line(file, LIMIT))
            if kind != "v4":
                raise PiError("session", f"{file} {_REFUSED[kind]}")
            with contextlib.ExitStack() as undo:
                lock = None
                if not read_only:
                    lock = SessionLock(file)
                    undo.callback(lock.release)
                log = FileLog.open(file, durability, read_only=read_only)
                undo.callback(log.close)
                loaded = V4().load(log.lines())
                if isinstance(loaded, Err):
                    raise PiError("session", f"{file}: {loaded.error}")
                odd = _mend(log, loaded.value, read_only=read_only)
                undo.pop_all()
            session = cls(
                loaded.value.index, log, file, lock, read_only=read_only, durability=durability
            )
            session._diagnostics = odd
            _open[file] = session
        return session

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def close(self) -> None:
        """Finish what was begun, let go of the file and its lock. Again: does nothing."""
        self._writer.close(wait=True)
        with _opening:
            if self.path is not None and _open.get(self.path) is self:
                del _open[self.path]
            with self._mutex:
                self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        about = quoted(self.name) if self.name else self.id
        state = ", closed" if self.closed else ", read-only" if self.read_only else ""
        return f"Session({about}, {count(len(self), 'entry', 'entries')}{state})"


def _mend(log: FileLog, loaded: Loaded, *, read_only: bool) -> tuple[Diagnostic, ...]:
    """Repair the end of a log that a crash left (rule 17), or only say what is wrong."""
    if not loaded.torn and not loaded.unterminated:
        return ()
    aside = None
    if not read_only:
        aside = log.repair(loaded.end, unterminated=loaded.unterminated)
    if loaded.unterminated:
        line, code, text = loaded.index.lines, "missing_newline", "the last line had no newline"
    else:
        line, code = loaded.index.lines + 1, "torn_tail"
        text = f"{count(loaded.torn, 'byte')} of an unfinished line"
        text += f", set aside in {aside.name}" if aside else ""
    return (Diagnostic(line, code, text),)


def _let_go(process: int, writer: Writer, log: Log, lock: SessionLock | None) -> None:
    writer.close(wait=False)
    log.close()
    # A fork shares its parent's lock and must not open it.
    if lock is not None and os.getpid() == process:
        lock.release()


def _resolve(path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise PiError("session", f"{os.fspath(path)}: {error}") from None


def _occupied(path: Path) -> bool:
    """Whether something is there that a new session must not be written over."""
    try:
        found = path.stat()
    except OSError:
        return False  # what else is wrong with the path shows when it is locked
    return not stat.S_ISREG(found.st_mode) or found.st_size > 0
