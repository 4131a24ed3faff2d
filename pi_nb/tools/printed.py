"""What was printed, as a tool's result: the end of it, and in brackets what else to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pi_nb.env.types import Output
from pi_nb.loop.types import ToolResult, answer
from pi_nb.messages import TextContent
from pi_nb.text import count


def printed(
    output: Output, notes: Sequence[str], *, is_error: bool, details: Mapping[str, Any]
) -> ToolResult:
    """The end of what was printed, then the notes, the first of them on what was cut."""
    notes = [*cut(output), *notes]
    parts = [output.text.rstrip("\n")] if output.text.strip() else ["(no output)"]
    if notes:
        parts.append(f"[{' '.join(notes)}]")
    return answer("\n\n".join(parts), details={**details, **_counts(output)}, is_error=is_error)


def stopped(output: Output, message: str, *, details: Mapping[str, Any]) -> ToolResult:
    """A call that was stopped. What was printed stands apart, so that nobody takes it for
    the result (L-16)."""
    content = [TextContent(text=" ".join([message, *cut(output)]))]
    if output.text:
        content.append(TextContent(text=f"Printed until then:\n{output.text}"))
    return ToolResult(content=tuple(content), details={**details, **_counts(output)}, is_error=True)


def cut(output: Output) -> list[str]:
    """How much is left out and where the whole is; nothing where nothing is left out."""
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


def _counts(output: Output) -> dict[str, Any]:
    return {
        "truncated": output.truncated,
        "totalLines": output.total_lines,
        "totalBytes": output.total_bytes,
        "fullOutputPath": output.full_path,
    }
