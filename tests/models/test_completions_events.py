from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import AssistantMessage, TextContent, ThinkingContent, Usage
from pi_nb.models.completions_events import Events, read_usage
from pi_nb.models.errors import ServerError
from pi_nb.models.fold import Fold
from pi_nb.models.http import HttpFailure
from pi_nb.models.sse import SseEvent, SseParser
from pi_nb.models.types import End, Model, StreamEvent


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return json.dumps({"id": "r1", "model": "m-1", "choices": [choice]} | more)


def call(args: str = "{}", finish: str | None = None, **more: Any) -> str:
    function = {"name": "read", "arguments": args}
    return chunk({"tool_calls": [{"index": 0, "id": "c", "function": function} | more]}, finish)


def events(*data: str, failure: HttpFailure | None = None) -> list[StreamEvent]:
    ids = itertools.count(1)
    reader = Events(lambda: f"new_{next(ids)}")
    found = [event for one in data for event in reader.feed(one)]
    return found + reader.close(failure)


def read(*data: str, failure: HttpFailure | None = None) -> tuple[AssistantMessage, End]:
    fold = Fold(Model(id="m", provider="p"))
    for event in events(*data, failure=failure):
        fold.apply(event)
    assert fold.end is not None
    return fold.message(), fold.end


def test_a_stream_of_text_becomes_one_block() -> None:
    message, end = read(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(finish="stop"),
        "[DONE]",
    )

    assert message.content == (TextContent(text="Hello"),)
    assert (message.response_id, message.response_model) == ("r1", "m-1")
    assert end == End(reason="stop")


def test_a_server_that_does_not_stream_is_read_too() -> None:
    answer = {"role": "assistant", "content": "all at once"}
    body = {
        "id": "r",
        "choices": [{"message": answer, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }

    message, end = read(json.dumps(body))

    assert (message.text, end.reason, message.usage.input) == ("all at once", "stop", 3)


def test_reasoning_comes_before_the_text_of_the_same_chunk() -> None:
    """X-14."""
    message, _ = read(chunk({"content": "c", "reasoning": "r"}), chunk(finish="stop"))

    assert message.content == (
        ThinkingContent(thinking="r", thinking_signature="reasoning"),
        TextContent(text="c"),
    )


def test_reasoning_sent_under_two_keys_counts_once() -> None:
    """X-14."""
    message, _ = read(
        chunk({"reasoning": "x", "reasoning_content": "x"}),
        chunk({"reasoning": "y", "reasoning_content": ""}),
        chunk({"content": "c"}, "stop"),
    )

    assert isinstance(message.content[0], ThinkingContent)
    assert message.content[0].thinking == "xy"


def test_text_after_a_call_is_a_block_of_its_own() -> None:
    message, _ = read(chunk({"content": "a"}), call(), chunk({"content": "b"}, "stop"))

    assert [block.type for block in message.content] == ["text", "toolCall", "text"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [("stop", "stop"), ("end", "stop"), ("eos", "stop"), ("length", "length"),
     ("max_tokens", "length"), ("tool_calls", "stop"), ("function_call", "stop")],
)  # fmt: skip
def test_servers_have_many_words_for_an_ordinary_end(word: str, reason: str) -> None:
    """X-15. Without a call, `tool_calls` is an ordinary end."""
    assert read(chunk({"content": "a"}), chunk(finish=word))[1].reason == reason


@pytest.mark.parametrize(
    ("word", "failure"),
    [("sensitive", "unknown"), ("content_filter", "unknown"), ("something_new", "unknown"),
     ("model_context_window_exceeded", "overflow")],
)  # fmt: skip
def test_any_other_end_is_an_error_that_shows_the_word(word: str, failure: str) -> None:
    """X-15."""
    message, end = read(chunk({"content": "a"}), chunk(finish=word))

    assert (end.reason, end.failure, message.text) == ("error", failure, "a")
    assert word in (end.error_message or "")


@pytest.mark.parametrize("word", ["stop", "tool_calls", "function_call", "eos"])
def test_calls_decide_that_tools_are_to_be_run(word: str) -> None:
    """X-15."""
    assert read(call(finish=word))[1].reason == "toolUse"


def test_an_answer_cut_by_length_says_so_even_with_calls() -> None:
    assert read(call('{"p":'), chunk(finish="length"))[1].reason == "length"


def test_an_empty_finish_reason_is_none() -> None:
    assert read(chunk({"content": "a"}, ""), chunk(finish=""))[1].failure == "cut_off"


def test_the_old_form_of_a_call_is_understood() -> None:
    old = {"function_call": {"name": "read", "arguments": '{"p":1}'}}

    message, end = read(chunk(old), chunk(finish="function_call"))

    assert message.tool_calls[0].arguments == {"p": 1}
    assert (message.tool_calls[0].id, end.reason) == ("new_1", "toolUse")


USAGE = {
    "prompt_tokens": 171,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 150},
    "completion_tokens_details": {"reasoning_tokens": 12},
}
READ = Usage(input=21, output=20, cache_read=150, total_tokens=191, reasoning=12)


@pytest.mark.parametrize(
    "data",
    [
        [chunk({"content": "a"}, "stop"), json.dumps({"choices": [], "usage": USAGE}), "[DONE]"],
        [chunk({"content": "a"}, "stop", usage=USAGE), "[DONE]"],
        [
            json.dumps({"choices": [{"delta": {"content": "a"}, "usage": USAGE}]}),
            chunk(finish="stop", usage=None),
        ],
        [chunk({"content": "a"}, usage={"prompt_tokens": 171}), chunk(finish="stop", usage=USAGE)],
        [chunk({"content": "a"}, usage=USAGE), chunk(finish="stop", usage={"prompt_tokens": None})],
    ],
)
def test_usage_is_found_wherever_it_comes(data: list[str]) -> None:
    """X-09, X-16, C-29: the cached part is not counted twice."""
    assert read(*data)[0].usage == READ


def test_no_usage_is_unknown_and_not_made_up() -> None:
    """X-09."""
    message, _ = read(chunk({"content": "a"}, "stop"), "[DONE]")

    assert message.usage == Usage()


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": "many", "completion_tokens": True}, None),
        ({"prompt_tokens": -5, "completion_tokens": 2}, (0, 2, 0)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, (6, 0, 4)),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 10**7}}, (0, 0, 100)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, (10, 0, 0)),
        ({"prompt_tokens": float("inf"), "completion_tokens": 1}, (0, 1, 0)),
    ],
)
def test_usage_that_cannot_be_is_not_believed(
    usage: dict[str, Any], expected: tuple[int, int, int] | None
) -> None:
    """C-29."""
    found = read_usage(usage)

    assert (found and (found.input, found.output, found.cache_read)) == expected


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ({"error": {"type": "overloaded_error", "message": "busy"}}, "overloaded"),
        ({"type": "error", "error": {"type": "api_error", "message": "busy"}}, "overloaded"),
        ({"error": {"code": 429, "message": "busy"}}, "throttled"),
        ({"error": "busy: service unavailable"}, "overloaded"),
        ({"object": "error", "message": "busy, maximum context length", "code": 400}, "overflow"),
        ({"choices": [{"delta": {}, "error": {"message": "busy", "code": 502}}]}, "overloaded"),
    ],
)
@pytest.mark.parametrize("before", [[], [chunk({"content": "half"}), call('{"path":')]])
def test_an_error_inside_the_stream_ends_it_and_no_call_is_complete(
    before: list[str], error: dict[str, Any], failure: str
) -> None:
    """X-06, R-08."""
    message, end = read(*before, json.dumps(error), chunk({"content": "later"}, "stop"))

    assert (end.reason, end.failure) == ("error", failure)
    assert "busy" in (end.error_message or "")
    assert message.text == ("half" if before else "")
    assert all(call.raw_arguments for call in message.tool_calls)


def test_an_error_without_words_is_an_error() -> None:
    assert read('{"error": {}, "type": "error"}')[1].error_message


WHOLE = [
    chunk({"role": "assistant"}),
    chunk({"reasoning_content": "hm"}),
    *[chunk({"content": f"word{n} "}) for n in range(6)],
    call('{"p":'),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
]


@pytest.mark.parametrize("count", range(len(WHOLE) + 1))
def test_a_stream_that_just_stops_ended_early(count: int) -> None:
    """X-07: after any event, also where every call happens to be complete."""
    message, end = read(*WHOLE[:count])

    assert (end.reason, end.failure) == ("error", "cut_off")
    assert "ended early" in (end.error_message or "")
    assert len(message.text) == len("word0 ") * max(0, min(count, 8) - 2)


@pytest.mark.parametrize("last", [chunk(finish="stop"), "[DONE]"])
def test_a_finish_reason_or_done_is_an_end(last: str) -> None:
    """X-07."""
    assert read(chunk({"content": "a"}), last)[1].reason == "stop"


def test_done_without_any_answer_is_no_success() -> None:
    assert read("[DONE]")[1].failure == "cut_off"


def test_a_connection_that_breaks_after_the_end_harms_nothing() -> None:
    broken = HttpFailure(ServerError("The stream ended early", ("cut_off",)))

    assert read(chunk({"content": "a"}, "stop"), failure=broken)[1].reason == "stop"
    assert read(chunk({"content": "a"}), failure=broken)[1].failure == "cut_off"


def test_an_abort_is_an_abort_whatever_had_come() -> None:
    stopped = HttpFailure(ServerError("aborted by user"), aborted=True)

    assert read(chunk({"content": "a"}, "stop"), failure=stopped)[1] == End(reason="aborted")


def test_data_that_is_no_json_is_passed_over_with_a_note() -> None:
    """X-04."""
    reader = Events()
    noise = [": processing", "{", "12", "[1]", '"text"', "null"]

    found = [
        event for one in [*noise, chunk({"content": "a"}, "stop")] for event in reader.feed(one)
    ]

    assert [event.type for event in found] == ["start", "text_delta"]
    assert len(reader.notes) == 2
    assert reader.close() == [End(reason="stop")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "message", "content", "tool_calls", "function", "name", "index",
             "arguments", "id", "usage", "error", "finish_reason", "reasoning", "prompt_tokens"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(json_values, max_size=5))
def test_whatever_a_server_sends_there_is_one_end_and_no_exception(values: list[Any]) -> None:
    found = events(*map(json.dumps, values), *(json.dumps({"choices": [one]}) for one in values))

    assert sum(isinstance(event, End) for event in found) == 1
    assert isinstance(found[-1], End)


def test_a_stream_cut_in_two_anywhere_reads_the_same() -> None:
    whole = b"".join(
        f"data: {one}\r\n\r\n".encode()
        for one in [*WHOLE, chunk({"content": "中😀"}), chunk(finish="stop"), "[DONE]"]
    )

    def parsed(*pieces: bytes) -> list[str]:
        parser = SseParser()
        found = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
        return [event.data for event in found if isinstance(event, SseEvent)]

    expected = parsed(whole)

    assert len(expected) == len(WHOLE) + 3
    for cut in range(len(whole)):
        assert parsed(whole[:cut], whole[cut:]) == expected
