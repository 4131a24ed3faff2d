from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import messages

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    convert_to_llm,
    to_llm,
    user,
)
from pi_nb.models.question import Conversation, Question, difference, digest, parts_of
from pi_nb.models.types import Model, Request, RequestOptions, ToolSpec

MODEL = Model(id="m", provider="p", base_url="http://u:password@h/v1")
READ = ToolSpec(name="read", description="Reads.")


def question_of(model: Model, request: Request) -> Question:
    said = Conversation().follow(request.messages)
    return Question(parts_of(model, request), said.plain, said.marks)


def asks(**fields: Any) -> Question:
    return question_of(MODEL, Request(**fields))


def turn(call_id: str = "c1", **fields: Any) -> Request:
    said = AssistantMessage(
        content=(
            ThinkingContent(thinking="hm", thinking_signature=fields.pop("signature", None)),
            ToolCall(id=call_id, name="read", arguments={"a": 1, "b": 2.0}),
        ),
        **fields,
    )
    result = ToolResultMessage(tool_call_id=call_id, content=(TextContent(text="tea"),))
    return Request(system_prompt="SYS", messages=(user("hi"), said, result))


def test_what_a_model_cannot_see_is_no_part_of_the_question() -> None:
    here = turn(timestamp=1, usage=Usage(input=5), model="m", signature="s")
    there = turn("other", timestamp=2, response_id="r9", provider="q")
    elsewhere = MODEL.having(base_url="http://127.0.0.1:5/v1", provider="q")

    assert question_of(MODEL, here).digest == question_of(elsewhere, there).digest


def test_a_bare_text_and_one_text_block_are_the_same_question() -> None:
    bare, block = UserMessage(content="hi"), user("hi")

    assert asks(messages=(bare,)) == asks(messages=(block,))


def test_the_order_of_names_does_not_count_and_one_is_one() -> None:
    assert digest({"a": 1, "b": [{"c": 2, "d": 3}]}) == digest({"b": [{"d": 3, "c": 2.0}], "a": 1})


def test_what_cannot_be_json_is_refused_and_not_looped_over() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(ValueError, match="nested too deeply"):
        digest(circle)


def test_headers_addresses_and_named_secrets_stay_out_of_it() -> None:
    """Z-01: a tape is a file that is shared."""
    options = RequestOptions(
        headers={"Authorization": "Bearer abc", "X-Team": "blue"},
        extra_body={"api_key": "abc", "nested": [{"token": "abc"}], "max_tokens": 5},
    )

    question = asks(options=options)

    shown = str(question.parts)
    assert not any(secret in shown for secret in ("abc", "blue", "password"))
    assert question.parts["options"]["extraBody"]["max_tokens"] == 5


def test_an_image_is_named_by_its_digest() -> None:
    one, other = (user("", [ImageContent(data=d, mime_type="image/png")]) for d in ("aaaa", "bbbb"))

    assert "aaaa" not in str(asks(messages=(one,)).messages)
    assert asks(messages=(one,)) != asks(messages=(other,))


@pytest.mark.parametrize(
    ("recorded", "asked", "words"),
    [
        ({"system_prompt": "Be kind."}, {"system_prompt": "Be short."}, "system prompt: recorded"),
        ({"tools": (READ,)}, {}, "the tools are none; recorded were read"),
        (
            {"tools": (READ,)},
            {"tools": (READ.having(description="Looks."),)},
            "tool read: recorded",
        ),
        ({}, {"options": RequestOptions(temperature=0.5)}, "options: recorded '{}', asked '{"),
        (
            {"messages": (user("Read a.txt"),)},
            {"messages": (user("Read b.txt"),)},
            "message 1 (user): recorded 'Read a.txt', asked 'Read b.txt'",
        ),
        (
            {"messages": (user("a"),)},
            {"messages": (user("a"), user("b"), user("c"))},
            "2 messages more than recorded, from message 2 (user) on",
        ),
        (
            {"messages": (user("a"), user("b"))},
            {"messages": (user("a"),)},
            "message 2 (user) of the recording is missing",
        ),
        (
            {"messages": (user("a"),)},
            {"messages": (AssistantMessage(),)},
            "message 1 is of role assistant, recorded was user",
        ),
        (
            {"messages": (ToolResultMessage(tool_call_id="c"),)},
            {"messages": (ToolResultMessage(tool_call_id="c", is_error=True),)},
            '"isError":true',
        ),
    ],
)
def test_the_first_difference_is_named(recorded: Any, asked: Any, words: str) -> None:
    assert words in difference(asks(**recorded), asks(**asked))


def test_the_same_question_differs_in_nothing_and_another_model_first() -> None:
    question = asks(messages=(user("a"),))
    other = question_of(MODEL.having(id="n"), Request())

    assert difference(question, question) == ""
    assert difference(question, other) == "the model is n, recorded was m"


def test_a_long_text_is_shown_where_it_parts_and_obeys_no_terminal() -> None:
    old, new = "x" * 5_000 + "tea" + "y" * 500, "x" * 5_000 + "\x1b[31mrice" + "y" * 500

    words = difference(asks(messages=(user(old),)), asks(messages=(user(new),)))

    assert "tea" in words
    assert "rice" in words
    assert "\x1b" not in words
    assert len(words) < 250


@given(st.lists(st.lists(messages.filter(lambda m: to_llm(m) is not None), max_size=6), max_size=4))
def test_a_conversation_kept_from_request_to_request_is_as_one_looked_at_afresh(
    requests: list[list[AgentMessage]],
) -> None:
    kept, before = Conversation(), []
    for new in requests:
        # Some go on from the one before, some begin anew.
        before = [*before, *convert_to_llm(new)] if len(new) % 2 else convert_to_llm(new)

        kept.follow(before)

        fresh = Conversation().follow(before)
        assert (kept.plain, kept.marks) == (fresh.plain, fresh.marks)


def test_a_message_that_is_refused_leaves_no_trace_in_what_follows() -> None:
    def says(call_id: str, **arguments: Any) -> AssistantMessage:
        return AssistantMessage(content=(ToolCall(id=call_id, name="t", arguments=arguments),))

    kept = Conversation().follow([user("a")])
    with pytest.raises(TypeError):
        kept.follow([user("a"), says("c1"), says("c2", odd={1, 2})])
    good = [user("a"), says("c3")]

    assert kept.follow(good).marks == Conversation().follow(good).marks
