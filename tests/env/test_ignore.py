"""What a search passes over: held against git, which wrote the rules."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_nb.abort import Aborted, AbortSignal
from pi_nb.env.ignore import Walk
from pi_nb.env.local import LocalEnv
from pi_nb.env.memory import MemoryEnv
from pi_nb.env.types import ExecutionEnv

pytestmark = pytest.mark.anyio

with_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge here")


async def walked(env: ExecutionEnv, folder: str = ".", *, hidden: bool = False) -> list[str]:
    """Paths below the folder; those of folders end in a slash."""
    root = env.resolve(folder)
    walk = Walk(env, root, hidden=hidden)
    return [
        info.path[len(root.rstrip("/")) + 1 :] + "/" * (info.kind == "directory" and not info.link)
        async for info in walk
    ]


async def test_everything_comes_by_name_a_folder_before_what_it_holds() -> None:
    env = MemoryEnv({"b/z": "", "b/a/x": "", "a": "", "c": "", "B": ""})

    assert await walked(env) == ["B", "a", "b/", "b/a/", "b/a/x", "b/z", "c"]


async def test_git_and_node_modules_never_hidden_names_only_when_asked_for() -> None:
    env = MemoryEnv(
        {".git/x": "", "node_modules/x": "", "d/.git": "", ".env": "", ".ci/x": "", "a": ""}
    )

    assert await walked(env) == ["a", "d/"]
    assert await walked(env, hidden=True) == [".ci/", ".ci/x", ".env", "a", "d/"]


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("*.log", ["a.txt", "build/", "build/x", "src/", "src/a.txt"]),
        ("*.log\n!keep.log", ["a.txt", "build/", "build/x", "keep.log", "src/", "src/a.txt"]),
        ("build/", ["a.txt", "keep.log", "src/", "src/a.txt"]),
        ("build/\n!build/x", ["a.txt", "keep.log", "src/", "src/a.txt"]),
        ("/a.txt", ["build/", "build/x", "keep.log", "src/", "src/a.txt"]),
        ("src/a.txt\r\n# a.txt\r\n", ["a.txt", "build/", "build/x", "keep.log", "src/"]),
        ("*\n!*/\n!*.txt", ["a.txt", "build/", "src/", "src/a.txt"]),
        ("!\n[\n\\\na.txt", ["build/", "build/x", "keep.log", "src/"]),
        ("\ufeffbuild", ["a.txt", "keep.log", "src/", "src/a.txt"]),
    ],
)
async def test_lines_mean_what_they_mean_to_git(lines: str, left: list[str]) -> None:
    env = MemoryEnv(
        {"a.txt": "", "build/x": "", "keep.log": "", "src/a.txt": "", ".gitignore": lines}
    )

    assert await walked(env) == left


async def test_nearer_files_and_later_kinds_outrank_the_others() -> None:
    env = MemoryEnv(
        {
            ".gitignore": "*.a\n*.b\n*.c",
            ".ignore": "!x.b",
            ".fdignore": "!x.c\nx.d",
            **{f"{folder}x.{end}": "" for folder in ("", "in/") for end in "abcd"},
            "in/.gitignore": "!*.a",
        }
    )

    assert await walked(env) == ["in/", "in/x.a", "in/x.b", "in/x.c", "x.b", "x.c"]


async def test_files_above_the_folder_count_up_to_the_root_of_the_repository() -> None:
    env = MemoryEnv(
        {
            "/.gitignore": "far",
            "/repo/.git/HEAD": "",
            "/repo/.gitignore": "near",
            **{f"/repo/deep/er/{name}": "" for name in ("far", "near", "x")},
            "/loose/.ignore": "x",
            "/loose/deep/x": "",
        }
    )

    assert await walked(env, "/repo/deep/er") == ["far", "x"]
    assert await walked(env, "/loose/deep") == ["x"]


async def test_a_folder_searched_by_name_is_searched() -> None:
    env = MemoryEnv(
        {
            ".git/HEAD": "",
            ".gitignore": "build\n*.o",
            "build/out/x.o": "",
            "build/out/y": "",
            ".hidden/x": "",
            "node_modules/p/x": "",
        }
    )

    assert await walked(env, "build/out") == ["x.o", "y"]
    assert await walked(env, ".hidden") == ["x"]
    assert await walked(env, "node_modules/p") == ["x"]


async def test_a_link_to_a_folder_is_not_entered() -> None:
    env = MemoryEnv({"a/x": ""}, links={"a/up": "..", "b": "a"})

    assert await walked(env) == ["a/", "a/up", "a/x", "b"]


def git(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return ran.stdout


names = st.sampled_from(["a", "b", "ab", "a.x", "b.x"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
line = st.one_of(
    paths,
    paths.map(lambda path: path + "/"),
    paths.map(lambda path: "/" + path),
    st.sampled_from(
        ["*", "*.x", "a*", "*/", "a/*", "**/b", "a/**", "a/**/b", "?", "[ab]", "# a", ""]
    ),
).flatmap(lambda text: st.sampled_from([text, "!" + text]))
ignore_files = st.dictionaries(
    st.sampled_from(["", "a/", "b/", "a/b/"]), st.lists(line, max_size=4), max_size=3
)


@pytest.mark.slow
@with_git
@given(st.sets(paths, min_size=1, max_size=8), ignore_files)
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_what_git_would_add_is_what_is_walked(
    tmp_path: Path, files: set[str], ignores: dict[str, list[str]]
) -> None:
    root = tmp_path / os.urandom(8).hex()
    await asyncio.to_thread(git, tmp_path, "init", "-q", root.name)
    contents = dict.fromkeys(files, "")
    contents |= {f"{folder}.gitignore": "\n".join(lines) for folder, lines in ignores.items()}
    for path, text in contents.items():
        # A name may be a folder already, or lie below a file.
        target = root / path
        if not target.exists() and all(not above.is_file() for above in target.parents):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    asked = ("-c", "core.excludesFile=", "ls-files", "--others", "--exclude-standard")
    listed = (await asyncio.to_thread(git, root, *asked)).split()

    found = await walked(LocalEnv(root))

    assert [path for path in found if not path.endswith("/")] == sorted(
        (path for path in listed if not path.endswith(".gitignore")),
        key=lambda path: path.split("/"),
    )


async def test_a_hostile_line_does_not_hold_up_the_search() -> None:
    env = MemoryEnv({".gitignore": "*a" * 40 + "b\n*.log", "a" * 250: "", "x.log": ""})
    started = time.perf_counter()

    assert await walked(env) == ["a" * 250]
    assert time.perf_counter() - started < 1


async def test_an_abort_ends_the_walk() -> None:
    signal = AbortSignal()
    walk = Walk(MemoryEnv({f"d{n}/x": "" for n in range(9)}), "/", signal=signal)
    steps = aiter(walk)

    assert (await anext(steps)).name == "d0"
    signal.abort()
    with pytest.raises(Aborted):
        await anext(steps)


async def test_the_cost_grows_with_the_tree_and_not_with_its_square(tmp_path: Path) -> None:
    def seconds(folders: int) -> float:
        return min(_timed(folders) for _ in range(3))

    def _timed(folders: int) -> float:
        files = {f"d{n}/x{m}": "" for n in range(folders) for m in range(5)}
        env = MemoryEnv({**files, ".gitignore": "*.log\nbuild/\n"})
        started = time.process_time()
        asyncio.run(walked(env))
        return time.process_time() - started

    small = await asyncio.to_thread(seconds, 100)
    large = await asyncio.to_thread(seconds, 800)

    assert large / small < 20
