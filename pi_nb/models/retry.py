"""What a failed request means, and how long to wait before the next one.

One table decides, from top to bottom; the first row that fits wins. Order matters: what a
busy server says ("too many tokens, please wait") must not be read as a history that is too
long, or the harness compacts where it should wait (known fault C-37). Waiting and asking
again is the harness's; here is only what it needs to know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from pi_nb.messages import AssistantMessage
from pi_nb.result import PiError

Kind = Literal[
    "overflow",
    "throttled",
    "overloaded",
    "quota",
    "auth",
    "not_found",
    "invalid",
    "network",
    "timeout",
    "cut_off",
    "unknown",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
RETRYABLE: frozenset[Kind] = frozenset(
    {"throttled", "overloaded", "network", "timeout", "cut_off"},
)
"""Kinds that may pass by themselves. `overflow` is not among them: the same request fails
again, only a shorter one does not."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The class of one failed request."""

    kind: Kind
    retry_after: float | None = None
    """Seconds the server asked us to wait."""

    @property
    def retryable(self) -> bool:
        """The same request may go through a little later."""
        return self.kind in RETRYABLE


@dataclass(frozen=True)
class Rule:
    """One row: it fits if the status, the code or a part of the text is one of its own."""

    kind: Kind
    statuses: tuple[int, ...] = ()
    codes: tuple[str, ...] = ()
    """A provider's machine-readable words, compared without case."""
    text: str = ""
    """A regular expression, searched without case; empty: no text fits."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PiError("invalid_argument", f"{self.kind!r} is none of {', '.join(KINDS)}")
        try:
            re.compile(self.text)
        except re.error as error:
            raise PiError("invalid_argument", f"{self.text!r} is no pattern: {error}") from None

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        return re.compile(self.text, re.IGNORECASE) if self.text else None

    @cached_property
    def _codes(self) -> frozenset[str]:
        return frozenset(code.lower() for code in self.codes)

    def fits(self, status: int | None, code: str, text: str) -> bool:
        return (
            status in self.statuses
            or code in self._codes
            or (self._pattern is not None and self._pattern.search(text) is not None)
        )


def _any(*patterns: str) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)


OVERFLOW_TEXT = _any(
    r"prompt is too long",  # Anthropic
    r"exceeds? (?:the )?(?:model'?s )?context limit",  # Anthropic, with max_tokens
    r"maximum context length",  # OpenAI, OpenRouter, DeepSeek, vLLM, Mistral
    r"exceeds? (?:the |this model'?s )?context (?:window|length|size)",  # OpenAI, llama-cpp-python
    r"input token count.{0,40}exceeds the maximum",  # Gemini
    r"maximum prompt length is \d+",  # xAI
    r"reduce the length of (?:the|your) (?:messages|prompt|input)",  # Groq, Cerebras
    r"inputs`? tokens \+ `?max_new_tokens`? must be",  # Together, TGI
    r"inputs`? must have less than \d+ tokens",  # TGI
    r"exceeds? the available context size",  # llama.cpp
    r"tokens to keep from the initial prompt is greater than",  # LM Studio
    r"trying to keep the first \d+ tokens when context",  # LM Studio
    r"exceeded max context length",  # Ollama
    r"input length exceeds",  # Ollama, embeddings of several
    r"prompt token count of \d+ exceeds the limit",  # Copilot
    r"context window exceeds limit",  # MiniMax
    r"exceeded model token limit",  # Kimi
    r"too large for model with \d+",  # Mistral
    r"model_context_window_exceeded",  # z.ai, Anthropic as a stop reason
    r"prompt exceeds max(?:imum)? length",  # z.ai
    r"range of input length should be",  # DashScope
    r"context ?window ?exceeded ?error",  # LiteLLM
    r"input is too long for (?:the )?requested model",  # Bedrock
    r"longer than the model'?s context length",  # SGLang
    r"longer than the maximum model length",  # vLLM
    r"number of tokens in the prompt cannot exceed",  # Cohere
    r"context[_ ]length[_ ]exceeded",  # many, as a code in the text
    r"prompt (?:is )?too long",
    r"token limit exceeded",
    r"request entity too large",  # proxies
)

RULES: list[Rule] = [
    # What this project's own transport found out; it knows better than any wording.
    Rule("network", codes=("network",)),
    Rule("timeout", codes=("timeout",)),
    Rule("cut_off", codes=("cut_off",)),
    Rule("invalid", codes=("invalid", "not_json")),
    # A limit per minute passes; that a plan is used up does not, though both are 429.
    Rule("throttled", text=r"tokens per min|requests per min|\b[tr]pm\b|per[ _-]?minute"),
    Rule(
        "quota",
        statuses=(402,),
        codes=("insufficient_quota", "billing_error", "billing_not_active", "payment_required"),
        text=_any(
            r"insufficient[_ ](?:quota|balance|credits?|funds)",
            r"(?:exceeded|used up|reached|hit) your (?:\w+ ){0,3}(?:quota|usage limit|plan limit)",
            r"credit balance is too low",
            r"\b(?:quota|usage limit|plan limit)\b.{0,80}\b(?:billing|resets? (?:in|at)|upgrade)",
            r"check your plan and billing",
            r"out of credits|spending limit",
        ),
    ),
    Rule(
        "throttled",
        statuses=(429,),
        codes=(
            "rate_limit_error",
            "rate_limit_exceeded",
            "throttlingexception",
            "throttling",
            "toomanyrequestsexception",
            "too_many_requests",
            "resource_exhausted",
        ),
        text=_any(
            r"rate[ _-]?limit|throttl|too many requests|slow down",
            r"too many tokens\b.{0,40}\b(?:wait|per|retry)\b",
        ),
    ),
    Rule(
        "overloaded",
        statuses=(503, 529),
        codes=("overloaded_error", "server_overloaded", "service_unavailable", "unavailable"),
        text=_any(
            r"overloaded|service (?:is )?(?:temporarily )?unavailable|at capacity",
            r"(?:try|retry) again later|loading model|model is (?:still )?loading",
        ),
    ),
    Rule(
        "overflow",
        statuses=(413,),
        codes=(
            "context_length_exceeded",
            "context_window_exceeded",
            "exceed_context_size_error",
            "model_context_window_exceeded",
            "model_max_prompt_tokens_exceeded",
            "request_too_large",
        ),
        text=OVERFLOW_TEXT,
    ),
    Rule(
        "auth",
        statuses=(401, 403),
        codes=(
            "no_key",
            "authentication_error",
            "invalid_api_key",
            "permission_error",
            "permission_denied",
        ),
        text=r"(?:invalid|incorrect|missing|no) api[ _-]?key|unauthori[sz]ed",
    ),
    Rule(
        "not_found",
        statuses=(404, 410),
        codes=("not_found_error", "model_not_found"),
        text=r"model\b.{0,80}\b(?:not found|does not exist)",
    ),
    Rule("timeout", statuses=(408, 504, 524), codes=("timeout_error",), text=r"timed? ?out"),
    Rule("cut_off", text=r"ended early|incomplete chunked read|premature(?:ly)? clos"),
    Rule("network", text=r"connection (?:refused|reset|aborted|error)|network error"),
    Rule("invalid", statuses=(400, 405, 415, 422), codes=("invalid_request_error",)),
    Rule(
        "overloaded",
        statuses=(500, 502, 520, 521, 522, 523),
        codes=("api_error", "server_error", "internal_server_error", "internal_error"),
        text=r"internal (?:server )?error|bad gateway",
    ),
]
"""The table. Rows may be added in a running session with `add_rule`."""


def add_rule(rule: Rule) -> Callable[[], None]:
    """Put a row on top of the table, e.g. `add_rule(Rule("overflow", text="history too big"))`.

    Returns:
        A function that takes the row out again.
    """
    RULES.insert(0, rule)

    def remove() -> None:
        if any(row is rule for row in RULES):
            RULES[:] = [row for row in RULES if row is not rule]

    return remove


def classify(
    *,
    status: int | None = None,
    text: str = "",
    code: str | None = None,
    retry_after: float | None = None,
    rules: Iterable[Rule] | None = None,
) -> Failure:
    """The class of a failure by the first row that fits; `unknown` if none does.

    Args:
        status: The HTTP status, where there was one.
        text: What the server said, for people.
        code: What it said for programs (`type` or `code` of its error object).
        retry_after: Seconds it asked us to wait; handed through.
        rules: Another table; None: `RULES`.
    """
    word = (code or "").lower()
    for rule in RULES if rules is None else rules:
        if rule.fits(status, word, text):
            return Failure(rule.kind, retry_after)
    return Failure("unknown", retry_after)


def failure_of(message: AssistantMessage) -> Failure:
    """The class of a failed answer: as its stream said, else by its words."""
    for said in message.diagnostics or ():
        if isinstance(said, dict) and isinstance(said.get("failure"), str):
            return Failure(said["failure"], said.get("retryAfter"))
    return classify(text=message.error_message or "")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to ask and how long to wait in between.

    Waiting doubles and has a cap. There is no jitter: one kernel is no herd, and the same
    notebook takes the same time twice.
    """

    attempts: int = 4
    """Requests in all, the first one included; 1: never ask again."""
    base: float = 2.0
    """Seconds before the second request."""
    cap: float = 60.0
    """Seconds, the longest wait."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.base < 0 or self.cap < 0:
            raise PiError("invalid_argument", "attempts must be 1 or more, base and cap 0 or more")

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after failed request number `attempt` (from 1).

        The longer of the doubled wait and what the server asked for, at most `cap`.
        """
        # Beyond some doublings every cap is reached; the power itself must not overflow.
        doubled = self.base * 2.0 ** min(max(attempt - 1, 0), 64)
        return min(max(doubled, retry_after or 0.0), self.cap)

    def next_delay(self, attempt: int, failure: Failure) -> float | None:
        """Seconds to wait before asking again, or None: do not.

        None if the failure does not pass by itself, if the attempts are used up, and if
        the server asks for a longer wait than `cap`: asking earlier would fail again.
        """
        if not failure.retryable or attempt >= self.attempts:
            return None
        if failure.retry_after is not None and failure.retry_after > self.cap:
            return None
        return self.delay(attempt, failure.retry_after)
