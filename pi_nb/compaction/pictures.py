"""Draws moments of a branch: blocks for its entries, and under them what is sent.

The blocks of all moments are cut at the same places, so that they stand under one another.
While they fit on a line each entry has one; else those that always share a state are one
block, and at last those that are sent, or not sent, together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from pi_nb.html import Html, details, element
from pi_nb.text import count

from .moments import Shown, State
from .shots import SENT, Row, Shot

WIDTH = 96
"""Characters of a line of blocks."""
BLOCKS = 60
"""Of more blocks than these the middle is left out."""
FIRST, LAST = 4, 8
"""Moments that are drawn of more than these."""
RUN, ENDS = 8, 3
"""Of a longer run of rows in one state only so many at both ends are listed."""
ROWS = 60
"""Rows that are listed of a moment, about."""

MARKS: Mapping[State, tuple[str, str]] = {
    "sent": ("[", "]"),
    "replaced": ("{", "}"),
    "summarised": ("░", "░"),
    "left out": ("×", "×"),
    "not sent": ("·", "·"),
}
"""What stands around a block."""

_MEANINGS: Mapping[State, str] = {
    "sent": "sent",
    "replaced": "sent with other content",
    "summarised": "a summary stands for it",
    "left out": "left out by an edit",
    "not sent": "an older compaction, its summary is not sent any more",
}


class Block(NamedTuple):
    """Neighbours on the branch that are drawn as one."""

    first: int
    last: int

    def label(self, items: Sequence[Shown]) -> str:
        names = items[self.first].name, items[self.last].name
        return names[0] if self.first == self.last else "…".join(names)


class Picture:
    """Moments of one branch, to be drawn together."""

    def __init__(self, shots: Sequence[Shot]) -> None:
        self.left_out = 0
        self.shots: list[Shot | None] = list(shots)
        if len(shots) > FIRST + LAST:
            self.left_out = len(shots) - FIRST - LAST
            self.shots[FIRST:-LAST] = [None]
        self.film = shots[0].film if shots else None
        self.states = {
            id(shot): [state for state, _ in shot.film.states(shot.moment)]
            for shot in self.shots
            if shot is not None
        }
        self.blocks = self._blocks()

    # --- blocks -------------------------------------------------------------------------

    def _blocks(self) -> list[Block | None]:
        """None stands for blocks in the middle that are left out."""
        columns = list(self.states.values())
        length = max(map(len, columns), default=0)
        if self.film is None or not length:
            return []
        items, each_item = self.film.items, range(length)
        states = [tuple(c[i] if i < len(c) else "" for c in columns) for i in each_item]
        # A summary that is sent is no neighbour of the messages beside it: it goes first.
        exact = [(*states[i], items[i].is_compaction) for i in each_item]
        rough = [
            (*map(_rough, states[i]), items[i].is_compaction and bool({*states[i]} & SENT))
            for i in each_item
        ]
        each = [Block(i, i) for i in each_item]
        if self._fits(each, WIDTH):
            return [*each]
        alike = _joined(exact)
        if self._fits(alike, 2 * WIDTH):
            return [*alike]
        blocks = _joined(rough)
        if len(blocks) <= BLOCKS:
            return [*blocks]
        return [*blocks[: BLOCKS // 3], None, *blocks[-BLOCKS // 3 * 2 :]]

    def _fits(self, blocks: Sequence[Block], width: int) -> bool:
        items = self.film.items if self.film else []
        return sum(len(block.label(items)) + 3 for block in blocks[:width]) <= width

    def _drawn(self, shot: Shot) -> Iterator[tuple[State, str] | None]:
        """The blocks that are there at a moment, with what they are drawn as."""
        states = self.states[id(shot)]
        for block in self.blocks:
            if block is None:
                yield None
            elif block.first < len(states):
                inside = states[block.first : block.last + 1]
                yield _whole(set(inside)), block.label(shot.film.items)

    # --- text ---------------------------------------------------------------------------

    def text(self, rows: bool) -> str:
        """The picture as text; `rows` lists the entries under it."""
        if self.film is None:
            return "(no moments)"
        lines: list[str] = []
        for shot in self.shots:
            if lines:
                lines.append("")
            if shot is None:
                lines.append(self._missing())
                continue
            lines += [_title(shot), *self._lines(shot), f"   → {shot.projection}"]
            lines.append(f"   {_tokens(shot)}")
            if rows and shot.moment.shown:
                lines += ["", *_row_lines(shot)]
        return "\n".join([*lines, "", *self._remarks()])

    def _missing(self) -> str:
        where = "[n] or a slice draws them"
        return f"…  {count(self.left_out, 'more moment')} between: {where}"

    def _lines(self, shot: Shot) -> Iterator[str]:
        line = "  "
        for drawn in self._drawn(shot):
            block = "…" if drawn is None else drawn[1].join(MARKS[drawn[0]])
            if len(line) + 1 + len(block) > WIDTH + 3 and line.strip():
                yield line
                line = "  "
            line += f" {block}"
        yield line if line.strip() else "   (nothing)"

    def _remarks(self) -> Iterator[str]:
        """What the marks and the numbers mean."""
        seen = self._seen()
        said = [
            f"{'m'.join(MARKS[state])} {text}" for state, text in _MEANINGS.items() if state in seen
        ]
        if said:
            yield "; ".join(said)
        yield self._source()

    def _seen(self) -> set[State]:
        return {state for states in self.states.values() for state in states}

    def _source(self) -> str:
        source = self.film.estimator.source if self.film else ""
        named = "characters / 4 (pi)" if source == "pi" else source
        return f"≈tokens: {named}, without the system prompt and the tools"

    # --- HTML ---------------------------------------------------------------------------

    def html(self, rows: bool) -> Html:
        """The same as a list of descriptions: readable without a style sheet, on GitHub, and
        by a screen reader. `rows` adds the entries, closed where there are several moments."""
        if self.film is None:
            return element("p", "(no moments)")
        parts: list[Html] = []
        for shot in self.shots:
            if shot is None:
                parts.append(element("p", element("em", self._missing())))
                continue
            parts.append(_html_title(shot))
            parts.append(element("p", *self._html_blocks(shot)))
            sent = [f"→ {shot.projection}"]
            parts.append(element("p", *sent, element("br"), element("em", _tokens(shot))))
            if rows and shot.moment.shown:
                listed = element("ul", *_row_items(shot))
                what = count(shot.moment.shown, "entry", "entries")
                alone = len(self.states) == 1
                parts.append(listed if alone else details(what, listed))
        said: list[object] = []
        for state, text in _MEANINGS.items():
            if state in self._seen():
                said += [_marked(state, "m"), f" {text}; "]
        # Paragraphs, no list of terms: Jupyter floats those beside each other.
        return Html("".join(parts) + element("p", *said, self._source()))

    def _html_blocks(self, shot: Shot) -> Iterator[object]:
        place = -1
        for place, drawn in enumerate(self._drawn(shot)):
            if place:
                yield " "
            yield "…" if drawn is None else _marked(*drawn)
        if place < 0:
            yield element("em", "nothing")


def _joined(signatures: Sequence[object]) -> list[Block]:
    """A block for each run of equal signatures."""
    blocks = []
    for _, run in groupby(range(len(signatures)), key=signatures.__getitem__):
        places = list(run)
        blocks.append(Block(places[0], places[-1]))
    return blocks


def _rough(state: str) -> str:
    """What differs where there is no room for more: sent, not sent, not there yet."""
    if not state:
        return ""
    return "sent" if state in SENT else "gone"


def _whole(inside: set[State]) -> State:
    """What a block is drawn as."""
    for state in ("replaced", "sent", "summarised", "left out"):
        if state in inside:
            return state
    return "not sent"


def _marked(state: State, name: str) -> Html:
    """A block: strong where it is sent, struck where it is not."""
    block = name.join(MARKS[state])
    match state:
        case "sent":
            return element("strong", block)
        case "replaced":
            return element("strong", element("em", block))
        case "summarised":
            return element("del", name)  # struck through, the shade would hide it
        case "not sent":
            return element("del", element("em", block))
        case _:
            return element("del", block)


def _title(shot: Shot) -> str:
    here = " (now)" if shot.now and not shot.title.startswith("now") else ""
    return f"{shot.letter:<2} {shot.title}{here}".strip()


def _html_title(shot: Shot) -> Html:
    here = " (now)" if shot.now and not shot.title.startswith("now") else ""
    letter = [element("strong", shot.letter), " "] if shot.letter else []
    return element("p", *letter, shot.title, here)


def _tokens(shot: Shot) -> str:
    text = f"sent ≈{shot.tokens_sent:,} of ≈{shot.tokens_log:,} tokens in the log"
    if shot.size.reported:
        text += f"; with prompt and tools {shot.size}"
    return text


# --- rows ---------------------------------------------------------------------------------


class Gap(NamedTuple):
    """Rows that are not listed."""

    rows: int
    became: str
    tokens: int

    def __str__(self) -> str:
        became = f" {self.became}" if self.became else ""
        return f"… {count(self.rows, 'more entry', 'more entries')}{became} (≈{self.tokens:,})"


def _folded(shot: Shot) -> list[Row | Gap]:
    """The rows of a moment without the middle of long runs: of those in one state, and where
    that is still long, of those that are sent or not."""
    states = shot.film.states(shot.moment)
    listed = _ends(states)
    if len(listed) > ROWS:
        listed = _ends([_rough(state) for state, _ in states])
    if len(listed) > ROWS:
        first, last = listed[: ROWS // 3], listed[-ROWS // 3 * 2 :]
        listed = [*first, range(first[-1].stop, last[0].start), *last]
    found: list[Row | Gap] = []
    for items in listed:
        if len(items) == 1:
            found.append(shot.row(items[0], *states[items[0]]))
            continue
        tokens = sum(shot.said(item, states[item][0])[1] for item in items)
        found.append(Gap(len(items), _together({states[item]: None for item in items}), tokens))
    return found


def _together(states: Iterable[tuple[State, str]]) -> str:
    """What became of rows in these states, given in their order; empty where it differs."""
    became = {state: by for state, by in reversed([*states]) if state != "not sent"}
    if len(became) != 1:
        return "" if SENT & {*became} else "not sent"
    ((state, first),) = became.items()
    last = [by for one, by in states if one == state][-1]
    return _became(state, first if first == last else f"{first} to {last}")


def _ends(alike: Sequence[object]) -> list[range]:
    """Every item by itself, but the middle of long runs together."""
    found: list[range] = []
    for first, last in _joined(alike):
        stop = last + 1
        if stop - first <= RUN:
            found += (range(i, i + 1) for i in range(first, stop))
        else:
            found += (range(i, i + 1) for i in range(first, first + ENDS))
            found.append(range(first + ENDS, stop - ENDS))
            found += (range(i, i + 1) for i in range(stop - ENDS, stop))
    return found


def _became(state: State, by: str) -> str:
    return f"{state} by {by}" if by else state


def _row_lines(shot: Shot) -> Iterator[str]:
    rows = _folded(shot)
    single = [row for row in rows if not isinstance(row, Gap)]
    number = max(len(str(row.number)) for row in single)
    name = max(len(row.name) for row in single) + 2
    tokens = max(len("≈tokens"), *(len(f"{row.tokens:,}") for row in single))
    by = max(len(row.by) for row in single)
    head = f"  {'by':<{by}}" if by else ""
    yield f"   {'#':>{number}} {'':{name}} {'≈tokens':>{tokens}}{head}".rstrip()
    for row in rows:
        if isinstance(row, Gap):
            gap = " " * (number + name + tokens + by + (8 if by else 6) - 1)
            yield f"{gap}  {row}"
            continue
        block = row.name.join(MARKS[row.state])
        taken = f"  {row.by:<{by}}" if by else ""
        columns = f"{row.number:>{number}} {block:<{name}} {row.tokens:>{tokens},}{taken}"
        yield f"   {columns}  {row.text}"


def _row_items(shot: Shot) -> Iterator[Html]:
    for row in _folded(shot):
        if isinstance(row, Gap):
            yield element("li", element("em", str(row)))
            continue
        notes = f"≈{row.tokens:,}, {_became(row.state, row.by)}"
        yield element(
            "li",
            row.number,
            " ",
            _marked(row.state, row.name),
            f" {row.text} ",
            element("em", notes),
        )
