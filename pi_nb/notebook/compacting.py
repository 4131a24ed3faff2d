"""What an agent's user does about its context: see a plan, have it written, change it, apply
it, take it back; go elsewhere, with a summary of what is left; leave entries out, show them
otherwise, pin them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pi_nb import background
from pi_nb.background import Run, RunAborted, drive_blocking
from pi_nb.compaction.pending import NoProposal
from pi_nb.compaction.pins import pin_label, unpinned_label
from pi_nb.compaction.plan import NothingToCompact, Plan
from pi_nb.compaction.policy import Policy
from pi_nb.compaction.proposal import Proposal
from pi_nb.compaction.summary import Summariser
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.compactor import Wish
from pi_nb.harness.turn import CompactResult, NavigateResult, UndoResult
from pi_nb.models.types import ChatModel
from pi_nb.result import PiError
from pi_nb.session.entries import ContextEditEntry, Entry

from .kernel import ask_to_compact
from .model_choice import NoModel, chat_model, no_model
from .settings import AgentSettings

EXTRACTIVE = "extractive"
"""Named in the place of a model: the summary is made by rules, and nobody is asked."""
Progress = Callable[[int, int], None]
"""Told which piece of a long history is read, from 1, and of how many."""


class AgentCompacting(AgentSettings):
    """The part of an `Agent` that is about what its model sees. Every method may be called
    from any thread but the loop's; those that ask a model can be interrupted."""

    _run: Run[Any] | None
    _can_ask: bool

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
        cut: str | int | Entry | None = None,
    ) -> Plan | NothingToCompact:
        """What a compaction would do and why: free, at once, nothing is asked or written.

        Args:
            keep: Tokens of the newest messages that stay word for word; a target.
            reserve: Tokens to leave free.
            cut: The first entry to keep, instead of where the policy cuts.

        Raises:
            PiError: `invalid_argument`, no such policy, estimator or budget, or no place where
                the branch may be cut.
        """
        self.check_open()
        wish = Wish(policy=policy, keep=keep, reserve=reserve, cut=self._cut(cut))
        return self.harness.plan(wish)

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
        cut: str | int | Entry | None = None,
        on_text: Callable[[str], None] | None = None,
        on_piece: Progress | None = None,
    ) -> Proposal:
        """Have the summary of a plan written. It is kept on record; the branch stays as it is
        until `apply`.

        Args:
            plan: As `agent.plan()` gave it, moved or not; None plans anew; a text is taken for
                `instructions`.
            instructions: What the summary shall look at.
            summariser: Who writes it instead of a model: `pi_nb.extractive`, or a function.
            model: Who is asked, instead of `agent.compaction.model` or the agent's own;
                `"extractive"` asks nobody.
            on_text: Told each piece of the summary as it arrives, on the loop thread.
            on_piece: Told which piece of a long history is read.

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
            cut=cut,
            on_text=on_text,
            on_piece=on_piece,
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

    def pending(self) -> Proposal | NoProposal:
        """The newest proposal that waits to be applied on this branch, from the log: also one
        that another process had made. Falsy, with the reason, where there is none.

        Raises:
            PiError: `invalid_argument`, the settings name no such estimator or budget.
        """
        self.check_open()
        return self.harness.pending()

    @property
    def proposal(self) -> Proposal | None:
        """As `pending`, None where no proposal waits."""
        found = self.pending()
        return found if isinstance(found, Proposal) else None

    def revise(self, proposal: Proposal) -> Proposal:
        """Put a changed proposal on record, so that `pending` gives it as it is now.

        Raises:
            PiError: `compaction`, the branch moved on since it was planned; `busy`.
        """
        self.check_open()
        background.call(self.harness.revise(proposal))
        return proposal

    def compact(
        self,
        instructions: str | None = None,
        *,
        summariser: Summariser | None = None,
        model: ChatModel | str | None = None,
        policy: Policy | str | None = None,
        keep: int | None = None,
        reserve: int | None = None,
        cut: str | int | Entry | None = None,
        on_text: Callable[[str], None] | None = None,
        on_piece: Progress | None = None,
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
            cut=cut,
            on_text=on_text,
            on_piece=on_piece,
        )
        result: CompactResult = self._working(lambda: self.harness.compact(wish=wish))
        return result

    def walk_compaction(
        self, instructions: str | None = None, **asked_with: Any
    ) -> CompactResult | None:
        """In a pass over a notebook (`at="root"`): what `compact` with the same arguments came
        to here before; the leaf is then after it, and nobody is asked.

        Args:
            asked_with: As `compact` takes them.

        Returns:
            None where no pass is under way, or this was not compacted here before.
        """
        wish = self._wish(instructions=instructions, **asked_with)
        plan = self.harness.plan(wish)
        if not isinstance(plan, Plan):
            return None
        settings = self.compaction
        own = wish.summariser or (None if wish.model else settings.summariser)
        asked = wish.model or settings.model or self.harness.model
        writer = str(asked.model)
        if own is not None:
            writer = EXTRACTIVE if getattr(own, "__name__", "") == EXTRACTIVE else "function"
        found = background.call(self._cells.compacted(plan, instructions, writer))
        if found is None:
            return None
        return CompactResult(
            entry=found,
            written_by=str(found.details.get("writtenBy", "")),
            before=found.tokens_before,
            after=self.harness.size.tokens,
        )

    def undo(self) -> UndoResult:
        """Take back the newest compaction or edit of the branch. Where the conversation went on
        since a compaction, what followed stays as a branch of its own.

        Raises:
            PiError: `compaction`, there is nothing to take back; `busy`.
        """
        self.check_open()
        return background.call(self.harness.undo())

    def goto(
        self,
        where: str | int | Entry,
        *,
        files: bool = False,
        summarize: bool = False,
        instructions: str | None = None,
        summariser: Summariser | None = None,
        model: ChatModel | str | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> NavigateResult:
        """Move the leaf to an entry: the next prompt branches from there.

        At a user message the leaf goes to before it, and its text comes back for editing.

        Args:
            where: An entry, its number in the outline, its label, or its id (the beginning
                or the end of it will do).
            files: Bring the files back too; for an agent made with `checkpoints=True`.
            summarize: Have the branch that is left summarised; the summary stands where the
                new one begins, and `summary_entry_id` names it.
            instructions, summariser, model, on_text: Of that summary; as for `propose`.

        Raises:
            RunAborted: the cell was interrupted; the leaf is where it was.
            PiError: `invalid_argument`, nothing or more than one entry fits; `busy`;
                `branch_summary`, no summary came, and nothing moved.
        """
        self.check_open()
        target = self.find(where).id
        if not summarize:
            if instructions or summariser is not None or model is not None:
                text = "Instructions and a model are for a summary: say summarize=True too."
                raise PiError("invalid_argument", text)
            return background.call(self.harness.navigate(target, files=files))
        wish = self._wish(
            instructions=instructions, summariser=summariser, model=model, on_text=on_text
        )
        moved: NavigateResult = self._working(
            lambda: self.harness.navigate(target, files=files, summarize=True, wish=wish)
        )
        return moved

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

    def _cut(self, where: str | int | Entry | None) -> int | None:
        """A place to cut as the number that the outline and errors name it by."""
        return None if where is None else self.session.number(self.find(where).id)

    def _wish(
        self,
        *,
        model: ChatModel | str | None = None,
        cut: str | int | Entry | None = None,
        on_text: Callable[[str], None] | None = None,
        on_piece: Progress | None = None,
        **given: Any,
    ) -> Wish:
        """Raises:
        PiError: `invalid_state`, there is nobody to write a summary; `invalid_argument`, no
            such model, or two who shall write.
        """
        self.check_open()
        given["cut"] = self._cut(cut)
        told = {"on_text": on_text, "on_piece": on_piece}
        given |= {name: value for name, value in told.items() if value is not None}
        if model is not None and given.get("summariser") is not None:
            raise PiError("invalid_argument", "A model or a summariser writes it: name one.")
        if model == EXTRACTIVE:
            from pi_nb.compaction.extractive import extractive  # of use to few

            given["summariser"] = extractive
        elif model is not None:
            given["model"] = chat_model(model, None, beside=self.model)
        settings = self.compaction
        writer = given.get("summariser") or given.get("model")
        writer = writer or settings.summariser or settings.model
        if writer is None and isinstance(self.harness.model, NoModel):
            used = self.session.context(self.harness.lane).model
            text = f'{no_model(used)} Without one: model="{EXTRACTIVE}".'
            raise PiError("invalid_state", text)
        return Wish(**given)

    def _working(self, work: Callable[[], Any]) -> Any:
        """Do something on the loop thread that an interrupt aborts, and wait for it.

        Raises:
            RunAborted: it was interrupted; it says whether it was done by then.
        """
        running: list[Run[Any]] = []

        async def run(_run: Run[Any]) -> Any:
            return await work()

        def start() -> Run[Any]:
            self._check_idle()
            self._run = made = Run(run, self._abort_soon)
            running.append(made)
            return made

        try:
            return drive_blocking(start)
        except RunAborted as pressed:
            if not (running and running[0].finished):
                raise  # left behind, which it says itself
            raise RunAborted(_how_far(running[0])) from pressed

    async def _ask_to_compact(self, plan: Plan) -> bool:
        """Who is asked where `auto="ask"`: the cell's user, where there is one; else nobody."""
        run = self._run
        if run is None or not self._can_ask:
            return False
        return bool(await run.on_main(lambda: ask_to_compact(plan)))

    def _check_idle(self) -> None:
        raise NotImplementedError

    def _abort_soon(self) -> None:
        raise NotImplementedError


def _how_far(run: Run[Any]) -> str:
    """What an interrupted operation did: all of it or nothing, and which of the two."""
    try:
        run.outcome()
    except (PiError, RunAborted):
        return "Interrupted: nothing was applied, nothing moved."
    return "Interrupted too late: it was done already."
