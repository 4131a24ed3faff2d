"""Plan, summarise, apply: what a compaction takes from a harness, whoever asked for it.

plan        pure; what the user sees first
summarised  hooks, then whoever writes: a Proposal, on record as `open`
applied     checked against the branch, written to the letter, told
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pi_nb.abort import Aborted, unless_aborted
from pi_nb.compaction.assemble import assembled
from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.files import Files
from pi_nb.compaction.pinned_edits import check_edits
from pi_nb.compaction.pins import pinned
from pi_nb.compaction.plan import NothingToCompact, Omit, Plan
from pi_nb.compaction.policy import Policy, as_policy
from pi_nb.compaction.proposal import Proposal, pins_in_summary, proposed
from pi_nb.compaction.summarize import ModelSummariser, SummaryFailed
from pi_nb.compaction.summary import Material, Summariser, Written
from pi_nb.compaction.unanswered import keeping_unanswered
from pi_nb.messages import Usage
from pi_nb.models.types import ChatModel, RequestOptions
from pi_nb.result import PiError
from pi_nb.session.entries import CompactionEntry
from pi_nb.text import safe_line

from .asking import Asking
from .called import called, watched
from .compaction_settings import CompactionSettings
from .events import SessionCompact
from .hooks import BeforeCompact
from .host import Host, State
from .turn import CompactResult
from .weighing import Weighing


@dataclass(frozen=True, slots=True)
class Wish:
    """What one compaction asks for instead of the settings; None: theirs."""

    instructions: str | None = None
    policy: Policy | str | None = None
    keep: int | None = None
    reserve: int | None = None
    cut: str | int | None = None
    """The first entry to keep, its id or its number, instead of where the policy cuts."""
    model: ChatModel | None = None
    summariser: Summariser | None = None
    trigger: str = "manual"
    on_text: Callable[[str], None] = field(default=lambda text: None)
    """Told each piece of a summary as it arrives."""
    on_piece: Callable[[int, int], None] = field(default=lambda piece, pieces: None)
    """Told which piece of a long history is read, and of how many."""


class Compactor:
    """Compacts the lane of one harness. Belongs to its event loop, but for `plan`."""

    def __init__(self, state: State, host: Host, settings: CompactionSettings) -> None:
        self._state = state
        self._host = host
        self.settings = settings
        self.weighing = Weighing(state, settings)

    # --- planning: pure -----------------------------------------------------------------

    def budget(self, wish: Wish = Wish()) -> Budget:  # frozen
        """Window, reserve and keep of the model that is in force.

        Raises:
            PiError: `invalid_argument`, no such budget.
        """
        settings = self.settings
        return Budget(
            window=self._state.model.model.context_window,
            reserve=settings.reserve if wish.reserve is None else wish.reserve,
            keep=settings.keep if wish.keep is None else wish.keep,
        )

    def branch(self) -> Branch:
        """The lane's branch as it is now, weighed as the settings say."""
        return self.weighing.branch()

    def plan(self, wish: Wish = Wish()) -> Plan | NothingToCompact:
        """What would be done. What no model has answered yet stays, whatever the policy.

        Raises:
            PiError: `invalid_argument`: no such policy or budget, the policy failed or its plan
                does not fit the branch, or `wish.cut` is no place to cut.
        """
        policy = self.settings.policy if wish.policy is None else wish.policy
        plans, branch = as_policy(policy), self.branch()
        found = _planned(plans, branch, self.budget(wish))
        if not found and wish.cut is not None:
            # A cut that was chosen by hand may lie in what the budget would have kept.
            found = _planned(plans, branch, self.budget(replace(wish, keep=1))) or found
        if isinstance(found, Plan):
            found = keeping_unanswered(found)
        if isinstance(found, Plan) and wish.cut is not None:
            return found.move(wish.cut)
        return found

    # --- writing a summary --------------------------------------------------------------

    async def summarised(self, plan: Plan, wish: Wish) -> Proposal:
        """A plan with its summary, written by a hook, or by whoever writes summaries.

        Raises:
            PiError: `compaction`: cancelled, or no summary; `hook`.
        """
        self.check_fresh(plan)
        event = BeforeCompact(plan, wish.trigger, wish.instructions)
        try:
            said = await unless_aborted(self._state.hooks.before_summary(event), self._state.signal)
        except Aborted:
            raise PiError("compaction", "The compaction was aborted.") from None
        if said.cancel:
            raise PiError("compaction", "A session_before_compact hook cancelled the compaction.")
        if said.summary is not None and plan.summarise is not None:
            pins = [(plan.name(item.entry_id), item) for item in pins_in_summary(plan)]
            text = assembled(said.summary, None, pins, Files())
            made = Proposal(plan, text, "hook")
        else:
            made = await self._written(plan, wish)
        made = replace(made, id=self._state.session.new_id())
        await self.record(made, "open")
        return made

    async def _written(self, plan: Plan, wish: Wish) -> Proposal:
        found = plan.preparation
        if plan.summarise is None or found is None:
            return proposed(plan, None, None)
        history = prefix = None
        paid: list[Usage] = []
        try:
            if found.history:
                messages = [item.message for item in found.history]
                material = Material(
                    "history", messages, plan.previous_summary, wish.instructions, found.files
                )
                history = await self.write(material, wish, paid)
            if found.turn_prefix:
                messages = [item.message for item in found.turn_prefix]
                material = Material("turn_prefix", messages, None, wish.instructions, found.files)
                prefix = await self.write(material, wish, paid)
        except PiError:
            await self.pay(sum(paid, Usage()), "compaction")
            raise
        return replace(proposed(plan, history, prefix), usage=sum(paid, Usage()))

    async def write(self, material: Material, wish: Wish, paid: list[Usage]) -> Written:
        """One piece's summary. What was paid is added to `paid` also where it fails.

        Raises:
            PiError: `compaction`, `branch_summary`: there is none, and why; `hook`.
        """
        code = "branch_summary" if material.kind == "branch" else "compaction"
        summariser = wish.summariser or (None if wish.model else self.settings.summariser)
        if summariser is None:
            model = wish.model or self.settings.model or self._state.model
            asking = Asking(self._state, self._host, model, code)
            asking.on_text = watched(wish.on_text)
            asking.on_answer = lambda said: paid.append(said.usage)
            summariser = ModelSummariser(
                asking,
                model.model,
                self.settings.prompts,
                self._options(model),
                self.settings.check_shape,
                self.weighing.estimator(),
                watched(wish.on_piece),
            )
            return await summariser(material)
        try:
            answer = await unless_aborted(called(summariser, material), self._state.signal)
        except Aborted:
            raise SummaryFailed(material, "it was aborted") from None
        except PiError:
            raise
        except Exception as error:
            raise SummaryFailed(material, f"the summariser failed: {error}") from error
        if not isinstance(answer, str | Written):
            raise SummaryFailed(material, f"the summariser gave {type(answer).__name__}, no text")
        written = Written(answer, "function") if isinstance(answer, str) else answer
        if not written.text.strip():
            raise SummaryFailed(material, "the summariser gave no text")
        paid.append(written.usage)
        return written

    def _options(self, model: ChatModel) -> RequestOptions:
        """What a summary is asked with: as a turn, but for what another provider must not see:
        headers, which may hold a key, and fields of a body that it does not know."""
        state = self._state
        options = state.options.having(thinking_level=state.thinking_level)
        ours, other = state.model.model, model.model
        if (ours.provider, ours.base_url) == (other.provider, other.base_url):
            return options
        return options.having(headers={}, extra_body={})

    async def pay(self, usage: Usage, cause: str, proposal: Proposal | None = None) -> None:
        """Put on record what was paid. With a proposal, its entry says so itself once it is
        applied, and the record is not counted twice."""
        if not usage.total:
            return
        fields: dict[str, Any] = {"usage": usage, "cause": cause}
        if proposal is not None:
            fields |= {"entryId": proposal.id}
            if proposal.model:
                fields |= {"details": named(proposal.model)}
        await self._state.session.record("usage", lane=self._state.lane, **fields)

    async def record(self, proposal: Proposal, status: str, *, paid: bool = False) -> None:
        """Note what became of a proposal; the first time also what it took.

        Args:
            paid: What it took is on record already.
        """
        await self._state.session.record(
            "proposal",
            lane=self._state.lane,
            proposalId=proposal.id,
            plan=proposal.to_dict(),
            summary=proposal.text,
            state=status,
        )
        if status == "open" and not paid:
            await self.pay(proposal.usage, "compaction", proposal)

    # --- applying -----------------------------------------------------------------------

    def check_fresh(self, plan: Plan) -> None:
        """Raises:
        PiError: `compaction`, the branch is not where the plan was made for.
        """
        session = self._state.session
        now = self.branch()
        if plan.branch.mark != now.mark:
            there = "moved on" if plan.leaf_id in session else "is another"
            raise PiError(
                "compaction",
                f"The plan is stale: the branch {there} since. Nothing was written; plan again.",
            )

    def check_applicable(self, proposal: Proposal) -> None:
        """Raises:
        PiError: `compaction`, it is stale or empty; `invalid_argument`, pinned words are
            missing, or an entry cannot be edited.
        """
        session, plan = self._state.session, proposal.plan
        self.check_fresh(plan)
        fresh = replace(plan.branch, pins=pinned(session, self._state.lane))
        replace(proposal, plan=replace(plan, branch=fresh)).check_pins()
        if plan.summarise is not None and not proposal.text.strip():
            raise PiError("compaction", "The proposal has no text.")
        check_edits(plan.edits, fresh)
        for operation in plan.edits:
            if not isinstance(operation, Omit):
                session.check_replaceable(operation.entry_id)

    async def applied(self, proposal: Proposal, trigger: str = "manual") -> CompactResult:
        """Write a proposal to the letter: its edits, then its compaction.

        Raises:
            PiError: `compaction`, it is stale or empty; `invalid_argument`, pinned words are
                missing, or an entry cannot be edited. The log is then as it was.
        """
        state, plan = self._state, proposal.plan
        self.check_applicable(proposal)
        for operation in plan.edits:
            content = None if isinstance(operation, Omit) else operation.content
            await state.session.append_context_edit(operation.entry_id, content, lane=state.lane)
        entry = await self._entry(proposal, trigger) if plan.summarise else None
        if proposal.id:
            await self.record(proposal, "applied")
        result = CompactResult(
            entry=entry,
            trigger=trigger,
            written_by=proposal.written_by,
            edits=len(plan.edits),
            before=proposal.tokens_before,
            after=proposal.tokens_after,
            usage=proposal.usage,
        )
        await state.tell(
            SessionCompact(
                entry_id=entry.id if entry else None,
                trigger=trigger,
                written_by=proposal.written_by,
                before=result.before,
                after=result.after,
            )
        )
        return result

    async def _entry(self, proposal: Proposal, trigger: str) -> CompactionEntry:
        state, cut = self._state, proposal.plan.summarise
        assert cut is not None
        details = proposal.entry_details()
        details |= {"trigger": trigger, "tokensAfter": proposal.tokens_after}
        # Applied a second time (it was undone) it is another entry, and was paid for once.
        again = proposal.id in state.session
        return await state.session.append_compaction(
            proposal.text,
            cut.first_kept_entry_id,
            proposal.tokens_before,
            details=details | (named(proposal.model) if proposal.model else {}),
            usage=proposal.usage if proposal.usage.total and not again else None,
            from_hook=True if proposal.by == "hook" else None,
            id="" if again else proposal.id,
            lane=state.lane,
        )


def _planned(plans: Policy, branch: Branch, budget: Budget) -> Plan | NothingToCompact:
    """What a policy says. It may be anybody's code: what it raises is put into words.

    Raises:
        PiError: `invalid_argument`, the policy failed, or its plan does not fit the branch.
    """
    try:
        return plans(branch, budget)
    except PiError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        text = f"The policy {safe_line(plans.name)} failed: {safe_line(said, 160)}"
        raise PiError("invalid_argument", text) from error


def named(model: str) -> dict[str, str]:
    """`provider/id` as details of entries and records name it."""
    provider, _, name = model.partition("/")
    return {"provider": provider, "model": name}
