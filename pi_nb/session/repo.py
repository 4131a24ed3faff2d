"""Where sessions live: a folder for each working directory, a file for each session.

A list reads of each file its first line and a bounded piece of its end, so that sessions
of any size and number can be listed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pi_nb.ids import now_ms, uuid7
from pi_nb.result import Ok, PiError
from pi_nb.text import quoted, safe_line, unquoted

from .index import Place
from .jsonl import first_line
from .records import Header
from .session import Session
from .sniff import LIMIT, sniff
from .v4.codec import V4

TAIL = 1 << 16
"""Bytes of a file's end that a list looks at."""


@dataclass(frozen=True, slots=True, repr=False)
class SessionInfo:
    """What a list knows of a session. Times are in milliseconds since 1970."""

    path: Path
    id: str
    cwd: str
    created: int
    modified: int
    """Of the last message; naming or labelling a session does not make it newer."""
    name: str | None
    """None also where the name lies too far from the end to be looked for."""
    empty: bool = False
    """Nothing was said in it yet."""

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.modified / 1000).strftime("%Y-%m-%d %H:%M")
        return f"{when}  {safe_line(self.name or self.id, 40)}  {safe_line(self.cwd)}"

    def __repr__(self) -> str:
        about = quoted(self.name, 30) if self.name else unquoted(self.id)
        return f"SessionInfo({about}, {unquoted(self.cwd)}{', empty' if self.empty else ''})"


class SessionRepo:
    """The sessions below one folder: `root`, else `PI_NB_SESSION_DIR`, else `~/.pi_nb/sessions`."""

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        given = root or os.environ.get("PI_NB_SESSION_DIR") or "~/.pi_nb/sessions"
        self.root = Path(given).expanduser().resolve()

    def __repr__(self) -> str:
        return f"SessionRepo({str(self.root)!r})"

    def folder(self, cwd: str | os.PathLike[str]) -> Path:
        """Where the sessions of a working directory are. Two may share a folder: headers tell."""
        flat = str(_absolute(cwd)).strip("/\\")
        for separator in "/\\:":
            flat = flat.replace(separator, "-")
        # A name may have 255 bytes; the end of a path tells more than its beginning.
        return self.root / f"--{os.fsencode(flat)[-200:].decode(errors='ignore')}--"

    def create(
        self, cwd: str | os.PathLike[str], name: str | None = None, **options: Any
    ) -> Session:
        """A new session for a working directory; `options` are those of `Session.create`.

        Raises:
            PiError: `session`: the disk refused.
        """
        session_id = options.pop("id", None) or uuid7()
        moment = datetime.fromtimestamp(now_ms() / 1000, UTC)
        stamp = moment.strftime("%Y-%m-%dT%H-%M-%S-") + f"{moment.microsecond // 1000:03}Z"
        path = self.folder(cwd) / f"{stamp}_{session_id}.jsonl"
        session = Session.create(path, cwd=_absolute(cwd), id=session_id, **options)
        if name:
            session.set_name_sync(name)
        return session

    def list(self, cwd: str | os.PathLike[str] | None = None) -> list[SessionInfo]:
        """The sessions of a working directory, or all; the one with the newest message first.

        What is no session, or cannot be read, is passed over.
        """
        wanted = None if cwd is None else _absolute(cwd)
        pattern = "*/*.jsonl" if cwd is None else f"{_literal(self.folder(cwd).name)}/*.jsonl"
        # One file under two names, by a link, is listed once.
        paths = {path.resolve() for path in self.root.glob(pattern)}
        found = [info for path in paths if (info := session_info(path)) is not None]
        if wanted is not None:
            found = [info for info in found if _absolute(info.cwd) == wanted]
        return sorted(found, key=lambda info: (info.modified, info.id), reverse=True)

    def latest(self, cwd: str | os.PathLike[str] | None = None) -> SessionInfo | None:
        """The session with the newest message; None where nothing was said in any."""
        return next((info for info in self.list(cwd) if not info.empty), None)

    def find(self, text: str, cwd: str | os.PathLike[str] | None = None) -> SessionInfo:
        """A session by its path, its name, its id, or the beginning or end of its id.

        Raises:
            PiError: `invalid_argument`: none or several; `session`: a path to no session.
        """
        path = Path(text).expanduser()
        if path.is_file():
            info = session_info(path.resolve())
            if info is None:
                raise PiError("session", f"{path} is not a session")
            return info
        known = self.list(cwd)
        found = [info for info in known if text in (info.id, info.name)]
        if not found and text:
            found = [i for i in known if i.id.startswith(text) or i.id.endswith(text)]
        if len(found) == 1:
            return found[0]
        what = f"{len(found)} sessions fit" if found else "there is no session"
        raise PiError("invalid_argument", f"{what} {text!r}")


def session_info(path: Path) -> SessionInfo | None:
    """What the ends of a file say; None where it is no session that can be read."""
    try:
        first = first_line(path, LIMIT)
        header = _header(first)
        if header is None:
            return None
        size = path.stat().st_size
        with open(path, "rb") as file:
            file.seek(max(len(first), size - TAIL))
            tail = file.read(TAIL)
        changed = path.stat().st_mtime_ns // 1_000_000
    except (PiError, OSError):
        return None
    spoken, name = _ends(tail)
    empty = spoken is None and size <= len(first) + TAIL
    if spoken is None:
        # No message at all, or one too long for the tail.
        spoken = header.created_at if empty else changed
    return SessionInfo(path, header.id, header.cwd, header.created_at, spoken, name, empty)


def _header(line: bytes) -> Header | None:
    if sniff(line) != "v4":
        return None
    loaded = V4().load([(line, Place(0, len(line)))])
    return loaded.value.index.header if isinstance(loaded, Ok) else None


def _ends(tail: bytes) -> tuple[int | None, str | None]:
    """Time of the last message and the last name given, as far as the tail shows them."""
    spoken: int | None = None
    name: str | None = None
    named = False
    for line in _objects(tail):
        if spoken is None and (line.get("kind"), line.get("type")) == ("entry", "message"):
            stamp = line.get("timestamp")
            spoken = stamp if isinstance(stamp, int) else None
        elif not named and (line.get("kind"), line.get("fact")) == ("fact", "name"):
            named = True
            name = str(line["name"]) if line.get("name") else None
        if named and spoken is not None:
            break
    return spoken, name


def _objects(tail: bytes) -> Iterator[dict[str, Any]]:
    """The whole lines of a tail, newest first; a cut first line is no JSON and passed over."""
    for line in reversed(tail.split(b"\n")):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(path).expanduser().resolve()


def _literal(name: str) -> str:
    """A name as a pattern that matches it alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
