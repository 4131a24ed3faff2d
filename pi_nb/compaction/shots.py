"""A moment of a branch as data: what is there, what became of each, and the request in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pi_nb.text import count
from pi_nb.tokens import Estimate

from .moments import Film, Moment, Shown, State

SENT: frozenset[str] = frozenset({"sent", "replaced"})
"""The states of what is in the request."""

PARTS = 12
"""A projection of more parts says only its ends, and how many of it differ."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry of the branch that shows something, and what became of it."""

    entry_id: str
    number: int
    """In the session's outline."""
    name: str
    """`m4`, `bs1`, `cmp2`."""
    kind: str
    text: str
    """One line, of what is sent where an edit gave it other content."""
    tokens: int
    """As it is sent; of what is not sent, as it stands in the log."""
    state: State
    by: str = ""
    """The compaction that took it away, where a summary stands for it."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "entryId": self.entry_id,
            "number": self.number,
            "name": self.name,
            "kind": self.kind,
            "text": self.text,
            "tokens": self.tokens,
            "state": self.state,
            **({"by": self.by} if self.by else {}),
        }


@dataclass(frozen=True, slots=True)
class Shot:
    """One moment of a branch."""

    film: Film
    moment: Moment
    letter: str
    """`A`, `B`, ...; empty for a moment that was picked."""
    title: str
    now: bool = False
    """The branch sends this at its end."""

    @property
    def leaf_id(self) -> str | None:
        """The newest entry of the branch at that moment; None before the first."""
        return self.film.ids[self.moment.at - 1] if self.moment.at else None

    @property
    def rows(self) -> list[Row]:
        """What is there at that moment, oldest first."""
        states = enumerate(self.film.states(self.moment))
        return [self.row(item, state, by) for item, (state, by) in states]

    def row(self, item: int, state: State, by: str) -> Row:
        """One of them, by its place among them."""
        entry = self.film.items[item]
        text, tokens = self.said(item, state)
        return Row(entry.entry_id, entry.number, entry.name, entry.kind, text, tokens, state, by)

    def said(self, item: int, state: State) -> tuple[str, int]:
        """Line and tokens of an item, with the content that an edit gave it."""
        if state == "replaced" and (edit := self.film.edit(item, self.moment.at)) is not None:
            return edit.text, edit.tokens or 0
        return self.film.items[item].text, self.film.items[item].tokens

    @property
    def sent_ids(self) -> list[str]:
        """The entries that the messages of the request come from, in its order."""
        return [self.film.items[item].entry_id for item in self.film.sent(self.moment)]

    @property
    def projection(self) -> str:
        """What is sent, in words: `system + summary1 + m4 … m8`."""
        return projection(self.film, self.moment)

    @property
    def tokens_sent(self) -> int:
        """By the estimator, without the system prompt and the tools."""
        return self.moment.sent

    @property
    def tokens_log(self) -> int:
        """By the estimator, of all that the branch ever showed up to there, summaries too."""
        return self.moment.log

    @property
    def size(self) -> Estimate:
        """What the next request held, as `session.context().size` measures it: with what a
        provider reported, where one did."""
        return self.moment.size

    def to_dict(self) -> dict[str, Any]:
        return {**self.head(), "rows": [row.to_dict() for row in self.rows]}

    def head(self) -> dict[str, Any]:
        """What `to_dict` says besides the rows."""
        return {
            "letter": self.letter,
            "title": self.title,
            "now": self.now,
            "leafId": self.leaf_id,
            "projection": self.projection,
            "sentIds": self.sent_ids,
            "tokensSent": self.tokens_sent,
            "tokensLog": self.tokens_log,
            "size": self.size.tokens,
            "sizeSource": self.size.source,
        }


def projection(film: Film, moment: Moment) -> str:
    """What is sent, in the order of the request: `system + summary1 + m4 … m8`."""
    order = film.sent(moment)
    head = ["system"]
    if order and film.items[order[0]].is_compaction:
        head.append(_summary(film.items[order[0]], _replaced(film, order.pop(0), moment)))
    parts = []
    for replaced, run in groupby(order, lambda item: _replaced(film, item, moment)):
        for first, last in _in_a_row(film, run):
            parts.append(_run_name(film, first, last, " … ") + (" (edited)" if replaced else ""))
    if len(parts) > PARTS:
        edited = sum(_replaced(film, item, moment) for item in order)
        parts = [_run_name(film, order[0], order[-1], " … ")]
        said = [f"{count(len(order), 'entry', 'entries')}"]
        said += [f"{edited:,} of them edited"] if edited else []
        parts[0] += f" ({', '.join(said)})"
    return " + ".join([*head, *parts])


def _summary(item: Shown, replaced: bool) -> str:
    said = ["edited"] if replaced else []
    if item.tail:
        said.append(f"with {count(item.tail, 'message')}")
    return item.sent_as + (f" ({', '.join(said)})" if said else "")


def _replaced(film: Film, item: int, moment: Moment) -> bool:
    return film.edit(item, moment.at) is not None


def _in_a_row(film: Film, order: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Runs of items whose names follow one another; older compactions do not part them."""
    first = last = -1
    for item in order:
        between = film.items[last + 1 : item]
        if first >= 0 and all(one.is_compaction for one in between):
            last = item
            continue
        if first >= 0:
            yield first, last
        first = last = item
    if first >= 0:
        yield first, last


def _run_name(film: Film, first: int, last: int, between: str) -> str:
    one, other = film.items[first].name, film.items[last].name
    if first == last:
        return one
    inside = sum(not item.is_compaction for item in film.items[first : last + 1])
    if inside == 2:
        between = " + " if between == " … " else " and "
    return f"{one}{between}{other}"


def runs_in_words(film: Film, order: Iterable[int]) -> str:
    """Items in words: `m1 to m3 and m5`; of many runs their ends, and how many entries."""
    items = list(order)
    runs = [_run_name(film, first, last, " to ") for first, last in _in_a_row(film, items)]
    if len(runs) > 4:
        first, last = film.items[items[0]].name, film.items[items[-1]].name
        return f"{count(len(items), 'entry', 'entries')} from {first} to {last}"
    return " and ".join(filter(None, [", ".join(runs[:-1]), runs[-1] if runs else ""]))
