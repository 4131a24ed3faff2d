"""bash: run a command line and see the end of what it prints."""

from __future__ import annotations

import signal
from typing import Annotated, Any

from pydantic import Field

from pi_nb.env.capture import MAX_BYTES, MAX_LINES
from pi_nb.env.types import ExecError, ExecResult, ExecutionEnv, Output
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import TextContent
from pi_nb.result import Ok
from pi_nb.text import count

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
    notes = _cut(result.output)
    if result.background:
        notes.append("A process in the background goes on; what it prints now is not shown.")
    if result.exit_code:
        notes.append(_exit(result.exit_code))
    return _result(
        result.output,
        notes,
        is_error=result.exit_code != 0,
        details={"exitCode": result.exit_code, "background": result.background},
    )


def _not_ended(error: ExecError) -> ToolResult:
    details: dict[str, Any] = {"exitCode": error.exit_code, "failure": error.code}
    if error.code == "aborted":
        return _aborted(error, details)
    notes = [*_cut(error.output), error.message[:1].upper() + error.message[1:] + "."]
    if error.exit_code is not None:
        notes.append(
            f"The shell itself had ended with exit code {error.exit_code}, but a process in the "
            "background held its output, and was ended."
        )
    elif error.code == "timeout":
        notes.append("Give a longer timeout, or start it with & and its output in a file.")
    return _result(error.output, notes, is_error=True, details=details)


def _aborted(error: ExecError, details: dict[str, Any]) -> ToolResult:
    """What was printed stands apart, so that nobody takes it for the result (L-16)."""
    content = [TextContent(text=" ".join([error.message, *_cut(error.output)]))]
    if error.output.text:
        content.append(TextContent(text=f"Printed until then:\n{error.output.text}"))
    return ToolResult(
        content=tuple(content), details=details | _counts(error.output), is_error=True
    )


def _result(
    output: Output, notes: list[str], *, is_error: bool, details: dict[str, Any]
) -> ToolResult:
    parts = [output.text.rstrip("\n")] if output.text.strip() else ["(no output)"]
    if notes:
        parts.append(f"[{' '.join(notes)}]")
    return answer("\n\n".join(parts), details=details | _counts(output), is_error=is_error)


def _counts(output: Output) -> dict[str, Any]:
    return {
        "truncated": output.truncated,
        "totalLines": output.total_lines,
        "totalBytes": output.total_bytes,
        "fullOutputPath": output.full_path,
    }


def _cut(output: Output) -> list[str]:
    if not output.truncated:
        return []
    shown = output.text.count("\n") + (not output.text.endswith("\n"))
    size = len(output.text.encode())
    if output.full_path is not None:
        rest = f"All of it is in {output.full_path}; read it there."
    else:
        rest = "To see the rest, send the output to a file and read it."
    why_not = f" It could not be kept whole: {output.not_kept}." if output.not_kept else ""
    return [
        f"The last {count(shown, 'line')} ({size:,} bytes) of {count(output.total_lines, 'line')} "
        f"({output.total_bytes:,} bytes).{why_not} {rest}"
    ]


def _exit(code: int) -> str:
    if code > 0:
        return f"Exit code {code}."
    try:
        return f"Ended by {signal.Signals(-code).name}."
    except ValueError:
        return f"Ended by signal {-code}."
