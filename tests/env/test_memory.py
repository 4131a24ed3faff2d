"""What only the world in memory has: what it is made of, and a shell that a function plays."""

from __future__ import annotations

import threading
import time

import pytest

import pi_nb
from pi_nb.abort import AbortSignal
from pi_nb.env.memory import MemoryEnv
from pi_nb.env.types import ExecResult, Output
from pi_nb.result import Err, Ok, PiError

pytestmark = pytest.mark.anyio


async def test_it_holds_what_it_was_made_with() -> None:
    env = pi_nb.MemoryEnv({"/notes.md": "tea\nrice\n", "src/x": b"\xff", "empty/": ""}, "/here")

    assert await env.read_text("/notes.md") == Ok("tea\nrice\n")
    assert await env.read_bytes("src/x") == Ok(b"\xff")
    assert await env.list_dir("empty") == Ok([])
    assert (env.cwd, env.resolve("src")) == ("/here", "/here/src")


@pytest.mark.parametrize(
    "files", [{"a": "", "a/b": ""}, {"a\0": ""}, {"/..": "x"}, {"x" * 300: ""}, {"\ud800": ""}]
)
def test_files_that_cannot_be_in_one_tree_are_the_callers_mistake(files: dict[str, str]) -> None:
    with pytest.raises(PiError, match="such a tree cannot be"):
        MemoryEnv(files)


async def test_links_go_through_folders_and_upwards() -> None:
    env = MemoryEnv({"/a/b/c": "deep"}, links={"/x": "a/b", "/a/up": "../x/c", "/abs": "/a"})

    assert await env.read_text("/x/c") == Ok("deep")
    assert await env.read_text("/abs/up") == Ok("deep")
    assert env.resolve("/abs/up") == "/a/b/c"
    assert env.resolve("/abs/new/file") == "/a/new/file"


async def test_a_path_of_any_length_is_resolved_quickly() -> None:
    started = time.perf_counter()
    MemoryEnv({"/d/x": ""}).resolve("d/" * 100_000)

    assert time.perf_counter() - started < 1


async def test_the_root_stays() -> None:
    result = await MemoryEnv({"/a": ""}).remove("/", recursive=True)

    assert isinstance(result, Err)
    assert result.error.code == "permission_denied"


async def test_without_a_function_there_is_no_shell() -> None:
    result = await MemoryEnv().exec("ls")

    assert isinstance(result, Err)
    assert result.error.code == "shell_unavailable"


async def test_a_function_plays_the_shell() -> None:
    env = MemoryEnv(shell=lambda command: (3, f"\x1b[31mran {command}\n"))

    assert await env.exec("ls") == Ok(ExecResult(3, Output("ran ls\n", False, 1, 12)))


async def test_a_function_that_fails_is_an_answer() -> None:
    result = await MemoryEnv(shell=lambda command: (1 // 0, "")).exec("ls")

    assert isinstance(result, Err)
    assert result.error.code == "unknown"
    assert "ZeroDivisionError" in result.error.message


@pytest.mark.parametrize("how", ["timeout", "aborted"])
async def test_a_function_that_takes_its_time_is_left_behind(how: str) -> None:
    go_on = threading.Event()
    signal = AbortSignal()

    def slow(_: str) -> tuple[int, str]:
        if how == "aborted":
            signal.abort()
        go_on.wait(10)
        return 0, "late"

    result = await MemoryEnv(shell=slow).exec(
        "x", timeout=0.05 if how == "timeout" else None, signal=signal
    )
    go_on.set()

    assert isinstance(result, Err)
    assert result.error.code == how
