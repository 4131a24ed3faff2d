from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    user,
)
from pi_nb.models.scripted import Script, ScriptedModel, call, raw_call, reply, thinking
from pi_nb.models.types import (
    CallDelta,
    CallStart,
    Price,
    Request,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
)
from pi_nb.result import PiError

pytestmark = pytest.mark.anyio


async def test_answers_come_in_order_and_requests_are_remembered(ask: Any) -> None:
    model = ScriptedModel(["one", "two"])
    first = Request(system_prompt="SYS", messages=(user("a"),))

    said = [(await ask(model, first)).message.text, (await ask(model)).message.text]

    assert said == ["one", "two"]
    assert model.requests[0] is first
    assert (len(model.requests), model.remaining) == (2, 0)


async def test_a_reply_streams_thinking_text_and_calls(ask: Any) -> None:
    answer = reply(thinking("let me see", "sig"), "I look.", call("read", path="a.py"))

    said = await ask(ScriptedModel([answer]))

    assert said.message.content == (
        ThinkingContent(thinking="let me see", thinking_signature="sig"),
        TextContent(text="I look."),
        ToolCall(id="call_1", name="read", arguments={"path": "a.py"}),
    )
    assert said.end.reason == "toolUse"
    kinds = [type(event) for event in said.events]
    assert kinds.count(ThinkingDelta) == 4  # three words and the signature
    assert kinds.count(TextDelta) == 2
    assert kinds.count(CallStart) == 1


async def test_pieces_are_about_a_word_and_lose_nothing(ask: Any) -> None:
    text = "  a few words,\n\n中文也是 " + "x" * 1_000 + " \n"

    said = await ask(ScriptedModel([text]))

    deltas = [event.delta for event in said.events if isinstance(event, TextDelta)]
    assert "".join(deltas) == text
    assert max(map(len, deltas)) <= 80


async def test_every_block_gives_at_least_one_piece_even_when_it_is_empty(ask: Any) -> None:
    said = await ask(ScriptedModel([reply("", thinking(""), raw_call("t", ""))]))

    assert [event.delta for event in said.events if hasattr(event, "delta")] == ["", "", ""]


async def test_an_answer_in_wire_form_is_played_as_it_stands(ask: Any) -> None:
    wire = {
        "content": [{"type": "text", "text": "hm"}, {"type": "toolCall", "name": "echo"}],
        "stopReason": "length",
        "usage": {"input": 9, "output": 1},
    }

    said = await ask(ScriptedModel([wire]))

    assert said.message.text == "hm"
    assert said.message.tool_calls[0].id == "call_1"
    assert said.end.reason == "length"
    assert said.message.usage.input == 9


async def test_wire_form_without_a_stop_reason_follows_its_calls(ask: Any) -> None:
    wire = {"content": [{"type": "toolCall", "id": "c", "name": "echo", "arguments": {}}]}

    assert (await ask(ScriptedModel([wire]))).end.reason == "toolUse"


async def test_an_error_keeps_its_words_and_gets_its_class(ask: Any) -> None:
    model = ScriptedModel(
        [
            {"content": [], "stopReason": "error", "errorMessage": "overloaded"},
            reply("half", error="broke", failure="network", retry_after=3),
            reply(error="prompt is too long"),
        ]
    )

    first, second, third = [await ask(model) for _ in range(3)]

    assert (first.end.error_message, first.end.failure) == ("overloaded", "overloaded")
    assert (second.message.text, second.end.failure, second.end.retry_after) == (
        "half",
        "network",
        3,
    )
    assert third.end.failure == "overflow"


async def test_functions_plain_and_async_answer_the_request(ask: Any) -> None:
    async def later(request: Request) -> str:
        return f"{len(request.messages)} messages"

    model = ScriptedModel([lambda request: reply(request.system_prompt), later])
    request = Request(system_prompt="SYS", messages=(user("a"),))

    assert (await ask(model, request)).message.text == "SYS"
    assert (await ask(model, request)).message.text == "1 messages"


async def test_one_function_answers_every_request(ask: Any) -> None:
    model = ScriptedModel(lambda request: request.system_prompt)

    for word in ("a", "b"):
        assert (await ask(model, Request(system_prompt=word))).message.text == word
    assert model.remaining is None


@pytest.mark.parametrize(
    "answer", [lambda _request: 1 / 0, lambda _request: 42, lambda _request: None]
)
async def test_a_script_that_fails_ends_in_an_error_and_never_raises(ask: Any, answer: Any) -> None:
    said = await ask(ScriptedModel([answer]))

    assert said.end.reason == "error"
    assert "The script failed" in said.end.error_message


async def test_a_script_without_answers_says_what_to_do(ask: Any) -> None:
    model = ScriptedModel(["only"])
    await ask(model)

    said = await ask(model)

    assert said.end.reason == "error"
    assert said.end.error_message == (
        "The script has no answer for request 2: it held 1 answer. "
        "Give the scripted model one more, or a function of the request."
    )
    assert said.end.failure == "invalid"


async def test_two_models_draw_from_one_script(ask: Any) -> None:
    script = Script(["one", "two", reply(call("t"))])
    a, b = ScriptedModel(script, id="faux-a"), ScriptedModel(script, id="faux-b")

    said = [await ask(model) for model in (a, b, a)]

    assert [one.message.text for one in said] == ["one", "two", ""]
    assert [one.message.model for one in said] == ["faux-a", "faux-b", "faux-a"]
    assert a.remaining == b.remaining == 0


async def test_call_ids_are_the_same_in_every_run_and_never_twice(ask: Any) -> None:
    model = ScriptedModel([reply(call("t"), call("t", id="mine"), call("t")), reply(call("t"))])

    ids = [c.id for _ in range(2) for c in (await ask(model)).message.tool_calls]

    assert ids == ["call_1", "mine", "call_2", "call_3"]


async def test_broken_arguments_can_be_played(ask: Any) -> None:
    """L-05: a cut argument text never becomes a call that runs."""
    said = await ask(ScriptedModel([reply(raw_call("write", '{"path":"a.txt","content":"hel'))]))

    (broken,) = said.message.tool_calls
    assert broken.arguments == {"path": "a.txt", "content": "hel"}
    assert broken.raw_arguments == '{"path":"a.txt","content":"hel'
    assert said.end.reason == "toolUse"


async def test_usage_is_estimated_the_same_way_every_time(ask: Any) -> None:
    request = Request(
        system_prompt="s" * 40,
        messages=(user("u" * 40),),
        tools=(ToolSpec(name="read", description="d" * 100),),
    )

    usages = [(await ask(ScriptedModel(["a" * 8]), request)).message.usage for _ in range(2)]

    assert usages[0] == usages[1]
    assert usages[0].output == 2
    assert usages[0].input > 10 + 10 + 25
    assert usages[0].total_tokens == usages[0].input + usages[0].output


async def test_usage_and_price_can_be_given(ask: Any) -> None:
    model = ScriptedModel([reply("a", usage=Usage(output=10))], price=Price(output=100_000))

    assert (await ask(model)).message.usage.cost.total == 1


async def test_an_abort_stops_the_stream_and_keeps_what_was_said(ask: Any) -> None:
    signal = AbortSignal()

    def stop_after_two(event: Any) -> None:
        if isinstance(event, TextDelta) and event.delta.startswith("two"):
            signal.abort()

    said = await ask(ScriptedModel(["one two three"]), Request(), signal, stop_after_two)

    assert (said.message.text, said.end.reason) == ("one two ", "aborted")


@pytest.mark.parametrize(
    "model",
    [
        ScriptedModel([reply("late", delay=60)]),
        ScriptedModel(["one two"], pace=60),
        ScriptedModel([lambda _request: asyncio.sleep(60)]),
    ],
    ids=["delay", "pace", "function"],
)
async def test_every_kind_of_waiting_ends_at_an_abort(ask: Any, model: ScriptedModel) -> None:
    signal = AbortSignal()
    asyncio.get_running_loop().call_later(0.01, signal.abort)

    async with asyncio.timeout(1):
        said = await ask(model, Request(), signal)

    assert said.end.reason == "aborted"


async def test_an_aborted_signal_takes_no_answer_and_makes_no_request(ask: Any) -> None:
    model, signal = ScriptedModel(["one"]), AbortSignal()
    signal.abort()

    said = await ask(model, Request(), signal)

    assert said.end.reason == "aborted"
    assert (model.requests, model.remaining) == ([], 1)


async def test_others_run_between_two_pieces(ask: Any) -> None:
    seen: list[int] = []
    events: list[Any] = []

    async def watch() -> None:
        while True:
            seen.append(len(events))
            await asyncio.sleep(0)

    watcher = asyncio.ensure_future(watch())
    await ask(ScriptedModel(["a b c d e f"]), Request(), None, events.append)
    watcher.cancel()

    assert len(set(seen)) > 4


async def test_pace_is_the_time_between_pieces(ask: Any) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()

    await ask(ScriptedModel(["one two three"], pace=0.02))

    assert loop.time() - begin >= 0.06


async def test_a_text_in_the_place_of_a_list_is_a_mistake_said_at_once() -> None:
    with pytest.raises(PiError) as mistake:
        ScriptedModel("hello")

    assert mistake.value.code == "invalid_argument"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([3], "answer 1 of the script is none: an answer is a text, a reply or a dict, not int"),
        (["one", None], "answer 2 of the script is none"),
        (["one", call("read")], "put it into reply(...)"),
        ([{"content": 3}], "answer 1 of the script is none: content: "),
        ([{"content": "a", "stopReason": "tired"}], "stopReason: "),
        (3, "answers is a list or a function, not int"),
    ],
)
@pytest.mark.parametrize("make", [ScriptedModel, Script])
async def test_what_is_no_answer_is_refused_before_it_is_asked_for(
    make: Any, answers: Any, words: str
) -> None:
    with pytest.raises(PiError) as mistake:
        make(answers)

    assert mistake.value.code == "invalid_argument"
    assert words in mistake.value.message


async def test_answers_added_later_are_numbered_on_and_taken_all_or_none() -> None:
    script = Script(["one", "two"])

    with pytest.raises(PiError, match="answer 4 of the script"):
        script.add("three", 4)

    assert script.remaining == 2


async def test_its_description_is_what_was_asked_for() -> None:
    model = ScriptedModel(["a"], id="faux-a", provider="p", context_window=5, images=False)

    assert (str(model.model), model.model.context_window, model.model.images) == (
        "p/faux-a",
        5,
        False,
    )
    assert repr(model) == "ScriptedModel(p/faux-a, 1 left)"


async def test_an_image_in_the_request_has_its_price(ask: Any) -> None:
    picture = user("", [ImageContent(data="aGk=", mime_type="image/png")])

    said = await ask(ScriptedModel(["a"]), Request(messages=(picture,)))

    assert said.message.usage.input == 1_200


async def test_a_call_piece_holds_the_arguments_as_json(ask: Any) -> None:
    said = await ask(ScriptedModel([reply(call("t", text="a b", n=1.0))]))

    text = "".join(event.delta for event in said.events if isinstance(event, CallDelta))
    assert text == '{"text":"a b","n":1}'


async def test_every_answer_of_the_reference_runs_comes_out_as_it_went_in(
    ask: Any, vectors: Any
) -> None:
    answers = [answer for case in vectors("harness_traces.json") for answer in case["responses"]]
    model = ScriptedModel(answers)

    for answer in answers:
        said = await ask(model)

        expected = AssistantMessage.model_validate(answer)
        assert said.message.content == expected.content
        assert said.end.reason == expected.stop_reason
        assert said.end.error_message == expected.error_message
    assert model.remaining == 0
