from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.models.retry import KINDS, RULES, Failure, RetryPolicy, Rule, add_rule, classify
from pi_nb.result import PiError

# C-40: how servers say that a history is too long.
OVERFLOWS = [
    "prompt is too long: 213462 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "Please reduce the length of the messages or completion. Current length is 9000, limit 8192",
    "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000",
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 1025",
    "the request exceeds the available context size. try increasing the context size",
    "request (9001 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "Requested tokens (5000) exceed context window of 4096",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Trying to keep the first 9000 tokens when context the overflows.",
    "prompt too long; exceeded max context length by 120 tokens",
    "the input length exceeds the context length",
    "prompt token count of 149000 exceeds the limit of 128000",
    "invalid params, context window exceeds limit (2013)",
    "Invalid request: Your request exceeded model token limit: 262144",
    "Prompt contains 150000 tokens and 0 draft tokens, too large for model with 131072 maximum",
    "model_context_window_exceeded",
    "Prompt exceeds max length",
    "Range of input length should be [1, 129024]",
    "litellm.ContextWindowExceededError: too many",
    "Input is too long for requested model.",
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081",
]

# C-37: words that look like an overflow and are a busy server.
BUSY = [
    (429, "Too many tokens, please wait before trying again.", "throttled"),
    (None, "ThrottlingException: Too many tokens, please wait before trying.", "throttled"),
    (429, "Rate limit reached on tokens per min (TPM): Limit 10000, Used 9000", "throttled"),
    (429, "This would exceed the rate limit of 40,000 input tokens per minute", "throttled"),
    (400, "Too many tokens per day, please wait before trying again.", "throttled"),
    (503, "Service unavailable: no token budget, maximum context length is 8192", "overloaded"),
    (429, "maximum context length is 8192 tokens", "throttled"),
    (400, "Requests rate limit exceeded, context window", "throttled"),
]  # fmt: skip


@pytest.mark.parametrize("text", OVERFLOWS)
@pytest.mark.parametrize("status", [None, 400, 500])
def test_a_history_that_is_too_long_is_known_by_its_words(text: str, status: int | None) -> None:
    """C-40."""
    failure = classify(status=status, text=text)

    assert failure.kind == "overflow"
    assert not failure.retryable


@pytest.mark.parametrize(("status", "text", "kind"), BUSY)
def test_a_busy_server_is_waited_for_and_never_compacted_for(
    status: int | None, text: str, kind: str
) -> None:
    """C-37."""
    failure = classify(status=status, text=text)

    assert failure.kind == kind
    assert failure.retryable


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (429, "You exceeded your current quota, please check your plan and billing details.", None),
        (429, "", "insufficient_quota"),
        (429, "You have reached your plan limit. It resets in 5 h.", None),
        (429, "Usage limit reached, resets at 3pm", None),
        (400, "Your credit balance is too low to access the API.", None),
        (402, "", None),
    ],
)
def test_a_quota_that_is_used_up_is_not_asked_again(
    status: int, text: str, code: str | None
) -> None:
    """R-03."""
    failure = classify(status=status, text=text, code=code)

    assert failure.kind == "quota"
    assert not failure.retryable


@pytest.mark.parametrize(
    ("status", "text", "code", "kind"),
    [
        (413, "", None, "overflow"),
        (400, "", "context_length_exceeded", "overflow"),
        (400, "bad", "exceed_context_size_error", "overflow"),
        (529, "", None, "overloaded"),
        (None, "", "overloaded_error", "overloaded"),
        (503, "Loading model", None, "overloaded"),
        (500, "", None, "overloaded"),
        (502, "Bad Gateway", None, "overloaded"),
        (None, "", "api_error", "overloaded"),
        (401, "Incorrect API key provided", None, "auth"),
        (403, "", None, "auth"),
        (404, "The model `x` does not exist", "model_not_found", "not_found"),
        (404, "", None, "not_found"),
        (408, "", None, "timeout"),
        (504, "", None, "timeout"),
        (None, "anything at all, 429", "network", "network"),
        (None, "maximum context length", "cut_off", "cut_off"),
        (None, "The stream ended early", None, "cut_off"),
        (None, "Connection reset by peer", None, "network"),
        (400, "tool_choice is odd", "invalid_request_error", "invalid"),
        (422, "", None, "invalid"),
        (418, "I am a teapot", None, "unknown"),
        (None, "", None, "unknown"),
    ],
)
def test_each_failure_has_its_class(
    status: int | None, text: str, code: str | None, kind: str
) -> None:
    assert classify(status=status, text=text, code=code).kind == kind


def test_overloaded_before_and_inside_a_stream_are_the_same() -> None:
    """R-08."""
    assert classify(status=529).kind == classify(code="overloaded_error").kind


@given(st.none() | st.integers(100, 599), st.text(max_size=200), st.none() | st.text(max_size=20))
def test_every_failure_is_one_of_the_known_kinds(
    status: int | None, text: str, code: str | None
) -> None:
    assert classify(status=status, text=text, code=code).kind in KINDS


def test_a_user_adds_a_wording_in_a_running_session_and_takes_it_back() -> None:
    """C-40: without a change of code."""
    before = list(RULES)

    remove = add_rule(Rule("overflow", text="history .* too big"))

    assert classify(status=400, text="your HISTORY is too big").kind == "overflow"
    remove()
    remove()
    assert before == RULES
    assert classify(status=400, text="your HISTORY is too big").kind == "invalid"


def test_a_rule_that_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(PiError, match="no pattern") as unclosed:
        Rule("overflow", text="(")
    assert unclosed.value.code == "invalid_argument"
    with pytest.raises(PiError, match="is none of"):
        Rule("tired")  # type: ignore[arg-type]


def test_what_the_server_asks_to_wait_is_handed_through() -> None:
    assert classify(status=429, retry_after=7.5).retry_after == 7.5


def test_waiting_doubles_up_to_its_cap() -> None:
    """R-07."""
    policy = RetryPolicy(base=2, cap=10)

    assert [policy.delay(attempt) for attempt in range(1, 6)] == [2, 4, 8, 10, 10]
    assert policy.delay(100_000) == 10


def test_the_server_may_ask_for_more_but_not_beyond_the_cap() -> None:
    policy = RetryPolicy(base=2, cap=10)

    assert policy.delay(1, retry_after=5) == 5
    assert policy.delay(3, retry_after=5) == 8
    assert policy.delay(1, retry_after=3_600) == 10


@pytest.mark.parametrize(
    ("attempt", "failure", "delay"),
    [
        (1, Failure("overloaded"), 2),
        (3, Failure("overloaded"), None),
        (1, Failure("quota"), None),
        (1, Failure("overflow"), None),
        (1, Failure("throttled", retry_after=18_000), None),
    ],
)
def test_what_will_not_pass_is_not_asked_again(
    attempt: int, failure: Failure, delay: float | None
) -> None:
    assert RetryPolicy(attempts=3, base=2, cap=60).next_delay(attempt, failure) == delay


def test_a_policy_without_sense_is_refused() -> None:
    with pytest.raises(PiError):
        RetryPolicy(attempts=0)
