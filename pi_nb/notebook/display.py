"""What a run shows in its cell: while it goes on, and what stays in the notebook.

One Markdown display, updated in place while the answer grows and when a call began or ended.
At the end it is Markdown and plain text: readable without JavaScript, without a kernel,
without a key.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pi_nb.harness.events import AutoCompaction, RetryScheduled, SessionCompact, SummaryUpdate
from pi_nb.harness.turn import TurnResult
from pi_nb.html import details, element, fence, inert, safe_markdown
from pi_nb.loop.events import Event, MessageStart, MessageUpdate, ToolEnd, ToolStart, ToolUpdate
from pi_nb.loop.types import ToolResult
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
)
from pi_nb.models.types import TextDelta, ThinkingDelta
from pi_nb.text import clip, count, one_line, plain, safe_line, visible
from pi_nb.tokens import Estimate

from .auto_line import AutoLine
from .in_place import InPlace
from .kernel import in_kernel

SHOWN = 4_000
"""Characters of a tool's output that a cell keeps; the session has what the model saw."""


@dataclass(slots=True)
class Block:
    """One piece of a run: an answer's text, its thinking, or a tool call with its result."""

    kind: str
    pieces: list[str] = field(default_factory=list)
    call_id: str = ""
    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: ToolResult | None = None
    done: bool = False
    compaction: AutoLine | None = None
    """What a compaction by itself comes to, for one of those."""
    _made: tuple[int, str] | None = None

    def markdown(self) -> str:
        """Its Markdown, made anew only where something came since."""
        size = len(self.text) + (len(self.result.text) if self.result else 0)
        key = size * 2 + self.done
        if self._made is None or self._made[0] != key or not self.done:
            self._made = (key, _markdown(self))
        return self._made[1]

    @property
    def text(self) -> str:
        if self.compaction is not None:
            return str(self.compaction)
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class Record:
    """A run as blocks, from its events. Knows nothing of any display."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.size = 0
        """Characters so far."""
        self._open: dict[tuple[str, int], Block] = {}
        self._compaction: AutoLine | None = None
        """The one that goes on."""

    @classmethod
    def of(cls, messages: Iterable[AgentMessage]) -> Record:
        """A run that is stored, as it would have been recorded."""
        record = cls()
        for message in messages:
            if isinstance(message, AssistantMessage):
                record._take(message)
            elif isinstance(message, ToolResultMessage):
                fields: dict[str, Any] = {"details": message.details, "is_error": message.is_error}
                result = ToolResult(content=message.content, **fields)
                record._result(message.tool_call_id, result, done=True)
        return record

    def _take(self, message: AssistantMessage) -> None:
        for block in message.content:
            match block:
                case TextContent():
                    self.blocks.append(Block("text", [block.text]))
                case ThinkingContent():
                    self.blocks.append(Block("thinking", [block.thinking]))
                case ToolCall():
                    call = Block("call", call_id=block.id, name=block.name)
                    call.arguments = block.arguments
                    self.blocks.append(call)

    def add(self, event: Event) -> bool:
        """Take an event in. Returns whether something whole was added: show it at once."""
        match event:
            case MessageStart():
                self._open.clear()
            case MessageUpdate(event=TextDelta() | ThinkingDelta() as piece):
                self._piece(piece)
            case ToolStart():
                self.blocks.append(
                    Block(
                        "call",
                        call_id=event.tool_call_id,
                        name=event.tool_name,
                        arguments=event.arguments,
                    )
                )
                return True
            case RetryScheduled():
                words = f"{safe_line(event.error_message, 200).rstrip('. ')}. "
                again = f"Asked again in {event.delay:g} s (attempt {event.attempt})."
                self.blocks.append(Block("note", pieces=[words + again]))
                return True
            case AutoCompaction() | SummaryUpdate() | SessionCompact():
                return self._compacting(event)
            case ToolUpdate():
                self._result(event.tool_call_id, event.partial, done=False)
            case ToolEnd():
                self._result(event.tool_call_id, event.result, done=True)
                return True
            case _:
                pass
        return False

    def _piece(self, event: TextDelta | ThinkingDelta) -> None:
        kind = "text" if isinstance(event, TextDelta) else "thinking"
        key = (kind, event.index)
        if key not in self._open:
            self._open[key] = Block(kind)
            self.blocks.append(self._open[key])
        self._open[key].pieces.append(event.delta)
        self.size += len(event.delta)

    def _compacting(self, event: AutoCompaction | SummaryUpdate | SessionCompact) -> bool:
        """One line for each compaction by itself. Returns whether it says something else now."""
        if self._compaction is None:
            if not isinstance(event, AutoCompaction):
                return False  # asked for by somebody, who is told by other ways
            self._compaction = AutoLine()
            self.blocks.append(Block("note", compaction=self._compaction))
        line = self._compaction
        if line.add(event):
            self._compaction = None
            return True
        return not isinstance(event, SummaryUpdate) or line.turned

    def _result(self, call_id: str, result: ToolResult, *, done: bool) -> None:
        for block in reversed(self.blocks):
            if block.kind == "call" and block.call_id == call_id and not block.done:
                block.result, block.done = result, done
                # A running tool is shown anew as if its output were text of the answer.
                self.size += len(result.text)
                return

    def markdown(self, ending: str = "") -> str:
        parts = [part for block in self.blocks if (part := block.markdown())]
        return "\n\n".join([*parts, *([ending] if ending else [])])

    def plain(self, ending: str = "") -> str:
        parts = [part for block in self.blocks if (part := _plain(block))]
        return "\n\n".join([*parts, *([ending] if ending else [])])


def title(name: str, arguments: Mapping[str, Any]) -> str:
    """A call on one line: its name and what it is about."""
    main = arguments.get("command") or arguments.get("path")
    about = main if isinstance(main, str) else ", ".join(map(str, arguments.values()))
    # Spelled out and not applied: the record must not show another command than the one
    # that ran.
    return one_line(visible(f"{name}: {about}" if about else name), 100)


def _state(block: Block) -> str:
    if not block.done:
        return "…"
    return "✗" if block.result is not None and block.result.is_error else "✓"


def _shown(block: Block) -> tuple[str, str]:
    """A call's outcome and its language: the diff of an edit, else the end of what was said."""
    result = block.result
    if result is None:
        return "", ""
    diff = result.details.get("diff") if isinstance(result.details, dict) else None
    if isinstance(diff, str) and diff and not result.is_error:
        return clip(diff, SHOWN), "diff"
    text = result.text
    cut = len(text) - SHOWN
    return (text if cut <= 0 else f"[{cut:,} characters before this]\n{text[-SHOWN:]}"), ""


def _markdown(block: Block) -> str:
    if block.kind == "text":
        return safe_markdown(block.text)
    if block.kind == "note":
        return str(element("em", inert(block.text)))
    if block.kind == "thinking":
        if not block.text.strip():
            return ""
        return _folded("thinking", fence(plain(clip(block.text, SHOWN))))
    head = f"{_state(block)} {title(block.name, block.arguments)}"
    shown, language = _shown(block)
    return _folded(head, fence(plain(shown), language) if shown else "")


def _folded(summary: str, body: str) -> str:
    """A part that opens on a click. The blank lines make its body Markdown again."""
    opened, closed = str(details(element("code", summary))).split("</details>")[0], "</details>"
    return f"{opened}\n\n{body}\n\n{closed}" if body else f"{opened}{closed}"


def _plain(block: Block) -> str:
    if block.kind == "text":
        return plain(block.text)
    if block.kind == "note":
        return f"({block.text})"
    if block.kind == "thinking":
        return f"(thinking) {one_line(plain(block.text), 200)}" if block.text.strip() else ""
    head = f"{_state(block)} {title(block.name, block.arguments)}"
    lines = plain(_shown(block)[0]).strip("\n").split("\n")
    return "\n".join([head, *(f"  {line}".rstrip() for line in lines if line or len(lines) > 1)])


def footer(result: TurnResult, context: Estimate) -> str:
    """One line on what a run used: model, requests, tokens, cost where known, the window."""
    usage = result.usage
    answers = [message for message in result.messages if isinstance(message, AssistantMessage)]
    # An aborted run ends with an empty answer that nobody was asked for.
    asked = sum(bool(said.content) or said.stop_reason != "aborted" for said in answers)
    parts = [str(result.model), count(asked, "request")]
    parts.append(f"{usage.input:,} tokens in, {usage.output:,} out")
    if usage.cache_read:
        parts.append(f"{usage.cache_read:,} cached")
    if usage.cost.total:
        parts.append(f"${usage.cost.total:.4f}")
    about = "" if context.source == "provider" else "≈"
    parts.append(f"context {about}{context.tokens:,} of {result.model.context_window:,}")
    return " · ".join(parts)


class LiveCell:
    """The display of one run. Made and finished by the cell, fed from the loop thread."""

    def __init__(self, *, quiet: bool = False, raises: bool = False) -> None:
        """
        Args:
            quiet: Show nothing; the record is kept all the same.
            raises: A run that ends badly is also told by an exception; do not say it twice.
        """
        self.record = Record()
        self.told = ""
        """Said before the footer: why it had to be asked."""
        self._quiet = quiet
        self._raises = raises
        self._kernel = in_kernel()
        self._place = InPlace(lambda: (self.record.markdown(), self.record.plain()))
        self._lock = threading.Lock()
        self._closed = False

    def begin(self) -> None:
        """A run begins; on the thread that runs cells."""
        if self._kernel and not self._quiet:
            self._place.begin("running…")

    def add(self, event: Event) -> None:
        """Show an event, now or with the next update. On the loop thread."""
        whole = self.record.add(event)
        if self._quiet:
            return
        if self._kernel:
            self._place.changed(self.record.size, whole=whole)
        else:
            self._print(event)

    def walk(self, messages: Iterable[AgentMessage], note: str) -> None:
        """Show a stored run instead of a live one."""
        self.record = Record.of(messages)
        if not self._kernel and not self._quiet:
            print(self.record.plain())
        self.finish(footer=note)

    def finish(self, note: str = "", footer: str = "", reason: str = "") -> None:
        """Leave what stays; later events of a run that was left behind are not shown.

        Args:
            note: How it ended, where it did not end well. May hold a provider's words.
            footer: What it used.
            reason: The last answer's stop reason.
        """
        footer = " ".join(filter(None, (self.told, footer)))
        # What stays in a notebook says that it was stopped; all else is said once.
        if self._raises and (reason == "error" or (reason == "aborted" and not self._kernel)):
            note = ""
        if not self._quiet and self._kernel:
            tail = [str(element("em", inert(note)))] if note else []
            tail += [str(element("sub", inert(footer)))] if footer else []
            self._place.leave(
                self.record.markdown("\n\n".join(tail)),
                self.record.plain("\n".join(filter(None, (plain(note), footer)))),
            )
        elif not self._quiet:
            print("\n" + "\n".join(filter(None, (plain(note), footer))), flush=True)
        with self._lock:
            self._closed = True

    def _print(self, event: Event) -> None:
        """In a terminal text goes out as it comes, and calls when they begin and end."""
        with self._lock:
            if self._closed:
                return
            match event:
                case MessageUpdate(event=TextDelta(delta=delta)):
                    sys.stdout.write(plain(delta))
                case MessageStart(message=AssistantMessage()):
                    sys.stdout.write("\n")
                case ToolStart():
                    print(f"\n▸ {title(event.tool_name, event.arguments)}")
                case ToolEnd():
                    self._print_end(event)
                case RetryScheduled() | AutoCompaction():
                    print(f"\n{_plain(self.record.blocks[-1])}")
                case _:
                    return
            sys.stdout.flush()

    def _print_end(self, event: ToolEnd) -> None:
        """The end of what a call said; its head again where another call was begun since."""
        calls = [block for block in self.record.blocks if block.kind == "call"]
        block = next(b for b in reversed(calls) if b.call_id == event.tool_call_id)
        head, *lines = _plain(block).split("\n")
        if block is not calls[-1] or event.is_error:
            print(head)
        print("\n".join(lines[-12:]))
