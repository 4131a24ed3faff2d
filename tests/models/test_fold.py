from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, Usage
from pi_nb.models.fold import RAW_LIMIT, Fold
from pi_nb.models.types import (
    CallDelta,
    CallStart,
    End,
    Model,
    Price,
    Start,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)

MODEL = Model(id="m", provider="p", api="a")
STOP = End(reason="stop")


def fold(*events: StreamEvent, model: Model = MODEL) -> AssistantMessage:
    folded = Fold(model)
    for event in events:
        folded.apply(event)
    return folded.message()


def call_with(*pieces: str, end: StreamEvent = STOP) -> ToolCall:
    deltas = [CallDelta(index=0, delta=piece) for piece in pieces]
    (call,) = fold(CallStart(index=0, id="c", name="write"), *deltas, end).tool_calls
    return call


def test_blocks_stand_in_the_order_in_which_their_index_first_came() -> None:
    message = fold(
        Start(response_id="r", response_model="m-1"),
        ThinkingDelta(index=5, delta="hm"),
        TextDelta(index=2, delta="a"),
        CallStart(index=9, id="c1", name="read"),
        TextDelta(index=2, delta="b"),
        CallDelta(index=9, delta='{"path": "x"}'),
        End(reason="toolUse"),
    )

    assert message.content == (
        ThinkingContent(thinking="hm"),
        TextContent(text="ab"),
        ToolCall(id="c1", name="read", arguments={"path": "x"}),
    )
    assert (message.api, message.provider, message.model) == ("a", "p", "m")
    assert (message.response_id, message.response_model) == ("r", "m-1")
    assert message.stop_reason == "toolUse"


def test_one_index_used_for_two_kinds_makes_two_blocks() -> None:
    message = fold(TextDelta(index=0, delta="a"), ThinkingDelta(index=0, delta="b"), STOP)

    assert [block.type for block in message.content] == ["text", "thinking"]


def test_a_snapshot_before_the_end_says_what_would_be_true_if_nothing_more_came() -> None:
    message = fold(TextDelta(index=0, delta="half"))

    assert message.stop_reason == "aborted"
    assert message.text == "half"


def test_a_message_without_any_event_is_empty_and_aborted() -> None:
    assert fold().content == ()
    assert fold().stop_reason == "aborted"


def test_what_comes_after_the_end_changes_nothing() -> None:
    message = fold(TextDelta(index=0, delta="a"), STOP, TextDelta(index=0, delta="b"))

    assert message.text == "a"


def test_an_error_keeps_what_had_arrived_and_says_why() -> None:
    message = fold(TextDelta(index=0, delta="a"), End(reason="error", error_message="broke"))

    assert (message.text, message.stop_reason, message.error_message) == ("a", "error", "broke")


def test_fields_that_were_never_given_are_not_written() -> None:
    wire = fold(TextDelta(index=0, delta="a"), STOP).to_wire()

    assert not {"errorMessage", "responseId", "responseModel", "thinkingLevel"} & set(wire)
    assert wire["content"] == [{"type": "text", "text": "a"}]


def test_a_call_without_argument_text_has_no_arguments() -> None:
    assert call_with().arguments == {}
    assert call_with(" \n").raw_arguments is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"path":"a.txt","content":"hel', {"path": "a.txt", "content": "hel"}),
        ('{"path":"a.txt"} and more', {"path": "a.txt"}),
        ('{"path":"a.txt"}{"path":"b.txt"}', {"path": "a.txt"}),
        ('["a.txt"]', {}),
        ("null", {}),
        ('{"n": NaN}', {}),
        ('{"n": 1e999}', {}),
    ],
)
def test_arguments_that_are_no_whole_object_are_kept_raw(text: str, shown: dict[str, Any]) -> None:
    """L-05: such a call is shown and never run."""
    call = call_with(text)

    assert call.arguments == shown
    assert call.raw_arguments == text


def test_raw_arguments_are_kept_to_a_sensible_length() -> None:
    call = call_with('{"content":"' + "x" * 3 * RAW_LIMIT)

    assert call.raw_arguments is not None
    assert len(call.raw_arguments) < RAW_LIMIT + 100
    assert "more characters left out" in call.raw_arguments


def test_a_call_whose_start_was_lost_still_has_an_id() -> None:
    (call,) = fold(CallDelta(index=3, delta="{}", name="read"), STOP).tool_calls

    assert (call.id, call.name) == ("call_3", "read")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.data())
def test_a_surrogate_pair_split_over_two_deltas_is_one_character(
    text: str, data: st.DataObject
) -> None:
    """S-29: the halves join, whatever the pieces."""
    units = text.encode("utf-16-le", "surrogatepass")
    halves = [
        units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)
    ]
    cut = data.draw(st.integers(0, len(halves)))

    message = fold(
        TextDelta(index=0, delta="".join(halves[:cut])),
        TextDelta(index=0, delta="".join(halves[cut:])),
        STOP,
    )

    assert message.content[0] == TextContent(text=text)


@pytest.mark.parametrize("code", [0xD83D, 0xDE00])
def test_a_lone_surrogate_is_replaced_everywhere(code: int) -> None:
    """S-29, also where the arguments only escape it."""
    lone = chr(code)
    arguments = json.dumps({"text": f"a{lone}b"})
    message = fold(
        TextDelta(index=0, delta=f"a{lone}b"),
        ThinkingDelta(index=1, delta=f"a{lone}b"),
        CallStart(index=2, id="c", name="n"),
        CallDelta(index=2, delta=arguments),
        STOP,
    )

    assert message.to_json().encode().decode().count("a\ufffdb") == 3


def test_half_a_character_at_the_end_of_a_snapshot_is_not_shown_yet() -> None:
    folded = Fold(MODEL)
    folded.apply(TextDelta(index=0, delta="a\ud83d"))

    assert folded.message().text == "a"
    folded.apply(TextDelta(index=0, delta="\ude00"))
    assert folded.message().text == "a😀"


def test_the_last_usage_counts_and_gets_its_total_and_price() -> None:
    model = MODEL.having(price=Price(input=1, output=10, cache_read=0.1, cache_write=2))
    usage = Usage(input=1_000_000, output=100_000, cache_read=10_000, cache_write=1_000)

    message = fold(UsageUpdate(usage=Usage(input=1)), UsageUpdate(usage=usage), STOP, model=model)

    assert message.usage.total_tokens == 1_111_000
    assert message.usage.cost.total == pytest.approx(1 + 1 + 0.001 + 0.002)


def test_without_a_price_the_cost_is_unknown_not_made_up() -> None:
    message = fold(UsageUpdate(usage=Usage(input=5, output=7)), STOP)

    assert message.usage.total_tokens == 12
    assert message.usage.cost.total == 0


def test_signatures_are_kept_with_their_blocks() -> None:
    message = fold(
        ThinkingDelta(index=0, delta="a", signature="old"),
        ThinkingDelta(index=0, delta="", signature="new"),
        ThinkingDelta(index=1, delta="", signature="s", redacted=True),
        TextDelta(index=2, delta="b", signature="t"),
        STOP,
    )

    assert message.content == (
        ThinkingContent(thinking="a", thinking_signature="new"),
        ThinkingContent(thinking="", thinking_signature="s", redacted=True),
        TextContent(text="b", text_signature="t"),
    )


def test_a_long_stream_costs_its_length() -> None:
    """Ten times the pieces, about ten times the work: no piece pays for those before it."""

    def seconds(pieces: int) -> float:
        folded = Fold(MODEL)
        event = TextDelta(index=0, delta="word " * 10)
        begin = time.perf_counter()
        for _ in range(pieces):
            folded.apply(event)
        return time.perf_counter() - begin

    few, many = (min(seconds(pieces) for _ in range(3)) for pieces in (5_000, 50_000))
    assert many < 60 * few
