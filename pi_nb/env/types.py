"""The contract of an execution environment: files, and commands where it has a shell.

No method raises for what the world refuses: it returns `Err`. Relative paths start at
`cwd`. Paths are text; a backend decides what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from pi_nb.abort import AbortSignal
from pi_nb.result import Result

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


class FileSystem(Protocol):
    """Files. Text is UTF-8, newlines as stored."""

    @property
    def cwd(self) -> str: ...

    def resolve(self, path: str) -> str:
        """The absolute path, symlinks followed: one name for one file, at once.

        `~` is the user's home. The file need not exist, and nothing is refused here.
        """
        ...

    async def read_text(self, path: str) -> Result[str, FileError]: ...

    async def read_bytes(
        self, path: str, *, offset: int = 0, limit: int | None = None
    ) -> Result[bytes, FileError]: ...

    async def write_text(self, path: str, text: str) -> Result[None, FileError]:
        """Write the whole file, folders above it included, in one step (all or nothing)."""
        ...

    async def write_bytes(self, path: str, data: bytes) -> Result[None, FileError]: ...

    async def info(self, path: str) -> Result[FileInfo, FileError]:
        """What the path is; a symlink is followed, a broken one is `symlink`."""
        ...

    async def list_dir(self, path: str) -> Result[list[FileInfo], FileError]:
        """Children by name."""
        ...

    async def make_dir(self, path: str) -> Result[None, FileError]:
        """Make the folder and those above it; one that exists is fine."""
        ...

    async def remove(self, path: str, *, recursive: bool = False) -> Result[None, FileError]: ...


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
            timeout: Seconds until the group is told to end. None: no limit.
            signal: Ends the group: TERM, and KILL half a second later.
            on_output: Told the kept tail now and then, on the caller's loop.
        """
        ...


class ExecutionEnv(FileSystem, Shell, Protocol):
    """Files and commands."""
