"""A text in all the sessions there are: what was said, and what summaries say of it.

A file is read line by line, and most lines are only looked at; a session is opened, to
read alone, once a line of it may hold the text. Nothing is written and no lock is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pi_nb.result import PiError
from pi_nb.text import unquoted

from .finding import Needle
from .in_words import entry_line, whole_text
from .listing import SessionInfo
from .session import Session


@dataclass(frozen=True, slots=True, repr=False)
class SearchHit:
    """An entry that holds the text. `number` is its place in the file, as the outline has it."""

    info: SessionInfo
    entry_id: str
    number: int
    snippet: str
    """What was found with a little on either side, on one line; nothing a terminal obeys."""

    def __str__(self) -> str:
        about = unquoted(self.info.name or self.info.id)
        return f"{about} #{self.number}: {self.snippet}"

    def __repr__(self) -> str:
        return f"SearchHit({self})"


def search_sessions(infos: Iterable[SessionInfo], text: str) -> Iterator[SearchHit]:
    """The entries that hold a text, whatever its case, session by session in file order.

    A session that cannot be read is passed over.

    Raises:
        PiError: `invalid_argument`: there is nothing to look for.
    """
    needle = Needle(text)
    return (hit for info in infos for hit in _hits(info, needle))


def _hits(info: SessionInfo, needle: Needle) -> list[SearchHit]:
    """The hits of one session: in a list, so that whoever looks at one may open the session."""
    try:
        if not _may_hold(info, needle):
            return []
        open_here = Session.opened(info.path)
        session = open_here or Session.open(info.path, read_only=True)
    except (OSError, PiError):
        return []
    try:
        found = ((n, i, _found(session, i, needle)) for n, i in enumerate(session.entry_ids(), 1))
        return [SearchHit(info, i, n, snippet) for n, i, snippet in found if snippet]
    finally:
        if open_here is None:
            session.close()


def _may_hold(info: SessionInfo, needle: Needle) -> bool:
    with open(info.path, "rb") as file:
        return any(map(needle.may_be_in, file))


def _found(session: Session, entry_id: str, needle: Needle) -> str:
    try:
        entry = session.entry(entry_id)
    except PiError:
        return ""
    whole = whole_text(entry)
    # A letter that is two in the other case has no place of its own to show.
    return needle.excerpt(whole) or entry_line(entry) if needle.is_in(whole) else ""
