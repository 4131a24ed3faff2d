"""A context that fills is compacted by itself: looked at before every request, and where a
provider says that it was too much.

    threshold   before a turn's request, and after a run     size > window - reserve
    overflow    a request failed as too long: compact once, ask once more

Every decision is told with its reason (`AutoCompaction`). A compaction that does not help is
not tried again before the next prompt: it would only be paid for again (C-09).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from pi_nb.abort import Aborted, unless_aborted
from pi_nb.compaction.plan import NothingToCompact, Plan
from pi_nb.compaction.proposal import Proposal
from pi_nb.compaction.shorten import shortened
from pi_nb.loop.run import Turn
from pi_nb.messages import AgentMessage, AssistantMessage
from pi_nb.models.retry import failure_of
from pi_nb.result import PiError
from pi_nb.text import safe_line
from pi_nb.tokens import Estimate

from .called import called
from .compactor import Compactor, Wish
from .events import AutoCompaction, SummaryUpdate
from .host import State
from .turn import CompactResult

Trigger = Literal["threshold", "overflow"]
_Tell = Callable[..., Awaitable[None]]
ROOM = 1_000
"""Tokens left for a summary where the kept messages would else fill the window again."""
HELPS = 0.9
"""A compaction that leaves more than this of what was there has not helped."""
EMPTY_AT = 0.99
"""A cut-off answer without a token to a prompt of this share of the window: the server cut
the prompt in silence (C-41)."""


@dataclass(frozen=True, slots=True)
class _Fill:
    """How full the context is before a request."""

    size: Estimate
    incoming: int
    window: int
    limit: int

    @property
    def tokens(self) -> int:
        return self.size.tokens + self.incoming

    @property
    def over(self) -> bool:
        return self.tokens > self.limit


class AutoCompactor:
    """Makes room on one lane. Belongs to the event loop of its harness."""

    def __init__(self, state: State, compactor: Compactor) -> None:
        self._state = state
        self._compactor = compactor
        self._given_up = ""
        """Why it is not tried again before the next prompt, in words; empty: it may be."""
        self._because: Literal["", "declined", "failed"] = ""
        self._reading = (1, 1)
        self.made: list[CompactResult] = []
        """What was compacted since the prompt."""

    def begin(self) -> None:
        """A new prompt: what did not help before may help now."""
        self._given_up, self._because, self.made = "", "", []

    # --- threshold ----------------------------------------------------------------------

    async def before_turn(self, turn: Turn) -> None:
        """Make room for the request of a turn, if it needs some.

        Raises:
            PiError: `compaction`, the request is larger than the window whatever is done; what
                does not get smaller is named. `session`.
        """
        if self._state.signal.aborted:
            return
        fill = self._fill(turn)
        if not fill.over:
            return
        await self._make_room(fill, "threshold")
        fill = self._fill(turn)
        on = self._compactor.settings.auto != "off" and self._because != "declined"
        if on and fill.tokens > fill.window and not self._state.signal.aborted:
            raise PiError("compaction", self._why_stuck(fill))

    async def after_run(self, reason: str) -> None:
        """Make room after a run that ended well, so that the next prompt need not wait."""
        if reason not in ("done", "terminated") or self._state.signal.aborted:
            return
        fill = self._fill(None)
        if fill.over:
            await self._make_room(fill, "threshold")

    # --- overflow -----------------------------------------------------------------------

    async def overflowed(self, messages: tuple[AgentMessage, ...]) -> bool:
        """Whether to ask once more, after a run that ended with these: its request was too long
        for the provider, and there is less of it now."""
        state = self._state
        answers = [said for said in messages if isinstance(said, AssistantMessage)]
        if not answers or state.signal.aborted or not self._too_long(answers[-1]):
            return False
        if self._given_up:
            return False
        return await self._make_room(self._fill(None), "overflow")

    async def asked_again(self, messages: tuple[AgentMessage, ...]) -> None:
        """After the request was made again with these: where it was too long once more, say so
        and stop. Compacting again would be paid for again (C-09)."""
        answers = [said for said in messages if isinstance(said, AssistantMessage)]
        if answers and self._too_long(answers[-1]):
            fill = self._fill(None)
            again = "The provider found the request too long again, after a compaction."
            self._given_up = f"{again} {self._stuck(fill)}"
            await self._tell(fill, "overflow", "stopped", self._given_up)

    def _too_long(self, said: AssistantMessage) -> bool:
        model = self._state.model.model
        if (said.provider, said.model) != (model.provider, model.id):
            return False  # another model said so, whose window is not ours any more (C-42)
        if said.stop_reason == "error":
            return failure_of(said).kind == "overflow"
        window = model.context_window
        sent = said.usage.input + said.usage.cache_read + said.usage.cache_write
        cut = said.stop_reason == "length" and not said.usage.output and not said.content
        return cut and sent >= window * EMPTY_AT

    def advice(self, said: AssistantMessage) -> str:
        """What would help after an answer that says the context is too long; empty: nothing."""
        if not self._too_long(said):
            return ""
        if self._compactor.settings.auto == "off":
            return "automatic compaction is off; `%compact` makes room"
        if self._given_up:
            return self._given_up
        return "`%compact` makes room"

    # --- both ---------------------------------------------------------------------------

    def _fill(self, turn: Turn | None) -> _Fill:
        state, weighing = self._state, self._compactor.weighing
        if turn is not None:
            state.last_prompt = turn.system_prompt
        estimator = weighing.estimator()
        budget = self._compactor.budget()
        return _Fill(
            size=weighing.size(),
            incoming=sum(map(estimator.weigh, state.incoming or state.taken)),
            window=budget.window,
            limit=budget.limit,
        )

    async def _make_room(self, fill: _Fill, trigger: Trigger) -> bool:
        """Whether the context is smaller now. Tells what it decides."""
        state, settings = self._state, self._compactor.settings
        tell = partial(self._tell, fill, trigger)
        if self._given_up:
            return False
        if settings.auto == "off":
            await tell("off", "automatic compaction is off")
            self._given_up = "automatic compaction is off; `%compact` makes room"
            return False
        phase, state.phase = state.phase, "compaction"
        try:
            return await self._compacted(fill, trigger, tell)
        finally:
            state.phase = phase

    async def _tell(
        self, fill: _Fill, trigger: Trigger, decision: str, why: str, tokens: int | None = None
    ) -> None:
        await self._state.tell(
            AutoCompaction.model_validate(
                {
                    "trigger": trigger,
                    "decision": decision,
                    "why": why,
                    "tokens": fill.tokens if tokens is None else tokens,
                    "limit": fill.limit,
                }
            )
        )

    async def _compacted(self, fill: _Fill, trigger: Trigger, tell: _Tell) -> bool:
        state, compactor = self._state, self._compactor
        over = f"≈{fill.tokens:,} tokens are more than {fill.limit:,}"
        why = over if trigger == "threshold" else "the provider found the request too long"
        wish = Wish(
            keep=self._keep(fill, trigger),
            trigger=trigger,
            on_text=self._update,
            on_piece=self._piece,
        )
        try:
            plan = compactor.plan(wish)
        except PiError as error:  # a policy of somebody's own must not cost the answer
            await self._failed(tell, error)
            return False
        if isinstance(plan, Plan) and (no := await self._refused(plan)):
            self._given_up, self._because = f"declined: {no}", "declined"
            await tell("declined", no)
            return False
        await tell("begins", why)
        done: CompactResult | None = None
        if isinstance(plan, Plan):
            try:
                done = await self._applied(plan, wish)
            except PiError as error:
                if state.signal.aborted:
                    await tell("failed", "aborted")
                    return False
                if error.code in ("session", "hook"):
                    raise
                await self._failed(tell, error)
                return False
        shorter = await self._shortened(trigger)
        now = self._fill(None)
        after = now.tokens
        if done is None and not shorter:
            words = str(plan) if isinstance(plan, NothingToCompact) else "it would not get smaller"
            self._given_up = self._stuck(now)
            await tell("nothing", f"{words} {self._given_up}")
            return False
        if after > fill.limit or (trigger == "overflow" and after > fill.tokens * HELPS):
            # Once more would be paid for again, with the same outcome.
            self._given_up = self._stuck(now)
            await tell("stopped", self._given_up, after)
        else:
            await tell("done", f"≈{fill.tokens:,} → ≈{after:,} tokens", after)
        return after < fill.tokens

    async def _failed(self, tell: _Tell, error: PiError) -> None:
        self._given_up = f"compaction failed: {safe_line(str(error), 160)}"
        self._because = "failed"
        await tell("failed", str(error))

    async def _applied(self, plan: Plan, wish: Wish) -> CompactResult | None:
        proposal: Proposal = await self._compactor.summarised(plan, wish)
        if self._state.signal.aborted:
            raise PiError("compaction", "The compaction was aborted.")
        if proposal.grows:
            await self._compactor.record(proposal, "discarded")
            return None
        done = await self._compactor.applied(proposal, wish.trigger)
        self.made.append(done)
        return done

    async def _shortened(self, trigger: Trigger) -> bool:
        """Where what is kept is still too much, show its longest tool results cut (C-03)."""
        now = self._fill(None)
        if now.tokens <= now.limit:
            return False
        compactor = self._compactor
        plan = shortened(compactor.branch(), compactor.budget(), now.tokens - now.limit)
        if plan is None:
            return False
        proposal = replace(Proposal(plan, "", "function"), id=self._state.session.new_id())
        self.made.append(await compactor.applied(proposal, trigger))
        return True

    async def _refused(self, plan: Plan) -> str:
        """Why the plan must not be carried out; empty: it may. Whoever cannot answer does not
        allow it."""
        settings, nobody = self._compactor.settings, "nobody allowed it"
        if settings.auto != "ask":
            return ""
        if settings.asker is None:
            return nobody
        try:
            asked = called(settings.asker, plan)
            return "" if await unless_aborted(asked, self._state.signal) else nobody
        except Aborted:
            return nobody
        except Exception as error:
            return f"asking for it failed: {safe_line(str(error) or type(error).__name__)}"

    def _keep(self, fill: _Fill, trigger: Trigger) -> int:
        """What to keep so that it fits with the fixed part and a summary.

        After an overflow at most half of what was there: a window that was too small for it is
        not what it is said to be, and within that one all might be kept.
        """
        fixed = self._fixed()
        room = fill.limit - fixed - fill.incoming - ROOM
        if trigger == "overflow":
            room = min(room, (fill.tokens - fixed) // 2)
        return max(min(self._compactor.budget().kept, room), 1)

    def _piece(self, piece: int, pieces: int) -> None:
        self._reading = (piece, pieces)

    def _update(self, delta: str) -> None:
        piece, pieces = self._reading
        self._state.tell_soon(SummaryUpdate(delta=delta, piece=piece, pieces=pieces))

    def _fixed(self) -> int:
        """Tokens of the system prompt and the tools: what no compaction makes smaller."""
        weighing = self._compactor.weighing
        return weighing.fixed(weighing.estimator())

    def _why_stuck(self, fill: _Fill) -> str:
        """Why a request cannot be made: what failed, where something did."""
        if self._because != "failed":
            return self._stuck(fill)
        size = f"≈{fill.tokens:,} tokens do not fit a window of {fill.window:,}"
        return f"{size}, and the {self._given_up.rstrip('.')}. `%compact` says more."

    def _stuck(self, fill: _Fill) -> str:
        fixed = f"the system prompt and the tools take ≈{self._fixed():,} of them"
        return (
            f"The context does not get smaller than ≈{fill.tokens:,} tokens in a window of "
            f"{fill.window:,}; {fixed}. A model with a larger window, fewer tools, or "
            "`%agent new` helps."
        )
