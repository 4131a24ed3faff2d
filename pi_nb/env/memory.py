"""A world in memory: files that cost nothing and leave nothing, for tests and for teaching.

It keeps the contract of a disk: folders, symlinks, the same refusals in the same words. It
has no shell of its own; a function can play one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.ids import now_ms
from pi_nb.result import Err, Ok, PiError, Result
from pi_nb.text import visible

from .capture import Tail
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

HOME = "/home"
"""What `~` is."""

_MAX_NAME = 255  # bytes, as on most disks
_MAX_PATH = 4_096
_MAX_LINKS = 40

ScriptedShell = Callable[[str], tuple[int, str]]
"""A command line in, its exit code and what it prints out."""


@dataclass(slots=True)
class _File:
    data: bytes
    modified: int = field(default_factory=now_ms)


@dataclass(slots=True)
class _Link:
    target: str
    modified: int = field(default_factory=now_ms)


@dataclass(slots=True)
class _Folder:
    children: dict[str, _File | _Link | _Folder] = field(default_factory=dict)
    modified: int = field(default_factory=now_ms)


_Node = _File | _Link | _Folder


class MemoryEnv(ExecutionEnv):
    """Files of one Python process.

    Args:
        files: Path to content, text as UTF-8; relative ones start at `cwd`. A path that ends
            in a slash is an empty folder.
        cwd: Where relative paths start; it need not exist.
        links: Path of a symlink to what it points to.
        shell: Plays the shell. It runs in a thread; after a time-out or an abort it is left
            behind and its result thrown away. An exception of it is an error `unknown`.

    Raises:
        PiError: `invalid_argument` where two of the paths cannot be in one tree, or one
            cannot be at all.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        cwd: str = "/",
        *,
        links: Mapping[str, str] | None = None,
        shell: ScriptedShell | None = None,
    ) -> None:
        self._root = _Folder()
        self._cwd = posixpath.normpath(posixpath.join("/", cwd)).replace("//", "/")
        self._shell = shell
        try:
            for path, content in (files or {}).items():
                if path.endswith("/"):
                    self._make_folder(self._absolute(path))
                else:
                    data = content.encode() if isinstance(content, str) else bytes(content)
                    self._put(self._absolute(path), _File(data))
            for path, target in (links or {}).items():
                self._put(self._absolute(path), _Link(target))
        except (OSError, ValueError) as error:
            why = refusal(error, visible(path))
            raise PiError("invalid_argument", f"such a tree cannot be: {why}") from error

    def __repr__(self) -> str:
        return f"MemoryEnv(cwd={self._cwd!r})"

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def capabilities(self) -> frozenset[Capability]:
        files: frozenset[Capability] = frozenset({"read", "write", "links"})
        return files | {"exec"} if self._shell else files

    def resolve(self, path: str) -> str:
        absolute = self._absolute(path)
        try:
            return self._real(absolute)
        except OSError:
            return absolute

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
            node = self._node(self._real(absolute))
            if not isinstance(node, _File):
                raise OSError(errno.EISDIR, "")
            return node.data[offset : None if limit is None else offset + limit]

        return self._do(path, read, signal)

    async def write_bytes(self, path: str, data: bytes) -> Result[None, FileError]:
        def write(absolute: str) -> None:
            real = self._real(absolute)
            if path.endswith("/") or isinstance(self._at(real), _Folder):
                raise OSError(errno.EISDIR, "")
            self._put(real, _File(bytes(data)))

        return self._do(path, write)

    async def info(self, path: str) -> Result[FileInfo, FileError]:
        return self._do(path, self._info)

    async def list_dir(
        self, path: str, *, signal: AbortSignal | None = None
    ) -> Result[list[FileInfo], FileError]:
        def listed(absolute: str) -> list[FileInfo]:
            node = self._node(self._real(absolute))
            if not isinstance(node, _Folder):
                raise OSError(errno.ENOTDIR, "")
            return [self._info(posixpath.join(absolute, name)) for name in sorted(node.children)]

        return self._do(path, listed, signal)

    async def make_dir(self, path: str) -> Result[None, FileError]:
        def make(absolute: str) -> None:
            self._make_folder(absolute)

        return self._do(path, make)

    async def remove(self, path: str, *, recursive: bool = False) -> Result[None, FileError]:
        def remove(absolute: str) -> None:
            here = self._real(absolute, last=False)
            if isinstance(self._node(here), _Folder) and not recursive:
                raise OSError(errno.EISDIR, "")
            if here == "/":
                raise OSError(errno.EACCES, "")
            above, name = posixpath.split(here)
            folder = self._make_folder(above)
            del folder.children[name]
            folder.modified = now_ms()

        return self._do(path, remove)

    def _do(
        self, path: str, work: Callable[[str], T], signal: AbortSignal | None = None
    ) -> Result[T, FileError]:
        absolute = self._absolute(path)
        try:
            if signal is not None and signal.aborted:
                raise OSError(errno.ECANCELED, "")
            _check(absolute)
            return Ok(work(absolute))
        except (OSError, ValueError, OverflowError) as error:
            return Err(refusal(error, absolute))

    # --- the tree -----------------------------------------------------------------------

    def _absolute(self, path: str) -> str:
        """The absolute path, symlinks kept."""
        if path == "~" or path.startswith("~/"):
            path = HOME + path[1:]
        joined = posixpath.normpath(posixpath.join(self._cwd, path))
        return joined[1:] if joined.startswith("//") else joined

    def _real(self, absolute: str, *, last: bool = True) -> str:
        """The path with its links followed; of the last name only if `last`. It need not exist."""
        ahead = absolute.split("/")[::-1]
        done: list[str] = []
        # What stands at the root and at each of `done`.
        nodes: list[_Node | None] = [self._root]
        followed = 0
        while ahead:
            name = ahead.pop()
            if name in ("", "."):
                continue
            if name == "..":
                del done[-1:]
                del nodes[len(done) + 1 :]
                continue
            above = nodes[-1]
            node = above.children.get(name) if isinstance(above, _Folder) else None
            if not isinstance(node, _Link) or not (any(ahead) or last):
                done.append(name)
                nodes.append(node)
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise OSError(errno.ELOOP, "")
            if node.target.startswith("/"):
                del done[:], nodes[1:]
            ahead += node.target.split("/")[::-1]
        return "/" + "/".join(done)

    def _at(self, real: str) -> _Node | None:
        """What stands at a path whose folders are no links, or None."""
        node: _Node = self._root
        for name in filter(None, real.split("/")):
            child = node.children.get(name) if isinstance(node, _Folder) else None
            if child is None:
                return None
            node = child
        return node

    def _node(self, real: str) -> _Node:
        """What stands there. Where nothing does: because it is missing, or below a file."""
        if (node := self._at(real)) is not None:
            return node
        above = posixpath.dirname(real)
        while self._at(above) is None:
            above = posixpath.dirname(above)
        is_folder = isinstance(self._at(above), _Folder)
        raise OSError(errno.ENOENT if is_folder else errno.ENOTDIR, "")

    def _make_folder(self, absolute: str) -> _Folder:
        """The folder, made with those above it where it is missing; all of them or none."""
        _check(absolute)
        node: _Node = self._root
        for name in filter(None, self._real(absolute).split("/")):
            if not isinstance(node, _Folder):
                raise OSError(errno.ENOTDIR, "")
            node = node.children.setdefault(name, _Folder())
        if not isinstance(node, _Folder):
            raise OSError(errno.EEXIST, "")
        return node

    def _put(self, absolute: str, node: _File | _Link) -> None:
        _check(absolute)
        above, name = posixpath.split(absolute)
        if not name:
            raise OSError(errno.EISDIR, "")
        folder = self._make_folder(above)
        folder.children[name] = node
        folder.modified = node.modified

    def _info(self, absolute: str) -> FileInfo:
        itself = self._node(self._real(absolute, last=False))
        node = itself
        if isinstance(itself, _Link):
            with contextlib.suppress(OSError):  # a broken one stays what it is
                node = self._node(self._real(absolute))
        kind: FileKind = "file"
        if isinstance(node, _Folder):
            kind, size = "directory", 0
        elif isinstance(node, _Link):
            kind, size = "symlink", len(node.target)
        else:
            size = len(node.data)
        name = posixpath.basename(absolute)
        return FileInfo(name, absolute, kind, size, node.modified, isinstance(itself, _Link))

    # --- commands -----------------------------------------------------------------------

    async def exec(
        self,
        command: str,
        *,
        timeout: float | None = None,
        signal: AbortSignal | None = None,
        on_output: Callable[[Output], None] | None = None,
    ) -> Result[ExecResult, ExecError]:
        """Ask the scripted shell; `shell_unavailable` where there is none."""
        if self._shell is None:
            return Err(ExecError("shell_unavailable", "There is no shell in memory"))
        if timeout is not None and not timeout > 0:
            return Err(ExecError("unknown", f"timeout must be above 0 seconds, got {timeout}"))
        if signal is not None and signal.aborted:
            return Err(ExecError("aborted", signal.reason))
        try:
            work = asyncio.wait_for(asyncio.to_thread(self._shell, command), timeout)
            code, text = await unless_aborted(work, signal or AbortSignal())
            tail = Tail()
            tail.feed(text.encode(errors="replace"))
        except Aborted as aborted:
            return Err(ExecError("aborted", str(aborted)))
        except TimeoutError:
            return Err(ExecError("timeout", f"timed out after {timeout} s"))
        except Exception as error:
            return Err(ExecError("unknown", f"the scripted shell failed: {error!r}"))
        output = tail.output()
        if on_output is not None:
            try:
                on_output(output)
            except Exception as error:
                return Err(ExecError("callback_error", f"on_output raised {error!r}", output))
        return Ok(ExecResult(code, output))


def _check(absolute: str) -> None:
    """Raises what a disk would: for NUL, for half a character, for what is too long."""
    if "\0" in absolute:
        raise ValueError
    longest = max(len(name.encode()) for name in absolute.split("/"))
    if longest > _MAX_NAME or len(absolute) > _MAX_PATH:
        raise OSError(errno.ENAMETOOLONG, "")
