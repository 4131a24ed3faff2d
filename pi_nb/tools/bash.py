"""bash: run a command line and see the end of what it prints."""

from __future__ import annotations

import signal
from typing import Annotated

from pydantic import Field

from pi_nb.env.capture import MAX_BYTES, MAX_LINES
from pi_nb.env.types import ExecError, ExecResult, ExecutionEnv
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.result import Ok

from .printed import printed, stopped

DEFAULT_TIMEOUT = 120
"""Seconds. A model forgets to ask for one, and without any a run would hang for good."""
MAX_TIMEOUT = 3_600

_DESCRIPTION = (
    "Run a command in bash, in the working directory. Gives stdout and stderr together, the "
    f"last {MAX_LINES:,} lines or {MAX_BYTES // 1000} kB of them, and the exit code if it is not "
    "0. There is no input and no terminal. What you start with & goes on after the answer; send "
    "its output to a file to read it later."
)


def bash_tool(env: ExecutionEnv) -> AgentTool:
    """The tool `bash` on an environment."""

    @tool(description=_DESCRIPTION, label="Run", changes=True)
    async def bash(
        context: ToolContext,
        command: Annotated[str, "a command line"],
        timeout: Annotated[
            float,
            Field(
                gt=0,
                le=MAX_TIMEOUT,
                allow_inf_nan=False,
                description=f"seconds until it is ended, at most {MAX_TIMEOUT}",
            ),
        ] = DEFAULT_TIMEOUT,
    ) -> ToolResult:
        result = await env.exec(
            command,
            timeout=timeout,
            signal=context.signal,
            on_output=lambda output: context.update(answer(output.text)),
        )
        return _ended(result.value) if isinstance(result, Ok) else _not_ended(result.error)

    return bash


def _ended(result: ExecResult) -> ToolResult:
    notes = []
    if result.background:
        notes.append("A process in the background goes on; what it prints now is not shown.")
    if result.exit_code:
        notes.append(_exit(result.exit_code))
    return printed(
        result.output,
        notes,
        is_error=result.exit_code != 0,
        details={"exitCode": result.exit_code, "background": result.background},
    )


def _not_ended(error: ExecError) -> ToolResult:
    details = {"exitCode": error.exit_code, "failure": error.code}
    if error.code == "aborted":
        return stopped(error.output, error.message, details=details)
    notes = [error.message[:1].upper() + error.message[1:] + "."]
    if error.exit_code is not None:
        notes.append(
            f"The shell itself had ended with exit code {error.exit_code}, but a process in the "
            "background held its output, and was ended."
        )
    elif error.code == "timeout":
        notes.append("Give a longer timeout, or start it with & and its output in a file.")
    return printed(error.output, notes, is_error=True, details=details)


def _exit(code: int) -> str:
    if code > 0:
        return f"Exit code {code}."
    try:
        return f"Ended by {signal.Signals(-code).name}."
    except ValueError:
        return f"Ended by signal {-code}."
