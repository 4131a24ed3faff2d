"""What a prompt gives back, and what a turn is asked with."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from pi_nb.html import details, element, inert, safe_markdown
from pi_nb.messages import AgentMessage, AssistantMessage, Usage
from pi_nb.models.types import Model, ThinkingLevel
from pi_nb.result import PiError
from pi_nb.session.entries import CompactionEntry
from pi_nb.session.session import Session
from pi_nb.text import count, one_line

Phase = Literal["idle", "turn", "compaction", "branch_summary", "retry"]


@dataclass(frozen=True, slots=True)
class AbortResult:
    """How many queued messages an abort dropped."""

    steer: int = 0
    follow_up: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class NavigateResult:
    """What a move of the leaf did.

    `editor_text` is the text of the user message that was navigated to, for editing.
    """

    cancelled: bool = False
    editor_text: str | None = None
    summary_entry_id: str | None = None
    files: tuple[str, ...] = ()
    """Files that tools changed on the branch that was left, relative to the agent's folder
    where they are below it. They did not move with the leaf, unless they were asked to."""
    failures: tuple[str, ...] = ()
    """Files that could not be brought back, and why."""

    def __repr__(self) -> str:
        given = [
            f"{name}={getattr(self, name)!r}" for name in self.__slots__ if getattr(self, name)
        ]
        return f"NavigateResult({', '.join(given)})"


@dataclass(frozen=True, slots=True, repr=False)
class CompactResult:
    """What a compaction came to."""

    entry: CompactionEntry | None
    """What was written; None for a plan that only edits."""
    trigger: str = "manual"
    """`manual`, `threshold`, `overflow`."""
    written_by: str = ""
    edits: int = 0
    """Entries that were left out or shown otherwise."""
    before: int = 0
    """Tokens of the next request without it, as far as known."""
    after: int = 0
    """Tokens of the next request, estimated."""
    usage: Usage = field(default_factory=Usage)

    @property
    def summary(self) -> str:
        return self.entry.summary if self.entry else ""

    @property
    def first_kept_entry_id(self) -> str | None:
        return self.entry.first_kept_entry_id if self.entry else None

    @property
    def grew(self) -> bool:
        """Whether the next request is not smaller than it would have been."""
        return self.after >= self.before

    def __repr__(self) -> str:
        what = []
        if self.entry is not None:
            what.append(f"summary by {self.written_by}")
        if self.edits:
            what.append(count(self.edits, "edit"))
        note = " (not smaller)" if self.grew else ""
        size = f"≈{self.before:,} → ≈{self.after:,} tokens{note}"
        return f"Compacted, {self.trigger}: {size}; {', '.join(what) or 'nothing'}"

    def _repr_html_(self) -> str:
        parts = [str(element("p", repr(self)))]
        if self.summary:
            parts.append(str(details("summary", element("pre", self.summary))))
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What was taken back. The log keeps all of it, as a branch."""

    what: str
    """`compaction` or `edit`."""
    entry_ids: tuple[str, ...]
    left_behind: int
    """Messages that had followed and now stand on the other branch."""
    leaf_id: str | None

    def __str__(self) -> str:
        what = f"The {self.what} was taken back"
        if not self.left_behind:
            return f"{what}."
        behind = count(self.left_behind, "message")
        return f"{what}; {behind} that followed it stay on the branch that was left."

    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False)
class TurnResult:
    """What one prompt came to: the last answer, and everything the run added."""

    message: AssistantMessage
    messages: tuple[AgentMessage, ...]
    reason: str
    """`done`, `terminated`, `budget`, `error`, `aborted`."""
    usage: Usage
    """The sum over the run's requests."""
    leaf_id: str | None
    """The entry where the run ended."""
    model: Model
    aborted: AbortResult | None = None
    compactions: tuple[CompactResult, ...] = ()
    """What was compacted by itself on the way."""
    advice: str = ""
    """What would help, where it ended badly."""

    @property
    def text(self) -> str:
        """The last answer's text."""
        return self.message.text

    @property
    def ok(self) -> bool:
        """The answer is complete: no error, no abort, no limit reached, not cut off."""
        return self.reason != "budget" and self.message.stop_reason in (
            "stop", "toolUse", "deferred",
        )  # fmt: skip

    def __str__(self) -> str:
        """The answer, and how it ended where it did not end well: a failure is not silent."""
        return "\n".join(filter(None, (self.text, "" if self.ok else f"[{self.ending}]")))

    def __repr__(self) -> str:
        notes = {"stop": "", "toolUse": ""}
        note = notes.get(self.message.stop_reason, f" [{self.message.stop_reason}]")
        return f"TurnResult({one_line(self.text, 60)!r}{note})"

    def _repr_markdown_(self) -> str:
        ending = "" if self.ok else f"\n\n{element('em', inert(self.ending))}"
        return safe_markdown(self.text) + ending

    @property
    def ending(self) -> str:
        """One line on how it ended, empty where it ended well."""
        if self.reason == "budget":
            return "Stopped at a limit; the next prompt goes on from here."
        match self.message.stop_reason:
            case "error":
                why = self.message.error_message or "the model gave no reason"
                return f"Error: {why}{f' ({self.advice})' if self.advice else ''}"
            case "aborted":
                return "Aborted."
            case "length":
                return "Cut off at the output limit: the answer is not complete."
            case _:
                return ""


@dataclass(frozen=True, slots=True)
class PromptContext:
    """What a system prompt written as a function is given, once a turn."""

    model: Model
    thinking_level: ThinkingLevel
    tools: tuple[str, ...]
    cwd: str
    session: Session


SystemPrompt = str | Callable[[PromptContext], str | Awaitable[str]]


async def written(prompt: SystemPrompt, context: PromptContext) -> str:
    """The system prompt as text for one turn.

    Raises:
        PiError: `hook`, the function failed or gave something else than text.
    """
    if isinstance(prompt, str):
        return prompt
    try:
        answer = prompt(context)
        text: object = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:
        raise PiError("hook", f"The function for the system prompt failed: {error}") from error
    if not isinstance(text, str):
        raise PiError(
            "hook", f"The function for the system prompt gave {type(text).__name__}, not text."
        )
    return text
