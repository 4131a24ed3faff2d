"""What a search passes over, and the walk that passes it over.

    1. `.git` and `node_modules`, always.
    2. Hidden names, those that begin with a dot, unless they are asked for.
    3. What the ignore files say (`.gitignore`, `.ignore`, `.fdignore`), as git reads them:
       the last line that matches decides, `!` takes back, and what lies in an ignored folder
       cannot be taken back. A nearer folder's files outrank a farther one's; within a folder
       they count in that order.

The ignore files above the searched folder count up to the repository's root, the first
folder that holds `.git`; without a repository only those in the searched folder and below.
A folder that is searched by name is searched, also if it is hidden or ignored: then nothing
above it counts. Neither the user's own ignore file nor `.git/info/exclude` is asked.

Everything comes through the environment; symlinks to folders are not entered.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise

from pathspec import GitIgnoreSpec

from pi_nb.abort import AbortSignal
from pi_nb.result import Err, Ok

from .types import FileError, FileInfo, FileSystem

FILES = (".gitignore", ".ignore", ".fdignore")
NEVER = frozenset({".git", "node_modules"})

_MAX_FILE = 256_000  # bytes of one ignore file that are read
_WILD = re.compile(r"\*+")
_SPACES_AT_END = re.compile(r"(?<!\\) +\Z")
_BY_ITS_FOLDER = "ps_d"
"""The group by which pathspec marks that a line matches a folder above the path."""
_MAX_WILD = 4
"""Stars of a line. The search for a name grows with their power: a hostile line with more of
them could take hours for one name, so it is passed over."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of an ignore file, translated by pathspec."""

    regex: re.Pattern[str]
    ignores: bool
    """Not taken back."""
    folders_only: bool

    def means(self, path: str, is_folder: bool) -> bool:
        """Whether it is about this very path.

        pathspec asks whole paths in one go, so its patterns also match what lies below a
        folder. A walk asks each folder by itself, and has never entered an ignored one.
        """
        if self.folders_only and not is_folder:
            return False
        match = self.regex.match(path)
        return match is not None and not match.groupdict().get(_BY_ITS_FOLDER)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The lines of one folder's ignore files, the last one first."""

    folder: str
    lines: tuple[_Line, ...]

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: ignored; False: taken back; None: no line says anything."""
        relative = path[len(self.folder.rstrip("/")) + 1 :]
        return next((line.ignores for line in self.lines if line.means(relative, is_folder)), None)


@dataclass(frozen=True, slots=True)
class Ignore:
    """The rules in force in one folder; those of a folder below it are `within`."""

    rules: tuple[_Rules, ...] = ()
    """Nearest first."""

    @classmethod
    async def at(cls, env: FileSystem, folder: str) -> Ignore:
        """The rules for a search that begins in this folder."""
        folder = env.resolve(folder)
        found = cls()
        way = await _down_from_root(env, folder)
        for parent, child in pairwise(way):
            found = await found.within(env, parent, await _names(env, parent))
            if found.ignores(child, is_folder=True):
                return cls()
        return found

    async def within(self, env: FileSystem, folder: str, names: set[str]) -> Ignore:
        """The rules inside a folder that holds these names, its own ignore files included."""
        texts: list[str] = []
        for name in FILES:
            if name in names:
                read = await env.read_bytes(posixpath.join(folder, name), limit=_MAX_FILE)
                if isinstance(read, Ok):
                    text = read.value.decode("utf-8-sig", errors="replace")
                    texts += text.split("\n")
        lines = [line for text in reversed(texts) if (line := _line(text)) is not None]
        return Ignore((_Rules(folder, tuple(lines)), *self.rules)) if lines else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Whether the ignore files leave out this absolute path. Its folder is not ignored."""
        verdicts = (rules.verdict(path, is_folder) for rules in self.rules)
        return next((verdict for verdict in verdicts if verdict is not None), False)


@dataclass(slots=True)
class Walk:
    """All that is below a folder, in order: by name, a folder before what it holds."""

    env: FileSystem
    folder: str
    """Resolved; the paths of what is found begin with it."""
    hidden: bool = False
    """Do not pass over names that begin with a dot."""
    signal: AbortSignal | None = None
    unreadable: list[FileError] = field(default_factory=list)
    """Folders that could not be listed; the walk goes on without them."""

    async def __aiter__(self) -> AsyncIterator[FileInfo]:
        """Raises:
        Aborted: the signal is set.
        """
        start = await Ignore.at(self.env, self.folder)
        ahead: list[tuple[FileInfo | None, str, Ignore]] = [(None, self.folder, start)]
        while ahead:
            info, path, ignore = ahead.pop()
            if info is not None:
                yield info
                if info.kind != "directory" or info.link:
                    continue
            # A backend that never waits would otherwise let nobody else on.
            await asyncio.sleep(0)
            listed = await self.env.list_dir(path, signal=self.signal)
            if self.signal is not None:
                self.signal.raise_if_aborted()
            if isinstance(listed, Err):
                self.unreadable.append(listed.error)
                continue
            inside = await ignore.within(self.env, path, {child.name for child in listed.value})
            ahead += [
                (child, child.path, inside)
                for child in reversed(listed.value)
                if not self._passes_over(child, inside)
            ]

    def _passes_over(self, child: FileInfo, ignore: Ignore) -> bool:
        if child.name in NEVER or (child.name.startswith(".") and not self.hidden):
            return True
        # For git a link is a file, wherever it leads.
        return ignore.ignores(child.path, is_folder=child.kind == "directory" and not child.link)


def _line(text: str) -> _Line | None:
    """What a line says; None for one that says nothing, or that git too would pass over."""
    text = _SPACES_AT_END.sub("", text.removesuffix("\r"))
    if not text or text.startswith("#") or len(_WILD.findall(text)) > _MAX_WILD:
        return None
    try:
        pattern = next(iter(GitIgnoreSpec.from_lines([text.removesuffix("/")]).patterns), None)
    except (ValueError, re.error):
        return None
    if pattern is None or pattern.include is None or pattern.regex is None:
        return None
    return _Line(pattern.regex, pattern.include, text.endswith("/"))


async def _names(env: FileSystem, folder: str) -> set[str]:
    """Which of the names that matter here the folder holds."""
    found: set[str] = set()
    for name in (*FILES, ".git"):
        if isinstance(await env.info(posixpath.join(folder, name)), Ok):
            found.add(name)
    return found


async def _down_from_root(env: FileSystem, folder: str) -> list[str]:
    """From its repository's root down to this folder; nothing without a repository."""
    way = [folder]
    while ".git" not in await _names(env, way[-1]):
        parent = posixpath.dirname(way[-1])
        if parent == way[-1]:
            return []
        way.append(parent)
    return way[::-1]
