"""A list that only ever grows, and snapshots of it that cost nothing.

A turn must not cost the length of the branch, yet each one hands on the whole history as it
was then. All of them share one list; a snapshot is the list and a length.

    items = [u, a, u]    first = Grown(items)
    items.append(a)      second = Grown(items)     common(first, second) == 3, at once

Whoever holds the list may append to it and do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar, overload

from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


class Grown(Sequence[T]):
    """The first items of a list that only ever grows. Equal to any list or tuple of the same.

    As a field of a pydantic model it is taken as it is: its items were checked when they
    came into the list. Its slices are tuples.
    """

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[T]) -> None:
        self._items = items
        self._length = len(items)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            places = range(self._length)[index]
            if places.step == 1:  # at the speed of a list's own slices
                return tuple(self._items[places.start : places.stop])
            return tuple(self._items[i] for i in places)
        return self._items[range(self._length)[index]]

    def __iter__(self) -> Iterator[T]:
        return islice(self._items, self._length)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grown | list | tuple):
            return NotImplemented
        return len(self) == len(other) and common(self, other) == len(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def shares(self, other: Grown[Any]) -> bool:
        """Whether both are snapshots of one list, so that the longer continues the shorter."""
        return other._items is self._items

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(list)
        return core_schema.is_instance_schema(cls, serialization=written)


def common(one: Sequence[Any], two: Sequence[Any]) -> int:
    """How many items at the beginning are the same; at once for snapshots of one list."""
    shorter = min(len(one), len(two))
    if isinstance(one, Grown) and isinstance(two, Grown) and one.shares(two):
        return shorter
    # Tuples first look whether two items are one object; a message's own comparison is slow.
    if tuple(islice(one, shorter)) == tuple(islice(two, shorter)):
        return shorter
    return next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
