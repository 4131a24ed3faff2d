"""One command in a process group of its own, watched by a thread of its own.

A thread and not the event loop: asyncio's subprocesses wait differently in each version of
Python and some need the main thread, which a kernel keeps for its user. The thread polls
the output pipe, the end of the shell and a wish to stop, and needs no loop at all.

    start ── output ──> shell ends ── a little more output ──> result
                 └─ abort, time-out, too much ──> TERM ─ 0.5 s ─> KILL ──> result

Known faults E-01, E-02, E-03, E-04, E-11, E-15 and E-18 are why it is as it is.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pi_nb.result import Err, Ok, Result

from .capture import MAX_TOTAL, Capture
from .types import ExecError, ExecErrorCode, ExecResult, Output

GRACE = 0.5
"""Seconds between TERM and KILL."""
DRAIN = 0.8
"""Seconds that output is still taken after the shell has ended, if a child holds the pipe."""
MARGIN = 0.2
"""Seconds to wait for the end of a group that was killed; its output may outlive it in a child
that left the group. With `GRACE` it stays below what the loop grants a tool after an abort."""
REPORT_EVERY = 0.1
"""Seconds between two looks at the output so far."""

_POLL = 0.02  # seconds, where the system cannot tell us that a process has ended
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a command is to end before it does by itself."""

    code: ExecErrorCode
    message: str


class Command:
    """Start it once; it calls `done` once, from its own thread, and never raises.

    Children that the shell leaves in the background go on when the shell has ended. Their
    output is read and thrown away, because a closed pipe would kill them at their next
    word; after `max_total` bytes, or with this interpreter, it is closed.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        timeout: float | None,
        done: Callable[[Result[ExecResult, ExecError]], None],
        report: Callable[[Output], None] | None = None,
        max_total: int = MAX_TOTAL,
    ) -> None:
        self._argv = argv
        self._cwd = cwd
        self._environment = environment
        self._timeout = timeout
        self._done = done
        self._report = report
        self._max_total = max_total
        self._capture = Capture(max_total)
        self._wake = _Wake()
        self._stop: Stop | None = None
        self._spawned = threading.Event()
        """There is a process."""
        self._open = True
        """Somebody still holds the other end of the output."""
        self._reported_at = -math.inf
        self._unreported = False

    def start(self) -> None:
        """Raises:
        RuntimeError: the system gives no more threads; then `done` is not called.
        """
        _running.add(self)
        try:
            threading.Thread(target=self._run, name="pi_nb command", daemon=True).start()
        except RuntimeError:
            _running.discard(self)
            self._wake.close()
            raise

    def stop(self, stop: Stop) -> None:
        """End the group. The first reason counts. Any thread may call it, at any time."""
        self._stop = self._stop or stop
        self._wake.ring()

    # --- the thread ---------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._argv,
                cwd=self._cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # Also without a terminal: what would ask for a password fails instead.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            _running.discard(self)
            self._wake.close()
            self._done(Err(ExecError("spawn_error", self._why_not(error))))
            return
        self._spawned.set()
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        with self._process.stdout, contextlib.closing(self._wake):
            result = self._watched_or_killed()
            self._done(result)
            if isinstance(result, Ok):
                self._forget_output()

    def _watched_or_killed(self) -> Result[ExecResult, ExecError]:
        try:
            return self._watched()
        except Exception as error:
            # Our own fault. Raised here nobody would hear of it, and the caller would wait.
            self.kill()
            return Err(ExecError("unknown", f"watching the command failed: {error!r}"))
        finally:
            self._capture.close()
            _running.discard(self)

    def _why_not(self, error: OSError | ValueError) -> str:
        if not os.path.isdir(self._cwd):
            return f"The working directory is gone: {self._cwd}"
        if isinstance(error, ValueError):
            return (
                "The command holds a character that no command can hold (NUL or a lone surrogate)"
            )
        return f"The shell could not be started: {error.strerror}"

    def _watched(self) -> Result[ExecResult, ExecError]:
        with _Exit(self._process) as exit_of:
            stop = self._until_over(exit_of)
            code = self._process.returncode
            if stop is not None:
                self._end_group(exit_of)
        output = self._capture.output()
        if stop is not None:
            return Err(ExecError(stop.code, stop.message, output, code))
        assert code is not None
        return Ok(ExecResult(code, output, background=self._open))

    def _until_over(self, exit_of: _Exit) -> Stop | None:
        """Watch until the command is over by itself (None) or has to end."""
        started = time.monotonic()
        deadline = math.inf if self._timeout is None else started + self._timeout
        drained = math.inf
        while True:
            now = time.monotonic()
            if exit_of.seen():
                drained = min(drained, now + DRAIN)
            if exit_of.seen() and (not self._open or now >= drained):
                return None
            if self._stop is not None:
                return self._stop
            if now >= deadline:
                return Stop("timeout", f"timed out after {self._timeout:g} s")
            if self._capture.full:
                return Stop(
                    "unknown", f"ended because it printed more than {self._max_total:,} bytes"
                )
            self._take(exit_of, min(deadline, drained, self._tell(now)) - now)

    def _end_group(self, exit_of: _Exit) -> None:
        """TERM, and KILL to those that stay. Bounded, whatever they do."""
        for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, MARGIN)):
            until = time.monotonic() + patience
            self._signal(number)
            while time.monotonic() < until:
                killed = number == signal.SIGKILL and not self._open
                # 0 asks whether anybody is left. A number in use as a group's is not given
                # to a new process, so this cannot hit strangers while anybody is. The dead
                # count too until their parent has looked, which some containers never do.
                if exit_of.seen() and (killed or not self._signal(0)):
                    return
                self._take(exit_of, _POLL)

    def _signal(self, number: int) -> bool:
        """Signal the group; False if nobody is left in it."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            # Somebody in the group runs as another user, or (macOS) is only a zombie.
            return self._process.returncode is None
        return True

    def _take(self, exit_of: _Exit, seconds: float) -> None:
        """Wait for something to happen, at most so long, and take what was printed."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._open:
            poll.register(self._pipe, select.POLLIN)
        if exit_of.descriptor is not None:
            poll.register(exit_of.descriptor, select.POLLIN)
        elif not exit_of.seen():
            seconds = min(seconds, _POLL)
        # Rounded up: a time-out of 0 would spin through the last millisecond.
        ready = [fd for fd, _ in poll.poll(math.ceil(min(max(seconds, 0), 60) * 1000))]
        if self._wake.fileno() in ready:
            self._wake.hush()
        if self._open and self._pipe in ready:
            self._read()

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._pipe, _CHUNK)
            self._open = bool(data)
            self._capture.feed(data)
            self._unreported = self._unreported or bool(data)

    def _tell(self, now: float) -> float:
        """Report what is new if it is time; returns when the next report is due."""
        if self._report is None or not self._unreported:
            return math.inf
        due = self._reported_at + REPORT_EVERY
        if now < due:
            return due
        self._reported_at, self._unreported = now, False
        self._report(self._capture.output())
        return math.inf

    def _forget_output(self) -> None:
        """Go on reading for children in the background."""
        os.set_blocking(self._pipe, True)
        left = self._max_total
        while self._open and left > 0:
            data = os.read(self._pipe, _CHUNK)
            self._open = bool(data)
            left -= len(data)

    def kill(self) -> None:
        """KILL the group at once; a process that is just being made is given a second to be."""
        if self._spawned.wait(1):
            self._signal(signal.SIGKILL)


_running: set[Command] = set()
"""Those whose end somebody waits for."""


@atexit.register
def _leave_nobody_behind() -> None:
    """A kernel that ends takes its commands along; in their sessions they would not notice."""
    for command in list(_running):
        command.kill()


class _Wake:
    """A descriptor that becomes readable when somebody rings, also after it was closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._closed = False

    def fileno(self) -> int:
        return self._read

    def ring(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            # Once closed, its number may belong to somebody else's file.
            if not self._closed:
                os.write(self._write, b"!")

    def hush(self) -> None:
        os.read(self._read, 4_096)

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._read)
                os.close(self._write)


class _Exit:
    """Tells that a process has ended; by a descriptor where the system has such, else asked."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.descriptor: int | None = None

    def __enter__(self) -> _Exit:
        with contextlib.suppress(AttributeError, OSError):
            self.descriptor = os.pidfd_open(self._process.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def seen(self) -> bool:
        if self._process.poll() is None:
            return False
        # It stays readable for good: waiting for it again would not wait.
        self._close()
        return True

    def _close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
