"""What reported usage teaches an estimator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.calibration import LEAST, MOST, Calibration, calibrated
from pi_nb.estimators import estimator
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    Usage,
    user,
)
from pi_nb.tokens import IMAGE_TOKENS, PI, Estimator

TEXT = "four" * 400
"""400 tokens by rule `pi`."""


def answer(requested: int, **said: Any) -> AssistantMessage:
    """An answer of 1 token whose request was reported as this many."""
    given: dict[str, Any] = {
        "content": (TextContent(text="done"),),
        "provider": "openai",
        "model": "gpt-5",
        "usage": Usage(input=requested, output=10),
    }
    return AssistantMessage(**{**given, **said})


def learned(*messages: AgentMessage, base: Estimator = PI) -> Calibration:
    found = Calibration(base)
    for message in messages:
        found.add(message)
    return found


def test_without_an_interval_the_base_stands() -> None:
    found = learned(user(TEXT), answer(1_000))

    assert found.factor == 1.0
    assert found.intervals == 0
    assert found.estimator() is PI
    assert calibrated([], PI) is PI


def test_what_a_request_grew_by_is_held_against_what_was_added() -> None:
    # 401 tokens of text in two messages; the provider puts 4 around each.
    found = learned(answer(1_000), user(TEXT), answer(1_000 + 8 + 802))

    assert found.intervals == 1
    assert found.factor == 2.0
    made = found.estimator()
    assert made.source == "calibrated"
    assert made.around == 4
    assert made.weigh_text(TEXT) == 800
    assert made.weigh(user(TEXT)) == 804


def test_what_is_put_around_a_message_is_not_scaled() -> None:
    base = estimator("piece/claude_v3")
    text = base.weigh_text(TEXT)
    said = {"provider": "anthropic", "model": "claude-opus-4-5"}
    content = text + base.weigh_text("done")
    first, second = answer(1_000, **said), answer(1_000 + 58 + round(content * 1.5), **said)

    found = learned(first, user(TEXT), second, base=base)

    assert found.factor == pytest.approx(1.5, abs=0.01)
    assert found.estimator().weigh(user("")) == 29
    assert found.estimator().weigh(user(TEXT)) == 29 + round(text * found.factor)


def test_an_image_is_not_scaled_and_what_is_never_sent_weighs_nothing() -> None:
    made = learned(answer(1_000), user(TEXT), answer(1_810)).estimator()
    picture = user("", [ImageContent(data="x", mime_type="image/png")])

    assert made.weigh(picture) == 4 + IMAGE_TOKENS
    assert made.weigh(SystemMessage(content=TEXT)) == 0


@pytest.mark.parametrize(
    "between",
    [
        [user(TEXT, [ImageContent(data="x", mime_type="image/png")])],
        [user(TEXT), answer(0, stop_reason="error")],
        [user(TEXT), answer(1_200, stop_reason="aborted")],
        [user(TEXT), answer(1_400, model="gpt-4o")],
        [user(TEXT), answer(0, usage=Usage())],
        [user(TEXT), answer(0, usage=Usage(input=-5))],
        [user(TEXT), answer(0, usage=Usage(output=9, total_tokens=9_000))],
        [CompactionSummaryMessage(summary=TEXT, tokens_before=9)],
    ],
    ids=["image", "failed", "aborted", "other model", "none", "below zero", "no parts", "summary"],
)
def test_nothing_is_learned_across(between: list[AgentMessage]) -> None:
    assert learned(answer(1_000), *between, answer(1_600)).intervals == 0


def test_nothing_is_learned_across_a_restart_and_what_was_learned_stays() -> None:
    found = learned(answer(1_000), user(TEXT), answer(1_810))
    found.restart()
    found.add(user(TEXT))
    found.add(answer(2_100))

    assert (found.intervals, found.factor) == (1, 2.0)
    messages = [answer(1_000), user(TEXT), answer(1_810)]
    assert calibrated(messages, PI, restarts=(1,)) is PI


@pytest.mark.parametrize("grown", [-5_000, 0, 199, 100_000, 10**15])
def test_absurd_usage_is_left_out_and_counted(grown: int) -> None:
    found = learned(answer(10_000), user(TEXT), answer(10_000 + grown))

    assert (found.intervals, found.left_out, found.factor) == (0, 1, 1.0)


def test_a_command_kept_from_the_model_is_no_part_of_an_interval() -> None:
    hidden = BashExecutionMessage(command="x", output=TEXT * 9, exclude_from_context=True)

    found = learned(answer(1_000), user(TEXT), hidden, answer(1_810))

    assert found.factor == 2.0


@given(st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 3_000)), max_size=20))
def test_the_factor_stays_within_its_bounds(steps: list[tuple[int, int]]) -> None:
    found = Calibration(PI)
    for requested, length in steps:
        found.add(user("x" * length))
        found.add(answer(requested))

    assert LEAST <= found.factor <= MOST or found.intervals == 0
    assert found.estimator().weigh(user("word " * 100)) > 0


def test_an_estimator_does_not_change_with_what_is_learned_later() -> None:
    found = learned(answer(1_000), user(TEXT), answer(1_810))
    before = found.estimator()
    found.add(user(TEXT))
    found.add(answer(2_100))

    assert found.factor < 2.0
    assert before.weigh_text(TEXT) == 800
