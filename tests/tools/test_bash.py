"""bash: what the model reads when a command ends, and when it does not."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.env.local import LocalEnv
from pi_nb.loop.types import ToolResult
from pi_nb.tools import bash_tool, read_tool

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name != "posix", reason="commands need a POSIX system"),
]


@pytest.mark.parametrize(
    ("command", "text", "is_error"),
    [
        ("echo hi", "hi", False),
        ("true", "(no output)", False),
        ("echo oops >&2; exit 3", "oops\n\n[Exit code 3.]", True),
        ("false", "(no output)\n\n[Exit code 1.]", True),
        ("kill -9 $$", "(no output)\n\n[Ended by SIGKILL.]", True),
    ],
)
async def test_the_model_reads_the_output_and_how_it_ended(
    env: LocalEnv, call: Any, command: str, text: str, is_error: bool
) -> None:
    result = await call(bash_tool(env), command=command)

    assert (result.text, result.is_error) == (text, is_error)


async def test_a_long_output_ends_with_how_much_is_missing(env: LocalEnv, call: Any) -> None:
    result = await call(bash_tool(env), command="seq 3000; exit 1")

    assert result.text.startswith("1001\n")
    assert (
        "3000\n\n[The last 2,000 lines (10,000 bytes) of 3,000 lines (13,893 bytes)." in result.text
    )
    full = result.details["fullOutputPath"]
    assert f"All of it is in {full}; read it there." in result.text
    whole = await call(read_tool(env), path=full, limit=2)
    assert whole.text.startswith("1\n2\n")
    assert result.text.endswith("Exit code 1.]")
    assert result.details["truncated"]


async def test_of_one_huge_line_the_end_and_honest_numbers_are_shown(
    env: LocalEnv, call: Any
) -> None:
    """E-09."""
    result = await call(bash_tool(env), command="head -c 200000 /dev/zero | tr '\\0' x; printf END")

    assert "xEND\n\n[The last 1 line (50,000 bytes) of 1 line (200,003 bytes)." in result.text


async def test_a_time_out_keeps_what_was_printed(env: LocalEnv, call: Any) -> None:
    started = time.monotonic()
    result = await call(bash_tool(env), command="echo so far; sleep 30", timeout="0.3")

    assert time.monotonic() - started < 2
    assert result.is_error
    assert result.text.startswith("so far\n\n[Timed out after 0.3 s.")
    assert result.details["failure"] == "timeout"


@pytest.mark.slow
async def test_a_time_out_after_the_shell_has_ended_says_both(env: LocalEnv, call: Any) -> None:
    """E-15."""
    result = await call(
        bash_tool(env), command="echo done; (while :; do echo x; sleep 0.1; done) &", timeout=0.4
    )

    assert result.is_error
    assert result.text.startswith("done\nx\n")
    assert "Timed out after 0.4 s. The shell itself had ended with exit code 0" in result.text


@pytest.mark.slow
async def test_a_child_that_goes_on_is_mentioned(env: LocalEnv, call: Any) -> None:
    """E-01."""
    result = await call(bash_tool(env), command="sleep 3 & echo hi")

    assert not result.is_error
    assert result.text.startswith("hi\n\n[A process in the background goes on")


async def test_an_aborted_command_is_no_result(env: LocalEnv, call: Any) -> None:
    """L-16."""
    signal = AbortSignal()
    shown = asyncio.Event()
    running = asyncio.create_task(
        call(
            bash_tool(env),
            signal,
            lambda _: shown.set(),
            command="echo all tests passed; sleep 30",
        )
    )
    await asyncio.wait_for(shown.wait(), 5)
    signal.abort()

    result = await running

    assert result.is_error
    assert [block.text for block in result.content] == [
        "aborted by user",
        "Printed until then:\nall tests passed\n",
    ]
    assert result.details["failure"] == "aborted"


@pytest.mark.slow
async def test_output_is_shown_while_it_comes(env: LocalEnv, call: Any) -> None:
    seen: list[ToolResult] = []

    await call(bash_tool(env), None, seen.append, command="echo a; sleep 0.3; echo b; sleep 0.3")

    assert [part.text for part in seen] == ["a\n", "a\nb\n"]


@pytest.mark.parametrize("timeout", [0, -1, 10**12, "NaN", float("nan"), float("inf"), "soon"])
async def test_a_time_out_that_makes_no_sense_is_refused(
    env: LocalEnv, call: Any, timeout: Any
) -> None:
    """E-06."""
    result = await call(bash_tool(env), command="echo ran", timeout=timeout)

    assert result.is_error
    assert "`timeout`" in result.text
    assert "ran" not in result.text


async def test_a_time_out_of_null_is_the_default(env: LocalEnv, call: Any) -> None:
    assert (await call(bash_tool(env), command="echo ran", timeout=None)).text == "ran"
