from __future__ import annotations

from typing import Any

import pytest
from loopback import Loopback, sse

from pi_nb.messages import Usage, user
from pi_nb.models.openai_completions import OpenAICompletions
from pi_nb.models.types import Model, Price, Request, Tier
from pi_nb.models.usage import possible, priced
from pi_nb.tokens import reported_by

pytestmark = pytest.mark.anyio

MODEL = Model(id="m", provider="p", api="openai-completions", context_window=128_000)
TEXT = {"choices": [{"delta": {"content": "Four."}, "finish_reason": "stop"}]}


def at(url: str) -> OpenAICompletions:
    return OpenAICompletions(MODEL.having(base_url=f"{url}/v1"))


async def test_missing_usage_is_estimated_and_says_so(loopback: Loopback, ask: Any) -> None:
    """X-09: absent means unknown, not 0; and nobody takes an estimate for a report."""
    loopback.answer(sse(TEXT, "[DONE]"))

    said = await ask(at(loopback.url), Request(system_prompt="Add.", messages=(user("2+2?"),)))

    usage = said.message.usage
    assert usage.estimated
    assert 5 < usage.input < 40
    assert 0 < usage.output < 20
    assert usage.total_tokens == usage.input + usage.output
    assert reported_by(said.message) == 0


async def test_cache_reads_of_a_whole_day_are_not_believed(loopback: Loopback, ask: Any) -> None:
    """C-29."""
    gateway = {"prompt_tokens": 10_000_000, "completion_tokens": 5}
    loopback.answer(sse(TEXT, {"choices": [], "usage": gateway}, "[DONE]"))

    said = await ask(at(loopback.url), Request(messages=(user("2+2?"),)))

    assert said.message.usage.estimated
    assert said.message.usage.total < 100


async def test_a_failed_answer_gets_no_estimate(loopback: Loopback, ask: Any) -> None:
    """C-27: its usage of zero is left out, where an estimate might be believed."""
    loopback.answer(sse({"choices": [{"delta": {"content": "Fo"}}]}), end="cut")

    said = await ask(at(loopback.url), Request(messages=(user("2+2?"),)))

    assert said.message.usage == Usage()


@pytest.mark.parametrize(
    ("usage", "believed"),
    [
        (Usage(input=1_000, cache_read=150_000, cache_write=20_000, output=500), False),
        (Usage(input=100, cache_read=100_000, cache_write=20_000, output=500), True),
        (Usage(input=150_000), True),  # windows in catalogues are sometimes late
        (Usage(input=1, output=1_000_000), False),
    ],
)
def test_a_prompt_larger_than_window_and_request_is_impossible(
    usage: Usage, believed: bool
) -> None:
    assert possible(usage, MODEL, {"messages": []}) is believed


def test_a_window_that_was_guessed_too_small_does_not_make_usage_impossible() -> None:
    small = MODEL.having(context_window=8_192)

    assert possible(Usage(input=20_000), small, {"messages": ["word " * 20_000]})


def test_the_tier_of_the_whole_prompt_prices_the_whole_request() -> None:
    tier = Tier(input_tokens_above=200_000, input=4, output=18, cache_read=0.4)
    price = Price(input=2, output=12, cache_read=0.2, tiers=(tier,))

    low = priced(Usage(input=100_000, cache_read=100_000, output=1_000), price)
    high = priced(Usage(input=100_000, cache_read=100_001, output=1_000), price)

    assert low.cost.total == pytest.approx(0.2 + 0.02 + 0.012)
    assert high.cost.total == pytest.approx(0.4 + 0.0400004 + 0.018)


def test_an_hour_of_cache_costs_more_than_five_minutes() -> None:
    price = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)

    short = priced(Usage(cache_write=1_000_000), price)
    long = priced(Usage(cache_write=1_000_000, cache_write1h=400_000), price)
    said = priced(Usage(cache_write=1_000_000), price.having(cache_write1h=6))

    assert short.cost.cache_write == 3.75
    assert long.cost.cache_write == pytest.approx(0.6 * 3.75 + 0.4 * 6)
    assert said.cost.cache_write == 3.75
