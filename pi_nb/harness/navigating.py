"""Moving the leaf: to an entry, to before a prompt that is to be asked otherwise, and, where
asked for, with a summary of the branch that is left standing where the new one begins."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from pi_nb.abort import Aborted, unless_aborted
from pi_nb.compaction.assemble import assembled
from pi_nb.compaction.branches import LeftBranch, prepare_branch
from pi_nb.compaction.summary import Material
from pi_nb.messages import Usage, UserMessage, text_of
from pi_nb.result import PiError
from pi_nb.session.entries import BranchSummaryEntry, MessageEntry

from .compactor import Compactor, Wish, named
from .events import SessionTree
from .hooks import BeforeTree
from .limits import Spent
from .settings import Settings
from .turn import NavigateResult, Phase

T = TypeVar("T")


class Navigating(Settings):
    """How an `AgentHarness` moves in its session."""

    _compactor: Compactor

    async def _operation(self, phase: Phase, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    async def navigate(
        self,
        entry_id: str,
        *,
        files: bool = False,
        summarize: bool = False,
        wish: Wish | None = None,
    ) -> NavigateResult:
        """Move the leaf to an entry, or to before a user message, whose text comes back.

        Moving to the present leaf does nothing.

        Args:
            files: Make the files what they were there, as far as `checkpoints` kept copies;
                else they stay as they are, and the result names those that changed since.
            summarize: Have the branch that is left summarised; the summary is the first entry
                after the new leaf. Without one (the model failed) nothing moves.
            wish: Who summarises, and what the summary shall look at.

        Raises:
            PiError: `busy`; `invalid_argument`, there is no such entry; `hook`;
                `branch_summary`, no summary came.
        """
        if files and self._host.checkpoints is None:
            raise PiError("invalid_argument", "files=True needs a harness with checkpoints=True.")
        asked = wish or Wish()
        return await self._operation(
            "branch_summary", self._navigate(entry_id, files, asked if summarize else None)
        )

    async def move(self, leaf_id: str | None) -> NavigateResult:
        """Put the leaf at exactly this entry, or at None: before the first one.

        Raises:
            PiError: as `navigate`.
        """
        if leaf_id is not None:
            self.session.entry(leaf_id)
        return await self._operation("branch_summary", self._move(leaf_id, leaf_id))

    async def _navigate(self, entry_id: str, files: bool, wish: Wish | None) -> NavigateResult:
        entry = self.session.entry(entry_id)
        if entry.id == self.leaf:
            return NavigateResult()
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
            text = text_of(entry.message.content)
            above = self.session.anchor(entry.parent_id)
            return await self._move(above, entry.id, text, files=files, wish=wish)
        return await self._move(entry.id, entry.id, files=files, wish=wish)

    async def _move(
        self,
        leaf: str | None,
        target_id: str | None,
        text: str | None = None,
        *,
        files: bool = False,
        wish: Wish | None = None,
    ) -> NavigateResult:
        state, before = self._state, self.leaf
        asked = state.hooks.before_summary(BeforeTree(target_id, before))
        try:
            said = await unless_aborted(asked, state.signal)
        except Aborted:
            return NavigateResult(cancelled=True)
        if said.cancel or state.signal.aborted:
            return NavigateResult(cancelled=True)
        summary: BranchSummaryEntry | None = None
        session = self.session
        if leaf != before:
            intent = {"kind": "navigation", "targetId": target_id, "summarize": wish is not None}
            if wish and wish.instructions:
                intent["customInstructions"] = wish.instructions
            await self._host.journal.begin(intent)
            state.spent = Spent()
            fields: dict[str, Any] | None = None
            if said.summary is not None or wish is not None:
                fields = await self._summary_of(before, leaf, said.summary, wish or Wish())
            await session.move(leaf, lane=self.lane)
            if fields is not None:
                summary = await session.append_branch_summary(
                    from_id=before, lane=self.lane, **fields
                )
            await state.tell(
                SessionTree(
                    leaf_id=self.leaf,
                    previous=before,
                    summary_entry_id=summary.id if summary else None,
                )
            )
        changed, failures = await self._host.moved(before, leaf, files)
        return NavigateResult(
            editor_text=text,
            summary_entry_id=summary.id if summary else None,
            files=changed,
            failures=failures,
        )

    async def _summary_of(
        self, left: str | None, reached: str | None, given: str | None, wish: Wish
    ) -> dict[str, Any] | None:
        """What the entry holds that stands for a branch that is left; None where nothing was
        said there."""
        found = self._left(left, reached)
        if not found.items and given is None:
            return None
        if given is not None:
            return {"summary": given, "from_hook": True}
        paid: list[Usage] = []
        messages = [item.message for item in found.items]
        material = Material("branch", messages, None, wish.instructions, found.files)
        try:
            written = await self._compactor.write(material, wish, paid)
            if self._state.signal.aborted:
                raise PiError("branch_summary", "No summary: it was aborted")
        except PiError:
            await self._compactor.pay(sum(paid, Usage()), "branch_summary")
            raise
        usage = sum(paid, Usage())
        details: dict[str, Any] = {**found.files.details(), "writtenBy": written.by}
        return {
            "summary": assembled(written.text, None, (), found.files),
            "details": details | (named(written.model) if written.model else {}),
            "usage": usage if usage.total else None,
        }

    def _left(self, left: str | None, reached: str | None) -> LeftBranch:
        """What of the branch that is left is summarised: the newest that fits the window."""
        session, compactor = self.session, self._compactor
        common = session.common_ancestor(left, reached)
        ids: list[str] = []
        while left is not None and left != common:
            ids.append(left)
            left = session.parent_id(left)
        entries = [session.entry(entry_id) for entry_id in reversed(ids)]
        return prepare_branch(
            entries, compactor.budget().limit, compactor.weighing.estimator().weigh
        )
