"""Regular expressions of a model, run on lines of anybody, in bounded time.

Python's `re` tries every way to match, and while it does so nothing else in this process
runs, not even on another thread. So a pattern is looked at first, and how much of a line it
is let loose on follows from what it could cost there:

    foo, \\w+\\(       no repeat, or repeats that end where the next thing begins
    .*a.*b           repeats that can trade characters: a power of the line's length
    (a+)+            a repeat that can divide the same text in several ways: a power of two,
                     refused with the reason

The search looks at its clock and its abort signal between lines; one line takes at worst
about a second.
"""

from __future__ import annotations

import math
import re

# Private, but as old as the module, and the only exact reading of Python's own syntax.
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from pi_nb.result import Err, Ok, Result

MAX_PATTERN = 1_000
"""Characters."""
MAX_LINE = 100_000
"""Characters of a line that are searched at most."""
_MIN_LINE = 60
"""A pattern that is safe on less than this is of no use."""
_BUDGET = 5e7
"""Steps that one line may take, at 10 to 25 ns each."""
_AT_ONCE = 4
"""Characters that are compared in one such step."""
_WRITTEN_OUT = 20
"""A repeat of a fixed number up to this is looked at as if it were written out."""

_OTHER = 256
"""Stands for all characters that are not Latin-1."""
_ALL = frozenset(range(_OTHER + 1))

Item = tuple[Any, Any]
"""An operation and what it is given, as Python's own parser has it."""
Chars = frozenset[int]


class Pattern(NamedTuple):
    """A pattern that may be run on up to `max_line` characters; made by `pattern_of`."""

    regex: re.Pattern[str]
    max_line: int
    literal: str | None
    """The text it stands for, where it is nothing but a text in this very case."""


def pattern_of(text: str, *, literal: bool, ignore_case: bool) -> Result[Pattern, str]:
    """Read a pattern, or say in words why it cannot be used."""
    if len(text) > MAX_PATTERN:
        return Err(f"The pattern is longer than {MAX_PATTERN:,} characters.")
    if not text:
        return Err("The pattern is empty.")
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    source = re.escape(text) if literal else text
    try:
        regex = re.compile(source, flags)
        items = _flat(_parser.parse(source, flags))
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        return Err(f"The pattern is no regular expression: {error}. For plain text set literal.")
    if unsafe := _unsafe(items):
        return Err(
            f"The pattern could take for ever: {unsafe}. Repeat single characters or classes only."
        )
    length = _cost(items, []).longest()
    if length < _MIN_LINE:
        return Err(
            "The pattern could take for ever: too many repeats could match the same characters. "
            "Put something fixed between them, or leave some out."
        )
    plain = all(op is _constants.LITERAL for op, _ in items) and not regex.flags & re.IGNORECASE
    fixed = "".join(chr(char) for _, char in items) if plain else None
    return Ok(Pattern(regex, length, fixed))


# --- a power of two -------------------------------------------------------------------------


def _unsafe(items: list[Item]) -> str:
    """Why trying could take a power of two, or nothing."""
    for item in items:
        op, value = item
        if op in (_constants.GROUPREF, _constants.GROUPREF_EXISTS):
            return "it refers back to one of its groups"
        if _repeats(op) and value[1] > 1 and (_varies(item) or value[1] > _WRITTEN_OUT):
            if not _one_way(_flat(value[2])):
                return "inside of a repeat there is another one, or a choice"
            continue
        for part in _inside(item):
            if unsafe := _unsafe(part):
                return unsafe
    return ""


def _one_way(body: list[Item]) -> bool:
    """Whether a text can be divided into repetitions of this in one way only.

    So it is where all of them are equally long, where they are words that begin differently,
    or where a fixed character ends each and nothing else in it could be that character.
    """
    if all(_chars(item) is not None for item in body):
        return True
    if len(body) == 1 and body[0][0] is _constants.BRANCH:
        return _apart(_inside(body[0]))
    *before, (last, _) = body
    end = _chars(body[-1])
    if last is not _constants.LITERAL or end is None:
        return False
    for item in before:
        chars = _chars(_flat(item[1][2])[0]) if _single(item) else _chars(item)
        if chars is None or chars & end:
            return False
    return sum(map(_varies, before)) <= 1


def _apart(branches: list[list[Item]]) -> bool:
    """Words of single characters, no two of which begin alike."""
    seen: Chars = frozenset()
    for branch in branches:
        every = [_chars(item) for item in branch]
        if not every or every[0] is None or None in every or every[0] & seen:
            return False
        seen |= every[0]
    return True


# --- a power of the line's length -----------------------------------------------------------


class _Cost(NamedTuple):
    """Ways to try: the line's length to a power, times a number (its logarithm)."""

    trading: int = 0
    """Repeats without end that can give characters to what follows."""
    scanning: bool = False
    """There are others without end: each try may walk to the end of the line."""
    ways: float = 0.0
    width: int = 0
    """Single characters and classes, written out: what one try may have to compare."""

    def longest(self) -> int:
        power = 1 + self.trading + self.scanning
        each = math.log(max(self.width / _AT_ONCE, 1))
        room = math.log(_BUDGET) + math.lgamma(power + 1) - self.ways - each
        return min(int(math.exp(room / power)), MAX_LINE) if room > 0 else 0

    def plus(self, other: _Cost, times: int = 1) -> _Cost:
        return _Cost(
            self.trading + times * other.trading,
            self.scanning or other.scanning,
            self.ways + times * other.ways,
            self.width + times * other.width,
        )


def _cost(items: list[Item], following: list[Item]) -> _Cost:
    cost = _Cost()
    for index, item in enumerate(items):
        op = item[0]
        after = items[index + 1 :] + following
        if _repeats(op):
            cost = cost.plus(_cost_of_repeat(item, after))
        elif op is _constants.BRANCH:
            inside = _inside(item)
            each = [_cost(branch, after) for branch in inside]
            worst = _Cost(
                max(one.trading for one in each),
                any(one.scanning for one in each),
                max(one.ways for one in each) + (0 if _apart(inside) else math.log(len(inside))),
                sum(one.width for one in each),
            )
            cost = cost.plus(worst)
        else:
            cost = cost.plus(_Cost(width=1))
            for part in _inside(item):
                cost = cost.plus(_cost(part, []))
    return cost


def _cost_of_repeat(item: Item, after: list[Item]) -> _Cost:
    least, most, body = item[1][0], item[1][1], _flat(item[1][2])
    own = _chars(body[0]) if _single(item) else None
    first = _first(after)
    # After the last character of the pattern the first try is a match.
    trades = bool(after) and (own is None or first is None or bool(own & first))
    inner = _Cost(width=1) if own is not None else _cost(body, body + after)
    if most > _WRITTEN_OUT:
        return inner.plus(_Cost(1) if trades and _varies(item) else _Cost(scanning=True))
    return _Cost(ways=math.log(most - least + 1) if trades else 0).plus(inner, max(most, 1))


def _first(items: list[Item]) -> Chars | None:
    """The characters that can come first; None if that may be nothing, or is not known."""
    found: Chars = frozenset()
    for item in items:
        op, value = item
        if op is _constants.AT:
            continue
        if _repeats(op):
            chars = _first(_flat(value[2]))
        elif op is _constants.BRANCH:
            each = [_first(branch) for branch in _inside(item)]
            known = [one for one in each if one is not None]
            chars = frozenset().union(*known) if len(known) == len(each) else None
        else:
            chars = _chars(item)
        if chars is None:
            return None
        found |= chars
        if not _repeats(op) or value[0] > 0:
            return found
    return None


# --- reading what the parser gives ----------------------------------------------------------


def _repeats(op: Any) -> bool:
    return op in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


def _varies(item: Item) -> bool:
    """A repeat that may stop at different places."""
    return _repeats(item[0]) and item[1][0] != item[1][1]


def _single(item: Item) -> bool:
    """A repeat of one character or class."""
    return _repeats(item[0]) and [_chars(one) is not None for one in _flat(item[1][2])] == [True]


def _inside(item: Item) -> list[list[Item]]:
    """What an item is made of, back-references apart."""
    op, value = item
    if _repeats(op):
        return [_flat(value[2])]
    if op is _constants.ATOMIC_GROUP:
        return [_flat(value)]
    if op in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [_flat(value[1])]
    if op is _constants.BRANCH:
        return [_flat(branch) for branch in value[1]]
    return []


def _flat(items: Any) -> list[Item]:
    """The items, those of groups that only group in their place."""
    flat: list[Item] = []
    for item in items:
        flat += _flat(item[1][3]) if item[0] is _constants.SUBPATTERN else [item]
    return flat


def _chars(item: Item) -> Chars | None:
    """The characters that an item stands for, in either case; None if it is not exactly one."""
    op, value = item
    if op is _constants.ANY:
        return _ALL
    if op is _constants.LITERAL:
        return _either_case({value})
    if op is _constants.NOT_LITERAL:
        return _ALL - {value}
    if op is not _constants.IN:
        return None
    found: set[int] = set()
    negated = value[0][0] is _constants.NEGATE
    for kind, member in value:
        if kind is _constants.LITERAL:
            found.add(member)
        elif kind is _constants.RANGE:
            # Beyond Latin-1 some characters are the same as letters of it in the other case.
            found |= _ALL if member[1] >= _OTHER else set(range(member[0], member[1] + 1))
        elif kind is _constants.CATEGORY:
            found |= _category(member)
    if not negated:
        return _either_case(found)
    beyond = any(kind is _constants.RANGE and member[1] >= _OTHER for kind, member in value)
    return _ALL if beyond else _either_case(set(_ALL - (found - {_OTHER})))


def _either_case(chars: set[int]) -> Chars:
    cases = "".join(chr(char).lower() + chr(char).upper() for char in chars if char != _OTHER)
    return frozenset(min(char, _OTHER) for char in [*chars, *map(ord, cases)])


_CATEGORIES = {
    _constants.CATEGORY_WORD: r"\w",
    _constants.CATEGORY_NOT_WORD: r"\W",
    _constants.CATEGORY_DIGIT: r"\d",
    _constants.CATEGORY_NOT_DIGIT: r"\D",
    _constants.CATEGORY_SPACE: r"\s",
    _constants.CATEGORY_NOT_SPACE: r"\S",
}
# Beyond Latin-1 there are letters and digits, and little white space. Where two classes
# exclude each other in Latin-1 they do so there too, so spaces stay out of the common name.
_BEYOND = {r"\w", r"\W", r"\d", r"\D", r"\S"}


def _category(category: Any) -> set[int]:
    escape = _CATEGORIES[category]
    latin = {code for code in range(_OTHER) if re.match(escape, chr(code))}
    return latin | ({_OTHER} if escape in _BEYOND else set())
