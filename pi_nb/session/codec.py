"""What a file format has to answer; everything above it knows one kind of session.

A line is checked before it is written by the same code that checks it when the file is
opened, so a session never writes what it would refuse to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pi_nb.result import Result

from .entries import Entry
from .index import Diagnostic, Index, Place
from .jsonl import Log
from .records import Header, LabelFact, LaneMove, NameFact, Record

Format = Literal["v3", "v4"]
"""`v4` is our own, `v3` what pi writes."""

Stored = Entry | Record | LaneMove | NameFact | LabelFact
"""What a line after the header says."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked log: its index, and what its end needs before something is appended."""

    index: Index
    end: int
    """Bytes that hold whole lines; what lies behind is torn."""
    torn: int = 0
    """Bytes of a last line that was never finished."""
    unterminated: bool = False
    """The last line is whole, only its newline is missing."""
    version: int = 4
    """The number that the file's header has."""
    read_only: str = ""
    """Why nothing may be appended to this file, where something speaks against it."""
    diagnostics: tuple[Diagnostic, ...] = ()


class Codec(Protocol):
    """One file format. It holds no state: that is the index."""

    @property
    def format(self) -> Format: ...

    @property
    def one_lane(self) -> bool:
        """There is `main` and no other, and no entry is detached from it."""
        ...

    def open(self, log: Log) -> Result[Loaded, Diagnostic]:
        """Check a whole file and index it."""
        ...

    def new_id(self, index: Index) -> str:
        """An id for an entry that nobody has yet."""
        ...

    def header_line(self, header: Header) -> bytes: ...

    def encode(self, value: Stored, index: Index) -> bytes:
        """The next line of this log, newline included.

        Raises:
            TypeError, ValueError, RecursionError: JSON cannot hold the value.
        """
        ...

    def check(self, line: bytes, index: Index) -> Result[Any, str]:
        """A line as `apply` takes it, or what is wrong with it as the next line of this log."""
        ...

    def apply(self, change: Any, place: Place, index: Index) -> None:
        """Take a checked line, which lies at `place`, into the index."""
        ...

    def read(self, line: bytes) -> Stored:
        """What a line says, with its body.

        Raises:
            ValueError: the body does not fit its type.
        """
        ...

    def entry(self, line: bytes, entry_id: str, index: Index) -> Entry:
        """The entry of a line, whatever else the line says.

        Raises:
            ValueError: the body does not fit its type.
        """
        ...

    def lane_of(self, entry: Entry) -> str | None:
        """The lane whose leaf an entry became; None: it was detached."""
        ...
