"""Commands of this machine: real processes, real groups, real time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.env.local import LocalEnv
from pi_nb.env.process import Command
from pi_nb.env.types import ExecError, ExecResult, Output
from pi_nb.result import Err, Ok, Result

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name != "posix", reason="commands need a POSIX system"),
]


@pytest.fixture
def env(tmp_path: Path) -> LocalEnv:
    return LocalEnv(tmp_path)


async def ended(env: LocalEnv, command: str) -> ExecResult:
    result = await env.exec(command)
    assert isinstance(result, Ok), result
    return result.value


async def refused(env: LocalEnv, command: str, **options: object) -> ExecError:
    result = await env.exec(command, **options)  # type: ignore[arg-type]
    assert isinstance(result, Err), result
    return result.error


async def until(condition: Callable[[], bool], seconds: float = 5) -> bool:
    """Whether the world comes to it in time; it tells nobody, so it is asked."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 (it sets no event)
        await asyncio.sleep(0.01)
    return condition()


def alive(pid_file: Path) -> bool:
    """Whether the process that wrote its number there still runs; a zombie does not."""
    if not pid_file.exists() or not (text := pid_file.read_text().strip()):
        return False
    try:
        return Path(f"/proc/{text}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    try:
        os.kill(int(text), 0)
    except ProcessLookupError:
        return False
    return True


async def test_what_a_command_prints_and_how_it_ends_comes_back(env: LocalEnv) -> None:
    result = await ended(env, "echo out; echo err >&2; exit 3")

    assert result == ExecResult(3, Output("out\nerr\n", False, 2, 8))


async def test_a_command_runs_in_cwd_without_input_and_without_a_pager(
    env: LocalEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "kept")
    monkeypatch.setenv("FORCE_COLOR", "1")

    result = await ended(env, 'pwd; cat; echo "$PAGER $TERM $MINE ${FORCE_COLOR-none}"')

    assert result.output.text == f"{os.path.realpath(tmp_path)}\ncat dumb kept none\n"


@pytest.mark.parametrize("command", ["", " ", "# nothing"])
async def test_a_command_that_does_nothing_succeeds(env: LocalEnv, command: str) -> None:
    assert await ended(env, command) == ExecResult(0, Output())


async def test_a_command_that_begins_with_a_minus_is_a_command(env: LocalEnv) -> None:
    assert (await ended(env, "-x")).exit_code == 127


async def test_a_death_by_signal_is_a_negative_exit_code(env: LocalEnv) -> None:
    assert (await ended(env, "kill -9 $$")).exit_code == -9


@pytest.mark.parametrize("command", ["a\0b", "echo \ud800"])
async def test_what_no_command_can_hold_is_refused(env: LocalEnv, command: str) -> None:
    assert (await refused(env, command)).code == "spawn_error"


async def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    error = await refused(LocalEnv(tmp_path / "gone"), "true")

    assert error.code == "spawn_error"
    assert str(tmp_path / "gone") in error.message


async def test_a_machine_without_a_shell_says_so(
    env: LocalEnv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert (await refused(env, "true")).code == "shell_unavailable"


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
async def test_a_time_out_that_is_none_is_refused(env: LocalEnv, timeout: float) -> None:
    """E-06."""
    error = await refused(env, "true", timeout=timeout)

    assert error.code == "unknown"
    assert "above 0" in error.message


# --- children -------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_child_in_the_background_does_not_hold_up_the_answer(
    env: LocalEnv, tmp_path: Path
) -> None:
    """E-01. And it goes on: its next word does not kill it."""
    child = "(echo $BASHPID > pid; until test -e go; do sleep 0.02; done; echo a; echo b; touch on)"
    started = time.monotonic()
    result = await ended(env, f"{child} & echo hi")

    assert time.monotonic() - started < 2
    assert result == ExecResult(0, Output("hi\n", False, 1, 3), background=True)
    assert alive(tmp_path / "pid")
    (tmp_path / "go").touch()
    assert await until((tmp_path / "on").exists)


async def test_what_is_printed_just_after_the_shell_has_ended_is_not_lost(env: LocalEnv) -> None:
    """E-03."""
    result = await ended(env, "(sleep 0.2; echo late) & echo now")

    assert result.output.text == "now\nlate\n"
    assert not result.background


@pytest.mark.slow
async def test_children_that_ignore_term_are_gone_after_a_time_out(
    env: LocalEnv, tmp_path: Path
) -> None:
    """E-02."""
    grandchild = "(trap '' TERM; echo $BASHPID > pid; while :; do :; done)"
    started = time.monotonic()
    error = await refused(env, f"trap '' TERM; echo before; {grandchild} & wait", timeout=0.5)

    assert 1.0 <= time.monotonic() - started < 2.0
    assert (error.code, error.output.text) == ("timeout", "before\n")
    assert "0.5 s" in error.message
    assert (tmp_path / "pid").exists()
    assert await until(lambda: not alive(tmp_path / "pid"))


async def test_a_command_may_clean_up_after_term(env: LocalEnv) -> None:
    command = "trap 'echo bye; exit' TERM; echo ready; while :; do sleep 0.05; done"

    error = await refused(env, command, timeout=0.3)

    # Bash also says that its `sleep` was terminated.
    assert error.output.text.startswith("ready\n")
    assert error.output.text.endswith("bye\n")


@pytest.mark.slow
async def test_after_an_abort_the_next_step_does_not_begin(env: LocalEnv, tmp_path: Path) -> None:
    """E-04."""
    signal = AbortSignal()
    call = asyncio.create_task(
        env.exec("echo started; touch at; sleep 5; touch marker", signal=signal)
    )
    assert await until((tmp_path / "at").exists)
    aborted_at = time.monotonic()
    signal.abort()

    result = await call

    assert time.monotonic() - aborted_at < 1
    assert isinstance(result, Err)
    assert (result.error.code, result.error.message) == ("aborted", "aborted by user")
    assert result.error.output.text == "started\n"
    assert not (tmp_path / "marker").exists()


async def test_an_abort_before_the_start_starts_nothing(env: LocalEnv, tmp_path: Path) -> None:
    signal = AbortSignal()
    signal.abort()

    error = await refused(env, "touch marker", signal=signal)

    assert error.code == "aborted"
    assert not (tmp_path / "marker").exists()


@pytest.mark.slow
async def test_a_cancelled_task_takes_its_group_along(env: LocalEnv, tmp_path: Path) -> None:
    call = asyncio.create_task(env.exec("(trap '' TERM; echo $BASHPID > pid; sleep 60)"))
    assert await until(lambda: alive(tmp_path / "pid"))

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert await until(lambda: not alive(tmp_path / "pid"))


@pytest.mark.slow
async def test_a_child_that_left_the_group_does_not_hold_up_the_end(env: LocalEnv) -> None:
    started = time.monotonic()
    error = await refused(env, "setsid sleep 2 & sleep 30", timeout=0.2)

    assert error.code == "timeout"
    assert time.monotonic() - started < 1.5


@pytest.mark.slow
async def test_where_the_system_cannot_tell_of_an_end_it_is_asked(
    env: LocalEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    started = time.monotonic()

    assert (await ended(env, "echo hi; exit 3")).exit_code == 3
    assert (await ended(env, "sleep 2 & echo hi")).background
    assert (await refused(env, "sleep 30", timeout=0.2)).code == "timeout"
    assert time.monotonic() - started < 3


async def test_a_kernel_that_ends_takes_its_commands_along(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from pi_nb.env.local import LocalEnv\n"
        "async def main():\n"
        "    asyncio.create_task(LocalEnv().exec('trap \"\" TERM; echo $$ > pid; sleep 60'))\n"
        "    while not Path('pid').exists() or not Path('pid').read_text():\n"
        "        await asyncio.sleep(0.01)\n"
        "    sys.exit(7)\n"
        "asyncio.run(main())\n"
    )

    kernel = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], cwd=tmp_path, timeout=20, check=False
    )

    assert kernel.returncode == 7
    assert await until(lambda: not alive(tmp_path / "pid"))


@pytest.mark.slow
async def test_a_time_out_with_the_shell_already_gone_tells_both(env: LocalEnv) -> None:
    """E-15."""
    error = await refused(
        env, "echo done; (while :; do echo x; sleep 0.1; done) & exit 7", timeout=0.5
    )

    assert (error.code, error.exit_code) == ("timeout", 7)
    assert error.output.text.startswith("done\nx\n")


# --- output ---------------------------------------------------------------------------------


@pytest.mark.slow
async def test_output_is_shown_while_it_comes_but_not_too_often(env: LocalEnv) -> None:
    seen: list[tuple[float, str]] = []

    result = await env.exec(
        "for i in $(seq 60); do echo $i; sleep 0.01; done",
        on_output=lambda output: seen.append((time.monotonic(), output.text)),
    )

    assert isinstance(result, Ok)
    assert 2 <= len(seen) <= 12
    assert all(later.startswith(text) for (_, text), (_, later) in pairwise(seen))


async def test_a_quiet_command_has_shown_all_it_said(env: LocalEnv, tmp_path: Path) -> None:
    seen: list[str] = []
    call = asyncio.create_task(
        env.exec(
            "echo a; echo b; until test -e go; do sleep 0.02; done",
            on_output=lambda output: seen.append(output.text),
        )
    )

    assert await until(lambda: seen[-1:] == ["a\nb\n"])
    (tmp_path / "go").touch()
    await call


async def test_an_exception_of_the_listener_ends_the_command(env: LocalEnv) -> None:
    def broken(_: Output) -> None:
        raise KeyError("mine")

    error = await refused(env, "echo hi; sleep 30", on_output=broken)

    assert error.code == "callback_error"
    assert "KeyError" in error.message


async def test_output_without_end_ends_the_command(tmp_path: Path) -> None:
    """E-11, with a smaller cap."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result[ExecResult, ExecError]] = loop.create_future()
    Command(
        ["/bin/sh", "-c", "while :; do echo yes; done"],
        cwd=str(tmp_path),
        environment=dict(os.environ),
        timeout=None,
        done=lambda result: loop.call_soon_threadsafe(done.set_result, result) and None,
        max_total=1_000_000,
    ).start()

    result = await asyncio.wait_for(done, 20)

    assert isinstance(result, Err)
    assert result.error.code == "unknown"
    assert result.error.output.truncated
    assert result.error.output.total_bytes == 1_000_000
    assert result.error.output.text.endswith("yes\n")


@pytest.mark.slow
async def test_two_gigabytes_of_output_end_at_the_cap(env: LocalEnv) -> None:
    """E-11."""
    error = await refused(env, "yes | head -c 2G")

    assert error.output.total_bytes == 256 * 1024 * 1024


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")
@pytest.mark.parametrize("times", [30, pytest.param(300, marks=pytest.mark.slow)])
async def test_no_descriptor_stays_open(env: LocalEnv, times: int) -> None:
    """E-18."""

    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    await ended(env, "true")
    before = count()
    for _ in range(times):
        assert (await ended(env, "seq 3000")).output.truncated

    # The thread of the last command may still be closing its own.
    assert await until(lambda: count() <= before)


async def test_many_commands_run_at_the_same_time(env: LocalEnv) -> None:
    results = await asyncio.gather(*(ended(env, f"sleep 0.2; echo {i}") for i in range(20)))

    assert [result.output.text for result in results] == [f"{i}\n" for i in range(20)]
