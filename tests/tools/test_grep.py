"""grep: the right lines of the right files, whatever their size, encoding and names."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.abort import Aborted, AbortSignal
from pi_nb.env.local import LocalEnv
from pi_nb.env.memory import MemoryEnv
from pi_nb.tools import grep_tool
from pi_nb.tools.text_lines import Splitter

pytestmark = pytest.mark.anyio

PROJECT = {
    "src/a.py": "import os\n\ndef one():\n    return 1\n",
    "src/b.ts": "const one = 1;\r\nconst two = 2;\r\n",
    "notes": "one (1)\nONE\n",
    ".hidden": "one\n",
    "node_modules/x": "one\n",
    ".gitignore": "*.log",
    "a.log": "one\n",
}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"pattern": "one"},
            "notes:1: one (1)\nsrc/a.py:3: def one():\nsrc/b.ts:1: const one = 1;",
        ),
        ({"pattern": r"\bone\b.*;$"}, "src/b.ts:1: const one = 1;"),
        ({"pattern": "(1)", "literal": True}, "notes:1: one (1)"),
        (
            {"pattern": "One", "ignore_case": True, "glob": "notes"},
            "notes:1: one (1)\nnotes:2: ONE",
        ),
        ({"pattern": "one", "glob": "src/*.{py,js}"}, "src/a.py:3: def one():"),
        ({"pattern": "one", "glob": "./src/*.ts"}, "src/b.ts:1: const one = 1;"),
        ({"pattern": "one", "glob": ".h*"}, ".hidden:1: one"),
        ({"pattern": "one", "path": "notes"}, "notes:1: one (1)"),
        ({"pattern": "one", "path": "a.log"}, "a.log:1: one"),
        (
            {"pattern": "one", "path": "src", "glob": "*.py"},
            "a.py:3: def one():\n\n[Paths are relative to src.]",
        ),
        ({"pattern": "^$", "glob": "*.py"}, "src/a.py:2: "),
        ({"pattern": "nothing"}, "[No match.]"),
        (
            {"pattern": "def", "context_lines": 1},
            "src/a.py-2- \nsrc/a.py:3: def one():\nsrc/a.py-4-     return 1",
        ),
    ],
)
async def test_lines_are_found(call: Any, arguments: dict[str, Any], text: str) -> None:
    result = await call(grep_tool(MemoryEnv(PROJECT)), **arguments)

    assert (result.text, result.is_error) == (text, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "(a+)+$"}, "could take for ever"),
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": "x", "path": "nowhere"}, "No such file"),
        ({"pattern": "x", "glob": "../*"}, "leads out"),
        ({"pattern": "x", "limit": 10**6}, "limit"),
    ],
)
async def test_what_cannot_be_searched_is_said(
    call: Any, arguments: dict[str, Any], words: str
) -> None:
    result = await call(grep_tool(MemoryEnv(PROJECT)), **arguments)

    assert result.is_error
    assert words in result.text


async def test_context_is_shown_once_and_gaps_are_marked(call: Any) -> None:
    lines = [f"{'hit' if n in (3, 5, 6, 20) else 'line'} {n}" for n in range(1, 24)]
    env = MemoryEnv({"a": "\n".join(lines), "b": "hit"})

    result = await call(grep_tool(env), pattern="hit", context_lines=2)

    assert [line.split(" ")[0] for line in result.text.split("\n")] == [
        *("a-1-", "a-2-", "a:3:", "a-4-", "a:5:", "a:6:", "a-7-", "a-8-", "--"),
        *("a-18-", "a-19-", "a:20:", "a-21-", "a-22-", "--", "b:1:"),
    ]


async def test_the_limit_counts_matches_and_says_if_there_are_more(call: Any) -> None:
    grep = grep_tool(MemoryEnv({"a": "hit\n" * 150, "b": "hit\nhit\nlast\n"}))

    many = await call(grep, pattern="hit")
    two = await call(grep, pattern="hit", path="b", limit=2, context_lines=1)

    assert many.text.count("a:") == 100
    assert many.text.endswith(
        "[The first 100 matches; there are more. Narrow the pattern or the glob.]"
    )
    assert two.text == "b:1: hit\nb:2: hit\nb-3- last"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
async def test_a_byte_order_mark_says_how_to_read(call: Any, encoding: str) -> None:
    """F-16."""
    env = MemoryEnv({"x": ("\ufeff" + "fünf 😀\r\nsechs\r\n" * 100_000).encode(encoding)})

    result = await call(grep_tool(env), pattern="^f.nf 😀$", limit=2)

    assert result.text.startswith("x:1: fünf 😀\nx:3: fünf 😀\n\n[The first 2 matches")


async def test_a_lone_carriage_return_is_part_of_its_line(call: Any) -> None:
    """F-16."""
    env = MemoryEnv({"x": b"one\rtwo\r\nthree\r"})

    result = await call(grep_tool(env), pattern="t")

    assert result.text == "x:1: one\\rtwo\nx:2: three\\r"


async def test_what_is_no_text_is_passed_over_and_counted(call: Any) -> None:
    env = MemoryEnv({"a": b"\x7fELF\0hit", "b": b"caf\xe9 hit " + b"x" * 50, "c": "", "d/": ""})
    grep = grep_tool(env)

    folder = await call(grep, pattern="hit")
    file = await call(grep, pattern="hit", path="a")

    assert folder.text.startswith("b:1: caf\ufffd hit")
    assert folder.text.endswith("[1 file without text passed over.]")
    assert file.is_error


async def test_a_hostile_line_or_name_is_text(call: Any) -> None:
    env = MemoryEnv({"a\nb": "hit \x1b[2J\u202e"})

    assert (await call(grep_tool(env), pattern="hit")).text == "a\\nb:1: hit \\x1b[2J\\u202e"


async def test_of_a_long_line_the_part_around_the_match_is_shown(call: Any) -> None:
    env = MemoryEnv({"x": "a" * 5_000 + "hit" + "b" * 5_000})

    result = await call(grep_tool(env), pattern="hit")

    assert result.text.startswith("x:1: [4,875 characters]a")
    assert "ahitb" in result.text
    assert result.text.endswith("b[4,628 characters]")


async def test_of_a_line_of_megabytes_the_beginning_counts_and_that_is_said(call: Any) -> None:
    """F-16."""
    env = MemoryEnv({"x": "hit" + "a" * 3_000_000 + "end\nend\n"})
    grep = grep_tool(env)

    result = await call(grep, pattern="end")

    assert result.text.startswith("x:2: end\n\n[Of 1 long line the first 100,000 characters")


@pytest.mark.slow
async def test_memory_stays_small_however_large_the_file_is(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    """F-16."""
    with (tmp_path / "x").open("w") as file:
        for _ in range(8):
            file.write("a line of a log that says nothing\n" * 30_000)
        file.write("before\nhit\nafter\n")
    tracemalloc.start()

    result = await call(grep_tool(env), pattern="hit", literal=True, context_lines=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert result.text == "x-240001- before\nx:240002: hit\nx-240003- after"
    assert peak < 6_000_000


async def test_an_abort_ends_it_within_a_second(env: LocalEnv, call: Any, tmp_path: Path) -> None:
    for n in range(60):
        (tmp_path / f"d{n}").mkdir()
        (tmp_path / f"d{n}" / "x").write_text("a line\n" * 100_000)
    signal = AbortSignal()
    searching = asyncio.create_task(call(grep_tool(env), signal, pattern=r"n\w+ here"))
    await asyncio.sleep(0.1)  # nothing tells that it is in the middle
    started = time.perf_counter()
    signal.abort()

    with pytest.raises(Aborted):
        await searching
    assert time.perf_counter() - started < 1


async def test_a_search_ends_when_its_time_is_over(call: Any) -> None:
    env = MemoryEnv({f"d/{n}": "a line\n" * 2_000 for n in range(500)})
    started = time.perf_counter()

    result = await call(grep_tool(env, seconds=0.1), pattern="n[o]")

    assert time.perf_counter() - started < 2
    assert "[No match. Ended for its time in file" in result.text


async def test_a_link_is_no_file_of_a_folder_but_may_be_named(call: Any) -> None:
    env = MemoryEnv({"in/a": "hit", "secret": "hit"}, links={"in/way": "../secret"})
    grep = grep_tool(env)

    assert (await call(grep, pattern="hit", path="in")).text.startswith("a:1: hit\n\n")
    assert (await call(grep, pattern="hit", path="in/way")).text == "secret:1: hit"


@given(st.lists(st.text("a\r\n", max_size=12), max_size=8), st.integers(1, 5))
def test_however_the_pieces_come_the_lines_are_the_same(pieces: list[str], longest: int) -> None:
    whole = "".join(pieces)
    splitter = Splitter(longest)
    found: list[str] = []
    for piece in pieces:
        found += splitter.lines(piece, last=False)
    found += splitter.lines("", last=True)
    expected = whole.split("\n")

    assert found == [
        line[:longest].removesuffix("\r") if place < len(expected) - 1 else line[:longest]
        for place, line in enumerate(expected)
        if line or place < len(expected) - 1
    ]
    assert splitter.cut == sum(len(line) > longest for line in expected)
