"""This machine as an execution environment: real files, a real shell.

Every refusal of the system is translated once, here. POSIX is what is tried; elsewhere
files should work and commands are refused with a clear word.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
import shutil
import stat
from collections.abc import Callable
from secrets import token_hex
from typing import TypeVar

from pi_nb.abort import AbortSignal
from pi_nb.result import Err, Ok, PiError, Result

from .refusal import refusal
from .types import (
    Capability,
    ExecError,
    ExecResult,
    ExecutionEnv,
    FileError,
    FileInfo,
    FileKind,
    Output,
)

T = TypeVar("T")

_ALL: frozenset[Capability] = frozenset({"read", "write", "links", "modes", "exec"})
_CHUNK = 4_194_304  # bytes between two looks at the abort signal

# Programs in a pipe should neither wait for somebody nor colour what a model reads.
_QUIET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "PIP_NO_INPUT": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}
# What a kernel sets for its own cells and a command should not inherit from it.
_OF_THE_KERNEL = {"CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"}


class LocalEnv(ExecutionEnv):
    """Files and commands of this machine.

    Args:
        cwd: The folder that relative paths and commands start in; itself relative to the
            process's. It need not exist yet.

    Raises:
        PiError: `invalid_argument` where `cwd` is relative and the process's own working
            directory is gone.
    """

    def __init__(self, cwd: str | os.PathLike[str] = ".") -> None:
        try:
            self._cwd = os.path.abspath(os.path.expanduser(os.fspath(cwd)))
        except OSError as error:
            raise PiError(
                "invalid_argument", f"the working directory of this process is gone: {error}"
            ) from error

    def __repr__(self) -> str:
        return f"LocalEnv({self._cwd!r})"

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def capabilities(self) -> frozenset[Capability]:
        return _ALL if os.name == "posix" else _ALL - {"exec", "modes"}

    def resolve(self, path: str) -> str:
        """The absolute path, `~` and symlinks followed: one name for one file."""
        absolute = self._absolute(path)
        try:
            return os.path.realpath(absolute)
        except (OSError, ValueError):
            return absolute

    def _absolute(self, path: str) -> str:
        """The absolute path, symlinks kept: the name that people know."""
        # `~name` is looked up among the users, who have no such odd names.
        with contextlib.suppress(ValueError):
            path = os.path.expanduser(path)
        absolute = os.path.normpath(os.path.join(self._cwd, path))
        # POSIX lets two slashes at the beginning mean something else; no system here does.
        return absolute[1:] if os.name == "posix" and absolute.startswith("//") else absolute

    # --- files --------------------------------------------------------------------------

    async def read_bytes(
        self,
        path: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        signal: AbortSignal | None = None,
    ) -> Result[bytes, FileError]:
        def read(absolute: str) -> bytes:
            if offset < 0 or (limit is not None and limit < 0):
                raise OverflowError
            # Opening a pipe would wait for a writer, reading a device might never end.
            _regular(os.stat(absolute))
            with open(absolute, "rb", buffering=0) as file:
                file.seek(offset)
                return _read(file.fileno(), limit, signal)

        return await self._do(path, read)

    async def write_bytes(self, path: str, data: bytes) -> Result[None, FileError]:
        """Write the whole file, or leave what was there.

        Through a new file beside it that takes its place: the mode stays, a symlink stays
        and its target is written; other hard links keep the former content.
        """
        if path.endswith(("/", os.sep)):
            return Err(FileError("is_directory", "The path ends like a directory's", path))
        return await self._do(path, lambda absolute: _replace(absolute, data))

    async def info(self, path: str) -> Result[FileInfo, FileError]:
        return await self._do(path, _info)

    async def list_dir(
        self, path: str, *, signal: AbortSignal | None = None
    ) -> Result[list[FileInfo], FileError]:
        """Children by name. One that goes away meanwhile is left out."""

        def listed(absolute: str) -> list[FileInfo]:
            found: list[FileInfo] = []
            _unless_aborted(signal)
            for name in sorted(os.listdir(absolute)):
                _unless_aborted(signal)
                with contextlib.suppress(OSError):
                    found.append(_info(os.path.join(absolute, name)))
            return found

        return await self._do(path, listed)

    async def make_dir(self, path: str) -> Result[None, FileError]:
        return await self._do(path, lambda absolute: os.makedirs(absolute, exist_ok=True))

    async def remove(self, path: str, *, recursive: bool = False) -> Result[None, FileError]:
        def remove(absolute: str) -> None:
            if not stat.S_ISDIR(os.lstat(absolute).st_mode):
                os.unlink(absolute)
            elif recursive:
                shutil.rmtree(absolute)
            else:
                raise IsADirectoryError(errno.EISDIR, "")

        return await self._do(path, remove)

    async def _do(self, path: str, work: Callable[[str], T]) -> Result[T, FileError]:
        """Do it in a thread; what the system refuses becomes an `Err` here and nowhere else."""
        absolute = self._absolute(path)
        try:
            return Ok(await asyncio.to_thread(work, absolute))
        except Exception as error:
            return Err(refusal(error, absolute))

    # --- commands -----------------------------------------------------------------------

    async def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        signal: AbortSignal | None = None,
        on_output: Callable[[Output], None] | None = None,
    ) -> Result[ExecResult, ExecError]:
        """Run a command line in `bash`, else `sh`, in `cwd`, without input.

        It is over when the shell has ended and its output is closed, or 0.8 s after the
        shell has ended if children still hold the output (`background`); those go on. A
        command that prints more than 256 MiB is ended (`unknown`). Output longer than the
        kept tail is in a file too (`spill`). Cancelling the task that waits ends the group
        behind it.

        The environment is the user's, with what keeps programs from waiting for somebody.
        """
        if timeout is not None and not timeout > 0:
            return Err(ExecError("unknown", f"timeout must be above 0 seconds, got {timeout}"))
        if os.name != "posix":
            return Err(ExecError("shell_unavailable", "commands need a POSIX system"))
        shell = shutil.which("bash") or shutil.which("sh")
        if shell is None:
            return Err(ExecError("shell_unavailable", "neither bash nor sh is on the PATH"))
        if signal is not None and signal.aborted:
            return Err(ExecError("aborted", signal.reason))
        # `--`: a command may begin with a minus.
        return await self._run([shell, "-c", "--", command], timeout, signal, on_output)

    async def _run(
        self,
        argv: list[str],
        timeout: float | None,
        signal: AbortSignal | None,
        on_output: Callable[[Output], None] | None,
    ) -> Result[ExecResult, ExecError]:
        from .process import Command, Stop  # there is no select.poll on Windows

        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result[ExecResult, ExecError]] = loop.create_future()

        def on_loop(work: Callable[[], None]) -> None:
            # A loop that was closed meanwhile waits for nothing.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(work)

        def settle(result: Result[ExecResult, ExecError]) -> None:
            if not done.done():
                done.set_result(result)

        def deliver(output: Output) -> None:
            if done.done() or on_output is None:
                return
            try:
                on_output(output)
            except Exception as error:
                running.stop(Stop("callback_error", f"on_output raised {error!r}"))

        try:
            running = Command(
                argv,
                cwd=self._cwd,
                environment=_environment(),
                timeout=timeout,
                done=lambda result: on_loop(lambda: settle(result)),
                report=(lambda output: on_loop(lambda: deliver(output))) if on_output else None,
            )
            running.start()
        except (OSError, RuntimeError) as error:
            # No descriptor or no thread left.
            return Err(ExecError("spawn_error", f"the command could not be watched: {error}"))
        forget = (
            signal.on_abort(lambda: running.stop(Stop("aborted", signal.reason)))
            if signal is not None
            else lambda: None
        )
        try:
            return await done
        except asyncio.CancelledError:
            running.stop(Stop("aborted", "cancelled"))
            raise
        finally:
            forget()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_THE_KERNEL}
    if "inline" in kept.get("MPLBACKEND", ""):
        del kept["MPLBACKEND"]
    return {**kept, **_QUIET}


def _regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENOTSUP, "")


def _read(descriptor: int, limit: int | None, signal: AbortSignal | None) -> bytes:
    """`limit` bytes unless the file ends; one read may give fewer than it could."""
    pieces: list[bytes] = []
    left = math.inf if limit is None else limit
    while left > 0:
        _unless_aborted(signal)
        piece = os.read(descriptor, int(min(left, _CHUNK)))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _unless_aborted(signal: AbortSignal | None) -> None:
    if signal is not None and signal.aborted:
        raise OSError(errno.ECANCELED, "")


def _replace(absolute: str, data: bytes) -> None:
    target = os.path.realpath(absolute)
    former: os.stat_result | None = None
    try:
        former = os.stat(target)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    else:
        _regular(former)
        if not os.access(target, os.W_OK):
            # To take its place only the folder's permission would be asked.
            raise PermissionError(errno.EACCES, "")
    # The name says nothing of the target's: that one may be as long as names can be.
    beside = os.path.join(os.path.dirname(target), f".pi_nb-{token_hex(8)}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            if former is not None:
                _as_before(descriptor, former)
            file.write(data)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _as_before(descriptor: int, former: os.stat_result) -> None:
    """Give a new file the owner and the mode of the one it takes the place of."""
    if hasattr(os, "fchown"):
        with contextlib.suppress(OSError):
            # Not everybody may; then the file is the writer's own.
            os.fchown(descriptor, former.st_uid, former.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(former.st_mode))


def _info(absolute: str) -> FileInfo:
    status = os.lstat(absolute)
    if link := stat.S_ISLNK(status.st_mode):
        with contextlib.suppress(OSError):  # a broken one stays what it is
            status = os.stat(absolute)
    return FileInfo(
        name=os.path.basename(absolute),
        path=absolute,
        kind=_kind(status.st_mode),
        size=status.st_size,
        modified=status.st_mtime_ns // 1_000_000,
        link=link,
    )


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"
