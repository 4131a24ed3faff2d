from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import messages as any_message

from pi_nb.abort import AbortSignal
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    convert_to_llm,
    user,
)
from pi_nb.models.fold import Fold
from pi_nb.models.pairing import pair
from pi_nb.models.replay import ReplayModel
from pi_nb.models.types import End, Model, Request, TextDelta
from pi_nb.result import PiError

pytestmark = pytest.mark.anyio


def says(*blocks: Any, **fields: Any) -> AssistantMessage:
    return AssistantMessage(content=blocks, provider="p", model="m", api="a", **fields)


CALL = ToolCall(id="c1", name="read", arguments={"path": "a"})
BRANCH: list[AgentMessage] = [
    user("Read a."),
    says(
        ThinkingContent(thinking="let me see", thinking_signature="sig"),
        TextContent(text="I look."),
        CALL,
        stop_reason="toolUse",
        usage=Usage(input=7, output=3, total_tokens=10),
        response_id="r1",
    ),
    ToolResultMessage(tool_call_id="c1", tool_name="read", content=(TextContent(text="tea"),)),
    says(TextContent(text="It says tea.")),
    BashExecutionMessage(command="ls", output="a"),
    user("Thanks."),
    says(TextContent(text="Welcome.")),
]


def upto(place: int, branch: list[AgentMessage] = BRANCH) -> Request:
    """The request that was made before the message at this place."""
    return Request(messages=tuple(convert_to_llm(branch[:place])))


async def test_a_branch_is_said_again_request_by_request(ask: Any) -> None:
    model = ReplayModel(BRANCH)

    said = [(await ask(model, upto(place))).message for place in (1, 3, 6)]

    assert [one.content for one in said] == [BRANCH[place].content for place in (1, 3, 6)]
    assert said[0].usage == BRANCH[1].usage
    assert (said[0].stop_reason, said[0].response_id) == ("toolUse", "r1")
    assert (model.remaining, repr(model)) == (0, "ReplayModel(p/m, 0 left)")


async def test_it_streams_in_pieces_at_a_pace_and_can_be_stopped(ask: Any) -> None:
    signal = AbortSignal()

    def stop(event: Any) -> None:
        if isinstance(event, TextDelta):
            asyncio.get_running_loop().call_later(0.01, signal.abort)

    branch = [user("q"), says(TextContent(text="one two three"))]
    async with asyncio.timeout(5):
        said = await ask(ReplayModel(branch, pace=0.05), upto(1, branch), signal, stop)

    assert said.end.reason == "aborted"
    assert said.message.text == "one "


async def test_a_request_that_says_something_else_is_named_and_takes_no_answer(ask: Any) -> None:
    model = ReplayModel(BRANCH)

    said = await ask(model, Request(messages=(user("Read b."),)))

    assert said.end.reason == "error"
    assert said.end.error_message.startswith(
        "Request 1 does not continue the stored conversation: "
        "message 1 (user): recorded 'Read a.', asked 'Read b.'"
    )
    assert (await ask(model, upto(1))).message.tool_calls == (CALL,)


async def test_another_result_of_a_tool_is_named(ask: Any) -> None:
    model = ReplayModel(BRANCH)
    await ask(model, upto(1))
    other = ToolResultMessage(tool_call_id="c1", content=(TextContent(text="rice"),))

    said = await ask(model, upto(3, [*BRANCH[:2], other]))

    assert "message 3 (toolResult): recorded 'tea', asked 'rice'" in said.end.error_message


async def test_a_shortened_history_goes_on_where_only_news_are_compared(ask: Any) -> None:
    summary = CompactionSummaryMessage(summary="They read a.")
    short = Request(messages=tuple(convert_to_llm([summary, BRANCH[3], *BRANCH[4:6]])))
    other = Request(messages=(*short.messages[:-1], user("No thanks.")))
    strict, lenient = ReplayModel(BRANCH), ReplayModel(BRANCH, whole=False)
    for place in (1, 3):
        await ask(strict, upto(place))
        await ask(lenient, upto(place))

    assert (await ask(strict, short)).end.reason == "error"
    refused = await ask(lenient, other)
    assert "message 4 (user): recorded 'Thanks.'" in refused.end.error_message
    assert (await ask(lenient, short)).message.text == "Welcome."


async def test_failed_and_aborted_answers_are_played_as_such(ask: Any) -> None:
    branch = [
        user("q"),
        says(stop_reason="error", error_message="overloaded"),
        says(TextContent(text="half"), stop_reason="aborted"),
        says(TextContent(text="whole")),
    ]
    model = ReplayModel(branch)

    said = [await ask(model, upto(1, branch)) for _ in range(3)]

    assert [one.end.reason for one in said] == ["error", "aborted", "stop"]
    assert (said[0].end.error_message, said[0].end.failure) == ("overloaded", "overloaded")
    assert said[1].message.text == "half"


async def test_a_branch_that_is_used_up_says_so(ask: Any) -> None:
    model = ReplayModel(BRANCH[:2])
    await ask(model, upto(1))

    said = await ask(model, upto(3))

    assert "no answer for request 2: it holds 1 answer." in said.end.error_message


async def test_an_aborted_signal_takes_no_answer(ask: Any) -> None:
    model, signal = ReplayModel(BRANCH), AbortSignal()
    signal.abort()

    assert (await ask(model, upto(1), signal)).end.reason == "aborted"
    assert model.remaining == 3


async def test_it_is_who_answered_or_who_it_is_told_to_be() -> None:
    assert str(ReplayModel(BRANCH).model) == "p/m"
    other = Model(id="x", provider="y")
    assert ReplayModel(BRANCH, model=other).model is other


async def test_without_an_answer_there_is_nothing_to_replay() -> None:
    with pytest.raises(PiError) as wrong:
        ReplayModel([user("q")])

    assert wrong.value.code == "invalid_argument"


@given(st.lists(any_message, max_size=8))
def test_any_branch_replays_itself(branch: list[AgentMessage]) -> None:
    """Odd ones too: results without calls, calls without results, equal ids."""
    branch = [*branch, says(TextContent(text="end"))]
    model = ReplayModel(branch)

    async def replay() -> list[AssistantMessage]:
        said = []
        for place, message in enumerate(branch):
            if isinstance(message, AssistantMessage):
                paired = pair(convert_to_llm(branch[:place]), model.model)
                fold = Fold(model.model)
                async for event in model.stream(Request(messages=paired.messages), AbortSignal()):
                    fold.apply(event)
                assert isinstance(fold.end, End)
                said.append(fold.message())
        return said

    answers = [message for message in branch if isinstance(message, AssistantMessage)]
    said = asyncio.run(replay())
    assert [one.stop_reason for one in said] == [one.stop_reason for one in answers]
    assert [one.text for one in said] == [one.text for one in answers]
