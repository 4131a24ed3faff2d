"""A session opened only to be read, as much of it as can be.

v4 is strict: a broken line refuses the file (rule 16). But what was said before it, and
what stands by itself after it, is still there to be looked at and saved elsewhere. Nothing
is repaired and nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from pi_nb.result import Err, PiError
from pi_nb.text import count

from .index import Diagnostic, Index
from .jsonl import FileLog, first_bytes
from .session import Session
from .sniff import LIMIT, sniff
from .v4.codec import V4

NAMED = 20
"""Lines that are named one by one. A lost entry takes all with it that follows it."""


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Session]:
    """The session of a file, to be read while the block lasts; of a broken v4 file the valid
    part. One that is open in this process already is given as it is, and stays open.

    Raises:
        PiError: `session`: it is no session, or not even its header is valid.
    """
    found = Session.opened(path)
    if found is not None:
        yield found
        return
    try:
        session = Session.open(path, read_only=True)
    except PiError as refused:
        try:
            session = salvage(path)
        except PiError:
            raise refused from None
    with session:
        yield session


def salvage(path: str | os.PathLike[str]) -> Session:
    """The valid part of a v4 file, read-only; its diagnostics name the lines left out.

    A line is left out if it breaks a rule after all that is kept before it: an entry whose
    parent was lost is lost as well.

    Raises:
        PiError: `session`: the file cannot be read, or its first line is no header of v4.
    """
    file = Path(path).expanduser().resolve()
    if sniff(first_bytes(file, LIMIT)) != "v4":
        raise PiError("session", f"{file} is no session of v4")
    log = FileLog.open(file, "flush", read_only=True)
    try:
        index, odd = _valid_part(log)
    except BaseException:
        log.close()
        raise
    session = Session(index, log, V4(), file, None, read_only=True)
    session._diagnostics = tuple(odd)
    return session


def _valid_part(log: FileLog) -> tuple[Index, list[Diagnostic]]:
    codec = V4()
    header = codec.load(islice(log.lines(), 1))
    if isinstance(header, Err):
        raise PiError("session", f"{log.path}: {header.error}")
    index = header.value.index
    odd: list[Diagnostic] = []
    left_out = 0
    for number, (line, place) in enumerate(islice(log.lines(), 1, None), 2):
        checked = codec.check(line, index)
        if not isinstance(checked, Err):
            codec.apply(checked.value, place, index)
            continue
        index.lines += 1  # what is left out has its number all the same
        left_out += 1
        if left_out <= NAMED:
            odd.append(Diagnostic(number, "left_out", checked.error))
    if left_out > NAMED:
        more = count(left_out - NAMED, "more line")
        odd.append(Diagnostic(odd[-1].line, "left_out", f"and {more} after it"))
    return index, odd
