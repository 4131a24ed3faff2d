"""A session written to a file that others read: a session file, Markdown, or a page.

The ending of the file's name says which, and each form has one writer. The page's is a
view and lies downstream of this folder, so it is not imported here: it is looked up by its
name when somebody asks for a page, as a plug-in is.

    .jsonl  v3 or v4, `convert`      .md  `markdown`      .html  `pi_nb.views.export`
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol, get_args

from pi_nb.result import PiError
from pi_nb.text import count

from .codec import Format
from .convert import copy_session
from .jsonl import write_whole
from .markdown import to_markdown
from .reader import SessionReader
from .redact import Redaction
from .redacted import RedactedReader

ExportFormat = Literal["v3", "v4", "md", "html"]

Write = Callable[[Path], None]
"""Writes a new file at a path where nothing is."""

_ENDINGS: Mapping[str, ExportFormat] = {
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
}


class Shows(Protocol):
    """What shows a session to people, piece by piece."""

    def __call__(
        self, session: SessionReader, *, lane: str, note: Callable[[], str]
    ) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written where, and what was left out of it: kind to number of places."""

    path: Path
    format: ExportFormat
    entries: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    redacted: bool = False

    def __str__(self) -> str:
        what = f"{self.path.name}: {count(self.entries, 'entry', 'entries')}"
        return f"{what}. {said(self.left_out)}" if self.redacted else what


def said(left_out: Mapping[str, int]) -> str:
    """`Left out: 2 keys, 5 names.`, for people; the words are kinds, never what was there."""
    parts = ", ".join(count(n, kind.removesuffix("s"), kind) for kind, n in left_out.items())
    return f"Left out: {parts}." if parts else "Nothing was found to leave out."


def export(
    session: SessionReader,
    path: str | os.PathLike[str],
    *,
    format: ExportFormat | None = None,
    redact: bool | Redaction | None = None,
    overwrite: bool = False,
    lane: str = "main",
    whole: bool = False,
) -> Exported:
    """Write a session to a file; see `Session.export`.

    Raises:
        PiError: `invalid_argument`: no format, lane or redaction like that; `session`: the
            file is there already, the disk refused, or an entry does not fit the format. A
            file that was there is then as it was.
    """
    target = Path(path).expanduser()
    form = _format(target, session, format)
    session.leaf(lane)  # refuses an unknown lane before anything is written
    if session.path is not None and target.resolve() == session.path:
        raise PiError("session", f"{target} is the session itself")
    wanted = Redaction.of(redact)
    reader = session if wanted is None else RedactedReader(session, wanted)
    counted = len(session) if whole or form != "md" else len(session.branch_ids(lane))
    if form == "v3" or form == "v4":
        write, left_out = _copied(reader, form)
        _put(target, write, overwrite=overwrite)
        return Exported(target.resolve(), form, counted, left_out, wanted is not None)

    def note() -> str:
        return said(reader.counts) if isinstance(reader, RedactedReader) else ""

    def shown(path: Path) -> None:
        if form == "html":
            pieces = _page()(reader, lane=lane, note=note)
        else:
            pieces = to_markdown(reader, lane=lane, whole=whole, note=note)
        write_whole(path, (f"{piece}\n".encode() for piece in pieces))

    _put(target, shown, overwrite=overwrite)
    left_out = reader.counts if isinstance(reader, RedactedReader) else {}
    return Exported(target.resolve(), form, counted, left_out, wanted is not None)


def _format(path: Path, session: SessionReader, given: ExportFormat | None) -> ExportFormat:
    """What was asked for, if it fits the file's name; else what the name says."""
    if given is not None and given not in get_args(ExportFormat):
        known = ", ".join(get_args(ExportFormat))
        raise PiError("invalid_argument", f"there is no format {given!r}; there are {known}")
    ending = path.suffix.lower()
    if ending == ".jsonl":
        named: ExportFormat = given if given in ("v3", "v4") else session.format
    elif ending in _ENDINGS:
        named = _ENDINGS[ending]
    elif given is not None:
        return given
    else:
        raise PiError(
            "invalid_argument",
            f"{path.name}: the name ends in .md, .html or .jsonl, or format= says what it is",
        )
    if given is not None and given != named:
        raise PiError("invalid_argument", f"{path.name} is not the name of a {given} file")
    return named


def _copied(reader: SessionReader, form: Format) -> tuple[Write, Mapping[str, int]]:
    """A session file. What was left out is said in its header, so it is counted before."""
    left_out: Mapping[str, int] = {}
    if isinstance(reader, RedactedReader):
        reader.read_all()
        left_out = reader.counts
        reader.note()

    def write(path: Path) -> None:
        copy_session(reader, path, format=form)

    return write, left_out


def _page() -> Shows:
    """The writer of pages, which is a view."""
    shows: Shows = import_module("pi_nb.views.export").page
    return shows


def _put(path: Path, write: Write, *, overwrite: bool) -> None:
    """The whole file or nothing, and never over one that somebody did not offer up."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise PiError("session", f"there is no folder {folder}")
    if not os.path.lexists(path):
        write(path)
    elif not overwrite:
        raise PiError("session", f"{path} is there already; overwrite=True replaces it")
    else:
        _replace(path, write)


def _replace(path: Path, write: Write) -> None:
    try:
        with tempfile.TemporaryDirectory(prefix=".export-", dir=path.resolve().parent) as beside:
            made = Path(beside) / path.name
            write(made)
            os.replace(made, path)
    except OSError as error:
        raise PiError("session", f"{path}: {error.strerror or error}") from None
