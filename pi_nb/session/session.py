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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

from pi_nb.ids import now_ms, uuid7
from pi_nb.result import Err, Ok, PiError
from pi_nb.text import count, quoted

from .appender import SessionAppender
from .codec import Codec, Format, Loaded
from .entries import why
from .exporting import Exported, ExportFormat, export
from .index import Diagnostic, Index
from .jsonl import Durability, FileLog, Log, first_bytes, make_folder
from .lock import SessionLock
from .memory import MemoryLog
from .records import Header
from .redact import Redaction
from .sniff import LIMIT, sniff
from .v3.codec import V3
from .v3.loading import Orphans
from .v3.upgrade import upgraded
from .v4.codec import V4
from .weight import too_heavy
from .writer import Writer

# One object a file in a process. Weak: a session that nobody holds is closed, not kept.
_open: weakref.WeakValueDictionary[Path, Session] = weakref.WeakValueDictionary()
_opening = threading.RLock()


class Session(SessionAppender):
    """A session that is open: what `SessionReader` answers, what `SessionAppender` writes.

    Made by `Session.create` and `Session.open`. It is closed by `close`, by `with` and
    `async with`, when nobody holds it any more, and when Python ends.
    """

    def __init__(
        self,
        index: Index,
        log: Log,
        codec: Codec,
        path: Path | None,
        lock: SessionLock | None,
        *,
        read_only: bool = False,
        durability: Durability = "fsync",
    ) -> None:
        super().__init__(index, log, codec, path, read_only=read_only)
        self._unready: Callable[[], None] | None = None
        self._durability: Durability = durability
        self._end = weakref.finalize(self, _let_go, os.getpid(), self._writer, log, lock)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        cwd: str | os.PathLike[str],
        id: str | None = None,
        format: Format = "v4",
        parent_session_id: str | None = None,
        parent_session: str | None = None,
        metadata: dict[str, Any] | None = None,
        durability: Durability = "fsync",
    ) -> Self:
        """A new session, its header on the disk; without a path it lives in memory alone.

        Args:
            path: A file that does not exist or is empty; folders above it are made.
            cwd: Where the agent works.
            format: `v4`, our own, with lanes; `v3`, for a session that pi shall open too.
            parent_session: The path of the session that this one came from, as pi has it.

        Raises:
            PiError: `session`: something is there already, or the disk refused;
                `invalid_argument`: metadata that JSON cannot hold.
        """
        codec = _codec(format)
        header = Header(
            version=3 if format == "v3" else 4,
            id=id or uuid7(),
            created_at=now_ms(),
            cwd=os.path.abspath(cwd),
        )
        given = {
            "parent_session_id": parent_session_id,
            "legacy_parent_session_path": parent_session,
            "metadata": metadata,
        }
        header = header.having(**{k: v for k, v in given.items() if v is not None})
        try:
            line = codec.header_line(header)
        except (TypeError, ValueError) as error:
            raise PiError("invalid_argument", f"metadata: {why(error)}") from None
        if path is None:
            return cls(Index(header), MemoryLog(line), codec, None, None, durability=durability)
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
            session = cls(Index(header), log, codec, file, lock, durability=durability)
            _open[file] = session
        return session

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        orphans: Orphans = "roots",
        durability: Durability = "fsync",
    ) -> Session:
        """An existing session. While one is open, opening it again gives the same object,
        with the durability it has.

        Read-only takes no lock and writes nothing, ever; it shows the file as it is now, and
        what others append meanwhile only after `close` and opening again.
        Otherwise a torn last line is set aside in a file beside it, and a missing newline
        is added; `diagnostics` says so. In a v4 file that happens at once. pi's own files
        (v1 to v3) and empty ones are as they were until something is appended; v1 and v2
        then become v3, the old file is kept beside it, and `diagnostics` names that.

        Args:
            orphans: For a v3 file, what becomes of entries whose parent is missing: `roots`,
                or `previous`, to read on from the entry before them.

        Raises:
            PiError: `session`: it is no session, a line of a v4 file is broken (named), or
                somebody else has it (named). The file is as it was.
        """
        file = _resolve(path)
        with _opening:
            found = _open.get(file)
            if found is not None:
                if found.read_only and not read_only:
                    raise PiError("session", f"{file} is open read-only here; close that first")
                return found
            kind = sniff(first_bytes(file, LIMIT))
            if kind == "foreign":
                raise PiError(
                    "session", f"{file} is not a session: it does not begin with a header"
                )
            codec: Codec = V4() if kind == "v4" else V3(orphans)
            with contextlib.ExitStack() as undo:
                lock = None
                if not read_only:
                    lock = SessionLock(file)
                    undo.callback(lock.release)
                log = FileLog.open(file, durability, read_only=read_only)
                undo.callback(log.close)
                found_in = codec.open(log)
                if isinstance(found_in, Err):
                    raise PiError("session", f"{file}: {found_in.error}")
                loaded = found_in.value
                now = kind == "v4" and not read_only
                odd = (*loaded.diagnostics, *_mend(log, loaded, really=now))
                odd += too_heavy(loaded.index, loaded.end)
                undo.pop_all()
            if kind == "empty":
                fresh = Header(version=3, id=uuid7(), created_at=now_ms(), cwd=os.getcwd())
                loaded.index.header = fresh
            session = cls(
                loaded.index,
                log,
                codec,
                file,
                lock,
                read_only=read_only or bool(loaded.read_only),
                durability=durability,
            )
            session._version = loaded.version
            session._why_read_only = loaded.read_only
            session._diagnostics = odd
            if kind != "v4":
                session._unready = partial(session._take_over, loaded, kind == "empty")
            _open[file] = session
        return session

    def _ready(self) -> None:
        if self._unready is not None:
            self._unready()
            self._unready = None

    def _take_over(self, loaded: Loaded, empty: bool) -> None:
        """Before the first append to a file of pi's: mend its end, make v3 of v1 and v2."""
        log = self._log
        assert isinstance(log, FileLog)
        if empty:
            log.append(self._codec.header_line(self.header))
            return
        if done := _mend(log, loaded, really=True):
            # What was said of the end when the file was opened is now said as what was done.
            codes = {odd.code for odd in done}
            said = (odd for odd in self._diagnostics if odd.code not in codes)
            self._diagnostics = (*said, *done)
        if loaded.version >= 3:
            return
        with self._mutex:  # every line moves: who reads meanwhile waits for their new places
            kept = log.rewrite(upgraded(log.lines(), self._index), f".v{loaded.version}")
            again = self._codec.open(log)
            assert isinstance(again, Ok)
            self._index, self._version = again.value.index, 3
        text = (
            f"the file was of version {loaded.version} and is now of 3; kept as it was: {kept.name}"
        )
        self._diagnostics = (*self._diagnostics, Diagnostic(1, "upgraded", text))

    @staticmethod
    def opened(path: str | os.PathLike[str]) -> Session | None:
        """The session that is open on a file in this process, if there is one."""
        return _open.get(_resolve(path))

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        format: ExportFormat | None = None,
        redact: bool | Redaction | None = None,
        overwrite: bool = False,
        lane: str = "main",
        whole: bool = False,
    ) -> Exported:
        """Write the session, as it is now, to a file that others may read.

        The name's ending says what it becomes: `.md` a transcript of one branch, `.html` one
        page with tree and transcript that needs no network, `.jsonl` a session file. Blocks
        while it reads and writes.

        Args:
            format: For a `.jsonl`, `v3` (pi's, where lanes become branches) or `v4`; None is
                the session's own. Else only needed where the name does not say it.
            redact: Leave out keys and home folders (True), or what a `Redaction` says; what
                was left out is counted in the result and in the file.
            overwrite: Replace a file that is there.
            lane: For `.md` the branch that is written, for `.html` the one that is marked.
            whole: For `.md`, all branches.

        Returns:
            Where it is, and what was left out. Print it.

        Raises:
            PiError: `invalid_argument`: no such format, lane or redaction; `session`: the
                file is there already, or the disk refused. What was there is as it was.
        """
        return export(
            self,
            path,
            format=format,
            redact=redact,
            overwrite=overwrite,
            lane=lane,
            whole=whole,
        )

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


def _codec(format: Format) -> Codec:
    if format not in ("v3", "v4"):
        raise PiError("invalid_argument", f"there is no session format {format!r}; v3 or v4")
    return V3() if format == "v3" else V4()


def _mend(log: FileLog, loaded: Loaded, *, really: bool) -> tuple[Diagnostic, ...]:
    """Repair the end of a log that a crash left (rule 17), or only say what is wrong."""
    if not loaded.torn and not loaded.unterminated:
        return ()
    aside = None
    if really:
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
