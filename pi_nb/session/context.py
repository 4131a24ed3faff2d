"""A branch as a model sees it: the settings in force, and messages that know their entry.

Pure, and before anything a provider needs: that is `models/pairing`. If the branch holds
compactions, only the newest counts.

    u1 a1 [u2 a2 C u3]      C.first_kept_entry_id = u2
     left out  kept         C  u2 a2 u3 are shown, the summary first
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pi_nb.grown import Grown
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    SystemMessage,
    blocks_of,
    read_message,
    text_of,
)
from pi_nb.text import count, unquoted
from pi_nb.tokens import PI, Estimate, Estimator, context_size

from .entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
    ThinkingLevelChangeEntry,
)

T = TypeVar("T")


class ContextItem(NamedTuple):
    """A message and the entry it came from; a summary came from its compaction."""

    entry_id: str
    message: AgentMessage


@dataclass(frozen=True, slots=True, repr=False)
class SessionContext:
    """What is in force at a leaf, and what the model sees there, oldest first."""

    thinking_level: str = "off"
    model: tuple[str, str] | None = None
    """Provider and model id; None where the branch names none."""
    active_tools: tuple[str, ...] | None = None
    """None where the branch never said: the host's own choice."""
    items: Sequence[ContextItem] = ()
    believed_from: int = 0
    """The first item that is newer than every compaction and edit of the branch: usage that
    was reported before measured another context."""

    @property
    def size(self) -> Estimate:
        """What the next request holds, and how we know."""
        return self.measured(PI)

    def measured(self, estimator: Estimator) -> Estimate:
        """The same, what no provider reported weighed by an estimator of choice."""
        return context_size(self.messages, self.believed_from, estimator)

    @property
    def messages(self) -> list[AgentMessage]:
        return [item.message for item in self.items]

    def __repr__(self) -> str:
        """Its size and its settings: a context may hold a megabyte of text."""
        model = unquoted("/".join(self.model), 60) if self.model else "no model"
        about = [count(len(self.items), "message"), f"tokens {self.size}", model]
        if self.thinking_level != "off":
            about.append(f"thinking {unquoted(self.thinking_level)}")
        if self.active_tools is not None:
            about.append(count(len(self.active_tools), "tool"))
        return f"SessionContext({', '.join(about)})"


class Step(NamedTuple):
    """What of an entry is known without its body."""

    id: str
    type: str
    role: str | None


_SHOWN = frozenset({"message", "custom_message", "branch_summary"})


class ContextFold:
    """A context that grows with its branch, each entry at the cost of that entry alone."""

    def __init__(self, edits: dict[str, Replacement | None] | None = None) -> None:
        self.thinking_level = "off"
        self.model: tuple[str, str] | None = None
        self.active_tools: tuple[str, ...] | None = None
        self._items: list[ContextItem] = []
        self._believed_from = 0
        self._edits = edits or {}

    def add(self, entry: Entry) -> bool:
        """Take the next entry of the branch.

        Returns:
            False where the entry changes what is already shown (a compaction, an edit): this
            fold is then out of date, and the branch has to be projected again.
        """
        match entry:
            case CompactionEntry() | ContextEditEntry():
                return False
            case ModelChangeEntry():
                self.model = (entry.provider, entry.model_id)
            case ThinkingLevelChangeEntry():
                self.thinking_level = entry.thinking_level
            case ActiveToolsChangeEntry():
                self.active_tools = entry.active_tool_names
            case _:
                self.model = _spoke(entry) or self.model
                message = _message_of(entry)
                if message is not None:
                    self.show(entry.id, message)
        return True

    def show(self, entry_id: str, message: AgentMessage) -> None:
        """Add a message as the edits of the branch have it."""
        if entry_id in self._edits:
            replacement = self._edits[entry_id]
            if replacement is None:
                return
            message = edited(message, replacement)
        self._items.append(ContextItem(entry_id, message))

    def snapshot(self) -> SessionContext:
        """The context as it is now; later entries do not change it."""
        return SessionContext(
            self.thinking_level,
            self.model,
            self.active_tools,
            Grown(self._items),
            self._believed_from,
        )

    def believe_from_here(self) -> None:
        """What was reported up to now measured another context than this one."""
        self._believed_from = len(self._items)

    def moved(
        self,
        left: Sequence[Step],
        reached: Sequence[Step],
        upwards: Iterable[Step],
        read: Callable[[str], Entry],
    ) -> ContextFold | None:
        """The fold at another leaf, at the cost of what lies between the two.

        Args:
            left: From after the entry that both branches share to the leaf that was left.
            reached: From there to the new leaf, oldest first.
            upwards: The new branch from its leaf to its root; looked at as far as needed.

        Returns:
            None where a compaction or an edit lies between: what both share then looks
            different from there, and the branch has to be projected again.
        """
        if any(step.type in ("compaction", "context_edit") for step in (*left, *reached)):
            return None
        gone = {step.id for step in left}
        stay = len(self._items)
        while stay and self._items[stay - 1].entry_id in gone:
            stay -= 1
        fold = ContextFold(self._edits)
        fold._items = self._items[:stay]
        fold._believed_from = min(self._believed_from, stay)
        for step in reached:
            if step.type in _SHOWN:
                fold.add(read(step.id))
        fold._settle(upwards, read)
        return fold

    def _settle(self, upwards: Iterable[Step], read: Callable[[str], Entry]) -> None:
        """Take the settings in force from a branch, given from its leaf to its root."""
        model = level = tools = None
        for step in upwards:
            if level is None and step.type == "thinking_level_change":
                level = _level_of(read(step.id))
            elif tools is None and step.type == "active_tools_change":
                tools = _tools_of(read(step.id))
            elif model is None and (step.type == "model_change" or step.role == "assistant"):
                model = _model_of(read(step.id))
            if not (model is None or level is None or tools is None):
                break
        self.model, self.thinking_level, self.active_tools = model, level or "off", tools


def build_session_context(entries: Iterable[Entry]) -> SessionContext:
    """The context at the end of a branch, given from its root to its leaf."""
    branch = list(entries)
    steps = [Step(entry.id, entry.type, _role(entry)) for entry in branch]
    return project(steps, {entry.id: entry for entry in branch}.__getitem__).snapshot()


def shown(entries: Sequence[Entry]) -> Iterable[ContextItem]:
    """What each entry of a piece of a branch shows by itself, as the edits in it have it.

    Every compaction shows its summary, and nothing is left out for it: this is the branch as
    it was lived, where `build_session_context` is what is left of it.
    """
    edits = {e.target_id: e.replacement for e in entries if isinstance(e, ContextEditEntry)}
    fold = ContextFold(edits)
    for entry in entries:
        if isinstance(entry, CompactionEntry):
            fold.show(entry.id, _summary_of(entry))
        else:
            fold.add(entry)
    return fold.snapshot().items


def project(steps: Sequence[Step], read: Callable[[str], Entry]) -> ContextFold:
    """Project a branch, reading only the entries that matter; the fold can go on from there."""
    edits: dict[str, Replacement | None] = {}
    for step in steps:
        if step.type == "context_edit" and isinstance(edit := read(step.id), ContextEditEntry):
            edits[edit.target_id] = edit.replacement
    fold = ContextFold(edits)
    places = (i for i in range(len(steps) - 1, -1, -1) if steps[i].type == "compaction")
    newest = next(places, -1)
    kept: Sequence[Step] = ()
    if newest >= 0 and isinstance(compaction := read(steps[newest].id), CompactionEntry):
        kept = _show_compaction(fold, compaction, steps[:newest])
    for step in kept:
        if step.type in _SHOWN:
            fold.add(read(step.id))
    if newest >= 0:
        fold.believe_from_here()
    for step in steps[newest + 1 :]:
        if step.type in _SHOWN:
            fold.add(read(step.id))
        elif step.type == "context_edit":
            fold.believe_from_here()
    # The kept part alone may say less, or something older, than the branch.
    fold._settle(reversed(steps), read)
    return fold


def _show_compaction(
    fold: ContextFold, compaction: CompactionEntry, before: Sequence[Step]
) -> Sequence[Step]:
    """Show a compaction's summary, and its own tail; returns what it keeps of `before`."""
    fold.show(compaction.id, _summary_of(compaction))
    if compaction.retained_tail is not None:
        for message in compaction.retained_tail:
            fold.show(compaction.id, message)
        return ()
    first = compaction.first_kept_entry_id
    start = next((i for i, step in enumerate(before) if step.id == first), len(before))
    return before[start:]


def _summary_of(compaction: CompactionEntry) -> CompactionSummaryMessage:
    return CompactionSummaryMessage(
        summary=compaction.summary,
        tokens_before=compaction.tokens_before,
        timestamp=compaction.timestamp,
    )


def _level_of(entry: Entry) -> str | None:
    return entry.thinking_level if isinstance(entry, ThinkingLevelChangeEntry) else None


def _tools_of(entry: Entry) -> tuple[str, ...] | None:
    return entry.active_tool_names if isinstance(entry, ActiveToolsChangeEntry) else None


def _model_of(entry: Entry) -> tuple[str, str] | None:
    if isinstance(entry, ModelChangeEntry):
        return (entry.provider, entry.model_id)
    return _spoke(entry)


def _spoke(entry: Entry) -> tuple[str, str] | None:
    """The model behind an assistant message, failed ones included (rule 1)."""
    if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
        said = entry.message
        # A message that was made up here (an abort before any answer) may name nobody.
        return (said.provider, said.model) if said.provider and said.model else None
    return None


def _role(entry: Entry) -> str | None:
    return entry.message.role if isinstance(entry, MessageEntry) else None


def _message_of(entry: Entry) -> AgentMessage | None:
    """What an entry shows; None for settings, data, and prompt state."""
    match entry:
        case MessageEntry(message=SystemMessage()):
            return None
        case MessageEntry():
            return entry.message
        case CustomMessageEntry():
            details = {} if entry.details is None else {"details": entry.details}
            return CustomMessage(
                custom_type=entry.custom_type,
                content=entry.content,
                display=entry.display,
                timestamp=entry.timestamp,
                **details,
            )
        case BranchSummaryEntry() if entry.summary:
            return BranchSummaryMessage(
                summary=entry.summary, from_id=entry.from_id or "", timestamp=entry.timestamp
            )
        case _:
            return None


def edited(message: AgentMessage, replacement: Replacement) -> AgentMessage:
    """The message with other content (rule 2); its role, usage and the rest stay.

    A summary takes the text as its summary, a command as its output. Content that does not
    fit the role changes nothing: an edit must not make a branch unreadable.
    """
    wire = message.to_wire()
    try:
        if isinstance(message, BranchSummaryMessage | CompactionSummaryMessage):
            wire["summary"] = _text(replacement.content)
        elif isinstance(message, BashExecutionMessage):
            wire["output"] = _text(replacement.content)
        else:
            wire["content"] = replacement.content
        return read_message(wire)
    except ValueError:
        return message


def _text(content: Any) -> str:
    given = CustomMessage(custom_type="", content=content, timestamp=0).content
    return text_of(blocks_of(given))
