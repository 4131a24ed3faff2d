"""How a harness compacts: `agent.compaction`, every field of which may be set at any time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pi_nb.compaction.budget import Budget
from pi_nb.compaction.plan import Plan
from pi_nb.compaction.policy import Policy, as_policy
from pi_nb.compaction.prompts import Prompts
from pi_nb.compaction.summary import Summariser
from pi_nb.models.types import ChatModel
from pi_nb.result import PiError
from pi_nb.tokens import Estimator

Auto = Literal["on", "off", "ask"]
_ANY = 1 << 40
"""A window that no reserve fills: how large it really is depends on the model."""
AUTO: tuple[Auto, ...] = get_args(Auto)


@dataclass(slots=True)
class CompactionSettings:
    """None: what follows from the model and the session.

    Raises:
        PiError: `invalid_argument`, a value that cannot be; also when a field is set.
    """

    auto: Auto = "on"
    """Whether a context that fills is compacted by itself: `on`, `off`, `ask` somebody first."""
    policy: Policy | str = "pi"
    """What plans: a policy, or its name."""
    keep: int | None = None
    """Tokens of the newest messages to keep; None: 20,000, at most half of the window."""
    reserve: int | None = None
    """Tokens to leave free; None: 16,384, at most a quarter of the window."""
    estimator: Estimator | str | None = None
    """What weighs messages; None: calibrated where the session holds usage, else the pieces
    of the model's family."""
    model: ChatModel | None = None
    """Who is asked for summaries; None: the session's model."""
    summariser: Summariser | None = None
    """Who writes them instead of a model: `pi_nb.extractive`, or a function of one's own."""
    prompts: Prompts = field(default_factory=Prompts)
    """What a model is asked."""
    check_shape: bool = True
    """Whether an answer without any of the fixed headings is refused (rule 29)."""
    asker: Callable[[Plan], Awaitable[bool]] | None = None
    """Who is asked where `auto="ask"`; None: nobody, which is a no."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "auto" and value not in AUTO:
            raise PiError("invalid_argument", f"auto is {', '.join(AUTO)}, not {value!r}")
        if name in ("keep", "reserve") and value is not None:
            Budget(window=_ANY, **{name: value})
        if name == "policy":
            as_policy(value)
        if name == "prompts" and not isinstance(value, Prompts):
            text = "prompts is a pi_nb.Prompts; its fields are texts: prompts.history += ..."
            raise PiError("invalid_argument", text)
        object.__setattr__(self, name, value)
