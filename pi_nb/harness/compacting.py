"""The harness's operations on what the model sees: plan, propose, apply, undo, edit by hand."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.composition import LARGEST, Composition
from pi_nb.compaction.pending import NoProposal, pending
from pi_nb.compaction.pinned_edits import check_edits
from pi_nb.compaction.plan import NothingToCompact, Omit, Plan, Replace
from pi_nb.compaction.proposal import Proposal
from pi_nb.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
)
from pi_nb.result import PiError
from pi_nb.session.context import shown
from pi_nb.session.entries import ContextEditEntry
from pi_nb.tokens import Estimate, Estimator

from .compaction_settings import CompactionSettings
from .compactor import Compactor, Wish
from .limits import Spent
from .settings import Settings
from .turn import CompactResult, Phase, UndoResult, written
from .undoing import last_change

T = TypeVar("T")


class Compacting(Settings):
    """What an `AgentHarness` does about its context."""

    _compactor: Compactor

    def _check_idle(self) -> None:
        raise NotImplementedError

    async def _operation(self, phase: Phase, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    @property
    def compaction(self) -> CompactionSettings:
        """How this harness compacts; each field may be set at any time."""
        return self._compactor.settings

    @property
    def size(self) -> Estimate:
        """What the next request holds, prompt and tools included, and how we know."""
        return self._compactor.weighing.size()

    async def prompt_text(self) -> str:
        """The system prompt of a turn that would begin now."""
        state = self._state
        return await written(state.system_prompt, state.prompt_context())

    def composition(
        self,
        system_prompt: str | Mapping[str, str] | None = None,
        *,
        estimator: Estimator | None = None,
        largest: int = LARGEST,
    ) -> Composition:
        """What the next request holds, by kind. Nothing is asked and nothing written.

        Args:
            system_prompt: As `prompt_text` gives it, or its sections by name; None: that of the
                last turn.
            estimator: None: as the settings say.
            largest: How many of the largest items are named.

        Raises:
            PiError: `invalid_argument`, no such estimator or budget.
        """
        state = self._state
        branch = self._compactor.branch()
        if estimator is not None:
            branch = Branch.of(self.session, self.lane, estimator)
        return Composition.of(
            branch,
            self._compactor.budget(),
            system_prompt=state.last_prompt if system_prompt is None else system_prompt,
            tools=[state.tools[name].spec for name in state.active],
            largest=largest,
        )

    def plan(self, wish: Wish | None = None) -> Plan | NothingToCompact:
        """What a compaction would do, free and at once. Nothing is asked and nothing written.

        Raises:
            PiError: `invalid_argument`, no such policy, estimator or budget.
        """
        return self._compactor.plan(wish or Wish())

    async def propose(self, plan: Plan | None = None, wish: Wish | None = None) -> Proposal:
        """Have the summary of a plan written, and keep it on record; the branch stays as it is.

        Args:
            plan: None plans as `plan(wish)` does.

        Raises:
            PiError: `busy`; `compaction`: nothing to compact, the plan is stale, cancelled, or
                no summary came; `hook`.
        """
        return await self._operation("compaction", self._propose(plan, wish or Wish()))

    async def apply(self, proposal: Proposal) -> CompactResult:
        """Put a proposal in force, to the letter.

        Raises:
            PiError: `busy`; `compaction`, the branch moved on since; `invalid_argument`, the
                words of a pinned entry are missing. The log is as it was.
        """
        return await self._operation("compaction", self._apply(proposal))

    async def discard(self, proposal: Proposal) -> None:
        """Note that a proposal will not be applied."""
        self._check_idle()
        if proposal.id:
            await self._compactor.record(proposal, "discarded")

    def pending(self) -> Proposal | NoProposal:
        """The newest proposal that waits for this lane as it is now, from the log: also one of
        a process that ended. Falsy, with the reason, where there is none.

        Raises:
            PiError: `invalid_argument`, the settings name no such estimator or budget.
        """
        compactor = self._compactor
        return pending(self.session, self.lane, compactor.branch(), compactor.budget())

    async def revise(self, proposal: Proposal) -> None:
        """Put a changed proposal on record as it is now, so that it outlives this process.

        Raises:
            PiError: `busy`; `compaction`, the branch moved on since it was planned.
        """
        self._check_idle()
        self._compactor.check_fresh(proposal.plan)
        if proposal.id:
            await self._compactor.record(proposal, "open", paid=True)

    async def compact(
        self, instructions: str | None = None, *, wish: Wish | None = None
    ) -> CompactResult:
        """Plan, propose and apply at once.

        Args:
            instructions: What the summary shall look at; instead of the wish's.

        Raises:
            PiError: as `propose` and `apply`.
        """
        asked = wish or Wish()
        if instructions is not None:
            asked = replace(asked, instructions=instructions)
        return await self._operation("compaction", self._compact(asked))

    async def undo(self) -> UndoResult:
        """Take back the newest compaction or edit of the branch, with all that was written for
        it. Where the conversation went on since, it goes on beside: the leaf moves to before
        it, and what followed stays as a branch.

        Raises:
            PiError: `busy`; `compaction`, there is nothing to take back.
        """
        return await self._operation("compaction", self._undo())

    async def omit(self, entry_id: str) -> ContextEditEntry:
        """Leave an entry out of what the model sees; the log keeps it. `undo` brings it back.

        Raises:
            PiError: `busy`; `invalid_argument`: no such entry on this branch, it is pinned, or
                it shows nothing.
        """
        return await self._operation("compaction", self._edit(entry_id, None))

    async def replace(self, entry_id: str, text: str) -> ContextEditEntry:
        """Show the model another text for an entry; the log keeps the old one.

        Raises:
            PiError: as `omit`; also where the session's format cannot show it.
        """
        return await self._operation("compaction", self._edit(entry_id, text))

    async def restore(self, entry_id: str) -> ContextEditEntry:
        """Show an entry again as it was written, whatever edits came since.

        Raises:
            PiError: `busy`; `invalid_argument`, there is no such entry, or it was not edited.
        """
        return await self._operation("compaction", self._restore(entry_id))

    # --- at work ------------------------------------------------------------------------

    async def _begin(self, intent: dict[str, Any]) -> None:
        self._state.spent = Spent()
        await self._host.journal.begin({"kind": "compaction", **intent})

    def _planned(self, wish: Wish) -> Plan:
        found = self._compactor.plan(wish)
        if isinstance(found, NothingToCompact):
            raise PiError("compaction", str(found))
        return found

    async def _propose(self, plan: Plan | None, wish: Wish) -> Proposal:
        plan = plan or self._planned(wish)
        self._compactor.check_fresh(plan)
        await self._begin(_intent(wish))
        return await self._compactor.summarised(plan, wish)

    async def _apply(self, proposal: Proposal) -> CompactResult:
        self._compactor.check_applicable(proposal)
        await self._begin({"proposalId": proposal.id} if proposal.id else {})
        return await self._compactor.applied(proposal)

    async def _compact(self, wish: Wish) -> CompactResult:
        plan = self._planned(wish)
        await self._begin(_intent(wish))
        proposal = await self._compactor.summarised(plan, wish)
        if self._state.signal.aborted:
            raise PiError("compaction", "The compaction was aborted.")
        return await self._compactor.applied(proposal, wish.trigger)

    async def _undo(self) -> UndoResult:
        session, lane = self.session, self.lane
        change = last_change(session, lane)
        if change is None:
            raise PiError("compaction", "Nothing to undo: no compaction or edit on this branch.")
        edit = change.edit if change.followed else None
        in_place = edit is not None and self._can_show(edit.target_id, change.earlier)
        await self._begin({"undo": change.entry_ids[0]})
        if edit is not None and in_place:
            # What followed shall stay where it is: only the one entry is shown as before.
            await self._shown_as_before(edit.target_id, change.earlier)
        else:
            await session.move(change.before, lane=lane)
        return UndoResult(
            what=change.kind,
            entry_ids=change.entry_ids,
            left_behind=0 if in_place else change.followed,
            leaf_id=self.leaf,
        )

    def _can_show(self, entry_id: str, edit: ContextEditEntry | None) -> bool:
        """Whether the session's format can show an entry as this edit has it, or as its own."""
        if edit is not None and edit.replacement is None:
            return True
        try:
            self.session.check_replaceable(entry_id)
        except PiError:
            return False
        return True

    async def _shown_as_before(
        self, entry_id: str, edit: ContextEditEntry | None
    ) -> ContextEditEntry:
        if edit is None:
            return await self._restored(entry_id)
        content = None if edit.replacement is None else edit.replacement.content
        return await self.session.append_context_edit(entry_id, content, lane=self.lane)

    async def _edit(self, entry_id: str, text: str | None) -> ContextEditEntry:
        branch = self._compactor.branch()
        entry = self.session.entry(entry_id)
        name = f"Row {self.session.number(entry.id)}"
        if entry.id not in {item.entry_id for item in branch.items}:
            raise PiError("invalid_argument", f"{name} is not in the context of this branch.")
        check_edits([Omit(entry.id) if text is None else Replace(entry.id, text)], branch)
        if text is not None:
            self.session.check_replaceable(entry.id)
        await self._begin({"edit": entry.id})
        return await self.session.append_context_edit(entry.id, text, lane=self.lane)

    async def _restore(self, entry_id: str) -> ContextEditEntry:
        entry = self.session.entry(entry_id)
        ids = self.session.branch_ids(self.lane)
        edits = (self.session.entry(i) for i in ids if self.session.type_of(i) == "context_edit")
        if not any(isinstance(e, ContextEditEntry) and e.target_id == entry.id for e in edits):
            number = self.session.number(entry.id)
            raise PiError("invalid_argument", f"Row {number} is not edited on this branch.")
        self.session.check_replaceable(entry.id)
        await self._begin({"edit": entry.id})
        return await self._restored(entry.id)

    async def _restored(self, entry_id: str) -> ContextEditEntry:
        item = next(iter(shown([self.session.entry(entry_id)])), None)
        if item is None:
            raise PiError("invalid_argument", "That entry shows nothing by itself.")
        message = item.message
        content: Any
        if isinstance(message, BranchSummaryMessage | CompactionSummaryMessage):
            content = message.summary
        elif isinstance(message, BashExecutionMessage):
            content = message.output
        else:
            content = message.to_wire().get("content", "")
        return await self.session.append_context_edit(entry_id, content, lane=self.lane)


def _intent(wish: Wish) -> dict[str, Any]:
    return {"customInstructions": wish.instructions} if wish.instructions else {}
