"""Tokens and dollars of one request: what to believe of a server's numbers, what they cost.

A number that cannot be true (a gateway that adds up the cache reads of a whole day, known
fault C-29) would start a compaction, or prevent one. It is not believed when it arrives:
what was sent and what came are estimated instead, and the usage says so (`estimated`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pi_nb.estimators import estimator, family_of
from pi_nb.grown import common
from pi_nb.messages import AssistantMessage, Cost, Usage

from .types import Messages, Model, Price, Request

SPARE = 1.25
"""How far above a model's window a prompt may lie: catalogues are sometimes late."""
BYTES_A_TOKEN = 2
"""Fewer bytes of JSON a token than this are not seen in any language, over a whole request."""


def possible(usage: Usage, model: Model, sent: Mapping[str, Any]) -> bool:
    """Whether a server's numbers can be those of this one request.

    They cannot where the prompt is larger than the window and than what was sent, or where
    the answer is larger than the window. Both bounds for the prompt, because a window may
    be a guess, and because the tokens of an image have nothing to do with its bytes.

    Args:
        sent: The JSON of the request.
    """
    window = model.context_window * SPARE
    if usage.output > max(window, model.max_tokens or 0):
        return False
    prompt = usage.input + usage.cache_read + usage.cache_write
    return prompt <= window or prompt <= len(json.dumps(sent)) / BYTES_A_TOKEN


class Estimating:
    """Estimates what servers do not report. Messages that were weighed once are not again."""

    def __init__(self, model: Model) -> None:
        self._by = estimator(f"piece/{family_of(model.provider, model.id)}")
        self._weighed: Messages = ()
        self._tokens = 0

    def usage(self, request: Request, said: AssistantMessage) -> Usage:
        """The usage of one request and its answer, marked as estimated."""
        known = common(self._weighed, request.messages)
        if known < len(self._weighed):
            known = self._tokens = 0
        self._tokens += sum(map(self._by.weigh, request.messages[known:]))
        self._weighed = request.messages
        tools = "".join(tool.model_dump_json() for tool in request.tools)
        prompt = self._tokens + sum(map(self._by.weigh_text, (request.system_prompt, tools)))
        output = self._by.weigh(said) if said.content else 0
        return Usage(input=prompt, output=output, total_tokens=prompt + output, estimated=True)


def priced(usage: Usage, price: Price | None) -> Usage:
    """The usage with its total of tokens and its cost filled in where they are not given.

    A cost that the provider reported stays. Without a price the cost stays zero, which
    means unknown. A tier is chosen by the whole prompt, cached tokens included, and holds
    for the whole request, as providers bill it.
    """
    changes: dict[str, Any] = {} if usage.total_tokens else {"total_tokens": usage.total}
    if price is not None and not usage.cost.total:
        rate = price.at(usage.input + usage.cache_read + usage.cache_write)
        long = min(usage.cache_write1h or 0, usage.cache_write)
        long_rate = rate.input * 2 if rate.cache_write1h is None else rate.cache_write1h
        dollars = {
            "input": usage.input * rate.input / 1e6,
            "output": usage.output * rate.output / 1e6,
            "cache_read": usage.cache_read * rate.cache_read / 1e6,
            "cache_write": ((usage.cache_write - long) * rate.cache_write + long * long_rate) / 1e6,
        }
        changes["cost"] = Cost(**dollars, total=sum(dollars.values()))
    return usage.having(**changes) if changes else usage
