"""A session's tree as text and as HTML: a row an entry, with what it weighs and whether it is sent.

A chain without branches stays flat; only a branch point indents what follows it. The rows
say nothing that differs from run to run (no clock, and ids only on demand), so a saved
notebook can be compared. Their numbers are what `goto` takes. An outline is a value: it
does not follow the session, and prints when that is closed.

    #  ≈tokens
    1        7  ● user: which tests are slow?
    2       12  ● assistant: [bash: pytest --durations=5] (2 branches)
    3        3    ├─   user: and why?
    4        4    └─ ● user: make them fast ← main
    ● sent to the model at the leaf of main; ≈tokens: characters / 4 (pi)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pi_nb.html import Html, details, element, text
from pi_nb.text import count, one_line, safe_line

from .filters import Filter
from .finding import Needle
from .layout import Chain, Gap, chains_in, connected

LIMIT = 200
"""Rows that are drawn where nobody says how many."""

FOLDED = 10
"""A branch of more rows than these, on which the lane is not, is closed in HTML."""

TITLE = 60
"""Characters of a closed branch's first row."""

State = Literal["sent", "edited", "kept back", "elsewhere"]
"""Of an entry at the leaf: `sent` to the model; `edited`, sent with other content than it has
here; `kept back`, on the branch but not sent; `elsewhere`, on another branch."""

MARKS: Mapping[State, str] = {"sent": "●", "edited": "◐", "kept back": "○", "elsewhere": " "}

_MEANINGS: Mapping[State, str] = {
    "sent": "sent to the model at the leaf of {lane}",
    "edited": "sent with other content",
    "kept back": "on its branch, not sent",
    "elsewhere": "",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One entry."""

    number: int
    """Its place in the file, from 1."""
    entry_id: str
    state: State
    text: str
    tokens: int | None = None
    """Estimate by rule `pi`, as the branch's edits have it; None for what never weighs anything."""
    label: str | None = None
    branches: int = 1
    """How many ways it goes on from here, of those that pass the filter."""
    lanes: tuple[str, ...] = ()
    """The lanes whose leaf it is, or is the nearest row to."""
    hit: bool = False
    """It holds what was looked for."""
    short_id: str = ""
    """The end of its id, where ids were asked for."""

    @property
    def active(self) -> bool:
        """It is on the lane's branch."""
        return self.state != "elsewhere"

    @property
    def in_context(self) -> bool:
        """The model is sent it at the lane's leaf."""
        return self.state in ("sent", "edited")

    def __str__(self) -> str:
        return self.line()

    def line(self, connector: str = "", number: int = 0, tokens: int = 0) -> str:
        """The row as text, its number and its tokens in so many columns."""
        weight = "" if self.tokens is None else f"{self.tokens:,}"
        found = "» " if self.hit else ""
        named = [self.short_id] if self.short_id else []
        label = [f"[label: {safe_line(self.label)}]"] if self.label else []
        said = " ".join([*named, self.text, *label, *self.notes()])
        columns = f"{self.number:>{number}} {weight:>{tokens}}"
        return f"{columns}  {connector}{MARKS[self.state]} {found}{said}"

    def notes(self) -> Iterator[str]:
        """What is said of it besides its text and its label."""
        if self.branches > 1:
            yield f"({self.branches} branches)"
        if self.lanes:
            yield f"← {', '.join(map(safe_line, self.lanes))}"


@dataclass(frozen=True, slots=True)
class Outline:
    """A tree to print, or to show as the value of a cell."""

    lane: str
    filter: Filter
    entries: int
    """In the whole tree."""
    hits: int | None
    """Entries that hold what was looked for; None where nothing was."""
    needle: Needle | None
    top: Chain
    """How the rows hang together; its items are keys of `drawn`."""
    drawn: Mapping[int, Row]
    more: str = "limit=None"
    """What draws the rows that are not drawn."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that are drawn, in order."""
        items = (item for _, item in connected(self.top))
        return tuple(self.drawn[item] for item in items if not isinstance(item, Gap))

    @property
    def total(self) -> int:
        """How many rows there are, drawn or not."""
        return self.top.rows

    def __str__(self) -> str:
        if not self.drawn:
            return "\n".join(["(no entries)", *self._remarks()])
        rows = self.drawn.values()
        number = max(len(str(row.number)) for row in rows)
        tokens = max(len("≈tokens"), *(len(f"{row.tokens or 0:,}") for row in rows))
        lines = [f"{'#':>{number}} {'≈tokens':>{tokens}}"]
        for connector, item in connected(self.top):
            if isinstance(item, Gap):
                lines.append(f"{' ' * (number + tokens + 3)}{connector}… {count(item.rows, 'row')}")
            else:
                lines.append(self.drawn[item].line(connector, number, tokens))
        return "\n".join([*lines, *self._remarks()])

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        """Nested lists: readable without a style sheet, on GitHub, and by a screen reader."""
        remarks = [element("p", element("em", remark)) for remark in self._remarks()]
        if not self.drawn:
            return Html(element("p", "(no entries)") + "".join(remarks))
        made: dict[int, Html] = {}
        # What is inside comes after its chain, so backwards it is made first.
        for chain in reversed(list(chains_in(self.top))):
            items = [self._item(item) for item in chain.items]
            below = [self._branch(part, made) for part in chain.inside]
            made[id(chain)] = element("ul", *items, *below)
        return Html(made[id(self.top)] + "".join(remarks))

    def _remarks(self) -> Iterator[str]:
        """What the marks and the numbers mean, and what is not shown."""
        if self.drawn:
            states = {row.state for row in self.drawn.values()}
            said = [
                f"{MARKS[state]} {meaning.format(lane=safe_line(self.lane))}"
                for state, meaning in _MEANINGS.items()
                if state in states and meaning
            ]
            yield "; ".join([*said, "≈tokens: characters / 4 (pi)"])
        shown = []
        if self.needle is not None:
            found = count(self.hits or 0, "entry holds", "entries hold")
            shown.append(f"{found} {safe_line(self.needle.text, 40)!r} (filter {self.filter})")
        elif self.total < self.entries:
            of = count(self.entries, "entry", "entries")
            shown.append(f"{self.total:,} of {of} (filter {self.filter})")
        if (drawn := len(self.drawn)) < self.total:
            shown.append(f"{drawn:,} of {self.total:,} rows drawn, {self.more} draws all")
        if shown:
            yield "; ".join(shown)

    def _item(self, item: int | Gap) -> Html:
        """The role as code, and strong where the lane's branch goes through the entry."""
        if isinstance(item, Gap):
            return element("li", element("em", f"… {count(item.rows, 'row')}"))
        row = self.drawn[item]
        parts: list[object] = [row.number, f" {MARKS[row.state]} " if row.active else " "]
        if row.short_id:
            parts += [element("code", row.short_id), " "]
        role, colon, rest = row.text.partition(":")
        if colon and not role.startswith("["):
            named = element("code", role)
            parts.append(element("strong", named) if row.active else named)
        else:
            rest = row.text
        parts += self._found(row, rest)
        if row.label:
            parts += [" ", element("kbd", safe_line(row.label))]
        weight = [] if row.tokens is None else [f"≈{row.tokens:,}"]
        if notes := [*weight, *row.notes()]:
            parts += [" ", element("em", " ".join(notes))]
        return element("li", *parts)

    def _found(self, row: Row, words: str) -> list[object]:
        """A row's text, with what was looked for in it strong."""
        if self.needle is None or not row.hit:
            return [words]
        pieces = self.needle.split(words)
        return [element("strong", piece) if i % 2 else piece for i, piece in enumerate(pieces)]

    def _branch(self, part: Chain | Gap, made: dict[int, Html]) -> Html:
        """A branch with its number, and whether the lane is on it; a long other one is closed."""
        if isinstance(part, Gap):
            return self._item(part)
        here = ", here" if part.active else ""
        title = element("em", f"branch {part.number} of {part.count}{here}")
        inside = made.pop(id(part))
        if part.active or part.rows <= FOLDED or self.needle is not None:
            return element("li", title, inside)
        first = next((self.drawn[i] for i in part.items if not isinstance(i, Gap)), None)
        begins = f": {one_line(first.text, TITLE)}" if first is not None else ""
        size = count(part.rows, "row")
        summary = Html(title + text(f", {size}{begins}"))
        return element("li", details(summary, inside))
