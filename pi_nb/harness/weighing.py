"""What weighs a harness's context: calibrated by what providers reported, kept from turn to turn.

Weighing anew would cost the length of the branch at every turn; each message is looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pi_nb.calibration import Calibration
from pi_nb.compaction.branch import Branch
from pi_nb.estimators import estimator, family_of
from pi_nb.js import dumps
from pi_nb.models.types import Model
from pi_nb.session.context import ContextItem
from pi_nb.tokens import Estimate, Estimator, measured, reported_by

from .compaction_settings import CompactionSettings
from .host import State


class Weighing:
    """The estimator in force on one lane."""

    def __init__(self, state: State, settings: CompactionSettings) -> None:
        self._state = state
        self._settings = settings
        self._calibration: Calibration | None = None
        self._base = ""
        self._count = 0
        self._last: ContextItem | None = None
        self._fixed: tuple[object, int] | None = None
        self._sum = _Sum()

    def estimator(self) -> Estimator:
        """What the settings name; else calibrated where usage was reported, else the pieces of
        the model's family.

        Raises:
            PiError: `invalid_argument`, no such estimator.
        """
        chosen = self._settings.estimator
        if chosen is not None:
            return estimator(chosen) if isinstance(chosen, str) else chosen
        calibration = self._grown()
        return calibration.estimator() if calibration.intervals else calibration.base

    def _grown(self) -> Calibration:
        """The calibration with the messages that are new; begun again where the branch or the
        family is another."""
        state = self._state
        model = state.model.model
        base = _base(model)
        items = state.session.context(state.lane).items
        known = self._count
        same = known <= len(items) and (not known or items[known - 1] is self._last)
        if self._calibration is None or not same or base != self._base:
            self._calibration, self._base, known = Calibration(estimator(base)), base, 0
        for item in items[known:]:
            self._calibration.add(item.message)
        self._count, self._last = len(items), items[-1] if items else None
        return self._calibration

    def fixed(self, estimator: Estimator) -> int:
        """Tokens of the system prompt and the tools, as the last turn had them; before the
        first one, a prompt that is a function counts nothing."""
        state = self._state
        tools = tuple(state.tools[name] for name in state.active)
        prompt = state.last_prompt
        if not prompt and isinstance(state.system_prompt, str):
            prompt = state.system_prompt  # no turn yet
        key = (prompt, tools, estimator)
        if self._fixed is None or self._fixed[0] != key:
            texts = [prompt, *(dumps(tool.spec.to_wire()) for tool in tools)]
            self._fixed = (key, sum(map(estimator.weigh_text, texts)))
        return self._fixed[1]

    def size(self) -> Estimate:
        """What the next request holds, with the prompt and the tools, from where usage is
        believed: the cost of what came since."""
        state = self._state
        estimator = self.estimator()
        context = state.session.context(state.lane)
        found = self._sum.grown(context.items, context.believed_from, estimator)
        if found.reported:
            return measured(found.reported, found.tokens)
        return Estimate(found.tokens + self.fixed(estimator), estimator.source)

    def branch(self) -> Branch:
        """The lane's branch as it is now, weighed by the estimator in force."""
        state, estimator = self._state, self.estimator()
        fixed = self.fixed(estimator)
        return Branch.of(state.session, state.lane, estimator, fixed)


@dataclass(slots=True)
class _Sum:
    """The weight of a context since the newest usage that is believed, kept as it grows: a
    server that reports none must not make every turn cost the length of the branch."""

    tokens: int = 0
    reported: int = 0
    """By the newest answer whose usage is believed; 0: none is, and all items are in `tokens`."""
    _count: int = 0
    _last: ContextItem | None = None
    _by: tuple[int, Estimator] | None = None

    def grown(self, items: Sequence[ContextItem], believed_from: int, estimator: Estimator) -> _Sum:
        """The sum with the items that are new; begun again where the branch is another one, or
        where another estimator weighs what was not reported."""
        known, by = self._count, (believed_from, estimator)
        if by != self._by or known > len(items) or (known and items[known - 1] is not self._last):
            self.tokens = self.reported = 0
            newest = range(len(items) - 1, believed_from - 1, -1)
            known = next((place for place in newest if reported_by(items[place].message)), 0)
        for place in range(known, len(items)):
            said = items[place].message
            if place >= believed_from and (reported := reported_by(said)):
                self.tokens, self.reported = 0, reported
            else:
                self.tokens += estimator.weigh(said)
        self._count, self._by = len(items), by
        self._last = items[-1] if items else None
        return self


def _base(model: Model) -> str:
    """The estimator that suits a model where nothing was reported. A scripted one has no
    tokenizer: it reports characters / 4."""
    if model.api == "scripted":
        return "pi"
    return f"piece/{family_of(model.provider, model.id)}"
