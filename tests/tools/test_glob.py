"""Globs: which paths are meant."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.result import Err, Ok
from pi_nb.tools.glob import Glob, glob_of


def made(text: str, folder: str = "/repo/src") -> Glob:
    result = glob_of(text, folder)
    assert isinstance(result, Ok), result
    return result.value


@pytest.mark.parametrize(
    ("glob", "meant", "not_meant"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/x"]),
        ("x", ["x", "a/x", "a/b/x"], ["xx", "x/a"]),
        ("src/*.ts", ["src/a.ts"], ["a.ts", "src/x/a.ts", "x/src/a.ts"]),
        ("./src/*.ts", ["src/a.ts"], ["a.ts", "src/x/a.ts"]),
        ("./*.ts", ["a.ts", "x/a.ts"], ["a.tsx"]),
        ("**/x", ["x", "a/x", "a/b/x"], ["a/xx", "x/a"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b", "b/a/c"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/bb", "a/b/c", "b"]),
        ("**", ["a", "a/b/c"], []),
        ("a/", ["a", "x/a"], ["b"]),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.t", "a.{ts,tsx}"]),
        ("{a,b/{c,d}}.x", ["a.x", "b/c.x", "b/d.x", "y/a.x"], ["c.x", "b.x"]),
        ("[ab]?[!c]", ["axd", "b.d"], ["cxd", "axc", "ax"]),
        ("[z-a]x", [], ["zx", "ax", "x"]),
        ("[]-]", ["]", "-"], ["a"]),
        ("a[", ["a["], ["a"]),
        (r"\*\[", ["*["], ["a["]),
        ("/repo/src/x/*.py", ["x/a.py"], ["a.py", "y/x/a.py"]),
        ("src", ["src", "a/src"], ["src/a"]),
        ("{,a}", ["a"], ["", "b"]),
        ("{}", [], ["", "a"]),
        ("a\nb*", ["a\nb\nc"], ["a"]),
    ],
)
def test_what_a_glob_means(glob: str, meant: list[str], not_meant: list[str]) -> None:
    """F-12: relative to the searched folder, in the form in which paths are printed."""
    matches = made(glob).matches

    assert [path for path in meant if not matches(path)] == []
    assert [path for path in not_meant if matches(path)] == []


@pytest.mark.parametrize(
    ("glob", "why"),
    [
        ("", "empty"),
        ("./", "empty"),
        ("/etc/*", "leads out"),
        ("~/x", "leads out"),
        ("../x", "leads out"),
        ("a/../../b", "leads out"),
        ("x" * 2_000, "longer"),
        ("{a,b}" * 20, "braces"),
    ],
)
def test_what_is_no_glob_is_said_in_words(glob: str, why: str) -> None:
    result = glob_of(glob, "/repo")

    assert isinstance(result, Err)
    assert why in result.error


def test_a_dot_that_is_spelled_asks_for_hidden_names() -> None:
    assert made(".github/**").hidden
    assert made("{a,.b}").hidden
    assert not made("*").hidden
    assert not made("./a.b").hidden


def test_many_stars_on_long_names_are_quick() -> None:
    started = time.perf_counter()

    assert not made("*a" * 200 + "b").matches("a" * 255)
    assert not made("**/a/" * 100 + "b").matches("/".join("a" * 2_000))
    assert time.perf_counter() - started < 1


@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
def test_no_text_makes_it_raise(text: str, path: str) -> None:
    result = glob_of(text, "/repo")

    if isinstance(result, Ok):
        assert result.value.matches(path) in (True, False)


@given(st.text("ab*?/", min_size=1, max_size=8), st.text("ab/", min_size=1, max_size=8))
def test_stars_mean_what_a_slow_search_says(text: str, path: str) -> None:
    result = glob_of(text, "/repo")
    names = [name for name in text.split("/") if name]
    if isinstance(result, Err) or "" in path.split("/"):
        return
    if len(names) == 1 and names != ["**"]:
        names = ["**", *names]
    names = [*names, "*"] if names[-1] == "**" else names

    assert result.value.matches(path) == slowly(names, path.split("/"))


def slowly(names: list[str], path: list[str]) -> bool:
    if not names:
        return not path
    if names[0] == "**":
        return slowly(names[1:], path) or (bool(path) and slowly(names, path[1:]))
    return bool(path) and spelled(names[0], path[0]) and slowly(names[1:], path[1:])


def spelled(name: str, text: str) -> bool:
    if not name:
        return not text
    if name[0] == "*":
        return spelled(name[1:], text) or (bool(text) and spelled(name, text[1:]))
    return bool(text) and name[0] in ("?", text[0]) and spelled(name[1:], text[1:])
