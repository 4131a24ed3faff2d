"""Asking again where a failure passes by itself, and limits that end a run in the ordinary way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pi_nb.messages import AgentMessage, AssistantMessage
from pi_nb.models.retry import RetryPolicy, failure_of
from pi_nb.result import PiError


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a run ends with reason `budget`. None: no limit.

    A limit is looked at between turns, so a run may pass it by one turn. What it came to
    stays: the next prompt goes on from there.
    """

    turns: int | None = None
    """Requests of one run."""
    tokens: int | None = None
    """Tokens of one run, in and out, cached ones included."""
    cost: float | None = None
    """US dollars of one run, where prices are known."""
    session_tokens: int | None = None
    """Tokens of the whole session, all branches."""
    session_cost: float | None = None
    """US dollars of the whole session, all branches."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and value < 0:
                raise PiError("invalid_argument", f"{name} must be 0 or more, not {value}")

    @property
    def of_session(self) -> bool:
        """What the session holds has to be counted."""
        return self.session_tokens is not None or self.session_cost is not None


@dataclass(slots=True)
class Spent:
    """What requests took so far."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0

    def add(self, messages: Iterable[AgentMessage]) -> None:
        """Count the answers among the messages."""
        for message in messages:
            if isinstance(message, AssistantMessage):
                self.turns += 1
                self.tokens += message.usage.total
                self.cost += message.usage.cost.total


def reached(limits: Limits, run: Spent, session: Spent) -> str | None:
    """The limit that was reached, in words; None: none."""
    for limit, spent, what in (
        (limits.turns, run.turns, "requests in a run"),
        (limits.tokens, run.tokens, "tokens in a run"),
        (limits.session_tokens, session.tokens, "tokens in a session"),
    ):
        if limit is not None and spent >= limit:
            return f"the limit of {limit:,} {what}"
    for dollars, paid, what in (
        (limits.cost, run.cost, "a run"),
        (limits.session_cost, session.cost, "a session"),
    ):
        if dollars is not None and paid >= dollars:
            return f"the limit of ${dollars:g} for {what}"
    return None


class Attempts:
    """How often the same request was tried in a row."""

    def __init__(self, policy: RetryPolicy | None, newest: tuple[AgentMessage, ...] = ()) -> None:
        self._policy = policy
        self.newest = newest
        """What the last attempt added, the answer last."""
        self.number = 1

    def delay(self, messages: tuple[AgentMessage, ...]) -> float | None:
        """Seconds to wait before asking again after a run that added these; None: do not.

        An answer that came before the failure starts the count anew.
        """
        answers = [message for message in messages if isinstance(message, AssistantMessage)]
        if self._policy is None or not answers or answers[-1].stop_reason != "error":
            return None
        if len(answers) > 1:
            self.number = 1
        return self._policy.next_delay(self.number, failure_of(answers[-1]))
