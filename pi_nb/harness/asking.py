"""A question beside the conversation, by the same way that a turn's question goes.

Hooks see it, a failure that may pass is asked again, limits hold, what it took is counted,
and `requests` keeps it. It is written nowhere: what becomes of the answer is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from pi_nb.abort import Aborted, unless_aborted
from pi_nb.loop.run import bounded
from pi_nb.messages import AssistantMessage
from pi_nb.models.fold import Fold
from pi_nb.models.types import ChatModel, End, Request, TextDelta
from pi_nb.result import PiError

from .host import Host, State
from .limits import Attempts, Spent, reached
from .retrying import waits

Text = Callable[[str], None]
"""Told each piece of the answer's text."""


class Asking:
    """Asks one model on behalf of a harness."""

    def __init__(self, state: State, host: Host, model: ChatModel, purpose: str) -> None:
        """
        Args:
            purpose: `compaction` or `branch_summary`.
        """
        self._state = state
        self._host = host
        self._model = model
        self._purpose = purpose
        self.on_text: Text = lambda text: None
        self.on_answer: Callable[[AssistantMessage], None] = lambda said: None
        """Told every answer, the failed ones too: they may have cost something."""

    async def __call__(self, request: Request) -> AssistantMessage:
        """Ask, and again while a failure may pass. A failure or an abort is an answer too.

        Raises:
            PiError: a limit is reached (`compaction`, `branch_summary`); `hook`.
        """
        said = await self._once(request)
        attempts = Attempts(self._host.retry, (said,))
        async for _ in waits(self._state, attempts):
            said = await self._once(request)
            attempts.newest = (said,)
        return said

    async def _once(self, request: Request) -> AssistantMessage:
        state, model = self._state, self._model.model
        over = reached(state.limits, state.spent, state.spent_by_session or Spent())
        if over is not None:
            raise PiError(self._purpose, f"No summary: {over} is reached.")
        fold = Fold(model, request.options.thinking_level)
        try:
            if state.gate is not None:
                await state.gate.before_request(model, state.signal)
            request = await unless_aborted(self._shown(request), state.signal)
        except Aborted:
            fold.apply(End(reason="aborted", error_message=state.signal.reason))
        else:
            async with aclosing(bounded(self._model, request, state.signal)) as stream:
                async for event in stream:
                    fold.apply(event)
                    if isinstance(event, TextDelta):
                        self.on_text(event.delta)
        said = fold.message()
        self.on_answer(said)
        for spent in filter(None, (state.spent, state.spent_by_session)):
            spent.add((said,))
        if state.gate is not None:
            state.gate.answered(said)
        return self._host.unless_refused(said)

    async def _shown(self, request: Request) -> Request:
        """The request as the hooks leave it, noted among those that were sent."""
        hooks, model = self._state.hooks, self._model.model
        request = await hooks.request(request, model)
        if hooks.any("before_provider_payload"):
            payload = partial(self._host.payload, model)
            request = request.having(options=request.options.having(on_payload=payload))
        self._host.note(request, model, (), self._purpose)
        return request
