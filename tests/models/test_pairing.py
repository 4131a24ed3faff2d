"""Notation in the names of calls: `x`, `y` are calls; `q` is a call nobody made."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.grown import Grown
from pi_nb.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    LlmMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UnknownContent,
    UserMessage,
)
from pi_nb.models.pairing import NO_OUTPUT, NO_TEXT, Pairing, pair
from pi_nb.models.types import Model

MODEL = Model(id="m", provider="p", api="openai-completions", images=True)
BLIND = MODEL.having(images=False)
SIGNING = MODEL.having(api="anthropic-messages")
IMAGE = ImageContent(data="aGk=", mime_type="image/png")


def u(text: str = "ask") -> UserMessage:
    return UserMessage(content=(TextContent(text=text),), timestamp=1)


def x(*names: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id=name, name=f"tool_{name}", arguments={}) for name in names)


def a(*blocks: str | AssistantBlock, stop: str = "stop", by: str = "m") -> AssistantMessage:
    content = tuple(TextContent(text=b) if isinstance(b, str) else b for b in blocks)
    return AssistantMessage(
        content=content, provider="p", model=by, stop_reason=stop, timestamp=2  # type: ignore[arg-type]
    )  # fmt: skip


def t(call: str, text: str = "done") -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call, content=(TextContent(text=text),), timestamp=3)


def shape(messages: Sequence[LlmMessage]) -> str:
    """`u a(x,y) t(x) t(y)!` where `!` marks an error result."""
    words = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            words.append(f"t({message.tool_call_id}){'!' if message.is_error else ''}")
        elif isinstance(message, AssistantMessage):
            calls = ",".join(call.id for call in message.tool_calls)
            words.append(f"a({calls})" if calls else "a")
        else:
            words.append("u")
    return " ".join(words)


def codes(messages: list[LlmMessage], model: Model | None = MODEL) -> list[str]:
    return [change.code for change in pair(messages, model).changes]


@pytest.mark.parametrize(
    ("given_messages", "expected", "changes"),
    [
        ([u(), a("hi"), u()], "u a u", []),
        ([u(), a(*x("x", "y")), t("x"), t("y"), a("hi")], "u a(x,y) t(x) t(y) a", []),
        # L-02: a call without a result, a result without a call, a result two messages late.
        ([u(), a(*x("x")), u()], "u a(x) t(x)! u", ["result_missing"]),
        ([u(), t("q"), a("hi")], "u a", ["result_orphan"]),
        ([t("q"), u()], "u", ["result_orphan"]),
        ([u(), a(*x("x")), u(), a("hi"), t("x")], "u a(x) t(x) u a", ["result_moved"]),
        ([u(), a(*x("x", "y")), t("y"), t("x")], "u a(x,y) t(x) t(y)", ["result_moved"]),
        ([u(), a(*x("x", "y")), t("y")], "u a(x,y) t(x)! t(y)", ["result_missing"]),
        # L-06: a message between a call and its result goes after the result.
        ([u(), a(*x("x")), u("by a hook"), t("x")], "u a(x) t(x) u", ["result_moved"]),
        ([u(), a(*x("x")), t("x"), t("x")], "u a(x) t(x)", ["result_duplicate"]),
        # S-21: an id used again in a later turn.
        (
            [u(), a(*x("x")), t("x"), a(*x("x")), t("x")],
            "u a(x) t(x) a(x) t(x)",
            [],
        ),
        (
            [u(), a(*x("x")), u(), a(*x("x")), t("x")],
            "u a(x) t(x)! u a(x) t(x)",
            ["result_missing"],
        ),
        # Two calls of one message with one id cannot be told apart by their results.
        ([u(), a(*x("x", "x")), t("x"), t("x")], "u a(x,x_2) t(x) t(x_2)", ["call_id"]),
        ([u(), a(*x("")), t("")], "u a(call) t(call)", ["call_id"]),
        ([u(), a("half", stop="error"), u()], "u u", ["message_failed"]),
        (
            [u(), a(*x("x"), stop="aborted"), t("x"), u()],
            "u u",
            ["message_failed", "result_of_failed"],
        ),
        ([u(), a("  \n"), u()], "u u", ["text_empty", "message_empty"]),
        ([u(), a(), u()], "u u", ["message_empty"]),
        ([u(), a("", *x("x")), t("x")], "u a(x) t(x)", ["text_empty"]),
        ([u(), a("hi"), u(" \n"), a("ho")], "u a a", ["text_empty", "message_empty"]),
        ([], "", []),
    ],
)
def test_a_history_becomes_one_that_a_provider_accepts(
    given_messages: list[LlmMessage], expected: str, changes: list[str]
) -> None:
    paired = pair(given_messages, MODEL)

    assert shape(paired.messages) == expected
    assert [change.code for change in paired.changes] == changes


def test_a_result_that_never_came_says_that_the_call_did_not_finish() -> None:
    paired = pair([u(), a(*x("x"))])

    result = paired.messages[-1]
    assert isinstance(result, ToolResultMessage)
    assert result.is_error
    assert result.tool_name == "tool_x"
    assert "did not finish" in result.text
    assert paired.changes[0].index == 1


def test_a_tool_that_printed_nothing_gets_a_placeholder() -> None:
    """V-04: providers refuse blank text, and one blank block would fail every later request."""
    paired = pair([u(), a(*x("x")), t("x", "\r\n")])

    result = paired.messages[-1]
    assert isinstance(result, ToolResultMessage)
    assert result.text == NO_OUTPUT


def test_a_last_message_left_empty_speaks_so_that_the_model_can_answer() -> None:
    """V-04, L-20: a request never ends with the model's own words."""
    paired = pair([u(), a("hi"), u("  \n")])

    last = paired.messages[-1]
    assert isinstance(last, UserMessage)
    assert last.content == (TextContent(text=NO_TEXT),)


def test_an_empty_text_is_dropped_beside_an_image() -> None:
    """V-09."""
    message = UserMessage(content=(TextContent(text=""), IMAGE))

    (kept,) = pair([message], MODEL).messages

    assert kept.content == (IMAGE,)


def test_images_reach_only_models_that_see_and_the_log_keeps_them() -> None:
    """F-10."""
    message = UserMessage(content=(TextContent(text="look"), IMAGE))
    result = ToolResultMessage(tool_call_id="x", content=(IMAGE,))
    history = [message, a(*x("x")), result]

    seen = pair(history, MODEL)
    unseen = pair(history, BLIND)

    assert seen.messages[0] == message
    assert seen.changes == ()
    assert "image" in str(unseen.messages[0].content[1])
    assert [change.code for change in unseen.changes] == ["image_left_out"] * 2
    assert message.content == (TextContent(text="look"), IMAGE)


SIGNED = ThinkingContent(thinking="  hm\n", thinking_signature="s")
UNSIGNED = ThinkingContent(thinking="hm")
EMPTY_SIGNED = ThinkingContent(thinking="", thinking_signature="s")
REDACTED = ThinkingContent(thinking="", thinking_signature="s", redacted=True)
BROKEN = ThinkingContent(thinking="a\ud83d", thinking_signature="s")


@pytest.mark.parametrize(
    ("block", "by", "model", "goes_back"),
    [
        (SIGNED, "m", SIGNING, True),
        (SIGNED, "other", SIGNING, False),
        (SIGNED, "other", None, True),
        (UNSIGNED, "m", SIGNING, False),
        (UNSIGNED, "m", MODEL, True),
        (UNSIGNED, "other", MODEL, False),
        (EMPTY_SIGNED, "m", SIGNING, True),
        (REDACTED, "m", SIGNING, True),
        (REDACTED, "other", SIGNING, False),
        (BROKEN, "m", SIGNING, False),
        (ThinkingContent(thinking=""), "m", MODEL, False),
    ],
)
def test_reasoning_goes_back_as_it_came_or_not_at_all(
    block: ThinkingContent, by: str, model: Model | None, goes_back: bool
) -> None:
    """V-01, V-02."""
    (message,) = pair([a(block, "hi", by=by)], model).messages

    assert message.content == ((block, TextContent(text="hi")) if goes_back else a("hi").content)


def test_a_reply_of_reasoning_alone_is_left_out() -> None:
    assert codes([u(), a(SIGNED), u()]) == ["message_empty"]


def test_blocks_of_unknown_types_are_not_sent() -> None:
    assert codes([a(UnknownContent(type="hologram"), "hi")]) == ["block_unknown"]


def test_half_characters_are_replaced_in_texts_and_calls() -> None:
    """S-29."""
    broken = "a\ud83d"
    call = ToolCall(id=broken, name="n", arguments={"deep": [{broken: broken}]})
    history = [u(broken), a(broken, call), t(broken, broken)]

    paired = pair(history, MODEL)

    for message in paired.messages:
        message.to_json().encode()
        assert "\\ud83d" not in message.to_json()
    assert shape(paired.messages) == "u a(a\ufffd) t(a\ufffd)"
    assert "surrogates" in {change.code for change in paired.changes}


# --- properties -----------------------------------------------------------------------------

texts = st.sampled_from(["", " \n", "hi", "a\ud83d", "b"])
ids = st.sampled_from(["x", "y", "x_2", "", "a\ud83d"])
calls = st.builds(lambda id: ToolCall(id=id, name="n", arguments={}), ids)
thoughts = st.sampled_from([SIGNED, UNSIGNED, REDACTED, BROKEN])
text_blocks = st.builds(lambda text: TextContent(text=text), texts)
user_blocks = st.lists(st.one_of(text_blocks, st.just(IMAGE)), max_size=3).map(tuple)
histories = st.lists(
    st.one_of(
        st.builds(
            lambda content: UserMessage(content=content, timestamp=1), st.one_of(texts, user_blocks)
        ),
        st.builds(
            lambda blocks, stop, by: a(*blocks, stop=stop, by=by),
            st.lists(st.one_of(text_blocks, calls, thoughts), max_size=4),
            st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]),
            st.sampled_from(["m", "other"]),
        ),
        st.builds(
            lambda id, content: ToolResultMessage(tool_call_id=id, content=content, timestamp=3),
            ids,
            user_blocks,
        ),
    ),
    max_size=10,
)
models = st.sampled_from([None, MODEL, BLIND, SIGNING])


@given(histories, models)
def test_every_call_has_one_result_right_after_its_message(
    history: list[LlmMessage], model: Model | None
) -> None:
    waiting: list[str] = []
    for message in pair(history, model).messages:
        if isinstance(message, ToolResultMessage):
            assert message.tool_call_id == waiting.pop(0)
            continue
        assert waiting == []
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
            assert len(set(waiting)) == len(waiting)
    assert waiting == []


@given(histories, models)
def test_pairing_twice_changes_nothing_more(history: list[LlmMessage], model: Model | None) -> None:
    once = pair(history, model)
    twice = pair(once.messages, model)

    assert twice.messages == once.messages
    assert twice.changes == ()


@given(histories, models)
def test_message_by_message_gives_the_same_as_all_at_once(
    history: list[LlmMessage], model: Model | None
) -> None:
    growing = Pairing(model)
    for count, message in enumerate(history, 1):
        growing.add(message)
        assert growing.paired() == pair(history[:count], model)


@given(histories, models)
def test_what_was_handed_out_does_not_change_when_the_history_grows(
    history: list[LlmMessage], model: Model | None
) -> None:
    growing = Pairing(model)
    handed_out: list[tuple[Sequence[LlmMessage], tuple[LlmMessage, ...]]] = []
    for message in history:
        growing.add(message)
        given = growing.paired().messages
        handed_out.append((given, tuple(given)))

    for given, copy in handed_out:
        assert given == copy


def test_a_history_that_grows_is_handed_out_as_one_list() -> None:
    growing = Pairing()
    growing.add(u())
    first = growing.paired().messages
    for message in (a(*x("x")), t("x"), a("Done."), u()):
        growing.add(message)
    second = growing.paired().messages

    assert isinstance(first, Grown)
    assert isinstance(second, Grown)
    assert second.shares(first)


@given(histories, models)
def test_no_change_is_reported_for_what_is_sent_as_it_was(
    history: list[LlmMessage], model: Model | None
) -> None:
    paired = pair(history, model)

    if not paired.changes:
        assert list(paired.messages) == history


@given(histories, models)
def test_nothing_that_is_sent_is_blank_or_broken(
    history: list[LlmMessage], model: Model | None
) -> None:
    for message in pair(history, model).messages:
        message.to_json().encode()
        if isinstance(message, UserMessage) and isinstance(message.content, str):
            assert message.content.strip()
            continue
        assert message.content
        for block in message.content:
            assert not isinstance(block, TextContent) or block.text.strip()
