"""What an agent's user does about its context: see a plan, have it written, change it, apply
it, take it back; leave entries out, show them otherwise, pin them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pi_nb import background
from pi_nb.background import Run, drive_blocking
from pi_nb.compaction.pins import pin_label, unpinned_label
from pi_nb.compaction.plan import NothingToCompact, Plan
from pi_nb.compaction.policy import Policy
from pi_nb.compaction.proposal import Proposal
from pi_nb.compaction.summary import Summariser
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.compactor import Wish
from pi_nb.harness.turn import CompactResult, UndoResult
from pi_nb.models.types import ChatModel
from pi_nb.result import PiError
from pi_nb.session.entries import ContextEditEntry, Entry

from .model_choice import NoModel, chat_model, no_model
from .settings import AgentSettings


class AgentCompacting(AgentSettings):
    """The part of an `Agent` that is about what its model sees. Every method may be called
    from any thread but the loop's; those that ask a model can be interrupted."""

    _run: Run[Any] | None

    @property
    def compaction(self) -> CompactionSettings:
        """How it compacts: `agent.compaction.auto = "off"`, `.keep`, `.reserve`, `.policy`,
        `.prompts.history`, `.summariser = pi_nb.extractive`, ..."""
        return self.harness.compaction

    def plan(
        self,
        *,
        policy: Policy | str | None = None,
        keep: int | None = None,
        reserve: int | None = None,
    ) -> Plan | NothingToCompact:
        """What a compaction would do and why: free, at once, nothing is asked or written.

        Args:
            keep: Tokens of the newest messages that stay word for word; a target.
            reserve: Tokens to leave free.

        Raises:
            PiError: `invalid_argument`, no such policy, estimator or budget.
        """
        self.check_open()
        return self.harness.plan(Wish(policy=policy, keep=keep, reserve=reserve))

    def propose(
        self,
        plan: Plan | str | None = None,
        *,
        instructions: str | None = None,
        summariser: Summariser | None = None,
        model: ChatModel | str | None = None,
        policy: Policy | str | None = None,
        keep: int | None = None,
        reserve: int | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Proposal:
        """Have the summary of a plan written. It is kept on record; the branch stays as it is
        until `apply`.

        Args:
            plan: As `agent.plan()` gave it, moved or not; None plans anew; a text is taken for
                `instructions`.
            instructions: What the summary shall look at.
            summariser: Who writes it instead of a model: `pi_nb.extractive`, or a function.
            model: Who is asked, instead of `agent.compaction.model` or the agent's own.
            on_text: Told each piece of the summary as it arrives.

        Raises:
            RunAborted: the cell was interrupted; the log is as it was.
            PiError: `compaction`, with the reason; `busy`; `invalid_argument`; `invalid_state`:
                there is no model to ask.
        """
        if isinstance(plan, str):
            plan, instructions = None, plan
        wish = self._wish(
            instructions=instructions,
            summariser=summariser,
            model=model,
            policy=policy,
            keep=keep,
            reserve=reserve,
            on_text=on_text,
        )
        proposal: Proposal = self._working(lambda: self.harness.propose(plan, wish))
        return proposal

    def apply(self, proposal: Proposal) -> CompactResult:
        """Put a proposal in force: its text goes into the log to the letter.

        Raises:
            PiError: `compaction`, the branch moved on since it was planned; `invalid_argument`,
                the words of a pinned entry are missing; `busy`. The log is as it was.
        """
        self.check_open()
        return background.call(self.harness.apply(proposal))

    def discard(self, proposal: Proposal) -> None:
        """Drop a proposal. It stays in the log as discarded."""
        self.check_open()
        background.call(self.harness.discard(proposal))

    def compact(
        self,
        instructions: str | None = None,
        *,
        summariser: Summariser | None = None,
        model: ChatModel | str | None = None,
        policy: Policy | str | None = None,
        keep: int | None = None,
        reserve: int | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> CompactResult:
        """Plan, propose and apply at once.

        Args and errors as for `propose`.
        """
        wish = self._wish(
            instructions=instructions,
            summariser=summariser,
            model=model,
            policy=policy,
            keep=keep,
            reserve=reserve,
            on_text=on_text,
        )
        result: CompactResult = self._working(lambda: self.harness.compact(wish=wish))
        return result

    def undo(self) -> UndoResult:
        """Take back the newest compaction or edit of the branch. Where the conversation went on
        since a compaction, what followed stays as a branch of its own.

        Raises:
            PiError: `compaction`, there is nothing to take back; `busy`.
        """
        self.check_open()
        return background.call(self.harness.undo())

    # --- by hand ------------------------------------------------------------------------

    def omit(self, where: str | int | Entry) -> ContextEditEntry:
        """Leave an entry out of what the model sees. The log keeps it; `undo` brings it back.

        Raises:
            PiError: `invalid_argument`: no such entry in the context of this branch, or it is
                pinned; `busy`.
        """
        self.check_open()
        return background.call(self.harness.omit(self.find(where).id))

    def replace(self, where: str | int | Entry, text: str) -> ContextEditEntry:
        """Show the model another text for an entry. The log keeps the old one.

        Raises:
            PiError: as `omit`; also where the session's format cannot show it.
        """
        self.check_open()
        return background.call(self.harness.replace(self.find(where).id, text))

    def restore(self, where: str | int | Entry) -> ContextEditEntry:
        """Show an entry as it was written, whatever edits came since.

        Raises:
            PiError: `invalid_argument`, it is not edited; `busy`.
        """
        self.check_open()
        return background.call(self.harness.restore(self.find(where).id))

    def pin(self, *where: str | int | Entry) -> list[Entry]:
        """Keep entries word for word, whichever way the context is compacted. A pin is a label
        that begins with `pin`; pi shows it too.

        Raises:
            PiError: `invalid_argument`, there is no such entry.
        """
        return [self._labelled(entry, pin_label) for entry in map(self.find, where)]

    def unpin(self, *where: str | int | Entry) -> list[Entry]:
        """Take pins out again; the labels that were there before come back.

        Raises:
            PiError: `invalid_argument`, there is no such entry.
        """
        return [self._labelled(entry, unpinned_label) for entry in map(self.find, where)]

    def _labelled(self, entry: Entry, change: Callable[[str | None], str | None]) -> Entry:
        self.check_open()
        label = change(self.session.labels.get(entry.id))
        background.call(self.session.set_label(entry.id, label))
        return entry

    # --- at work ------------------------------------------------------------------------

    def _wish(
        self,
        *,
        model: ChatModel | str | None,
        on_text: Callable[[str], None] | None,
        **given: Any,
    ) -> Wish:
        """Raises:
        PiError: `invalid_state`, there is nobody to write a summary.
        """
        self.check_open()
        if on_text is not None:
            given["on_text"] = on_text
        if model is not None:
            given["model"] = chat_model(model, None, beside=self.model)
        settings = self.compaction
        writer = given.get("summariser") or given.get("model")
        if writer is None and settings.summariser is None and settings.model is None:
            if isinstance(self.harness.model, NoModel):
                used = self.session.context(self.harness.lane).model
                raise PiError(
                    "invalid_state",
                    f"{no_model(used)} Without one: `%compact --model extractive`.",
                )
        return Wish(**given)

    def _working(self, work: Callable[[], Any]) -> Any:
        """Do something on the loop thread that an interrupt aborts, and wait for it."""

        async def run(_run: Run[Any]) -> Any:
            return await work()

        def start() -> Run[Any]:
            self._check_idle()
            self._run = made = Run(run, self._abort_soon)
            return made

        return drive_blocking(start)

    def _check_idle(self) -> None:
        raise NotImplementedError

    def _abort_soon(self) -> None:
        raise NotImplementedError
