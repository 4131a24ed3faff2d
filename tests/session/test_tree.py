"""Ids and links."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.session.tree import Tree

parents = st.lists(st.integers(0, 30), max_size=30)
"""For each entry in turn a number that picks its parent among those before it, or none."""


def grown(choices: list[int]) -> tuple[Tree, dict[str, str | None]]:
    tree, links = Tree(), dict[str, str | None]()
    for number, choice in enumerate(choices):
        parent = [None, *links][choice % (number + 1)]
        tree.add(f"e{number}", parent)
        links[f"e{number}"] = parent
    return tree, links


@given(parents)
def test_links_are_those_that_were_added(choices: list[int]) -> None:
    tree, links = grown(choices)

    assert list(tree) == list(links)
    for id in [None, *links]:
        assert tree.children(id) == [child for child, parent in links.items() if parent == id]
        branch = tree.branch(id)
        assert len(branch) == tree.depth(id)
        assert [tree.parent(step) for step in branch] == [None, *branch[:-1]][: len(branch)]


def test_a_parent_may_come_later_where_a_whole_file_is_taken_in() -> None:
    """S-23: c and b stand before a, which both follow from."""
    tree = Tree()
    tree.load({"c": 1, "b": 2, "a": 3, "d": 4}, array("i", [2, 3, 0, 1]))

    assert tree.branch("d") == ["a", "b", "c", "d"]
    assert [tree.depth(id) for id in "abcd"] == [1, 2, 3, 4]
    assert tree.children("a") == ["b"]
    assert tree.common_ancestor("d", "b") == "b"
    with pytest.raises(ValueError, match="has entries"):
        tree.load({}, array("i"))


@given(parents, st.data())
def test_the_common_ancestor_is_where_two_branches_part(
    choices: list[int], data: st.DataObject
) -> None:
    tree, links = grown(choices)
    one, other = (data.draw(st.sampled_from([None, *links])) for _ in range(2))

    shared = [a for a, b in zip(tree.branch(one), tree.branch(other), strict=False) if a == b]

    assert tree.common_ancestor(one, other) == (shared[-1] if shared else None)


def test_an_entry_is_added_once_and_after_its_parent() -> None:
    tree = Tree()
    tree.add("a", None)

    with pytest.raises(ValueError, match="taken"):
        tree.add("a", None)
    with pytest.raises(KeyError):
        tree.add("b", "nowhere")
    assert list(tree) == ["a"]


def test_a_branch_of_a_hundred_thousand_entries_is_an_ordinary_one() -> None:
    tree = Tree()
    last = None
    for number in range(100_000):
        tree.add(str(number), last)
        last = str(number)

    assert tree.depth(last) == len(tree.branch(last)) == 100_000
