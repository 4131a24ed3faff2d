"""Diffs of bounded size and cost, and right ones."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.tools.diff import change_of, common_prefix

lines = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=30).map(
    lambda found: "".join(f"{line}\n" for line in found)
)


@given(lines, lines)
def test_a_diff_turns_the_one_text_into_the_other(before: str, after: str) -> None:
    change = change_of("x", before, after)

    old = before.split("\n")[:-1]
    made: list[str] = []
    at = 0
    for line in change.diff.split("\n") if change.diff else []:
        if line.startswith("@@"):
            start, size = map(int, line.split()[1][1:].split(","))
            start -= size > 0
            made += old[at:start]
            at = start
        elif line[0] == " ":
            made.append(line[1:])
            at += 1
        elif line[0] == "-":
            assert old[at] == line[1:]
            at += 1
        else:
            made.append(line[1:])
    assert made + old[at:] == after.split("\n")[:-1]
    assert change.added - change.removed == after.count("\n") - before.count("\n")


def test_changes_far_apart_are_told_apart() -> None:
    old = [str(n) for n in range(100)]
    new = [*old]
    new[10], new[90] = "x", "y"

    change = change_of("x", "\n".join(old), "\n".join(new))

    assert change.diff.count("@@ -") == 2
    assert (change.added, change.removed) == (2, 2)


@pytest.mark.parametrize("size", [2_000, 100_000])
def test_two_texts_without_anything_in_common_are_quick_and_short(size: int) -> None:
    rng = random.Random(1)
    before = "\n".join(str(rng.random()) for _ in range(size))
    after = "\n".join(str(rng.random()) for _ in range(size))
    started = time.perf_counter()

    change = change_of("x", before, after)

    assert time.perf_counter() - started < 2
    assert change.diff.count("\n") == 200
    assert change.diff.endswith("of the diff left out]")
    assert (change.added, change.removed) == (size, size)


@given(st.text("ab", max_size=20), st.text("ab", max_size=20))
def test_the_common_beginning_is_the_longest(a: str, b: str) -> None:
    length = common_prefix(a, b)

    assert a[:length] == b[:length]
    assert length in (len(a), len(b)) or a[length] != b[length]
