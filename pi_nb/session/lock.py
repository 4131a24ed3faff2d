"""One writer a session file, across processes, and a name for the one who has it.

The system's own lock on `<file>.lock` ends with its process, however that dies. Beside it
`<file>.owner.json` says who holds it. On a file system without locks the owner's word is
what counts, for as long as it lives. Both files go when the lock is let go of, so that a
folder of somebody else's sessions is left as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from pi_nb.ids import now_ms
from pi_nb.result import PiError
from pi_nb.text import safe_line

from .jsonl import write_private


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a session. Times are in milliseconds."""

    pid: int
    started: int | None
    """When that process began, to tell it from a later one with its number; None: unknown."""
    host: str
    notebook: str | None
    since: int

    @classmethod
    def here(cls) -> Owner:
        """This process. A Jupyter server tells its kernels the notebook's path."""
        notebook = os.environ.get("JPY_SESSION_NAME")
        return cls(
            pid=os.getpid(),
            started=_started(os.getpid()),
            host=socket.gethostname(),
            notebook=Path(notebook).name if notebook else None,
            since=now_ms(),
        )

    @property
    def lives(self) -> bool:
        """False only where we can know: on this host, and the process is gone."""
        if self.host != socket.gethostname():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass  # it is there and somebody else's
        started = _started(self.pid)
        # The system's clock may have been set meanwhile, by seconds at most.
        return self.started is None or started is None or abs(started - self.started) < 5_000

    def __str__(self) -> str:
        where = "" if self.host == socket.gethostname() else f" on {safe_line(self.host)}"
        what = f" ({safe_line(self.notebook)})" if self.notebook else ""
        since = datetime.fromtimestamp(self.since / 1000).strftime("%Y-%m-%d %H:%M:%S")
        return f"process {self.pid}{where}{what} since {since}"


_OWNER = TypeAdapter(Owner)


class SessionLock:
    """A lock that is held. Any thread may release it."""

    def __init__(self, path: Path) -> None:
        """Take the lock of a session file, at once or not at all.

        Raises:
            PiError: `session`: somebody has it (named), or the folder cannot be written.
        """
        self._owner_file = path.with_name(f"{path.name}.owner.json")
        self._lock = FileLock(f"{path}.lock", timeout=0, mode=0o600, thread_local=False)
        try:
            self._lock.acquire()
        except Timeout:
            raise _in_use(path, _read(self._owner_file)) from None
        except OSError as error:
            hint = "Session.open(path, read_only=True) reads it"
            raise PiError("session", f"{path} cannot be locked: {error.strerror}; {hint}") from None
        try:
            self._own(path)
        except BaseException as error:
            self._unlock()
            if isinstance(error, OSError):
                text = f"{self._owner_file}: {error.strerror}"
                raise PiError("session", text) from None
            raise

    def _own(self, path: Path) -> None:
        other = _read(self._owner_file)
        # We hold the system's lock, so a living owner on another host has let go of it
        # without a word; one on this host lives where locks do not work.
        if (
            other
            and other.host == socket.gethostname()
            and other.pid != os.getpid()
            and other.lives
        ):
            raise _in_use(path, other)
        self._me = Owner.here()
        fresh = self._owner_file.with_name(f"{self._owner_file.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        write_private(fresh, json.dumps(asdict(self._me)).encode(), sync=False)
        os.replace(fresh, self._owner_file)

    def release(self) -> None:
        """Let go. The second and later calls do nothing."""
        if not self._lock.is_locked:
            return
        if _read(self._owner_file) == self._me:
            with contextlib.suppress(OSError):  # a folder that became read-only keeps them
                self._owner_file.unlink(missing_ok=True)
            self._unlock()
        else:
            # Somebody took our files away, and what stands there now may lock for another.
            self._lock.release()

    def _unlock(self) -> None:
        """Take the lock file away and let go, in this order: whoever opened the file before
        finds, once it has the lock, that no name leads to it, and does not count it as one.
        """
        with contextlib.suppress(OSError):
            os.unlink(self._lock.lock_file)
        self._lock.release()


def _in_use(path: Path, owner: Owner | None) -> PiError:
    by = str(owner) if owner else "another process"
    return PiError(
        "session", f"{path} is in use by {by}; Session.open(path, read_only=True) reads it"
    )


def _read(path: Path) -> Owner | None:
    """The owner as the file names it; None where it names nobody."""
    try:
        data: Any = json.loads(path.read_bytes())
        owner = _OWNER.validate_python(data)
        str(owner)  # a moment no calendar knows cannot be told
    except (OSError, ValueError, OverflowError, RecursionError):
        return None
    return owner if owner.pid > 0 else None


def _started(pid: int) -> int | None:
    """When a process began, in milliseconds since 1970, where the system has a /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
        # The name in parentheses may hold spaces; field 22 counts from behind it.
        ticks = int(stat.rpartition(")")[2].split()[19])
        return boot * 1000 + ticks * 1000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
