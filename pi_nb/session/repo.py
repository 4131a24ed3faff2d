"""Where sessions live: a folder for each working directory, a file for each session.

Two roots have this shape: ours, where new sessions are made, and pi's own, whose sessions
are listed, searched and gone on with, but never deleted.

    ~/.pi_nb/sessions/--home-me-tea--/2026-05-01T10-00-00-000Z_<id>.jsonl
    ~/.pi/agent/sessions/--home-me-tea--/...
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pi_nb.ids import now_ms, uuid7
from pi_nb.result import PiError

from .index import Diagnostic
from .listing import Origin, SessionInfo, session_head, session_info
from .naming import the_one
from .search import SearchHit, search_sessions
from .session import Session
from .trash import FOLDER, discard

Folder = str | os.PathLike[str]
Files = list[tuple[Path, Origin]]
Diagnostics = tuple[Diagnostic, ...]
Infos = list[SessionInfo]  # in the class, `list` is the method


class SessionRepo:
    """The sessions below one folder: `root`, else `PI_NB_SESSION_DIR`, else `~/.pi_nb/sessions`;
    and those of pi."""

    def __init__(self, root: Folder | None = None, *, pi_root: Folder | None = None) -> None:
        """
        Args:
            pi_root: Where pi's own sessions are. None: none where `root` is given, else
                `pi_sessions()`.
        """
        given = root or os.environ.get("PI_NB_SESSION_DIR") or "~/.pi_nb/sessions"
        self.root = _absolute(given)
        if pi_root is None and not root:
            pi_root = pi_sessions()
        self.pi_root = None if pi_root is None else _absolute(pi_root)

    def __repr__(self) -> str:
        return f"SessionRepo({str(self.root)!r})"

    # --- making -----------------------------------------------------------------------------

    def folder(self, cwd: Folder) -> Path:
        """Where the sessions of a working directory are. Two may share a folder: headers tell."""
        return self.root / _folder_name(_absolute(cwd))

    def place(self, cwd: Folder, session_id: str, created: int) -> Path:
        """The file of a session that began at a moment (ms) in a working directory."""
        moment = datetime.fromtimestamp(created / 1000, UTC)
        stamp = moment.strftime("%Y-%m-%dT%H-%M-%S-") + f"{created % 1000:03}Z"
        return self.folder(cwd) / f"{stamp}_{session_id}.jsonl"

    def create(self, cwd: Folder, name: str | None = None, **options: Any) -> Session:
        """A new session for a working directory; `options` are those of `Session.create`.

        Raises:
            PiError: `session`: the disk refused.
        """
        session_id = options.pop("id", None) or uuid7()
        path = self.place(cwd, session_id, now_ms())
        session = Session.create(path, cwd=_absolute(cwd), id=session_id, **options)
        if name:
            session.set_name_sync(name)
        return session

    # --- finding ----------------------------------------------------------------------------

    def list(self, cwd: Folder | None = None) -> Infos:
        """The sessions of a working directory, or all; the one with the newest message first.

        What is no session, or cannot be read, is passed over. Nothing is written.
        """
        found = [session_info(path, origin) for path, origin in self._files(cwd)]
        known = [info for info in found if info is not None]
        if cwd is not None:
            wanted, resolved = _absolute(cwd), lru_cache(_absolute)
            known = [info for info in known if resolved(info.cwd) == wanted]
        return sorted(known, key=lambda info: (info.modified, info.id), reverse=True)

    def latest(self, cwd: Folder | None = None) -> SessionInfo | None:
        """The session with the newest message; None where nothing was said in any."""
        return next((info for info in self.list(cwd) if not info.empty), None)

    def find(self, text: str, cwd: Folder | None = None) -> SessionInfo:
        """A session by its path, its id or its name, or by a part of them: the beginning or
        the end of its id, the beginning of its name. Names are found in whatever case.

        What fits exactly comes first. A whole id is looked for in headers alone.

        Raises:
            PiError: `invalid_argument`: none or several; `session`: a path to no session.
        """
        path = Path(text).expanduser()
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                info = session_info(path.resolve(), self._origin(path.resolve()))
                if info is None:
                    raise PiError("session", f"{path} is not a session")
                return info
        known = self._with_id(text, cwd) or self.list(cwd)
        return the_one(text, known, lambda info: (info.id, info.name))

    def search(self, text: str, cwd: Folder | None = None) -> Iterator[SearchHit]:
        """The entries that hold a text, whatever its case, of the newest session first.

        They come one by one, while the files are read. Summaries are searched too.

        Raises:
            PiError: `invalid_argument`: there is nothing to look for.
        """
        return search_sessions(self.list(cwd), text)

    # --- changing ---------------------------------------------------------------------------

    def rename(self, info: SessionInfo, name: str | None) -> Diagnostics:
        """Name a session; None or blank takes the name away. It does not become newer.

        Returns:
            What the write did to the file besides, such as making v3 of v1.

        Raises:
            PiError: `session`: somebody else has it open (named), or the disk refused.
        """
        with _open(info.path) as session:
            before = session.diagnostics
            session.set_name_sync(name)
            return tuple(odd for odd in session.diagnostics if odd not in before)

    def label(self, info: SessionInfo, entry: str, label: str | None) -> None:
        """Label an entry, found by its number, label or id; None or blank takes it away.

        Raises:
            PiError: `invalid_argument`: there is no such entry; `session`: as `rename`.
        """
        with _open(info.path) as session:
            session.set_label_sync(session.find(entry).id, label)

    def delete(self, info: SessionInfo) -> None:
        """Move a session to the trash, and what lies beside its file; where the system has
        no trash, to a folder `.trash` below `root`.

        Raises:
            PiError: `session`: it is open here, be it to read, or elsewhere (its owner is
                named), or the disk refused; `invalid_argument`: it is one of pi's own.
        """
        path = info.path.resolve()
        if self._origin(path) == "pi":
            raise PiError("invalid_argument", f"{path} is one of pi's own sessions; pi deletes it")
        if Session.opened(path) is not None:
            raise PiError("session", f"{path} is open in this process; close it first")
        discard(path, self.root)

    # --- files ------------------------------------------------------------------------------

    def _files(self, cwd: Folder | None) -> Files:
        """Every file that may be a session, once, whatever links lead to it."""
        names = None
        if cwd is not None:
            # pi does not follow links before it names the folder.
            plain = Path(os.path.abspath(Path(cwd).expanduser()))
            names = {_folder_name(path) for path in (_absolute(cwd), plain)}
        found: dict[Path, Origin] = {}
        for root in filter(None, (self.root, self.pi_root)):
            folders = _folders(root) if names is None else [root, *(root / n for n in names)]
            for folder in folders:
                for path in _sessions_in(folder):
                    found.setdefault(path, self._origin(path))
        return [*found.items()]

    def _origin(self, path: Path) -> Origin:
        return "pi" if self.pi_root is not None and path.is_relative_to(self.pi_root) else "pi_nb"

    def _with_id(self, session_id: str, cwd: Folder | None) -> Infos:
        paths = [
            (path, origin)
            for path, origin in self._files(cwd)
            if (head := session_head(path)) is not None and head.id == session_id
        ]
        return [info for path, origin in paths if (info := session_info(path, origin))]


def pi_sessions() -> Path:
    """Where pi keeps its own sessions: below `PI_CODING_AGENT_DIR`, else `~/.pi/agent`."""
    return _absolute(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent") / "sessions"


@contextlib.contextmanager
def _open(path: Path) -> Iterator[Session]:
    """A session to write to, left open if it was open already."""
    was_open = Session.opened(path) is not None
    session = Session.open(path)
    try:
        yield session
    finally:
        if not was_open:
            session.close()


def _folder_name(cwd: Path) -> str:
    flat = str(cwd).strip("/\\")
    for separator in "/\\:":
        flat = flat.replace(separator, "-")
    # A name may have 255 bytes; the end of a path tells more than its beginning.
    return f"--{os.fsencode(flat)[-200:].decode(errors='ignore')}--"


def _folders(root: Path) -> list[Path]:
    with contextlib.suppress(OSError), os.scandir(root) as there:
        return [root, *(Path(e) for e in there if e.name != FOLDER and e.is_dir())]
    return []


def _sessions_in(folder: Path) -> list[Path]:
    """The resolved paths of what has a session's name: links cost a look, files do not."""
    try:
        real = Path(os.path.realpath(folder))
        with os.scandir(real) as there:
            return [
                Path(os.path.realpath(entry)) if entry.is_symlink() else real / entry.name
                for entry in there
                if entry.name.endswith(".jsonl")
            ]
    except OSError:
        return []


def _absolute(path: Folder) -> Path:
    return Path(path).expanduser().resolve()
