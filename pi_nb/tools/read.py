"""read: some lines of a file, or a picture."""

from __future__ import annotations

import asyncio
import codecs
from typing import Annotated

from pydantic import Field

from pi_nb.abort import AbortSignal
from pi_nb.env.types import ExecutionEnv, FileError, FileInfo
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import TextContent
from pi_nb.result import Err, Ok
from pi_nb.text import count

from .content import HEAD, kind_of
from .images import MAX_BYTES as MAX_IMAGE
from .images import fit
from .paths import as_shown, find
from .window import MAX_BYTES, MAX_LINES, Window

_FIRST_CHUNK = 65_536
_CHUNK = 1_048_576

_DESCRIPTION = (
    f"Read a text file: at most {MAX_LINES:,} lines or {MAX_BYTES // 1000} kB at a time; use "
    "offset and limit for the rest. Shows pictures (PNG, JPEG, GIF, WebP) as such."
)


def read_tool(env: ExecutionEnv) -> AgentTool:
    """The tool `read` on an environment."""

    @tool(description=_DESCRIPTION, label="Read")
    async def read(
        context: ToolContext,
        path: Annotated[str, "the file"],
        offset: Annotated[int | None, Field(ge=1, description="first line, from 1")] = None,
        limit: Annotated[int | None, Field(ge=1, description="number of lines")] = None,
    ) -> ToolResult:
        found = await find(env, path)
        if isinstance(found, Err):
            return _refused(found.error)
        file = found.value
        if file.kind == "directory":
            return _error(f"{_name(env, file)} is a directory. List it with ls.")
        head = await env.read_bytes(file.path, limit=HEAD)
        if isinstance(head, Err):
            return _refused(head.error)
        kind = kind_of(head.value)
        if kind == "binary":
            return _error(
                f"{_name(env, file)} is a binary file of {count(file.size, 'byte')} and cannot be "
                "shown. Look into it with bash, for example with file or xxd."
            )
        if kind.startswith("image/"):
            return await _image(env, file, context.signal)
        window = Window(offset or 1, limit or MAX_LINES)
        failed = await _fill(env, file, window, kind == "utf-16", context.signal)
        if failed is not None:
            return _refused(failed)
        return _shown(env, file, window, utf16=kind == "utf-16")

    return read


async def _fill(
    env: ExecutionEnv, file: FileInfo, window: Window, utf16: bool, signal: AbortSignal
) -> FileError | None:
    """Feed the file until the window is full or the file is over."""
    # Known as UTF-8 the window need not know of anything else; a byte order mark goes here.
    decoder = codecs.getincrementaldecoder("utf-16")("replace") if utf16 else None
    at, size = 0, _FIRST_CHUNK
    while not window.full:
        signal.raise_if_aborted()
        chunk = await env.read_bytes(file.path, offset=at, limit=size)
        if isinstance(chunk, Err):
            return chunk.error
        data = chunk.value
        if not data:
            break
        text = decoder.decode(data).encode() if decoder else data
        window.feed(text.removeprefix(codecs.BOM_UTF8) if at == 0 else text)
        at, size = at + len(data), _CHUNK
    window.end()
    if window.full and not window.more:
        rest = await env.read_bytes(file.path, offset=at, limit=1)
        window.more = isinstance(rest, Ok) and bool(rest.value)
    return None


def _shown(env: ExecutionEnv, file: FileInfo, window: Window, *, utf16: bool) -> ToolResult:
    name = _name(env, file)
    if not window.lines and window.first == 1:
        return answer(f"[{name} is empty.]")
    if not window.lines:
        lines = count(window.seen, "line")
        return _error(f"{name} has {lines}; offset {window.first} is beyond its end.")
    text = b"\n".join(window.lines).decode(errors="replace")
    last = window.first + len(window.lines) - 1
    notes = [
        f"Line {number} is cut: it has {count(size, 'byte')}. Use bash to see the rest of it."
        for number, size in list(window.cut.items())[:5]
    ]
    if window.more:
        notes.append(f"Lines {window.first} to {last}. Go on with offset={last + 1}.")
    if utf16:
        notes.append("The file is UTF-16, shown as text; edit and write know only UTF-8.")
    elif "\ufffd" in text:
        notes.append("Some bytes are not UTF-8 and are shown as \ufffd.")
    return answer(f"{text}\n\n[{' '.join(notes)}]" if notes else text)


async def _image(env: ExecutionEnv, file: FileInfo, signal: AbortSignal) -> ToolResult:
    name = _name(env, file)
    data = await env.read_bytes(file.path, limit=MAX_IMAGE + 1, signal=signal)
    signal.raise_if_aborted()
    if isinstance(data, Err):
        return _refused(data.error)
    fitted = await asyncio.to_thread(fit, data.value)
    if isinstance(fitted, Err):
        return _error(f"{name} is a picture that cannot be shown: {fitted.error}.")
    picture = fitted.value
    size = picture.change or count(len(picture.data), "byte")
    note = TextContent(text=f"{name}: {picture.mime}, {size}")
    return ToolResult(content=(note, picture.block()))


def _name(env: ExecutionEnv, file: FileInfo) -> str:
    return as_shown(env, file.path)


def _refused(error: FileError) -> ToolResult:
    return _error(f"Could not read: {error}")


def _error(text: str) -> ToolResult:
    return answer(text, is_error=True)
