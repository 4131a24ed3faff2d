"""Which of many sessions a word means: by id, by name, or by as much of them as tells it apart.

People type what they remember. What fits exactly comes first, so that a name which is the
beginning of another one can still be said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pi_nb.result import PiError
from pi_nb.text import count, quoted, unquoted

T = TypeVar("T")

About = Callable[[T], tuple[str, str | None]]
"""Of a thing its id and its name."""

NAMED = 5
"""Of those that fit, how many are named."""


def called(word: str, known: Sequence[T], about: About[T]) -> list[T]:
    """What a word may mean: the first of these that anything fits.

    1. a whole id; 2. a whole name; 3. a whole name in other case; 4. the beginning or the
    end of an id, or the beginning of a name in whatever case.
    """
    if not word:
        return []
    folded = word.casefold()

    def begins(session_id: str, name: str | None) -> bool:
        if session_id.startswith(word) or session_id.endswith(word):
            return True
        return (name or "").casefold().startswith(folded)

    ways: tuple[Callable[[str, str | None], bool], ...] = (
        lambda session_id, name: session_id == word,
        lambda session_id, name: name == word,
        lambda session_id, name: (name or "").casefold() == folded,
        begins,
    )
    for fits in ways:
        if found := [thing for thing in known if fits(*about(thing))]:
            return found
    return []


def the_one(word: str, known: Sequence[T], about: About[T]) -> T:
    """The one thing that a word means.

    Raises:
        PiError: `invalid_argument`: none, or several, of which the first few are named.
    """
    found = called(word, known, about)
    if len(found) == 1:
        return found[0]
    if not found:
        raise PiError("invalid_argument", f"there is no session {quoted(word)}")
    fitting = ", ".join(_told(*about(thing)) for thing in found[:NAMED])
    more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    what = count(len(found), "session")
    raise PiError("invalid_argument", f"{what} fit {quoted(word)}: {fitting}{more}")


def short(session_id: str) -> str:
    """The end of an id, as lists show it: the beginning is the time, and alike."""
    return unquoted(session_id[-8:], 16)


def _told(session_id: str, name: str | None) -> str:
    return f"{quoted(name)} ({short(session_id)})" if name else short(session_id)
