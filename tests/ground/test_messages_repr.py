"""One line for each message: what a notebook shows of a list of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    read_message,
    user,
)

PICTURE = ImageContent(data="aGk=", mime_type="image/png")
CALL = ToolCall(id="c", name="read", arguments={})


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (user("Which tests\nare slow?"), "UserMessage('Which tests are slow?')"),
        (user("Look:", [PICTURE]), "UserMessage('Look:', 1 image)"),
        (UserMessage(content="don't"), 'UserMessage("don\'t")'),
        (AssistantMessage(content=(TextContent(text="I look."), CALL, CALL)),
         "AssistantMessage('I look.', 2 calls)"),
        (AssistantMessage(content=(CALL,)), "AssistantMessage(1 call)"),
        (AssistantMessage(), "AssistantMessage(empty)"),
        (AssistantMessage(stop_reason="error", error_message="HTTP 500"),
         "AssistantMessage(error, 'HTTP 500')"),
        (AssistantMessage(content=(TextContent(text="Ha"),), stop_reason="aborted"),
         "AssistantMessage('Ha', aborted)"),
        (ToolResultMessage(tool_call_id="c", tool_name="read", content="tea\nrice"),
         "ToolResultMessage(read, ok, 'tea rice')"),
        (ToolResultMessage(tool_call_id="c", is_error=True), "ToolResultMessage(?, error, '')"),
        (SystemMessage(content="Be brief."), "SystemMessage('Be brief.')"),
        (BashExecutionMessage(command="false", exit_code=1),
         "BashExecutionMessage('false', exit code 1)"),
        (CustomMessage(custom_type="note", content="hi"), "CustomMessage(note, 'hi')"),
        (BranchSummaryMessage(summary="We tried."), "BranchSummaryMessage('We tried.')"),
        (CompactionSummaryMessage(summary="We did."), "CompactionSummaryMessage('We did.')"),
        (read_message({"role": "martian", "x": 1}), "UnknownMessage(martian)"),
    ],
)  # fmt: skip
def test_a_message_shows_itself_in_one_line(message: AgentMessage, line: str) -> None:
    assert repr(message) == str(message) == line


def test_the_whole_of_a_message_is_its_wire_form() -> None:
    text = "long " * 1_000

    message = UserMessage(content=text, timestamp=1)

    assert message.to_wire() == {"role": "user", "content": text, "timestamp": 1}
    assert len(repr(message)) < 60


hostile = st.text(
    st.sampled_from("a'\"\\\n\r\t\b\x1b[31m\x07\x9b\u202e\u2028\u200b\ud83d\U000e0041<")
)


@given(hostile, hostile)
def test_hostile_text_neither_obeys_nor_hides_in_a_repr(text: str, name: str) -> None:
    for message in (
        UserMessage(content=text),
        AssistantMessage(stop_reason="error", error_message=text),
        ToolResultMessage(tool_call_id=name, tool_name=name, content=text),
        read_message({"role": name}),
    ):
        line = repr(message)

        assert line.isprintable()
        assert len(line) <= 100
