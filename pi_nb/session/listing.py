"""What the two ends of a session file say, so that any number of any size can be listed.

Of each file its header and a bounded piece of its end are read, never the whole. The
header of a file of pi's may come after a few lines of other text; a file whose lines are
JSON of another program is no session, and is passed over.

    header ........................................ tail
    id, folder, time made                           last message, newest name
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import msgspec

from pi_nb.js import trim
from pi_nb.text import quoted, safe_line, scrub_data, unquoted

from .naming import short
from .v3.bodies import milliseconds
from .v3.codec import read_header
from .v4.lines import HeaderLine

T = TypeVar("T")

HEAD = 1 << 16
"""Bytes of a file's beginning in which a header is looked for."""
TAIL = 1 << 16
"""Bytes of a file's end that a list looks at."""

_FIRST = 1 << 12  # most headers are within these bytes
_BOM = b"\xef\xbb\xbf"
_END_OF_TIME = 253_402_128_000_000  # in milliseconds; no calendar here shows a later one

Origin = Literal["pi_nb", "pi"]


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
    version: int = 4
    """What the file says: 4 is v4, anything else a version of pi's own form."""
    origin: Origin = "pi_nb"
    """`pi`: it lies among pi's own sessions."""

    @property
    def format(self) -> Literal["v3", "v4"]:
        """What going on with it writes; files of version 1 and 2 become v3 then."""
        return "v4" if self.version == 4 else "v3"

    @property
    def short_id(self) -> str:
        """The end of its id: enough to name it by."""
        return short(self.id)

    @property
    def when(self) -> str:
        """The minute of the last message, by the clock of this place."""
        return datetime.fromtimestamp(self.modified / 1000).strftime("%Y-%m-%d %H:%M")

    def __str__(self) -> str:
        return f"{self.when}  {safe_line(self.name or self.id, 40)}  {safe_line(self.cwd)}"

    def __repr__(self) -> str:
        about = quoted(self.name, 30) if self.name else unquoted(self.id)
        notes = [", of pi"] * (self.origin == "pi") + [", empty"] * self.empty
        return f"SessionInfo({about}, {unquoted(self.cwd)}{''.join(notes)})"


def list_table(
    infos: Iterable[SessionInfo], *, everywhere: bool
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The head and the rows of a list of sessions, as `%agent list` and `pi-nb list` show it."""
    rows: list[tuple[str, ...]] = [
        (
            info.short_id,
            safe_line(info.name or "", 40),
            info.when,
            f"v{info.version}{' of pi' if info.origin == 'pi' else ''}",
            *([safe_line(info.cwd, 200)] if everywhere else []),
        )
        for info in infos
        if not info.empty
    ]
    return ("id", "name", "last message", "format", *(["folder"] if everywhere else [])), rows


@dataclass(frozen=True, slots=True)
class Head:
    """What the header says. `created` is None where it names no moment that can be read."""

    id: str
    cwd: str
    version: int
    created: int | None
    end: int
    """Bytes up to its line's end."""


def session_head(path: str | os.PathLike[str]) -> Head | None:
    """The header of a file; None where it is no session, or cannot be read."""
    try:
        with _opened(path) as file:
            return _head(file.fileno())
    except OSError:
        return None


def session_info(path: Path, origin: Origin = "pi_nb") -> SessionInfo | None:
    """What the ends of a file say; None where it is no session, or cannot be read."""
    try:
        with _opened(path) as file:
            fd = file.fileno()
            head = _head(fd)
            if head is None:
                return None
            status = os.fstat(fd)
            start = max(head.end, status.st_size - TAIL)
            tail = os.pread(fd, TAIL, start)
    except OSError:
        return None
    changed = status.st_mtime_ns // 1_000_000
    created = changed if head.created is None else head.created
    spoken = _last_spoken(tail)
    empty = spoken is None and start == head.end
    if spoken is None:
        # No message at all, or one too long for the tail.
        spoken = created if empty else changed
    return SessionInfo(
        path, head.id, head.cwd, created, spoken, _name(tail), empty, head.version, origin
    )


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    """The file, if it is a regular one: to open a pipe would wait for its other end."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is no regular file")
        return open(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


# --- the header ---------------------------------------------------------------------------


class _PlainHeader(msgspec.Struct):
    """A v3 header as pi writes it; `read_header` knows the others, and takes its time."""

    type: Literal["session"]
    id: str
    cwd: str
    timestamp: str
    version: Literal[2, 3]


_V4_HEADER = msgspec.json.Decoder(HeaderLine)
_V3_HEADER = msgspec.json.Decoder(_PlainHeader)


def _head(fd: int) -> Head | None:
    data = os.pread(fd, _FIRST, 0)
    found = _header_in(data)
    if found is None and len(data) == _FIRST:
        found = _header_in(data + os.pread(fd, HEAD - _FIRST, _FIRST))
    return found


def _header_in(data: bytes) -> Head | None:
    """The first header among these lines, of which the last one may be cut."""
    end = data.find(b"\n") + 1 or len(data)
    # v4 is strict: its header is the first line or none.
    header = _decode(_V4_HEADER, data[:end].removeprefix(_BOM))
    if header is not None:
        return Head(header.id, header.cwd, 4, _within_calendar(header.created_at), end)
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        line = data[start:end]
        if b"session" in line and (found := _v3_header(line, end)) is not None:
            return found
        start = end
    return None


def _v3_header(line: bytes, end: int) -> Head | None:
    plain = _decode(_V3_HEADER, line)
    if plain is not None and plain.id:
        made = milliseconds(plain.timestamp) or 0
        return Head(plain.id, plain.cwd, plain.version, _within_calendar(made) or None, end)
    read = read_header(line)
    if read is None:
        return None
    header, version, _ = read
    return Head(header.id, header.cwd, version, _within_calendar(header.created_at) or None, end)


# --- the tail -----------------------------------------------------------------------------


class _Said(msgspec.Struct):
    role: Any = None


class _TailLine(msgspec.Struct, rename="camel"):
    kind: Any = None
    type: Any = None
    fact: Any = None
    name: Any = None
    timestamp: Any = None
    message: _Said | None = None


_LINE = msgspec.json.Decoder(_TailLine)


def _last_spoken(tail: bytes) -> int | None:
    """When the last message was written; the prompt that pi keeps as a message is none."""
    for line in _newest_first(tail, b'"message"'):
        if line.type == "message" and line.message and line.message.role != "system":
            stamp = milliseconds(line.timestamp)
            return None if stamp is None else _within_calendar(stamp)
    return None


def _name(tail: bytes) -> str | None:
    """The name given last, if the tail shows one."""
    for mark in (b'"session_info"', b'"fact"'):
        for line in _newest_first(tail, mark):
            if line.type == "session_info" or (line.kind, line.fact) == ("fact", "name"):
                return trim(line.name) or None if isinstance(line.name, str) else None
    return None


def _newest_first(tail: bytes, mark: bytes) -> Iterator[_TailLine]:
    """The lines that hold `mark`; a first line that is cut is no JSON and passed over."""
    if mark not in tail:  # much quicker than to look for it from behind
        return
    end = len(tail)
    while (hit := tail.rfind(mark, 0, end)) >= 0:
        start = tail.rfind(b"\n", 0, hit) + 1
        stop = tail.find(b"\n", hit)
        line = _decode(_LINE, tail[start : len(tail) if stop < 0 else stop])
        if line is not None:
            yield line
        end = start


def _decode(decoder: msgspec.json.Decoder[T], line: bytes) -> T | None:
    with contextlib.suppress(ValueError, RecursionError):
        return decoder.decode(line)
    if b"\\ud" not in line and b"\\uD" not in line:
        return None
    try:
        # Halves of characters, which the quick decoder refuses.
        made: T = msgspec.convert(scrub_data(json.loads(line)), decoder.type)
    except (ValueError, RecursionError):
        return None
    return made


def _within_calendar(stamp: int) -> int:
    return min(stamp, _END_OF_TIME)
