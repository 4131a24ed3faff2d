"""Snapshots of a branch: at each moment what was sent, and what stood for the rest.

A log only grows. What is sent is a projection of it, and a compaction or an edit changes that
projection alone. The pictures put both side by side:

    A  before the first compaction
       [m1] [m2] [m3] [m4]
       → system + m1 … m4
    B  after the first compaction: summary1 takes the place of m1 and m2
       ░m1░ ░m2░ [m3] [m4] [cmp1]
       → system + summary1 + m3 + m4

Snapshots are values: they do not follow the session, and print when it is closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, overload

from pi_nb.html import Html
from pi_nb.result import PiError
from pi_nb.session.reader import SessionReader
from pi_nb.text import count
from pi_nb.tokens import PI, Estimator

from .moments import Film, Moment, film
from .pictures import Picture
from .shots import Shot, runs_in_words

_ORDINALS = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
]


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot(Shot):
    """One moment of a branch, to look at."""

    def __str__(self) -> str:
        return Picture([self]).text(rows=True)

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        return Picture([self]).html(rows=True)


@dataclass(frozen=True, slots=True, repr=False)
class Snapshots(Sequence[Snapshot]):
    """The moments of a branch, oldest first. `snapshots["B"]` or `snapshots[1]` is one."""

    film: Film
    shots: tuple[Snapshot, ...]

    def __len__(self) -> int:
        return len(self.shots)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self.shots)

    @overload
    def __getitem__(self, which: int | str) -> Snapshot: ...
    @overload
    def __getitem__(self, which: slice) -> Snapshots: ...
    def __getitem__(self, which: int | str | slice) -> Snapshot | Snapshots:
        """A moment by its place or its letter; several by a slice, which draws them all.

        Raises:
            PiError: `invalid_argument`: no moment has that letter.
            IndexError: there are not so many.
        """
        if isinstance(which, slice):
            return Snapshots(self.film, self.shots[which])
        if isinstance(which, int):
            return self.shots[which]
        for shot in self.shots:
            if shot.letter and shot.letter == which.upper():
                return shot
        letters = f"A to {self.shots[-1].letter}" if len(self.shots) > 1 else "there is one, [0]"
        raise PiError("invalid_argument", f"There is no snapshot {which!r}: {letters}.")

    def to_dict(self) -> dict[str, Any]:
        """Entries once, and of each moment the runs of them that have one state."""
        items = self.film.items[: max((shot.moment.shown for shot in self.shots), default=0)]
        entries = [
            {
                "entryId": item.entry_id,
                "number": item.number,
                "name": item.name,
                "kind": item.kind,
                "text": item.text,
                "tokens": item.tokens,
            }
            for item in items
        ]
        moments = [{**shot.head(), "states": _runs(shot)} for shot in self.shots]
        source = self.film.estimator.source
        return {"estimator": source, "entries": entries, "moments": moments}

    def __str__(self) -> str:
        return Picture(self.shots).text(rows=len(self.shots) == 1)

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        return Picture(self.shots).html(rows=True)


def _runs(shot: Snapshot) -> list[dict[str, Any]]:
    found = []
    states = enumerate(shot.film.states(shot.moment))
    for (state, by), run in groupby(states, key=lambda pair: pair[1]):
        places = [place for place, _ in run]
        first, last = (shot.film.items[place].name for place in (places[0], places[-1]))
        found.append(
            {"state": state, "from": first, "to": last, **({"by": by} if by else {})},
        )
    return found


def snapshots(
    session: SessionReader,
    lane: str = "main",
    at: str | int | None = None,
    estimator: Estimator = PI,
) -> Snapshots:
    """The moments of a lane's branch: before and after each compaction and edit, and now.

    Args:
        at: Show one moment alone, the one right after this entry: its id, label or number in
            the outline. Its branch is the one from the root to it, whichever lane is there.
        estimator: What weighs the entries.

    Raises:
        PiError: `invalid_argument`: no such lane or entry; `session`: a compaction or an edit
            of the branch cannot be read.
    """
    if at is None:
        made = film(session, session.branch_ids(session.tip(lane)), estimator)
        titles = _titles(made, made.moments)
        last = len(made.moments) - 1
        shots = (
            Snapshot(made, moment, _letter(place), title, now=place == last)
            for place, (moment, title) in enumerate(zip(made.moments, titles, strict=True))
        )
        return Snapshots(made, tuple(shots))
    entry_id = session.find(str(at)).id
    made = film(session, session.branch_ids(entry_id), estimator)
    moment = replace(made.moments[-1], why="at", at=len(made.ids))
    name = next((item.name for item in made.items if item.entry_id == entry_id), "")
    row = f"row {session.number(entry_id)}"
    title = f"at {name}, {row}" if name else f"at {row}"
    now = entry_id == session.tip(lane)
    return Snapshots(made, (Snapshot(made, moment, "", title, now),))


def _letter(place: int) -> str:
    """0 is A, 25 Z, 26 AA."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


# --- titles -------------------------------------------------------------------------------


def _titles(made: Film, moments: Sequence[Moment]) -> Iterator[str]:
    edits = 0
    for place, moment in enumerate(moments):
        former = moments[place - 1] if place else None
        if moment.why == "edit":
            edits += 1
        match moment.why:
            case "before":
                following = moments[place + 1].why
                number = edits if following == "edit" else moment.compactions
                text = f"before the {_nth(number)} {following}"
                yield text + (_grown(made, former, moment) if former else "")
            case "compaction":
                what = _taken(made, former, moment)
                yield f"after the {_nth(moment.compactions - 1)} compaction: {what}"
            case "edit":
                yield f"after the {_nth(edits - 1)} edit: {_changed(made, moment)}"
            case _:
                grown = _grown(made, former, moment) if former else ""
                yield f"now{grown}" if moment.shown else "now: nothing was said yet"


def _nth(place: int) -> str:
    """0 is `first`; from `11th` on in digits."""
    if place < len(_ORDINALS):
        return _ORDINALS[place]
    number = place + 1
    end = "th" if 10 < number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{end}"


def _grown(made: Film, former: Moment, moment: Moment) -> str:
    new = range(former.shown, moment.shown)
    if not new:
        return ""
    verb = "is" if len(new) == 1 else "are"
    return f": {runs_in_words(made, new)} {verb} new"


def _taken(made: Film, former: Moment | None, moment: Moment) -> str:
    """What a compaction did to what was sent, in words."""
    boundary = made.boundaries[moment.compactions - 1]
    new = made.items[boundary.item]
    old = made.boundary(former) if former else None
    start = old.first if old else 0
    gone = [i for i in range(start, boundary.first) if _sendable(made, i, moment)]
    again = [i for i in range(boundary.first, start) if _sendable(made, i, moment)]
    places = [made.items[old.item].sent_as] if old and made.is_there(old.item, moment.at) else []
    places += [runs_in_words(made, gone)] if gone else []
    took = f"takes the place of {' and of '.join(places)}" if places else "takes nothing away"
    parts = [f"{new.sent_as} {took}"]
    if new.tail:
        parts.append(f"it carries {count(new.tail, 'message')} of its own")
    if again:
        verb = "is" if len(again) == 1 else "are"
        parts.append(f"{runs_in_words(made, again)} {verb} sent again")
    return "; ".join(parts)


def _sendable(made: Film, item: int, moment: Moment) -> bool:
    """Whether a compaction that keeps it sends it: no older summary, nothing left out."""
    return not made.items[item].is_compaction and made.is_there(item, moment.at)


def _changed(made: Film, moment: Moment) -> str:
    """What edits did, in words."""
    left_out: list[int] = []
    replaced: list[int] = []
    for item in moment.touched:
        (replaced if made.is_there(item, moment.at) else left_out).append(item)
    parts = []
    if left_out:
        verb = "is" if len(left_out) == 1 else "are"
        parts.append(f"{runs_in_words(made, left_out)} {verb} left out")
    if replaced:
        verb = "has" if len(replaced) == 1 else "have"
        parts.append(f"{runs_in_words(made, replaced)} {verb} other content")
    return ", ".join(parts)
