"""find and ls: what is where, on a disk and in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pi_nb.abort import Aborted, AbortSignal
from pi_nb.env.local import LocalEnv
from pi_nb.env.memory import MemoryEnv
from pi_nb.tools import all_tools, default_tools, find_tool, ls_tool

pytestmark = pytest.mark.anyio

PROJECT = {
    "src/a.ts": "",
    "src/deep/b.ts": "",
    "src/src/c.ts": "",
    "x": "",
    "docs/x": "",
    "node_modules/x": "",
    ".github/x": "",
    ".gitignore": "*.log\nout/",
    "a.log": "",
    "out/x": "",
}


@pytest.mark.parametrize(
    ("pattern", "path", "lines"),
    [
        ("src/*.ts", ".", ["src/a.ts"]),
        ("./src/*.ts", ".", ["src/a.ts"]),
        ("**/x", ".", ["docs/x", "x"]),
        ("x", ".", ["docs/x", "x"]),
        ("*.ts", ".", ["src/a.ts", "src/deep/b.ts", "src/src/c.ts"]),
        ("src", ".", ["src/", "src/src/"]),
        ("src/", ".", ["src/", "src/src/"]),
        (".github/**", ".", [".github/x"]),
        ("*.log", ".", ["[Nothing found.]"]),
        ("src/*.ts", "src", ["src/c.ts", "", "[Paths are relative to src.]"]),
        ("./*.ts", "src/deep", ["b.ts", "", "[Paths are relative to src/deep.]"]),
        ("x", "out", ["x", "", "[Paths are relative to out.]"]),
    ],
)
@pytest.mark.parametrize("where", ["disk", "memory", "memory in a folder named src"])
async def test_a_glob_is_relative_to_the_searched_folder_and_prints_as_it_reads(
    call: Any, tmp_path: Path, where: str, pattern: str, path: str, lines: list[str]
) -> None:
    """F-12: also where a folder above bears the name that is sought."""
    if where == "disk":
        root = tmp_path / "src"
        for name, text in PROJECT.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        env: Any = LocalEnv(root)
    else:
        env = MemoryEnv(PROJECT, "/" if where == "memory" else "/src")

    result = await call(find_tool(env), pattern=pattern, path=path)

    assert result.text.split("\n") == lines
    assert not result.is_error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "../x"}, "leads out"),
        ({"pattern": "*", "path": "nowhere"}, "No such file"),
        ({"pattern": "*", "path": "x"}, "x is not a folder."),
        ({"pattern": ""}, "empty"),
        ({"pattern": "*", "limit": 0}, "limit"),
    ],
)
async def test_what_cannot_be_searched_is_said(
    call: Any, arguments: dict[str, Any], words: str
) -> None:
    result = await call(find_tool(MemoryEnv(PROJECT)), **arguments)

    assert result.is_error
    assert words in result.text


async def test_more_than_the_limit_is_said(call: Any) -> None:
    env = MemoryEnv({f"d/{n:04}": "" for n in range(1_200)})
    find = find_tool(env)

    many = await call(find, pattern="d/*")
    few = await call(find, pattern="d/*", limit=2)
    exact = await call(find, pattern="d/000*", limit=10)

    assert many.text.endswith("0999\n\n[The first 1,000; there are more. Narrow the glob.]")
    assert few.text == "d/0000\nd/0001\n\n[The first 2; there are more. Narrow the glob.]"
    assert exact.text.endswith("d/0009")


async def test_an_answer_has_at_most_fifty_kilobytes(call: Any) -> None:
    env = MemoryEnv({f"{'d' * 200}/{n:03}{'x' * 200}": "" for n in range(300)})

    result = await call(find_tool(env), pattern="**")

    assert 49_000 < len(result.text) < 50_200
    assert "there are more" in result.text


async def test_a_hostile_name_is_text(call: Any) -> None:
    env = MemoryEnv({"a\n[Nothing found.]": "", "\x1b[31mred": "", "\u202egnp.exe": ""})

    result = await call(find_tool(env), pattern="*")

    assert result.text.split("\n") == ["\\x1b[31mred", "a\\n[Nothing found.]", "\\u202egnp.exe"]


@pytest.mark.skipif(os.name != "posix" or os.uname().sysname == "Darwin", reason="bytes as names")
async def test_a_name_that_is_no_text_is_shown(env: LocalEnv, call: Any, tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))).touch()

    assert (await call(find_tool(env), pattern="caf*")).text == "caf\\udce9"
    assert (await call(ls_tool(env))).text == "caf\\udce9"


@pytest.mark.parametrize("tool", [find_tool, ls_tool])
async def test_an_abort_ends_it(call: Any, tool: Any) -> None:
    signal = AbortSignal()
    signal.abort()
    arguments = {"pattern": "*"} if tool is find_tool else {}

    with pytest.raises(Aborted):
        await call(tool(MemoryEnv(PROJECT)), signal, **arguments)


# --- ls -------------------------------------------------------------------------------------


async def test_a_folder_is_listed_whole_and_what_searches_pass_over_is_said(call: Any) -> None:
    env = MemoryEnv(PROJECT, links={"way": "src", "broken": "nowhere"})

    result = await call(ls_tool(env))

    assert result.text == (
        ".github/\n.gitignore\na.log\nbroken@\ndocs/\nnode_modules/\nout/\nsrc/\nway@\nx\n\n"
        "[Ignored by find and grep: a.log, node_modules/, out/.]"
    )
    assert (await call(ls_tool(env), path="way")).text == "a.ts\ndeep/\nsrc/"


async def test_a_long_folder_ends_at_the_limit(call: Any) -> None:
    ls = ls_tool(MemoryEnv({f"{n:04}": "" for n in range(700)} | {"empty/": ""}))

    assert (await call(ls)).text.endswith(
        "0499\n\n[The first 500 of 701 entries. Use find for the rest.]"
    )
    assert (await call(ls, limit=1)).text.startswith("0000\n\n[The first 1 of")
    assert (await call(ls, path="empty")).text == "[The folder is empty.]"


@pytest.mark.parametrize("path", ["0001", "nowhere"])
async def test_what_is_no_folder_is_not_listed(call: Any, path: str) -> None:
    assert (await call(ls_tool(MemoryEnv({"0001": ""})), path=path)).is_error


def test_the_default_tools_stay_four() -> None:
    env = MemoryEnv()

    assert [made.name for made in default_tools(env)] == ["read", "bash", "edit", "write"]
    assert [made.name for made in all_tools(env)] == [
        *("read", "bash", "edit", "write", "ls", "find", "grep")
    ]
    assert [made.name for made in all_tools(env) if made.changes] == ["bash", "edit", "write"]
