"""An estimator put right by what a provider reported: source `calibrated`.

Between two answers of one model the request grew by what was added, and the provider said by
how much. Over a session these intervals give the factor by which an estimator is off for its
texts. What is put around each message is not scaled: it is the same for a long one.

    request 1    u1                        reported 1,000
    request 2    u1 [a1 t1 u2]             reported 1,400: an interval of 400 tokens
                     added, estimated 320
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pi_nb.estimators import family_of
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
)
from pi_nb.tokens import IMAGE_TOKENS, Estimator, said, wrapping

LEAST, MOST = 0.75, 2.0
"""The factor stays within these: beyond them it is not the tokenizer that is wrong."""
SMALLEST = 200
"""Tokens. A smaller interval says more about rounding than about texts."""
BELIEVED = (0.3, 4.0)
"""Reported over estimated; outside of it something was sent that the log does not hold."""


class Interval(NamedTuple):
    """What was added between two requests."""

    reported: int
    """Tokens, by the provider."""
    estimated: int
    """Tokens, by the estimator as it is."""
    content: int
    """Those of them that are texts."""
    messages: int

    @property
    def fits(self) -> bool:
        """Whether it is one to learn from."""
        least, most = BELIEVED
        share = self.reported / max(self.estimated, 1)
        return self.reported >= SMALLEST and least <= share <= most


@dataclass(slots=True)
class Calibration:
    """The factor of one branch, kept from message to message at the cost of each alone.

    An interval needs two answers of the same model with reported input and nothing between
    them that is not text of the log: no failed or aborted answer, no image, no `restart`.
    """

    base: Estimator
    intervals: int = 0
    """That the factor stands on."""
    left_out: int = 0
    """Intervals that were too small or not believed."""
    _reported: int = field(default=0, repr=False)
    _content: int = field(default=0, repr=False)
    _around: int | None = field(default=None, repr=False)
    _before: AssistantMessage | None = field(default=None, repr=False)
    """The answer that the present interval begins with."""
    _estimated: int = field(default=0, repr=False)
    _messages: int = field(default=0, repr=False)

    def add(self, message: AgentMessage) -> Interval | None:
        """Take the next message of the branch, as it was sent.

        Returns:
            The interval that ends with it, also where it is left out of the factor.
        """
        if isinstance(message, AssistantMessage):
            return self._answered(message)
        if isinstance(message, BashExecutionMessage) and message.exclude_from_context:
            return None
        if isinstance(message, CompactionSummaryMessage) or said(message)[1]:
            self.restart()  # and what an image weighs is another matter than texts
        elif self._before is not None:
            self._take(message)
        return None

    def restart(self) -> None:
        """A compaction or an edit: the next request differs by more than what is added. What
        was learned stays."""
        self._before = None

    @property
    def factor(self) -> float:
        """What texts weigh over what the base says; 1.0 until there is an interval."""
        if not self.intervals or self._content <= 0:
            return 1.0
        return min(max(self._reported / self._content, LEAST), MOST)

    @property
    def around(self) -> int:
        """Tokens around a message: of the family that was measured last, else the base's."""
        return self.base.around if self._around is None else self._around

    def estimator(self) -> Estimator:
        """The base put right as far as it is known now; later messages do not change it. The
        base itself where no interval was found."""
        if not self.intervals:
            return self.base
        base, factor, around = self.base, self.factor, self.around

        def weigh(message: AgentMessage) -> int:
            text, images = said(message)
            if text is None:
                return 0
            fixed = images * IMAGE_TOKENS
            content = max(base.weigh(message) - base.around - fixed, 0)
            return around + round(content * factor) + fixed

        return Estimator(
            "calibrated", weigh, lambda text: round(base.weigh_text(text) * factor), around
        )

    def _answered(self, message: AssistantMessage) -> Interval | None:
        before = self._before
        self._before = None
        if message.stop_reason in ("error", "aborted") or not (now := requested(message)):
            return None
        found = None
        if before and (before.provider, before.model) == (message.provider, message.model):
            content = self._estimated - self.base.around * self._messages
            grown = now - requested(before)
            found = Interval(grown, self._estimated, content, self._messages)
            self._learn(found, message)
        self._before, self._estimated, self._messages = message, 0, 0
        self._take(message)
        return found

    def _take(self, message: AgentMessage) -> None:
        self._estimated += self.base.weigh(message)
        self._messages += 1

    def _learn(self, found: Interval, message: AssistantMessage) -> None:
        if not found.fits:
            self.left_out += 1
            return
        self._around = wrapping(family_of(message.provider, message.model))
        self.intervals += 1
        self._reported += found.reported - self._around * found.messages
        self._content += found.content


def requested(message: AssistantMessage) -> int:
    """Tokens of the request behind an answer, as reported; 0 where nobody said, or nonsense."""
    usage = message.usage
    parts = (usage.input, usage.cache_read, usage.cache_write)
    return 0 if usage.estimated or min(parts) < 0 else sum(parts)


def calibrated(
    messages: Iterable[AgentMessage], base: Estimator, restarts: Collection[int] = ()
) -> Estimator:
    """The base put right by the usage that messages report, given in branch order.

    Args:
        restarts: Places before which the context changed otherwise than by growing, such as
            `believed_from` of a branch.

    Returns:
        The base itself where the messages report too little.
    """
    found = Calibration(base)
    for place, message in enumerate(messages):
        if place in restarts:
            found.restart()
        found.add(message)
    return found.estimator()
