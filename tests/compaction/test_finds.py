"""Paths, names, numbers, addresses and errors in plain text: what counts, and what does not."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.compaction.finds import (
    ERROR,
    LONGEST,
    error_lines,
    identifiers,
    numbers,
    places,
    without_line_numbers,
)
from pi_nb.text import scrub


def paths_in(text: str) -> list[str]:
    return [find.text for find in places(text)[0] if find.kind == "path"]


def names_in(text: str) -> list[str]:
    return list(identifiers(places(text)[1]))


def numbers_in(text: str) -> list[str]:
    return list(numbers(places(text)[1]))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("look at src/cart.py:87 again", "src/cart.py"),
        ("(see ./notes.md).", "notes.md"),
        ("修改src/a.py里的函数", "src/a.py"),
        ("in `packages/agent/src` too", "packages/agent/src"),
        ("everything under docs/, please", "docs/"),
        ("/etc/hosts is wrong", "/etc/hosts"),
        ("~/.config/pi/settings.json", "~/.config/pi/settings.json"),
        (r"C:\Users\me\a.txt", r"C:\Users\me\a.txt"),
        ("+++ b/src/cart.py", "src/cart.py"),
        ("--file=conf/app.toml", "conf/app.toml"),
        ("pytest tests/test_a.py::test_b", "tests/test_a.py"),
        ("the Makefile and no more", "Makefile"),
        ("put it in .gitignore", ".gitignore"),
    ],
)
def test_a_path_is_found_without_what_stands_around_it(text: str, path: str) -> None:
    assert paths_in(text) == [path]


@pytest.mark.parametrize(
    "text",
    [
        "read and/or write, yes/no, client/server, include/exclude",
        "on 12/05/2024 at 10:30",
        "e.g. TCP/IP, i.e. a protocol",
        "he/she/they",
        "3/4 of it",
        "a // comment and a /* comment */",
        "Node.js and Vue.js are no files",
        "</div> and <br/>",
    ],
)
def test_a_slash_alone_makes_no_path(text: str) -> None:
    assert paths_in(text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("the `retries` of max_retries", ["retries", "max_retries"]),
        ("HttpClient uses readFile and JSON_MAX", ["HttpClient", "readFile", "JSON_MAX"]),
        ("call obj.method() with --no-cache", ["obj.method", "--no-cache"]),
        ("torch.Tensor or std::vector", ["torch.Tensor", "std::vector"]),
        ("改foo_bar和fooBar", ["foo_bar", "fooBar"]),
        ("__init__ of it", ["__init__"]),
    ],
)
def test_names_of_code_are_found_by_their_form(text: str, names: list[str]) -> None:
    assert sorted(names_in(text)) == sorted(names)


@pytest.mark.parametrize(
    "text",
    [
        "The quick Brown fox, and GitHub or JavaScript on an iPhone.",
        "e.g. this, i.e. that, z.B. jenes",
        "It ends.Then it goes on in the file.The end",
        "visit example.com",
        "`true` and `null` and `x`",
        "snake-case-words are words",
        "der naïve Fußgänger",
    ],
)
def test_words_of_a_language_are_no_names_of_code(text: str) -> None:
    assert names_in(text) == []


HASHES = (
    "3f2a9bc",
    "0123456789abcdef0123456789abcdef01234567",
    "550e8400-e29b-41d4-a716-446655440000",
    "toolu_01GD2id3D5ig84d7088f6",
    "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQgZGF0YSA0NTY3ODkw" * 5,
)


@pytest.mark.parametrize("word", HASHES, ids=lambda word: word[:12])
def test_hashes_and_ids_are_neither_names_nor_numbers_unless_asked_for(word: str) -> None:
    text = f"commit {word} is it"

    assert places(text)[0] == []
    assert names_in(text) == numbers_in(text) == []
    assert [find.kind for find in places(text, hashes=True)[0]] == ["hash"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("20 ms, 3.5 GB and 15%", ["20 ms", "3.5 GB", "15%"]),
        ("$12.50 for 1,200 rows", ["$12.50", "1,200 rows"]),
        ("a window of 8k tokens", ["8k tokens"]),
        ("port 8080, version 1.6.0", ["8080", "1.6.0"]),
        ("超时300毫秒，共12个", ["300毫秒", "12个"]),
        ("nach 30 Sekunden", ["30 Sekunden"]),
        ("since 2025-11-20", ["2025-11-20"]),
    ],
)
def test_numbers_with_a_unit_or_of_three_digits_are_found(text: str, found: list[str]) -> None:
    assert numbers_in(text) == found


@pytest.mark.parametrize(
    "text", ["1 or 2 of them, or 12", "at 10:32:11", "issue #45678", "utf8, i18n, L123, x86_64"]
)
def test_small_counts_times_and_parts_of_words_are_no_numbers(text: str) -> None:
    assert numbers_in(text) == []


NUMBERED = (
    "101\tdef a():\n102\t    pass",
    "   119: x\n   120: y",
    "118 alpha\n119 beta\n120 gamma",
    "998→a\n999→b",
    "@@ -101,7 +120,9 @@ def a():",
)


@pytest.mark.parametrize("output", NUMBERED)
def test_the_numbers_that_a_tool_puts_before_its_lines_are_none(output: str) -> None:
    assert numbers_in(without_line_numbers(output)) == []


def test_a_number_that_begins_a_line_by_itself_stays() -> None:
    assert numbers_in(without_line_numbers("found:\n404 users\n200 rows")) == [
        "404 users",
        "200 rows",
    ]


PRINTED = """\
Traceback (most recent call last):
  File "a.py", line 3, in f
    raise ValueError("x must be positive")
ValueError: x must be positive
src/a.c:12:5: error: expected ';'
error[E0382]: borrow of moved value
bash: foo: command not found
2 failed, 3 passed
make: *** [all] Error 2
Uncaught TypeError: x is undefined
npm ERR! code ELIFECYCLE
错误：文件不存在
0 errors
no errors
errors: []
const error = 1;
except ValueError:
if (error) {
handled 12 errors of that kind in the design"""


def test_an_error_is_the_line_that_says_what_went_wrong_and_no_line_of_code() -> None:
    assert list(error_lines(PRINTED))[:-1] == [
        "ValueError: x must be positive",
        "src/a.c:12:5: error: expected ';'",
        "error[E0382]: borrow of moved value",
        "bash: foo: command not found",
        "2 failed, 3 passed",
        "make: *** [all] Error 2",
        "Uncaught TypeError: x is undefined",
        "npm ERR! code ELIFECYCLE",
        "错误：文件不存在",
    ]


@given(st.text(max_size=300))
def test_what_is_found_stands_in_the_text_and_is_never_long(drawn: str) -> None:
    text = scrub(drawn)
    finds, rest = places(text, hashes=True)

    assert all(find.text in text and len(find.text) <= LONGEST for find in finds)
    assert all(name in rest for name in identifiers(rest))
    assert all(number in rest for number in numbers(rest))
    assert all(line in text and len(line) <= ERROR for line in error_lines(text))


FINDERS: dict[str, Callable[[str], object]] = {
    "places": places,
    "identifiers": lambda text: list(identifiers(text)),
    "numbers": lambda text: list(numbers(text)),
    "errors": lambda text: list(error_lines(text)),
    "line numbers": without_line_numbers,
}


@pytest.mark.parametrize(
    "piece", ["a", "a.", "a/", "`a ", "1,", "1 ", "--a-", "E  ", "=a.b:", ":1"]
)
@pytest.mark.parametrize("name", FINDERS)
def test_the_time_grows_with_the_text_and_not_with_its_square(name: str, piece: str) -> None:
    def seconds(size: int) -> float:
        started = time.process_time()
        FINDERS[name](piece * (size // len(piece)))
        return time.process_time() - started

    seconds(1_000)
    short, long = min(seconds(10_000) for _ in range(3)), seconds(100_000)

    assert long < 60 * max(short, 0.002)
