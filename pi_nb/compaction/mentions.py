"""What the summarised part says and nothing that is sent after says again, word for word.

Found by matching alone, so it is called "not found verbatim": a summary may say the same thing
in other words, and then it stands in this list and is not lost. Nothing is asked of a model.

    summarised part  --finds-->  a.py  max_retries  300 ms  "Never touch main."
    summary + kept   --words-->  a.py                       not found: the other three
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pi_nb.html import Html, details, element
from pi_nb.messages import AgentMessage
from pi_nb.session.context import ContextItem
from pi_nb.text import safe_line

from .finds import Kind
from .voices import found_in
from .wordings import Wordings, owners_of

KINDS: tuple[Kind, ...] = ("constraint", "error", "path", "identifier", "number", "url", "hash")
"""In the order they are shown: what a user asked for first."""
_PLURALS: Mapping[Kind, str] = {
    "constraint": "constraints of the user",
    "error": "error lines",
    "path": "paths",
    "identifier": "identifiers",
    "number": "numbers",
    "url": "addresses",
    "hash": "hashes",
}
LISTED = 12
"""Mentions of one kind that are shown; the rest is counted."""
TOLD = 5
"""Entries of one mention that are named in text; `to_dict` has them all."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One thing that was not found verbatim."""

    kind: Kind
    text: str
    entry_ids: tuple[str, ...]
    """Where it stands, oldest first."""
    times: int
    """How often, over all of them."""
    weight: float
    """What the list is ordered by: of each entry it stands in, its place from 0 (the oldest)
    to 1, plus 1, times 2 where somebody said it rather than wrote it to a file or printed it."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "text": self.text,
            "entryIds": list(self.entry_ids),
            "times": self.times,
            "weight": round(self.weight, 3),
        }


class Tally(NamedTuple):
    """How many different things of one kind there are, and how many were found again."""

    mentioned: int
    total: int

    @property
    def recall(self) -> float | None:
        """`mentioned / total`, 0 to 1; None where there is nothing to be recalled."""
        return self.mentioned / self.total if self.total else None


@dataclass(frozen=True, slots=True, repr=False)
class Mentions:
    """What was not found verbatim, the weightiest first, and how much was."""

    missing: tuple[Mention, ...]
    tallies: Mapping[Kind, Tally] = field(default_factory=dict)
    """Of each kind that was looked for."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Of entries their rows in the outline, where somebody gave them: ids name nothing to a
    reader."""

    def __len__(self) -> int:
        return len(self.missing)

    def __iter__(self) -> Iterator[Mention]:
        return iter(self.missing)

    def of(self, kind: Kind) -> list[Mention]:
        return [mention for mention in self.missing if mention.kind == kind]

    @property
    def recall(self) -> float | None:
        """The mean over the kinds that occur, each counting as much; None where none does."""
        known = [tally.recall for tally in self.tallies.values() if tally.recall is not None]
        return sum(known) / len(known) if known else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "notFoundVerbatim": [mention.to_dict() for mention in self.missing],
            "tallies": {
                kind: {"mentioned": tally.mentioned, "total": tally.total, "recall": tally.recall}
                for kind, tally in self.tallies.items()
            },
            "recall": self.recall,
        }

    # --- to look at ---------------------------------------------------------------------

    def _title(self) -> str:
        there = sum(tally.total for tally in self.tallies.values())
        if not there:
            return "Nothing that could be looked for stands in the summarised part."
        return f"Not found verbatim in the summary or in what is kept: {len(self):,} of {there:,}"

    def _groups(self) -> Iterator[tuple[str, list[Mention], int]]:
        """Of each kind its heading, what is shown, and how many more there are."""
        for kind, tally in self.tallies.items():
            if tally.total:
                mentions = self.of(kind)
                found = f"{tally.mentioned:,} of {tally.total:,} found"
                yield f"{_PLURALS[kind]}: {found}", mentions[:LISTED], len(mentions) - LISTED

    def to_text(self, number: Mapping[str, int] | None = None) -> str:
        """As lines.

        Args:
            number: Of entries their rows in the outline, instead of `numbers`; those without
                one are named by their ids.
        """
        number = self.numbers if number is None else number
        lines = [self._title()]
        for heading, shown, more in self._groups():
            lines.append(f"  {heading}")
            lines += [f"    {safe_line(m.text, 160)}  ({_where(m, number)})" for m in shown]
            if more > 0:
                lines.append(f"    and {more:,} more")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        parts = [element("p", element("strong", self._title()))]
        for heading, shown, more in self._groups():
            items = [
                element(
                    "li", element("code", safe_line(m.text, 300)), f" ({_where(m, self.numbers)})"
                )
                for m in shown
            ]
            if more > 0:
                items.append(element("li", element("em", f"and {more:,} more")))
            parts.append(
                details(heading, element("ul", *items)) if items else element("p", heading)
            )
        return Html("".join(parts))


def _where(mention: Mention, number: Mapping[str, int]) -> str:
    shown = mention.entry_ids[-TOLD:]
    rows = [f"{number[entry_id]:,}" for entry_id in shown if entry_id in number]
    ids = [safe_line(entry_id, 12) for entry_id in shown if entry_id not in number]
    if rows:
        rows[0] = f"{'row' if len(rows) == 1 else 'rows'} {rows[0]}"
    more = len(mention.entry_ids) - TOLD
    where = ", ".join([*rows, *ids]) + (f" and {more:,} earlier" if more > 0 else "")
    times = "" if mention.times == 1 else f"{mention.times:,} times, "
    return f"{times}in {where}"


# --- finding --------------------------------------------------------------------------------


def not_mentioned(
    items: Sequence[ContextItem],
    summary: str,
    kept: Sequence[AgentMessage] = (),
    *,
    kinds: Collection[Kind] = ("constraint", "error", "path", "identifier", "number", "url"),
) -> Mentions:
    """What of these items is found verbatim neither in the summary nor in what is kept.

    White space does not count. A path is also found by the end of it that no other path of the
    items has (`cart.py` for `/src/cart.py`), a dotted name in a longer one, an error and a
    constraint anywhere in the summary or as a whole line or sentence of what is kept. Takes
    time in proportion to the text.

    Args:
        items: What is summarised, oldest first. Constraints come from user messages alone.
        kept: What is sent beside the summary.
        kinds: What is looked for. Hashes and random ids (`hash`) only where they are named.
    """
    told: dict[tuple[Kind, str], _Places] = {}
    wanted = [kind for kind in KINDS if kind in kinds]
    last = max(len(items) - 1, 1)
    for place, item in enumerate(items):
        for found, times in Counter(found_in(item.message, wanted)).items():
            told.setdefault((found.kind, found.text), _Places()).add(
                item.entry_id, times, place / last, found.said
            )
    owners = owners_of(text for kind, text in told if kind == "path")
    told = _joined(told, owners)
    there = Wordings(summary, kept)
    missing: list[Mention] = []
    total: Counter[Kind] = Counter()
    mentioned: Counter[Kind] = Counter()
    for (kind, text), places in told.items():
        total[kind] += 1
        if there.has(kind, text, owners):
            mentioned[kind] += 1
        else:
            ids = tuple(places.entry_ids)
            missing.append(Mention(kind, text, ids, places.times, places.weight))
    missing.sort(key=lambda mention: -mention.weight)
    return Mentions(tuple(missing), {kind: Tally(mentioned[kind], total[kind]) for kind in wanted})


@dataclass(slots=True)
class _Places:
    entry_ids: dict[str, None] = field(default_factory=dict)
    times: int = 0
    weight: float = 0.0

    def add(self, entry_id: str, times: int, late: float, said: bool) -> None:
        self.entry_ids[entry_id] = None
        self.times += times
        self.weight += (1 + late) * (2 if said else 1)

    def join(self, other: _Places) -> None:
        self.entry_ids |= other.entry_ids
        self.times += other.times
        self.weight += other.weight


def _joined(
    told: Mapping[tuple[Kind, str], _Places], owners: Mapping[str, str]
) -> dict[tuple[Kind, str], _Places]:
    """Paths that are the end of one longer path, put together with it."""
    joined: dict[tuple[Kind, str], _Places] = {}
    for (kind, text), places in told.items():
        whole = owners.get(text, text) if kind == "path" else text
        if (kind, whole) in joined:
            joined[kind, whole].join(places)
        else:
            joined[kind, whole] = places
    return joined
