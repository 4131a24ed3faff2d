"""A history read aloud so that it fits into requests, however long it is (C-15).

    long results cut to 2,000 characters  ->  as many pieces as needed, at most twelve
      more?  every part cut harder        ->  still more?  the oldest parts left out, and said so

A piece never weighs more than the room it was made for, and what is cut says how much is
missing, counted from the words as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from pi_nb.messages import AgentMessage, ToolResultMessage
from pi_nb.text import clip
from pi_nb.tokens import PI, Estimator

from .transcript import LONGEST_RESULT, parts_of

MOST_PIECES = 12
"""A history that would need more is cut harder instead: each piece is a request that costs."""
SMALLEST_PART = 200
"""Characters that stay of one message, however hard is cut, where a piece can hold so many."""
LEAST_ROOM = 64
"""Tokens; nothing can be said in less."""
_Part = Callable[[int], str]
"""A part of the transcript, cut to so many characters and a note."""


def fitted(messages: Sequence[AgentMessage], room: int, estimator: Estimator = PI) -> list[str]:
    """The messages read aloud, in order, in few pieces of at most `room` tokens each.

    Long parts are cut so that one fits into half a piece; where more than `MOST_PIECES` would
    be needed, every part is cut harder; where even that is too much, the oldest are left out,
    and the first piece says how many.

    Args:
        room: At least `LEAST_ROOM` is used.

    Returns:
        At least one piece, none of them empty.
    """
    room = max(room, LEAST_ROOM)
    parts = list(_parts(messages))
    limit = max(room * 2, SMALLEST_PART)  # characters, at 4 a token and half of the room
    while True:
        pieces = _packed((part(limit) for part in parts), parts, room, estimator)
        if len(pieces) <= MOST_PIECES:
            return ["\n\n".join(piece) for piece in pieces] or ["(no text)"]
        if limit <= SMALLEST_PART:
            return _newest(pieces, room, estimator)
        limit = max(limit // 4, SMALLEST_PART)


def _newest(pieces: list[list[str]], room: int, estimator: Estimator) -> list[str]:
    """The newest `MOST_PIECES`, and in the first of them how many parts were left out."""
    first, *rest = pieces[-MOST_PIECES:]
    total = sum(map(len, pieces))
    left_out = total - sum(map(len, rest)) - len(first)
    while True:
        note = f"[the oldest {left_out:,} of {total:,} parts are left out: too long to be read]"
        text = "\n\n".join([note, *first])
        if not first or estimator.weigh_text(text) <= room:
            return [text, *("\n\n".join(piece) for piece in rest)]
        first, left_out = first[1:], left_out + 1


def halves(piece: str) -> list[str]:
    """A piece in two, between two parts where there are two of them."""
    middle = piece.find("\n\n", len(piece) // 2)
    middle = len(piece) // 2 if middle < 0 else middle
    return [half for half in (piece[:middle].strip(), piece[middle:].strip()) if half]


def cut_to(text: str, room: int, estimator: Estimator) -> str:
    """The beginning of a text that weighs at most `room` tokens, with a note of what is missing."""
    return _within(partial(clip, text), text, room, estimator)


def _parts(messages: Iterable[AgentMessage]) -> Iterator[_Part]:
    for message in messages:
        for place, whole in enumerate(parts_of(message)):
            if isinstance(message, ToolResultMessage):
                # Cut from the result itself: a cut of a cut would say that less is missing.
                yield partial(_result, message, place)
            else:
                yield partial(clip, whole)


def _result(message: ToolResultMessage, place: int, limit: int) -> str:
    return parts_of(message, min(limit, LONGEST_RESULT))[place]


def _within(part: _Part, text: str, room: int, estimator: Estimator) -> str:
    """A part cut until it fits; `text` is it as it is cut now."""
    limit = len(text)
    while limit and (weight := estimator.weigh_text(text)) > room:
        limit = max(min(limit * room // weight, limit - 1) - SMALLEST_PART // 20, 0)
        text = part(limit)
    return text


def _packed(
    texts: Iterable[str], parts: Sequence[_Part], room: int, estimator: Estimator
) -> list[list[str]]:
    """Parts in order, as many to a piece as fit; a part that alone does not fit is cut."""
    weigh = estimator.weigh_text
    pieces: list[list[str]] = []
    used = room
    for text, part in zip(texts, parts, strict=True):
        text = _within(part, text, room, estimator)
        weight = weigh(text) + 1  # and the blank line before it
        if used + weight > room:
            pieces.append([])
            used = 0
        pieces[-1].append(text)
        used += weight
    return [fit for piece in pieces for fit in _checked(piece, room, weigh)]


def _checked(piece: list[str], room: int, weigh: Callable[[str], int]) -> Iterator[list[str]]:
    """A piece as it is, or in two where the parts together weigh more than each by itself."""
    if len(piece) > 1 and weigh("\n\n".join(piece)) > room:
        middle = len(piece) // 2
        yield from _checked(piece[:middle], room, weigh)
        yield from _checked(piece[middle:], room, weigh)
    else:
        yield piece
