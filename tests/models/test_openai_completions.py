from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from loopback import sse

from pi_nb.abort import AbortSignal
from pi_nb.messages import (
    AssistantMessage,
    ImageContent,
    LlmMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    user,
)
from pi_nb.models.openai_completions import Dialect, OpenAICompletions, request_body
from pi_nb.models.types import CallDelta, Model, Request, RequestOptions, TextDelta, ToolSpec

pytestmark = pytest.mark.anyio

MODEL = Model(id="m", provider="p", api="openai-completions", images=True)
IMAGE = ImageContent(data="aGk=", mime_type="image/png")
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
CANARY = "sk-canary-0123456789abcdef"


def at(url: str, **options: Any) -> OpenAICompletions:
    return OpenAICompletions(MODEL.having(base_url=f"{url}/v1"), **options)


def sent(*messages: LlmMessage, dialect: Dialect = Dialect(), **options: Any) -> Any:  # noqa: B008
    request = Request(messages=messages, options=RequestOptions(**options))
    return request_body(MODEL, request, dialect)["messages"]


def says(*blocks: Any) -> AssistantMessage:
    return AssistantMessage(content=blocks, provider="p", model="m")


def result(call: str, *blocks: Any) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call, content=blocks)


CALL = ToolCall(id="c1", name="read", arguments={"path": "a"})
CALL_SENT = {
    "id": "c1",
    "type": "function",
    "function": {"name": "read", "arguments": '{"path":"a"}'},
}


async def test_a_request_says_what_was_asked_and_nothing_else() -> None:
    tool = ToolSpec(name="read", description="Reads.", parameters={"type": "object"})

    body = request_body(MODEL, Request(system_prompt="SYS", messages=(user("hi"),), tools=(tool,)))

    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "SYS"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Reads.",
                    "parameters": {"type": "object"},
                },
            }
        ],
    }


async def test_without_a_prompt_and_tools_neither_is_sent() -> None:
    body = request_body(MODEL, Request(messages=(UserMessage(content="hi"),)))

    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert "tools" not in body


async def test_options_are_sent_where_they_were_given() -> None:
    options = RequestOptions(max_tokens=9, temperature=0.5, extra_body={"seed": 1, "stream": False})

    model = OpenAICompletions(MODEL, dialect=Dialect(max_tokens_field="limit"))
    body = model.wire(Request(options=options)).body

    assert (body["limit"], body["temperature"], body["seed"], body["stream"]) == (9, 0.5, 1, False)


async def test_a_model_that_reasons_is_told_how_much_and_no_temperature() -> None:
    """V-03."""
    options = RequestOptions(thinking_level="high", temperature=0)

    reasoning = request_body(MODEL.having(reasoning=True), Request(options=options))
    plain = request_body(MODEL, Request(options=options))

    assert (reasoning["reasoning_effort"], "temperature" in reasoning) == ("high", False)
    assert (plain["temperature"], "reasoning_effort" in plain) == (0, False)


async def test_a_message_that_only_calls_tools_has_null_content_or_empty_by_switch() -> None:
    """V-12."""
    assert sent(says(CALL)) == [{"role": "assistant", "content": None, "tool_calls": [CALL_SENT]}]
    assert sent(says(CALL), dialect=Dialect(empty_content=""))[0]["content"] == ""
    assert sent(says(TextContent(text="I look."), CALL))[0]["content"] == "I look."


async def test_images_of_results_follow_in_one_user_message_after_all_results() -> None:
    """V-08, V-09."""
    other = CALL.having(id="c2")

    messages = sent(
        says(CALL, other),
        result("c1", IMAGE),
        result("c2", TextContent(text="done"), IMAGE),
        user("and now?"),
    )

    assert [message["role"] for message in messages] == [
        "assistant",
        "tool",
        "tool",
        "user",
        "user",
    ]
    assert messages[1]["content"] == "(the result is the image in the next message)"
    assert messages[2] == {"role": "tool", "tool_call_id": "c2", "content": "done"}
    assert messages[3]["content"] == [IMAGE_PART, IMAGE_PART]


async def test_images_of_the_last_result_are_not_forgotten() -> None:
    assert sent(says(CALL), result("c1", IMAGE))[-1] == {"role": "user", "content": [IMAGE_PART]}


async def test_a_prompt_of_an_image_alone_has_no_empty_text() -> None:
    """V-09."""
    assert sent(user("", [IMAGE]))[0]["content"] == [IMAGE_PART]
    assert sent(user("look", [IMAGE]))[0]["content"] == [
        {"type": "text", "text": "look"},
        IMAGE_PART,
    ]


async def test_reasoning_goes_back_under_the_key_it_came_with_unless_switched_off() -> None:
    """V-14."""
    thought = ThinkingContent(thinking="hm", thinking_signature="reasoning")
    foreign = ThinkingContent(thinking="hm", thinking_signature="EqRkTUlz")
    message = says(thought, foreign, TextContent(text="a"))

    assert sent(message) == [{"role": "assistant", "content": "a", "reasoning": "hm"}]
    assert "reasoning" not in sent(message, dialect=Dialect(replay_reasoning=False))[0]


async def test_half_characters_never_reach_the_wire() -> None:
    """S-29."""
    broken = "a\ud83d"
    call = CALL.having(arguments={broken: broken})
    request = Request(system_prompt=broken, messages=(user(broken), says(call)))

    body = OpenAICompletions(MODEL).wire(request).body

    assert "\\ud83d" not in repr(body)
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"a�":"a�"}'


# --- over a socket --------------------------------------------------------------------------


def delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "r", "model": "m-1", "choices": [{"delta": delta, "finish_reason": finish}]}


def piece(arguments: str, index: int, **more: Any) -> dict[str, Any]:
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"index": index, "function": {"arguments": arguments} | name, **more}


FIRST = sse(
    delta(role="assistant", content=""),
    delta(reasoning_content="Two files, "),
    delta(reasoning_content="中文 too."),
    delta(content="I look 😀"),
    delta(content=" at both."),
    delta(tool_calls=[piece("", 0, id="c1", name="read")]),
    delta(tool_calls=[piece('{"path":', 0)]),
    delta(tool_calls=[piece('"a.txt"}', 0)]),
    delta(tool_calls=[piece('{"path":"b.txt"}', 1, id="c2", name="read")]),
    delta("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 20}},
    "[DONE]",
)
SECOND = sse(delta(content="Both say tea."), delta("stop"), "[DONE]")


@pytest.mark.parametrize("cut", [1, 2, 7, None])
async def test_a_conversation_with_tools_whatever_the_network_does_to_its_bytes(
    ask: Any, loopback: Any, cut: int | None
) -> None:
    loopback.answer(FIRST, cut=cut)
    loopback.answer(SECOND, cut=cut)
    model = at(loopback.url)
    question = user("What do a.txt and b.txt say?")

    first = await ask(model, Request(messages=(question,)))
    calls = first.message.tool_calls
    results = [result(call.id, TextContent(text="tea")) for call in calls]
    second = await ask(model, Request(messages=(question, first.message, *results)))

    assert first.message.content[:2] == (
        ThinkingContent(thinking="Two files, 中文 too.", thinking_signature="reasoning_content"),
        TextContent(text="I look 😀 at both."),
    )
    assert [(c.id, c.arguments) for c in calls] == [
        ("c1", {"path": "a.txt"}),
        ("c2", {"path": "b.txt"}),
    ]
    assert (first.end.reason, first.message.usage.total_tokens) == ("toolUse", 70)
    assert (second.message.text, second.end.reason) == ("Both say tea.", "stop")
    one, two = loopback.requests
    assert one.path == two.path == "/v1/chat/completions"
    assert "authorization" not in one.headers
    assert [message["role"] for message in two.json["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert two.json["messages"][1]["reasoning_content"] == "Two files, 中文 too."


async def test_a_plain_json_answer_works_as_well(ask: Any, loopback: Any) -> None:
    message = {"content": "all at once"}
    loopback.always("/v1/chat/completions", {"choices": [{"message": message}]})

    said = await ask(at(loopback.url))

    assert (said.message.text, said.end.reason) == ("all at once", "stop")


async def test_a_web_page_is_no_model(ask: Any, loopback: Any) -> None:
    loopback.answer(b"\n<!doctype html><title>Welcome</title>")

    said = await ask(at(loopback.url))

    assert (said.end.reason, said.end.failure) == ("error", "invalid")
    assert "Check the URL" in said.end.error_message


@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        (400, b'{"error":{"message":"maximum context length is 8192 tokens"}}', "overflow"),
        (429, b'{"error":{"message":"slow","code":"insufficient_quota"}}', "quota"),
        (503, b'{"error":{"message":"Loading model"}}', "overloaded"),
        (404, b"", "not_found"),
    ],
)
async def test_a_refused_request_ends_in_an_error_of_its_class(
    ask: Any, loopback: Any, status: int, body: bytes, failure: str
) -> None:
    loopback.answer(body, status=status, headers={"Retry-After": "3"})

    said = await ask(at(loopback.url))

    assert (said.end.reason, said.end.failure, said.end.retry_after) == ("error", failure, 3)
    assert str(status) in said.end.error_message


async def test_a_server_that_is_not_there_is_an_ending_and_no_exception(
    ask: Any, unused_port: int
) -> None:
    said = await ask(at(f"http://127.0.0.1:{unused_port}"))

    assert (said.end.reason, said.end.failure) == ("error", "network")


async def test_a_connection_that_is_cut_keeps_what_came_and_no_call_runs(
    ask: Any, loopback: Any
) -> None:
    """X-07, L-05."""
    loopback.answer(FIRST[: FIRST.index(b"a.txt") + 3], end="cut")

    said = await ask(at(loopback.url))

    assert (said.end.reason, said.end.failure) == ("error", "cut_off")
    assert said.message.text == "I look 😀 at both."
    (call,) = said.message.tool_calls
    assert call.raw_arguments == '{"path":'


async def test_an_error_in_the_middle_of_a_stream_is_not_waited_out(
    ask: Any, loopback: Any
) -> None:
    """X-06."""
    error = {"error": {"type": "overloaded_error", "message": "busy"}}
    loopback.answer(sse(delta(content="half"), error), end="hold")

    async with asyncio.timeout(2):
        said = await ask(at(loopback.url))

    assert (said.message.text, said.end.failure) == ("half", "overloaded")


async def test_a_server_that_keeps_the_line_open_after_done_is_not_waited_for(
    ask: Any, loopback: Any
) -> None:
    loopback.answer(SECOND, end="hold")

    async with asyncio.timeout(2):
        assert (await ask(at(loopback.url))).end.reason == "stop"


@pytest.mark.slow
async def test_comments_keep_a_slow_stream_alive(ask: Any, loopback: Any) -> None:
    """X-04: every one starts the idle time anew."""
    comment = b": PROCESSING\n\n"
    loopback.answer(comment * 8 + SECOND, cut=len(comment), pace=0.05)
    options = RequestOptions(idle_timeout=0.3)

    assert (await ask(at(loopback.url), Request(options=options))).end.reason == "stop"


@pytest.mark.parametrize("moment", ["first byte", "text", "call"])
async def test_an_abort_ends_the_stream_at_any_moment(ask: Any, loopback: Any, moment: str) -> None:
    signal = AbortSignal()
    part = FIRST[: FIRST.index(b"c2")]
    loopback.answer(part, end="hold", before=threading.Event() if moment == "first byte" else None)
    if moment == "first byte":
        threading.Thread(target=lambda: (loopback.arrived.wait(), signal.abort())).start()

    def abort_at(event: Any) -> None:
        if isinstance(event, TextDelta if moment == "text" else CallDelta):
            signal.abort()

    async with asyncio.timeout(2):
        said = await ask(at(loopback.url), Request(), signal, abort_at)

    assert said.end.reason == "aborted"
    assert await asyncio.to_thread(loopback.left.wait, 2)


async def test_a_reader_that_leaves_in_the_middle_closes_the_connection(loopback: Any) -> None:
    loopback.answer(FIRST, end="hold")

    stream = at(loopback.url).stream(Request(), AbortSignal())
    await anext(stream)
    await stream.aclose()

    assert await asyncio.to_thread(loopback.left.wait, 2)


async def test_an_event_of_absurd_size_is_refused(ask: Any, loopback: Any) -> None:
    huge = b"data: " + b"x" * (16 * 2**20 + 1)
    loopback.answer(sse(delta(content="a")) + huge)

    said = await ask(at(loopback.url))

    assert (said.message.text, said.end.failure) == ("a", "invalid")


async def test_a_history_that_cannot_be_written_is_an_ending_and_no_exception(ask: Any) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    request = Request(messages=(says(CALL.model_copy(update={"arguments": deep})),))

    said = await ask(at("http://127.0.0.1:1"), request)

    assert (said.end.reason, said.end.failure) == ("error", "invalid")


async def test_nothing_of_the_network_is_imported_before_it_is_needed() -> None:
    code = "import pi_nb.models.registry, sys; sys.exit('httpx' in sys.modules)"

    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)

    assert await process.wait() == 0


async def test_a_key_is_sent_and_shown_nowhere(ask: Any, loopback: Any) -> None:
    """Z-01: not even when the server echoes it, before the stream or inside it."""
    model = at(loopback.url, api_key=lambda: CANARY)
    options = RequestOptions(headers={"X-Api-Key": CANARY + "-2"})
    loopback.answer(f'{{"error":"bad key {CANARY} or {CANARY}-2"}}'.encode(), status=401)
    loopback.answer(sse({"error": {"message": f"bad key {CANARY[:8]}***{CANARY[-3:]}"}}))
    loopback.answer(sse({"error": {"message": f"bad key {CANARY} or {CANARY}-2"}}))

    shown = repr(model) + repr(options) + options.to_json()
    for _ in range(3):
        said = await ask(model, Request(options=options))
        shown += repr(said.events) + said.message.to_json()

    assert loopback.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    assert loopback.requests[0].headers["x-api-key"] == CANARY + "-2"
    assert "canary" not in shown
    assert CANARY[-6:] not in shown


async def test_a_key_function_that_fails_is_an_ending_without_its_words(ask: Any) -> None:
    def key() -> str:
        raise RuntimeError(CANARY)

    said = await ask(at("http://127.0.0.1:1", api_key=key))

    assert (said.end.reason, said.end.failure) == ("error", "auth")
    assert CANARY not in repr(said)
