"""This machine as an execution environment: real files, a real shell.

Every refusal of the system is translated once, here. POSIX is what is tried; elsewhere
files should work and commands are refused with a clear word.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable
from secrets import token_hex
from typing import TypeVar

from pi_nb.abort import AbortSignal
from pi_nb.result import Err, Ok, PiError, Result

from .types import (
    ExecError,
    ExecResult,
    FileError,
    FileErrorCode,
    FileInfo,
    FileKind,
    Output,
)

T = TypeVar("T")

_CODES: dict[int, tuple[FileErrorCode, str]] = {
    errno.ENOENT: ("not_found", "No such file or directory"),
    errno.EACCES: ("permission_denied", "Permission denied"),
    errno.EPERM: ("permission_denied", "Operation not permitted"),
    errno.EROFS: ("permission_denied", "The file system is read-only"),
    errno.ENOTDIR: ("not_directory", "A part of the path is a file, not a directory"),
    errno.EEXIST: ("not_directory", "Is a file, not a directory"),
    errno.EISDIR: ("is_directory", "Is a directory"),
    errno.ENAMETOOLONG: ("invalid", "The name is too long"),
    errno.ELOOP: ("invalid", "Too many symbolic links, perhaps in a circle"),
    errno.EINVAL: ("invalid", "The system does not take this path"),
    errno.ENOTSUP: ("not_supported", "Not a regular file"),
}

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


class LocalEnv:
    """Files and commands of this machine; an `ExecutionEnv`.

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

    def resolve(self, path: str) -> str:
        """The absolute path, `~` and symlinks followed: one name for one file."""
        absolute = self._absolute(path)
        try:
            return os.path.realpath(absolute)
        except (OSError, ValueError):
            return absolute

    def _absolute(self, path: str) -> str:
        """The absolute path, symlinks kept: the name that people know."""
        return os.path.normpath(os.path.join(self._cwd, os.path.expanduser(path)))

    # --- files --------------------------------------------------------------------------

    async def read_text(self, path: str) -> Result[str, FileError]:
        """Read a whole UTF-8 file; newlines and a byte order mark as stored."""
        match await self.read_bytes(path):
            case Ok(data):
                try:
                    return Ok(data.decode())
                except UnicodeDecodeError as bad:
                    message = f"Not UTF-8 at byte {bad.start}"
                    return Err(FileError("invalid", message, self._absolute(path)))
            case refused:
                return refused

    async def read_bytes(
        self, path: str, *, offset: int = 0, limit: int | None = None
    ) -> Result[bytes, FileError]:
        """At most `limit` bytes from `offset`; empty beyond the end. Regular files only.

        Raises:
            PiError: `invalid_argument` where `offset` or `limit` is negative.
        """
        if offset < 0 or (limit is not None and limit < 0):
            raise PiError(
                "invalid_argument", f"offset {offset} and limit {limit} must be 0 or more"
            )

        def read(absolute: str) -> bytes:
            # Opening a pipe would wait for a writer, reading a device might never end.
            _regular(os.stat(absolute))
            with open(absolute, "rb", buffering=0 if limit is not None else -1) as file:
                file.seek(offset)
                return _read_exactly(file.fileno(), limit) if limit is not None else file.read()

        return await self._do(path, read)

    async def write_text(self, path: str, text: str) -> Result[None, FileError]:
        """Write the whole file as UTF-8, newlines as they are."""
        try:
            data = text.encode()
        except UnicodeEncodeError as bad:
            message = f"The text cannot be written as UTF-8: half a character at {bad.start}"
            return Err(FileError("invalid", message, self._absolute(path)))
        return await self.write_bytes(path, data)

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

    async def list_dir(self, path: str) -> Result[list[FileInfo], FileError]:
        """Children by name. One that goes away meanwhile is left out."""

        def listed(absolute: str) -> list[FileInfo]:
            found: list[FileInfo] = []
            for name in sorted(os.listdir(absolute)):
                with contextlib.suppress(OSError):
                    found.append(_info(os.path.join(absolute, name)))
            return found

        return await self._do(path, listed)

    async def make_dir(self, path: str) -> Result[None, FileError]:
        return await self._do(path, lambda absolute: os.makedirs(absolute, exist_ok=True))

    async def remove(self, path: str, *, recursive: bool = False) -> Result[None, FileError]:
        """Remove a file or a symlink (not its target); a folder only with `recursive`."""

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
        except OSError as error:
            code, message = _CODES.get(error.errno or 0, ("unknown", error.strerror or str(error)))
            return Err(FileError(code, message, absolute))
        except ValueError:
            message = "A path cannot hold NUL or half a character"
            return Err(FileError("invalid", message, absolute))

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
        command that prints more than 256 MiB is ended (`unknown`). Cancelling the task that
        waits ends the group behind it. An exception of `on_output` is `callback_error`.

        The environment is the user's, with what keeps programs from waiting for somebody.

        Raises:
            PiError: `invalid_argument` where `timeout` is not above 0.
        """
        if timeout is not None and not timeout > 0:
            raise PiError("invalid_argument", f"timeout must be above 0 seconds, got {timeout}")
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


def _read_exactly(descriptor: int, limit: int) -> bytes:
    """`limit` bytes unless the file ends; one read may give fewer than it could."""
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.read(descriptor, limit)):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


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
    try:
        status = os.stat(absolute)
    except OSError:
        status = os.lstat(absolute)  # a broken symlink, or nothing at all
    return FileInfo(
        name=os.path.basename(absolute),
        path=absolute,
        kind=_kind(status.st_mode),
        size=status.st_size,
        modified=status.st_mtime_ns // 1_000_000,
    )


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"
