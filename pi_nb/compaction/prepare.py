"""What a cut means: what is summarised, what of a split turn stands before it, which files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pi_nb.messages import AgentMessage, AssistantMessage
from pi_nb.session.context import ContextItem

from .branch import Branch
from .cut import find_cut_point, first_kept, turn_start
from .files import Files, files_of


@dataclass(frozen=True, slots=True)
class Preparation:
    """A cut worked out. Ranges are places in `branch.items`, ends not included."""

    branch: Branch
    cut: int
    """The first item that is kept."""
    split: int | None
    """Where the turn begins that the cut splits; what lies between gets its own summary."""

    @property
    def first_kept_entry_id(self) -> str:
        return first_kept(self.branch, self.cut)

    @property
    def is_split_turn(self) -> bool:
        return self.split is not None

    @property
    def history(self) -> Sequence[ContextItem]:
        """What the summary stands for, oldest first, a split turn's beginning not counted."""
        end = self.cut if self.split is None else self.split
        return self.branch.items[self.branch.start : end]

    @property
    def turn_prefix(self) -> Sequence[ContextItem]:
        """The beginning of the turn that is split."""
        return () if self.split is None else self.branch.items[self.split : self.cut]

    @property
    def turn_is_answered(self) -> bool:
        """Whether what is kept of a split turn, or what follows it, holds a final answer. What
        was asked there is then no open request, and must not look like one (C-48)."""
        kept = self.branch.items[self.cut :]
        return self.is_split_turn and any(is_final(item.message) for item in kept)

    @property
    def previous_summary(self) -> str | None:
        """What the newest compaction said; the new summary carries it on."""
        compaction = self.branch.compaction
        return compaction.summary if compaction else None

    @property
    def files(self) -> Files:
        """Files of all that goes, and those that earlier summaries listed (rule 11)."""
        compaction = self.branch.compaction
        known = [compaction.details] if compaction and not compaction.from_hook else []
        gone = [item.message for item in (*self.history, *self.turn_prefix)]
        return files_of(gone, known)


def is_final(message: AgentMessage) -> bool:
    """Whether a message is an answer that leaves nothing to do: it came through, says
    something, and calls no tool."""
    return (
        isinstance(message, AssistantMessage)
        and message.stop_reason not in ("error", "aborted")
        and not message.tool_calls
        and bool(message.text.strip())
    )


def prepare(branch: Branch, keep_tokens: int) -> Preparation | None:
    """Where the branch would be cut to keep so many tokens; None where nothing goes (rule 6)."""
    cut = cut_to_keep(branch, keep_tokens)
    return None if cut is None else prepared(branch, cut)


def cut_to_keep(branch: Branch, keep_tokens: int) -> int | None:
    """The cut alone, as a place in the branch's items."""
    if branch.leaf is None or branch.type_of(branch.leaf) == "compaction":
        return None
    cut = find_cut_point(branch, keep_tokens)
    return None if cut == branch.start else cut


def prepared(branch: Branch, cut: int) -> Preparation | None:
    """The same for a cut that was chosen; it is legal."""
    if cut == branch.start:
        return None
    return Preparation(branch, cut, turn_start(branch, cut))
