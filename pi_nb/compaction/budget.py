"""How much a context may hold, and how much of it a compaction should leave standing."""

from __future__ import annotations

from dataclasses import dataclass

from pi_nb.result import PiError

RESERVE = 16_384
"""Tokens left free for the answer and its surprises; at most a quarter of the window."""
KEEP = 20_000
"""Tokens of the newest messages that stay word for word; at most half of the window."""
SMALLEST = 256
"""A window below this cannot hold a summary and a question."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens. What is not given follows from the window.

    Raises:
        PiError: `invalid_argument`: no number, below zero, or more than the window holds.
    """

    window: int = 200_000
    reserve: int | None = None
    keep: int | None = None

    def __post_init__(self) -> None:
        for name in ("window", "reserve", "keep"):
            value = getattr(self, name)
            if value is None and name != "window":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise PiError("invalid_argument", f"{name} is a number of tokens, not {value!r}.")
        if self.window < SMALLEST:
            text = f"A window of {self.window:,} tokens cannot hold a summary and a question."
            raise PiError("invalid_argument", text)
        if self.reserve is not None and self.reserve >= self.window:
            text = f"A reserve of {self.reserve:,} tokens leaves nothing of {self.window:,}."
            raise PiError("invalid_argument", text)

    @property
    def reserved(self) -> int:
        """Tokens to leave free."""
        return min(RESERVE, self.window // 4) if self.reserve is None else self.reserve

    @property
    def kept(self) -> int:
        """Tokens of the newest messages to keep: a target, since a pair is never split."""
        return min(KEEP, self.window // 2) if self.keep is None else self.keep

    @property
    def limit(self) -> int:
        """Where a context is full."""
        return self.window - self.reserved


def should_compact(tokens: int, budget: Budget) -> bool:
    """Whether a context of this size leaves less than the reserve."""
    return tokens > budget.limit
