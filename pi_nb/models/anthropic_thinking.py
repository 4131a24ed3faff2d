"""How Claude models are told to think, generation by generation, and what each refuses.

Old ones take a budget of tokens, newer ones decide for themselves under a word for the
effort; some think unless they are told not to, some cannot be told. A wrong form is refused
with the whole request, so it is data here: the first row whose pattern is found in a
model's id holds, and an id that is newer than this table is treated like the newest of its
family.

Source of the rows: "Troubleshooting thinking", "Effort", "Preserved thinking" and the
migration guides of the provider's documentation, as of November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .types import Model, RequestOptions, ThinkingLevel

Off = Literal["left_out", "disabled", "between_tools", "lowest_effort"]
"""How thinking is switched off: by saying nothing, by that type, or not at all, and then
the least effort comes nearest."""

BUDGETS: Mapping[ThinkingLevel, int] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
}
"""Tokens for thinking. Where a model has no budget, this much room is left beside the answer."""

LEAST_BUDGET = 1_024
"""The provider refuses less."""
LEAST_ANSWER = 1_024
DEFAULT_LIMIT = 8_192
"""Tokens of an answer where nobody knows the model's own limit; the field is required."""

INTERLEAVED = "interleaved-thinking-2025-05-14"
BINDING = "thinking-binding-controls-2026-08-01"


@dataclass(frozen=True, slots=True)
class Thinks:
    """What one kind of model takes."""

    off: Off
    budgets: bool = False
    """A number of tokens; else the model decides, and `output_config.effort` says how hard."""
    top: str = "xhigh"
    """The word for the highest level's effort."""
    shown: bool = True
    """Its thinking comes back without text unless the text is asked for."""
    bound: bool = False
    """Its thinking is refused behind a history that was changed since, as a compaction
    does, unless the request says that it shall be passed over there; and it cannot go along
    in a request that switches thinking off."""
    temperature: bool = False
    """It takes a temperature while it does not think."""
    strict: bool = False
    """While it works through tool calls, it thinks only if that turn began with thinking."""
    betas: tuple[str, ...] = ()


_CLAUDE_BUDGETS = Thinks(
    "left_out", budgets=True, shown=False, temperature=True, strict=True, betas=(INTERLEAVED,)
)
_NO_MINOR = r"(?![-.]\d{1,2}(?!\d))"  # a date behind the number is no part of the version

RULES: tuple[tuple[str, Thinks], ...] = (
    (r"claude-[a-z]+-4[-.]6(?!\d)", Thinks("left_out", top="max", shown=False, temperature=True)),
    (r"claude-[a-z]+-4[-.][7-9](?!\d)", Thinks("left_out")),
    (r"claude-(?:[1-4]|instant|[a-z]+-4(?!\d))", _CLAUDE_BUDGETS),
    (rf"claude-(?:opus|sonnet)-5{_NO_MINOR}", Thinks("disabled")),
    (rf"claude-(?:fable|mythos)-(?:5{_NO_MINOR}|preview)", Thinks("lowest_effort")),
    (r"claude-haiku-", Thinks("disabled", bound=True, betas=(BINDING,))),
    (r"claude-sonnet-", Thinks("between_tools", bound=True, betas=(BINDING,))),
    (r"claude-", Thinks("lowest_effort", bound=True, betas=(BINDING,))),
    (r"^MiniMax-M3$", Thinks("disabled", top="max", shown=False, temperature=True)),
    (r"^MiniMax-M(?:[3-9]|\d\d)", Thinks("lowest_effort", top="max", shown=False)),
)

COMPATIBLE = Thinks("disabled", budgets=True, shown=False, temperature=True)
"""Models of other makers: budgets, the older and wider known form."""


def thinks(model_id: str) -> Thinks:
    """The row of a model, whatever a platform puts around the id."""
    for pattern, row in RULES:
        if re.search(pattern, model_id):
            return row
    return COMPATIBLE


@dataclass(frozen=True, slots=True)
class Thinking:
    """What one request says of thinking, and what follows from it."""

    limit: int
    """`max_tokens`: thinking and answer together."""
    fields: Mapping[str, Any]
    """Top-level fields of the body."""
    temperature: bool
    replayed: bool
    """Thinking in the history may go along."""


def plan(model: Model, options: RequestOptions, row: Thinks, *, may_think: bool = True) -> Thinking:
    """How a request asks for its level of thinking. Known fault V-03 lives here.

    The options' `max_tokens` are those of the answer: the limit is raised by the room for
    thinking as far as the model's own limit goes, and a budget that does not fit below the
    limit is lowered. Where the least budget does not fit either, the model does not think.

    Args:
        may_think: False where the history rules it out; then as with level `off`.
    """
    level = options.thinking_level if may_think and model.reasoning else "off"
    if not model.reasoning:
        return Thinking(_limit(model, options, 0), {}, row.temperature, not row.bound)
    if row.budgets:
        return _with_budget(model, options, row, level)
    if level == "off" and row.off != "lowest_effort":
        return _off(_limit(model, options, 0), row)
    asked: dict[str, Any] = {"type": "adaptive"}
    if row.shown:
        asked["display"] = "summarized"
    if row.bound:
        asked["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    word = row.top if level == "xhigh" else "low" if level in ("off", "minimal") else level
    room = BUDGETS["minimal" if level == "off" else level]
    fields = {"thinking": asked, "output_config": {"effort": word}}
    return Thinking(_limit(model, options, room), fields, False, True)


def _with_budget(
    model: Model, options: RequestOptions, row: Thinks, level: ThinkingLevel
) -> Thinking:
    wanted = 0 if level == "off" else BUDGETS[level]
    limit = _limit(model, options, wanted)
    if level == "off" or limit <= LEAST_BUDGET:
        return _off(limit, row)
    budget = max(min(wanted, limit - LEAST_ANSWER), LEAST_BUDGET)
    fields = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return Thinking(limit, fields, False, True)


def _off(limit: int, row: Thinks) -> Thinking:
    fields = {} if row.off == "left_out" else {"thinking": {"type": row.off}}
    return Thinking(limit, fields, row.temperature, not row.bound)


def _limit(model: Model, options: RequestOptions, room: int) -> int:
    asked, ceiling = options.max_tokens, model.max_tokens
    if asked is None:
        # Some catalogues give the window as the limit; then no prompt would fit beside it.
        return min(ceiling, max(model.context_window // 2, 1)) if ceiling else DEFAULT_LIMIT + room
    raised = asked + room
    return raised if ceiling is None else max(asked, min(raised, ceiling))
