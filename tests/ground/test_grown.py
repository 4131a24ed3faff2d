"""Snapshots of a list that grows."""

from __future__ import annotations

import copy
import pickle

from hypothesis import given
from hypothesis import strategies as st

from pi_nb.grown import Grown, common
from pi_nb.wire import Wire


class Compared:
    """Counts how often it is compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return isinstance(other, Compared)

    __hash__ = None  # type: ignore[assignment]


class Told(Wire):
    words: Grown[str] | tuple[str, ...] = ()


def test_a_snapshot_does_not_see_what_is_appended_later() -> None:
    items = ["a", "b"]
    before = Grown(items)

    items.append("c")

    assert list(before) == ["a", "b"]
    assert list(Grown(items)) == ["a", "b", "c"]


@given(
    st.lists(st.integers()),
    st.lists(st.integers()),
    st.slices(8),
)
def test_it_reads_as_a_tuple_of_its_items_does(
    items: list[int], later: list[int], part: slice
) -> None:
    kept = tuple(items)
    grown = Grown(items)
    items += later

    assert grown == kept
    assert kept == grown
    assert grown[part] == kept[part]
    assert tuple(grown) == kept
    assert tuple(reversed(grown)) == kept[::-1]
    assert repr(grown) == repr(list(kept))
    assert [grown[i] for i in range(-len(kept), len(kept))] == [*kept, *kept]


@given(st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)))
def test_two_histories_share_what_is_the_same_at_their_beginning(
    one: list[int], two: list[int]
) -> None:
    same = common(Grown(one), tuple(two))

    assert one[:same] == two[:same]
    assert same == min(len(one), len(two)) or one[same] != two[same]
    assert (Grown(one) == Grown(two)) == (one == two)


def test_snapshots_of_one_list_are_compared_without_looking_at_their_items() -> None:
    items = [Compared() for _ in range(3)]
    before = Grown(items)
    items.append(Compared())
    Compared.times = 0

    assert common(before, Grown(items)) == common(Grown(items), before) == 3
    assert before != Grown(items)
    assert Compared.times == 0


def test_other_lists_of_the_same_objects_are_compared_by_identity_first() -> None:
    items = [Compared() for _ in range(3)]
    Compared.times = 0

    assert common(Grown(items), tuple(items)) == 3
    assert Compared.times == 0


def test_a_model_takes_a_snapshot_as_it_is_and_writes_it_as_a_list() -> None:
    words = Grown(["a", "b"])
    told = Told(words=words)

    assert told.words is words
    assert told == Told(words=("a", "b"))
    assert told.to_json() == told.model_dump_json() == '{"words":["a","b"]}'
    assert copy.deepcopy(told) == pickle.loads(pickle.dumps(told)) == told


def test_what_is_no_snapshot_is_checked_and_becomes_a_tuple() -> None:
    assert Told(words=["a"]).words == ("a",)  # type: ignore[arg-type]
    assert type(Told.model_validate({"words": ["a"]}).words) is tuple
