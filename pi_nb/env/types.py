"""The contract of an execution environment: files, and commands where it has a shell.

No method raises, whatever path, number or content it is given: it returns `Err`. Relative
paths start at `cwd`. Paths are text with `/` between names; a backend decides what they mean.

A backend says what it can (`capabilities`) and derives from `ExecutionEnv`: what it leaves
out then answers `not_supported`, a command `shell_unavailable`. The least of them defines
`cwd`, `capabilities`, `resolve`, `read_bytes`, `info` and `list_dir`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from pi_nb.abort import AbortSignal
from pi_nb.result import Err, Ok, Result

FileErrorCode = Literal[
    "aborted",
    "not_found",
    "permission_denied",
    "not_directory",
    "is_directory",
    "invalid",
    "not_supported",
    "unknown",
]
ExecErrorCode = Literal[
    "aborted", "timeout", "shell_unavailable", "spawn_error", "callback_error", "unknown"
]
FileKind = Literal["file", "directory", "symlink", "other"]
Capability = Literal["read", "write", "links", "modes", "exec"]
"""`read` and `write`: those methods of `FileSystem`. `links`: symlinks are followed.
`modes`: a file that is written again keeps its owner and its permissions. `exec`: commands."""


@dataclass(frozen=True, slots=True)
class FileError:
    """Why a file operation was refused; `path` is absolute where the backend knows it."""

    code: FileErrorCode
    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.message}: {self.path}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Output:
    """The kept end of what a command printed, stdout and stderr as they came."""

    text: str = ""
    truncated: bool = False
    total_lines: int = 0
    """Line ends printed, plus one for a last line without one."""
    total_bytes: int = 0
    full_path: str | None = None
    """The file with every byte as it was printed, where that is more than `text`."""
    not_kept: str = ""
    """Why there is no such file although there should be: the disk was full, say."""


@dataclass(frozen=True, slots=True)
class ExecError:
    """Why a command did not end by itself. `output` is what it had printed."""

    code: ExecErrorCode
    message: str
    output: Output = Output()
    exit_code: int | None = None
    """The shell's, where it had ended and only its background children went on."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """A command that ended by itself, well or badly."""

    exit_code: int
    """Negative: ended by that signal."""
    output: Output
    background: bool = False
    """A child still held the output when the shell had ended; what it prints is lost."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a path is. `path` is absolute; `modified` is in milliseconds since 1970."""

    name: str
    path: str
    kind: FileKind
    size: int
    modified: int
    link: bool = False
    """The path itself is a symlink; the other fields are its target's where it has one."""


class FileSystem(Protocol):
    """Files. Text is UTF-8, newlines as stored."""

    @property
    def cwd(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can; the same for as long as it lives."""
        ...

    def resolve(self, path: str) -> str:
        """The absolute path, symlinks followed: one name for one file, at once.

        `~` is the user's home. The file need not exist, and nothing is refused here.
        """
        ...

    async def read_text(
        self, path: str, *, signal: AbortSignal | None = None
    ) -> Result[str, FileError]:
        """Read a whole UTF-8 file; newlines and a byte order mark as stored.

        Errors: those of `read_bytes`, and `invalid` where it is not UTF-8.
        """
        match await self.read_bytes(path, signal=signal):
            case Ok(data):
                try:
                    return Ok(data.decode())
                except UnicodeDecodeError as bad:
                    message = f"Not UTF-8 at byte {bad.start}"
                    return Err(FileError("invalid", message, self.resolve(path)))
            case refused:
                return refused

    async def read_bytes(
        self,
        path: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        signal: AbortSignal | None = None,
    ) -> Result[bytes, FileError]:
        """At most `limit` bytes from `offset`; empty beyond the end. Regular files only.

        Errors: `invalid` also for a negative `offset` or `limit`; `aborted` when the signal
        is set before the end is reached.
        """
        return self._unable(path)

    async def write_text(self, path: str, text: str) -> Result[None, FileError]:
        """Write the whole file as UTF-8, newlines as they are.

        Errors: those of `write_bytes`, and `invalid` for half a character.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError as bad:
            message = f"The text cannot be written as UTF-8: half a character at {bad.start}"
            return Err(FileError("invalid", message, self.resolve(path)))
        return await self.write_bytes(path, data)

    async def write_bytes(self, path: str, data: bytes) -> Result[None, FileError]:
        """Write the whole file, folders above it included, in one step (all or nothing)."""
        return self._unable(path)

    async def info(self, path: str) -> Result[FileInfo, FileError]:
        """What the path is; a symlink is followed, a broken one is `symlink`."""
        return self._unable(path)

    async def list_dir(
        self, path: str, *, signal: AbortSignal | None = None
    ) -> Result[list[FileInfo], FileError]:
        """Children by name, as `info` tells of them."""
        return self._unable(path)

    async def make_dir(self, path: str) -> Result[None, FileError]:
        """Make the folder and those above it; one that exists is fine."""
        return self._unable(path)

    async def remove(self, path: str, *, recursive: bool = False) -> Result[None, FileError]:
        """Remove a file or a symlink (not its target); a folder only with `recursive`."""
        return self._unable(path)

    def _unable(self, path: str) -> Err[FileError]:
        message = f"{type(self).__name__} cannot do this"
        return Err(FileError("not_supported", message, self.resolve(path)))


class Shell(Protocol):
    """Commands, each in a process group of its own."""

    async def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        signal: AbortSignal | None = None,
        on_output: Callable[[Output], None] | None = None,
    ) -> Result[ExecResult, ExecError]:
        """Run a command line in the shell, in `cwd`, without input.

        Args:
            timeout: Seconds, above 0 (else `unknown`), until the group is told to end.
                None: no limit.
            signal: Ends the group: TERM, and KILL half a second later.
            on_output: Told the kept tail now and then, on the caller's loop. If it raises,
                the command is ended (`callback_error`).
        """
        return Err(ExecError("shell_unavailable", "there is no shell here"))


class ExecutionEnv(FileSystem, Shell, Protocol):
    """Files and commands."""
