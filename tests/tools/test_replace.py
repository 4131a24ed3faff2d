"""Replacing pieces of a text: only what is meant changes, or nothing does."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pi_nb.result import Err, Ok
from pi_nb.tools.replace import Replacement, replace


def made(text: str, *pairs: tuple[str, str]) -> str:
    result = replace(text, [Replacement(old, new) for old, new in pairs])
    assert isinstance(result, Ok), result
    return result.value


def refused(text: str, *pairs: tuple[str, str]) -> str:
    result = replace(text, [Replacement(old, new) for old, new in pairs])
    assert isinstance(result, Err), result
    return result.error


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        # F-01: any style matches, what is not touched stays, new lines follow their place
        ("a\r\nb\nc\r\n", "b", "B\nB2", "a\r\nB\nB2\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\nc\r\n"),
        ("a\r\nb\nc\r\nd", "a\nb\nc\nd", "a\nB\nc\nD", "a\r\nB\nc\r\nD"),
        ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
        ("a\nb\n", "a\r\nb\r\n", "A\r\nb\r\n", "A\nb\n"),
        ("one", "one", "one\ntwo", "one\ntwo"),
        ("a\r\nb\r\n", "a\nb\n", "", ""),
        ("a\r\nb\r\nc", "a\nb", "ab", "ab\r\nc"),
        # F-02
        ("\ufeffx = 1\n", "x = 1", "x = 2", "\ufeffx = 2\n"),
        ("\ufeffx = 1\n", "\ufeffx = 1", "y", "\ufeffy\n"),
        # F-03: what looks the same is found; the rest of the file, and of the match, stays
        ("“a”\n“b” ｗｉｄｅ\n“c”\n", '"b" wide', '"b" width', "“a”\n“b” ｗｉｄth\n“c”\n"),
        ("x – y — z", "x - y", "x - w", "x – w — z"),
        ("a  \nb\t\nc  \n", "a\nb\nc", "a\nB\nc", "a  \nB\t\nc  \n"),
        ("say 'x'", "say ‘x’", "say ‘x’!", "say 'x'!"),
        ("“a”", '"a"', "'a'", "'a'"),
        ("a “b”", 'a "b"', "a «b»", "a «b»"),
        ("no\u00a0break", "no break", "no brake", "no\u00a0brake"),
        # the exact text wins over one that looks like it
        ('“a” "a"', '"a"', "b", "“a” b"),
    ],
)
def test_only_what_is_meant_changes(text: str, old: str, new: str, after: str) -> None:
    assert made(text, (old, new)) == after


def test_all_edits_refer_to_the_original() -> None:
    assert (
        made("one two three", ("one", "two"), ("two", "three"), ("three", "one")) == "two three one"
    )


def test_edits_that_touch_are_no_overlap() -> None:
    assert made("abcd", ("ab", "x"), ("cd", "y")) == "xy"


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("abc", "x"), ("cde", "y")], "edits[0] and edits[1] overlap"),
        ([("e", "x")], "3 times"),
        ([("ee", "x")], "edits[0]: the text to replace is in the file 2 times"),
        ([("", "x")], "is empty"),
        ([("a", "a")], "the same"),
        ([("zzz", "x")], "not in the file"),
        ([("a", "b"), ("zzz", "x")], "edits[1]: the text to replace is not in the file"),
    ],
)
def test_what_is_not_clear_is_refused_in_words(pairs: list[tuple[str, str]], words: str) -> None:
    """F-05."""
    assert words in refused("abcdeee", *pairs)


def test_every_problem_is_told_at_once() -> None:
    text = refused("a a", ("a", "b"), ("", "x"), ("q", "x"))

    assert [line.split(":")[0] for line in text.split("\n")] == ["edits[0]", "edits[1]", "edits[2]"]


def test_the_closest_line_is_named_where_there_is_one() -> None:
    text = "import os\n\ndef count_words(text):\n    return len(text.split())\n"

    assert "The closest line is 3: def count_words(text):" in refused(
        text, ("def count_word(text):\n    pass", "x")
    )


texts = st.text(st.sampled_from("abc “”\"'–-\r\n\tａ\ufeff"), max_size=40)


@given(texts, texts, texts, texts)
def test_bytes_outside_the_match_are_identical(before: str, old: str, after: str, new: str) -> None:
    # A match that begins or ends inside CRLF, or at the mark, would not be what was inserted.
    assume(old and not old.startswith(("\n", "\ufeff")) and not old.endswith("\r"))
    assume(not before.endswith("\r"))
    text = before + old + after

    result = replace(text, [Replacement(old, new)])

    if isinstance(result, Ok):
        assert result.value.startswith(before)
        assert result.value.endswith(after)


@given(texts, st.lists(st.tuples(texts, texts), max_size=3))
def test_nothing_makes_it_raise_and_a_mark_at_the_beginning_stays(
    text: str, pairs: list[tuple[str, str]]
) -> None:
    result = replace(text, [Replacement(old, new) for old, new in pairs])

    if isinstance(result, Ok) and text.startswith("\ufeff"):
        assert result.value.startswith("\ufeff")


@pytest.mark.parametrize(
    "text",
    ["x" * 3_000_000 + " word", " " * 3_000_000 + "word", ("y" * 99 + " \r\n") * 30_000 + "word"],
)
def test_a_word_in_megabytes_is_quick(text: str) -> None:
    """F-15."""
    started = time.perf_counter()

    assert made(text, ("word", "sword")).endswith("sword")
    assert "not in the file" in refused(text, ("no such thing at all", "x"))
    assert time.perf_counter() - started < 4
