"""Patterns of a model: those that could take for ever are refused, the others are quick."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_nb.result import Err, Ok
from pi_nb.tools.pattern import MAX_LINE, Pattern, pattern_of


def made(text: str, *, literal: bool = False, ignore_case: bool = False) -> Pattern:
    result = pattern_of(text, literal=literal, ignore_case=ignore_case)
    assert isinstance(result, Ok), result
    return result.value


@pytest.mark.parametrize(
    "text",
    [
        *("foo", "TODO|FIXME", r"\bfoo\b", r"a{3}", "^$", r"(?i)error", r"[^\s]+", ".*"),
        *(r"def \w+\(self, \w+, \w+, \w+\) -> \w+:", r"^\s*class\s+\w+\s*\("),
        *(r"(\w+\.)+foo\(", r"([^,]*,)*x", r"(foo|bar)+", r"(a|b)*c", r"(?:ab)+"),
        *(r"(\d{1,3}\.){3}\d{1,3}", r"import .* from ['\"].*['\"]", r"https?://\S+"),
        *(r"(?<!x)y(?!z)", r"\w+@\w+\.\w+", r"<(\w+)[^>]*>.*</", r"#[0-9a-fA-F]{3,8}\b"),
    ],
)
def test_what_people_search_for_is_allowed(text: str) -> None:
    assert made(text).max_line >= 150


@pytest.mark.parametrize(
    "text",
    [
        *("(a+)+$", "(a*)*b", "(.*)*x", "(a|aa)+$", "(a|a)*$", r"(\w+\s?)*$", "(x+x+)+y"),
        *("(a+){30}$", "(a+){10}$", "(a?){25}", "(a?a?){20}b", "a?" * 30 + "a" * 30),
        *("(?=(a+)+$)", "(?i)(aA|Aa)+$", "((a+)b?)*c", "(a+b+)+$", "(?:(?:a|ab)(?:bc|c)?)*$"),
        *(r"(.)\1+", r"(a)?(?(1)b|c)+", ".*.*.*.*.*.*x", "(a|ab)(b|c|)" * 15 + "x"),
        *("(?i)(?:[ſ]*s)+$", "([^a]*.)*x", "(a{1,3}){2,}$", "(?:a(?:b|bb))+$"),
    ],
)
def test_what_could_take_for_ever_is_refused_with_the_reason(text: str) -> None:
    result = pattern_of(text, literal=False, ignore_case=False)

    assert isinstance(result, Err)
    assert "could take for ever" in result.error


@pytest.mark.parametrize(
    ("text", "why"), [("(", "no regular"), ("", "empty"), ("x" * 1_001, "longer"), ("[b-a]", "no")]
)
def test_what_is_no_pattern_is_said(text: str, why: str) -> None:
    result = pattern_of(text, literal=False, ignore_case=False)

    assert isinstance(result, Err)
    assert why in result.error


def test_a_literal_is_taken_as_it_is() -> None:
    assert made("(a+)+[", literal=True).literal == "(a+)+["
    assert made("foo").literal == "foo"
    assert made("foo", ignore_case=True).literal is None
    assert made("f.o").literal is None
    assert made("foo").max_line == MAX_LINE


WORST = [
    *((r"\w+\(", "a"), (".*a.*b", "a"), (r"\s+$", " "), (".*.*=", "x"), (".*?.*?.*?z", "a")),
    *(
        ("a.*a.*a.*b", "a"),
        (r"(\w+\.)+foo\(", "a."),
        ("([^,]*,)*x", ","),
        ("(foo|bar)+x", "foobar"),
    ),
    *(("(?=.*a)(?=.*b)c", "ab"), ("(a|ab)(c|bcd)*x", "ab"), ("a{1,9}a{1,9}a{1,9}b", "a")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "unit"), WORST)
def test_the_longest_line_that_is_searched_is_quick(text: str, unit: str) -> None:
    pattern = made(text)
    line = (unit * pattern.max_line)[: pattern.max_line - 1] + "!"
    started = time.process_time()

    pattern.regex.search(line)

    assert time.process_time() - started < 5


ATTACK = """
import sys, time
from pi_nb.tools.pattern import pattern_of
for text in sys.argv[1:]:
    result = pattern_of(text, literal=False, ignore_case=False)
    if hasattr(result, "value"):
        for unit in ("a", "ab", "b", "aab", "ba"):
            for end in ("", "c"):
                line = (unit * result.value.max_line)[: result.value.max_line] + end
                result.value.regex.search(line)
"""

piece = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", r"\w", "[^a]", "$", "^"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?", "{2,}"])).map(
            lambda parts: f"(?:{parts[0]}){parts[1]}"
        ),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.lists(inner, min_size=2, max_size=4).map("".join),
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=5)
@given(st.lists(piece, min_size=20, max_size=20))
def test_no_pattern_that_is_allowed_can_be_made_to_take_for_ever(texts: list[str]) -> None:
    subprocess.run([sys.executable, "-c", ATTACK, *texts], check=True, timeout=300)


@given(st.text(max_size=20), st.booleans(), st.booleans())
def test_no_text_makes_it_raise(text: str, literal: bool, ignore_case: bool) -> None:
    result = pattern_of(text, literal=literal, ignore_case=ignore_case)

    assert isinstance(result, Err) or isinstance(result.value.regex, re.Pattern)
