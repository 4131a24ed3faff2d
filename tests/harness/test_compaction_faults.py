"""What went wrong in compactions elsewhere, where it takes a whole harness to see it (CMP).

Rows that are pure are in `tests/compaction/test_faults.py`; each test names its row.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from loopback import sse

from pi_nb.abort import AbortSignal
from pi_nb.compaction.extractive import BOUND, extractive
from pi_nb.harness.compaction_settings import CompactionSettings
from pi_nb.harness.compactor import Wish
from pi_nb.harness.events import AbortEvent, AutoCompaction, SessionCompact
from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.events import MessageEnd
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    LlmMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    convert_to_llm,
    text_of,
    user,
)
from pi_nb.models.openai_completions import OpenAICompletions
from pi_nb.models.pairing import pair
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import (
    ChatModel,
    End,
    Model,
    Request,
    RequestOptions,
    Start,
    StreamEvent,
    TextDelta,
    ToolSpec,
)
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.context import build_session_context
from pi_nb.session.entries import CompactionEntry, MessageEntry
from pi_nb.session.fork import fork_session
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session
from pi_nb.tokens import PI

pytestmark = pytest.mark.anyio

SUMMARY = "## Goal\nCount.\n\n## Next Steps\n- go on"
TURN = "x" * 400  # 100 tokens by rule `pi`
Make = Callable[..., AgentTool]
Strict = Callable[[Sequence[LlmMessage]], None]


def words(tokens: int) -> str:
    """So many tokens by rule `pi`."""
    return "word" * tokens


def of_summary(request: Request) -> bool:
    return request.system_prompt.startswith("You write summaries")


def question(request: Request) -> str:
    return text_of(request.messages[-1].content)


class Talker(ScriptedModel):
    """A model that answers turns one way and requests for summaries another."""

    def __init__(self, turns: Any = "answer", summaries: Any = SUMMARY, **options: Any) -> None:
        turns, summaries = _in_turn(turns), _in_turn(summaries)
        super().__init__(lambda r: summaries(r) if of_summary(r) else turns(r), **options)

    @property
    def asked(self) -> list[Request]:
        return [request for request in self.requests if not of_summary(request)]

    @property
    def summarised(self) -> list[Request]:
        return [request for request in self.requests if of_summary(request)]


def _in_turn(answers: Any) -> Callable[[Request], Any]:
    """A function as it is; of a list one after another, the last one for ever."""
    if callable(answers):
        return answers  # type: ignore[no-any-return]
    left = list(answers) if isinstance(answers, list) else [answers]
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


class Held:
    """A summary that is being written until the test says go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, _request: Request) -> str:
        self.begun.set()
        await self.go_on.wait()
        return SUMMARY


def harness_of(
    model: ChatModel, *, session: Session | None = None, told: list[Any] | None = None, **more: Any
) -> AgentHarness:
    settings = {"estimator": "pi", **more.pop("compaction", {})}
    made = AgentHarness(model, session=session, compaction=CompactionSettings(**settings), **more)
    if told is not None:
        made.subscribe(told.append)
    return made


def says(text: str = "", *calls: str, usage: int = 0, **fields: Any) -> AssistantMessage:
    blocks = [TextContent(text=text)] if text else []
    made = [ToolCall(id=one, name="read", arguments={}) for one in calls]
    return AssistantMessage(
        content=(*blocks, *made),
        usage=Usage(input=usage, total_tokens=usage),
        timestamp=1,
        **fields,
    )


def gives(call_id: str, text: str) -> ToolResultMessage:
    content = (TextContent(text=text),)
    return ToolResultMessage(tool_call_id=call_id, tool_name="read", content=content, timestamp=1)


def session_of(*messages: AgentMessage | str) -> Session:
    made = Session.create(None, cwd="/w")
    grow(made, *messages)
    return made


def grow(made: Session, *messages: AgentMessage | str) -> list[str]:
    said = [user(m, timestamp=1) if isinstance(m, str) else m for m in messages]
    return [made.append_sync(MessageEntry(message=message)).id for message in said]


def log_of(session: Session) -> list[Any]:
    return [entry.to_wire() for entry in session.entries()]


def compactions(session: Session) -> list[CompactionEntry]:
    return [entry for entry in session.entries() if isinstance(entry, CompactionEntry)]


def shown(session: Session) -> list[str]:
    """What the context holds, a summary as an empty text."""
    return [text_of(getattr(message, "content", "")) for message in session.context().messages]


def sent(request: Request) -> list[str]:
    return [text_of(message.content) for message in request.messages]


def decisions(told: list[Any]) -> list[tuple[str, str]]:
    return [(e.trigger, e.decision) for e in told if isinstance(e, AutoCompaction)]


TOO_LONG = reply(error="prompt is too long: 9 tokens > 8 maximum")


def used(tokens: int) -> Usage:
    return Usage(input=tokens, total_tokens=tokens)


# --- when a context is compacted --------------------------------------------------------------


async def test_usage_from_before_a_compaction_does_not_compact_again() -> None:
    """C-06, starred."""
    session = session_of("u1", says("a1", usage=180_000))
    await session.append_compaction("what was", None, 180_000)
    await session.append_custom_message("note", "mind the gap")
    model = Talker()
    told: list[Any] = []

    harness = harness_of(model, session=session, told=told, compaction={"reserve": 25_000})
    assert harness.size.source == "pi"
    await harness.prompt("u2")

    assert (decisions(told), len(model.requests)) == ([], 1)


async def test_a_context_that_nothing_makes_smaller_is_asked_about_once_and_named() -> None:
    """C-09, starred: the prompt alone nearly fills the window, and the server says too long."""
    model = Talker(lambda _: TOO_LONG, context_window=8_000)
    told: list[Any] = []
    harness = harness_of(model, system_prompt=words(7_600), told=told)

    result = await harness.prompt("what now my dear friend?")

    assert len(model.requests) == 1
    assert decisions(told) == [("threshold", "begins"), ("threshold", "nothing")]
    assert "the system prompt and the tools take ≈7,600 of them" in str(result)
    await harness.prompt("again?")
    assert len(model.requests) == 2


async def test_a_server_that_always_says_too_long_costs_one_summary_and_one_more_try() -> None:
    """C-09, starred: smaller by every estimate, and refused all the same."""
    session = session_of(*[words(1_000), says(words(1_000))] * 10)
    model = Talker(lambda _: TOO_LONG)
    told: list[Any] = []
    harness = harness_of(model, session=session, told=told, compaction={"keep": 2_000})

    result = await harness.prompt("u")

    assert (len(model.asked), len(model.summarised)) == (2, 1)
    assert decisions(told) == [
        ("overflow", "begins"), ("overflow", "done"), ("overflow", "stopped"),
    ]  # fmt: skip
    assert result.reason == "error"
    assert "too long again, after a compaction" in result.advice
    assert "the system prompt and the tools take" in result.advice


async def test_failures_without_usage_do_not_hide_how_full_the_context_is() -> None:
    """C-27: through a series of 529s."""
    failed = says("", stop_reason="error", error_message="overloaded")
    session = session_of(words(140_000), says(words(10_000), usage=150_000))
    grow(session, "u2", failed, "u3", failed)
    told: list[Any] = []
    model = Talker(context_window=160_000)

    await harness_of(model, session=session, told=told, compaction={"keep": 2}).prompt("u4")

    assert decisions(told) == [("threshold", "begins"), ("threshold", "done")]
    assert sent(model.asked[0])[1:] == ["u2", "u3", "u4"]


async def test_a_server_that_reports_no_usage_is_weighed_also_after_a_restart(
    tmp_path: Path,
) -> None:
    """C-28: twenty turns of a thousand tokens in a window of 16,000."""
    path = tmp_path / "s.jsonl"

    def model() -> Talker:
        return Talker(lambda _: reply(words(500), usage=Usage()), context_window=16_000)

    with Session.create(path, cwd=tmp_path, durability="flush") as session:
        harness = harness_of(model(), session=session)
        for _ in range(20):
            await harness.prompt(words(500))
        assert len(compactions(session)) >= 1
        await harness.move(None)
        harness.compaction.auto = "off"
        for _ in range(14):
            await harness.prompt(words(500))
        known = len(compactions(session))

    with Session.open(path) as session:
        await harness_of(model(), session=session).prompt(words(500))
        assert len(compactions(session)) == known + 1


async def test_usage_is_known_after_a_restart(tmp_path: Path) -> None:
    """C-28."""
    path = tmp_path / "s.jsonl"
    with Session.create(path, cwd=tmp_path, durability="flush") as session:
        full = Talker(reply("a", usage=used(100_000)))
        await harness_of(full, session=session).prompt("u")

    with Session.open(path) as session:
        assert harness_of(Talker(), session=session).size.reported == 100_000


async def test_an_answer_to_more_than_the_window_is_kept_and_room_is_made() -> None:
    """C-41 (a), C-43: a server that takes too much in silence; nothing is asked again."""
    session = session_of(words(1_000), says(words(1_000)))
    model = Talker(reply("all of it", usage=used(210_000)))
    told: list[Any] = []

    harness = harness_of(model, session=session, told=told, compaction={"keep": 4})

    result = await harness.prompt("u")

    assert result.text == "all of it"
    assert (len(model.asked), len(model.summarised)) == (1, 1)
    assert decisions(told) == [("threshold", "begins"), ("threshold", "done")]
    assert shown(session)[1:] == ["u", "all of it"]


async def test_a_prompt_that_a_server_cut_in_silence_is_asked_again_with_what_it_said() -> None:
    """C-41 (b), C-47: nothing came back, so the prompt waits for its answer still."""
    session = session_of(words(1_000), says(words(1_000)))
    cut = reply(stop_reason="length", usage=used(199_000))
    model = Talker([cut, "there"])
    prompt = words(3_000)

    result = await harness_of(model, session=session, compaction={"keep": 100}).prompt(prompt)

    assert result.text == "there"
    assert (len(model.asked), len(model.summarised)) == (2, 1)
    assert sent(model.asked[1])[-1] == prompt
    assert prompt not in question(model.summarised[0])


async def test_an_answer_that_is_cut_off_is_no_overflow() -> None:
    """C-41 (c)."""
    model = Talker(reply("half of", stop_reason="length", usage=used(199_000)))
    told: list[Any] = []

    await harness_of(model, session=session_of("u", says("a")), told=told).prompt("u")

    assert len(model.asked) == 1
    assert "overflow" not in {trigger for trigger, _ in decisions(told)}


async def test_an_overflow_of_a_model_that_is_not_asked_any_more_compacts_nothing() -> None:
    """C-42: whether it is left in the log, or the model changes while it arrives."""
    session = session_of(*[words(1_000), says(words(1_000))] * 5)
    small = Talker(lambda _: TOO_LONG, id="small", context_window=20_000)
    large = Talker(id="large", context_window=1_000_000)
    told: list[Any] = []
    harness = harness_of(small, session=session, told=told, compaction={"keep": 100})

    async def change(event: Any) -> None:
        if isinstance(event, MessageEnd) and event.message.role == "assistant":
            leave()
            await harness.set_model(large)

    leave = harness.subscribe(change)
    assert (await harness.prompt("u")).reason == "error"
    assert (await harness.prompt("u")).text == "answer"

    assert decisions(told) == []
    assert small.summarised == large.summarised == []


async def test_switched_off_is_off_where_a_provider_finds_it_too_long_too() -> None:
    """C-60: and it says what the user can do."""
    model = Talker(lambda _: TOO_LONG)
    told: list[Any] = []
    session = session_of(*[words(100), says(words(100))] * 5)
    harness = harness_of(model, session=session, told=told, compaction={"auto": "off", "keep": 9})

    result = await harness.prompt("u")

    assert (len(model.asked), len(model.summarised)) == (1, 0)
    assert decisions(told) == [("overflow", "off")]
    assert "prompt is too long" in str(result)
    assert "`%compact` makes room" in str(result)


# --- what is asked ----------------------------------------------------------------------------


async def test_three_results_of_400_000_characters_are_compacted_in_a_window_of_20_000(
    strict: Strict,
) -> None:
    """C-15, starred, and C-03: by hand, and then what is kept is shown shorter by itself."""
    long = "line of output\n" * 26_700
    session = session_of("u0", says("a0"), "read all three")
    for number in range(3):
        grow(session, says("", f"c{number}"), gives(f"c{number}", long))
    grow(session, says("Read."), "u", says("a"))
    model = Talker(context_window=20_000)
    harness = harness_of(model, session=session, compaction={"keep": 110_000})
    before = log_of(session)

    done = await harness.compact()
    result = await harness.prompt("and now?")

    assert done.entry is not None
    assert result.text == "answer"
    for request in model.requests:
        strict(request.messages)
        weight = sum(map(PI.weigh, request.messages)) + PI.weigh_text(request.system_prompt)
        assert weight < 20_000
    read = "".join(question(request) for request in model.summarised)
    assert read.count("more characters left out]") == 2
    assert "more characters left out]" in "".join(sent(model.asked[0]))
    assert log_of(session)[: len(before)] == before


async def test_a_pair_that_alone_is_too_much_is_sent_whole_with_its_result_cut(
    make_tool: Make, strict: Strict
) -> None:
    """C-03: in the middle of a run, where nothing older is left to summarise."""
    model = Talker([reply(call("x")), "Done."], context_window=16_000)
    harness = harness_of(model, tools=[make_tool("x", lambda _: words(18_000))])

    result = await harness.prompt(words(3_000))

    assert result.text == "Done."
    (answer,) = (m for m in model.asked[1].messages if isinstance(m, ToolResultMessage))
    assert "more characters left out]" in answer.text
    strict(model.asked[1].messages)
    assert sum(map(PI.weigh, model.asked[1].messages)) < 16_000
    raw = [e.message for e in harness.session.entries() if isinstance(e, MessageEntry)]
    assert words(18_000) in [m.text for m in raw if isinstance(m, ToolResultMessage)]


TALKS = {
    "es": [
        "¿Cuántas judías hay?",
        "Hay doce.",
        "¿Y rojas?",
        "Cinco.",
        "Responde en español.",
        "Sí.",
    ],
    "zh": ["一共有多少颗豆子？", "十二颗。", "红的呢？", "五颗。", "请用中文回答。", "好的。"],
}


@pytest.mark.parametrize("language", TALKS)
async def test_a_summary_is_asked_for_in_the_language_of_the_conversation_each_time(
    language: str,
) -> None:
    """C-20, starred: the fake model gives back what it was asked, first and as an update."""
    talk = TALKS[language]
    asked, said = talk[::2], talk[1::2]
    pairs = [m for u, a in zip(asked, said, strict=True) for m in (u, says(a))]
    model = Talker(summaries=lambda r: f"{SUMMARY}\n{question(r).rpartition('</')[2]}")
    keep = PI.weigh(pairs[-1])
    harness = harness_of(model, session=session_of(*pairs), compaction={"keep": keep + 1})

    first = await harness.compact()
    grow(harness.session, asked[0], says(said[0]))
    second = await harness.compact()

    for done in (first, second):
        assert "Write in the language that the user writes in" in done.summary
        assert "the language the user wants answers in, if one was named" in " ".join(
            done.summary.split()
        )
        assert "spelled as they are here, whatever the language" in done.summary
    read = question(model.summarised[0])
    assert all(text in read for text in talk[:-2])


async def test_instructions_reach_the_request_for_a_turn_that_is_split() -> None:
    """C-21: one turn of 30,000 tokens, of which 5,000 are kept."""
    session = session_of("find the fault")
    for number in range(6):
        grow(session, says("", f"c{number}"), gives(f"c{number}", words(5_000)))
    grow(session, says("Found."))
    model = Talker()
    harness = harness_of(model, session=session, compaction={"keep": 5_000})

    done = await harness.compact("the tests")

    assert done.entry is not None
    (request,) = model.summarised
    assert "beginning of one long turn" in question(request)
    assert "look above all at this: the tests" in question(request)


async def test_a_turn_that_is_split_has_both_parts_in_order_and_its_request_is_open() -> None:
    """C-22."""
    session = session_of("u1", says("a1"), "count the red ones", says("", "t"), gives("t", "12"))
    grow(session, says("", "v"), gives("v", words(20_000)))

    def summary(request: Request) -> str:
        if "beginning of one long turn" in question(request):
            return "### Asked\ncount the red ones\n### Done So Far\n12 read"
        return SUMMARY

    model = Talker(summaries=summary)
    done = await harness_of(model, session=session, compaction={"keep": 20_000}).compact()

    assert [
        ("u1" in question(r), "[Tool result]: 12" in question(r)) for r in model.summarised
    ] == [
        (True, False),
        (False, True),
    ]
    history, _, prefix = done.summary.partition("## Turn in Progress\n")
    assert history.strip() == SUMMARY
    assert "what was asked in it is still open" in prefix
    assert "### Asked\ncount the red ones\n### Done So Far\n12 read" in prefix


async def test_a_summary_is_asked_for_by_the_session_s_level_where_the_model_has_one() -> None:
    """C-56."""
    plain, other = Talker(reasoning=False), Talker(reasoning=True)
    harness = harness_of(
        other, session=session_of("u", says("a"), "u", says("a")), compaction={"keep": 1}
    )
    await harness.set_thinking_level("medium")

    await harness.propose()
    await harness.propose(wish=Wish(model=plain))

    assert other.summarised[0].options.thinking_level == "medium"
    assert plain.summarised[0].options.thinking_level == "off"
    assert other.summarised[0].tools == ()


def _sse_answer(text: str) -> bytes:
    return sse(
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        "[DONE]",
    )


async def test_a_summary_goes_the_way_of_a_turn_to_its_server_with_its_headers(
    loopback: Any,
) -> None:
    """C-57: a base URL of one's own, and a header instead of a key."""
    for text in ("answer", SUMMARY):
        loopback.answer(_sse_answer(text))
    model = OpenAICompletions(Model(id="m", provider="p", base_url=f"{loopback.url}/own/v1"))
    options = RequestOptions(headers={"X-Team": "blue"}, extra_body={"seed": 7})
    harness = harness_of(model, options=options, compaction={"keep": 1})
    seen: list[Any] = []
    harness.on("before_provider_payload", lambda event: seen.append(event.payload))

    await harness.prompt("u")
    await harness.compact()

    turn, summary = loopback.requests
    assert turn.path == summary.path == "/own/v1/chat/completions"
    assert turn.headers["x-team"] == summary.headers["x-team"] == "blue"
    assert summary.json["seed"] == 7
    assert "tools" not in summary.json
    assert "tool_choice" not in summary.json
    assert [body["messages"] for body in seen] == [turn.json["messages"], summary.json["messages"]]


async def test_a_model_of_another_provider_is_shown_no_headers_of_the_session() -> None:
    """C-57, Z: they may hold a key."""
    ours, same, other = Talker(), Talker(id="same"), Talker(provider="other")
    options = RequestOptions(headers={"X-Key": "secret"}, extra_body={"seed": 7}, temperature=0.5)
    session = session_of("u", says("a"), "u", says("a"))
    harness = harness_of(ours, session=session, options=options, compaction={"keep": 1})

    for model in (same, other):
        await harness.propose(wish=Wish(model=model))

    assert same.summarised[0].options.headers == {"X-Key": "secret"}
    assert other.summarised[0].options.headers == {}
    assert other.summarised[0].options.extra_body == {}
    assert other.summarised[0].options.temperature == 0.5


async def test_a_failure_that_passes_is_asked_again_with_the_events_of_a_turn() -> None:
    """C-58."""

    async def kinds(**model: Any) -> list[str]:
        told: list[Any] = []
        talker = Talker(**model)
        harness = harness_of(
            talker, session=session_of("u", says("a"), "u", says("a")), told=told,
            retry=RetryPolicy(base=0), compaction={"keep": 2},
        )  # fmt: skip
        if "summaries" in model:
            done = await harness.compact()
            assert done.summary == SUMMARY
        else:
            assert (await harness.prompt("u")).ok
        assert len(talker.requests) == 2
        return [event.type for event in told if event.type.startswith("retry")]

    busy = reply(error="503 service unavailable")

    of_turn, of_summary = await kinds(turns=[busy, "ok"]), await kinds(summaries=[busy, SUMMARY])

    assert of_summary == of_turn == ["retry_scheduled", "retry_attempt_start", "retry_finished"]


# --- what is written --------------------------------------------------------------------------


class BreaksOff:
    """A model whose stream fails after its first piece."""

    model = Model(id="m", provider="p", context_window=200_000)

    async def stream(self, _request: Request, _signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        yield Start()
        yield TextDelta(index=0, delta="## Goal\n")
        raise ConnectionResetError("gone")


@pytest.mark.parametrize(
    "bad",
    [
        Talker(summaries=reply(f"{SUMMARY} and th", stop_reason="length")),
        Talker(summaries="<tool_call>ls</tool_call>"),
        Talker(summaries="Sure, next I will edit the file."),
        Talker(summaries=reply(SUMMARY, call("read"))),
        Talker(summaries=reply(error="the key is wrong")),
        BreaksOff(),
    ],
    ids=["C-12 cut off", "C-18 markup", "C-18 goes on", "C-19 calls", "C-59 fails", "C-59 breaks"],
)
async def test_a_summary_that_is_not_good_changes_nothing_and_may_be_tried_again(
    bad: ChatModel,
) -> None:
    """C-12 and C-18, starred; C-59: the old context goes when the new one is there."""
    session = session_of("u", says("a"), "u", says("a"))
    harness = harness_of(Talker(), session=session, compaction={"keep": 2})
    before, leaf, context = log_of(session), harness.leaf, session.context()

    with pytest.raises(PiError, match="No summary") as failed:
        await harness.compact(wish=Wish(model=bad))

    assert failed.value.code == "compaction"
    assert (log_of(session), harness.leaf, harness.phase) == (before, leaf, "idle")
    assert session.context() == context
    assert (await harness.compact()).summary == SUMMARY


async def test_a_summary_that_fails_by_itself_leaves_the_run_to_go_on() -> None:
    """C-12, C-59: the request is smaller than the window, so it is asked all the same."""
    session = session_of(words(900), says(words(900)))
    told: list[Any] = []
    model = Talker(summaries=reply("half", stop_reason="length"), context_window=2_400)
    harness = harness_of(model, session=session, told=told, compaction={"keep": 10})

    result = await harness.prompt(words(100))

    assert result.text == "answer"
    assert compactions(session) == []
    assert decisions(told) == [("threshold", "begins"), ("threshold", "failed")]
    assert len(model.summarised) == 1


# --- two things at once -----------------------------------------------------------------------


async def test_while_a_context_is_compacted_by_itself_nobody_else_compacts_it() -> None:
    """C-24: the second one is told, and the run that waits goes on once."""
    held = Held()
    model = Talker([TOO_LONG, "there"], held)
    told: list[Any] = []
    session = session_of(*[words(1_000), says(words(1_000))] * 3)
    harness = harness_of(model, session=session, told=told, compaction={"keep": 1_500})

    running = asyncio.create_task(harness.prompt("u"))
    await held.begun.wait()
    assert harness.phase == "compaction"
    for other in (harness.compact, harness.propose, harness.undo):
        with pytest.raises(PiError, match=r"busy \(compaction\)") as refused:
            await other()
        assert refused.value.code == "busy"
    held.go_on.set()
    result = await running

    assert result.text == "there"
    assert (len(model.asked), len(model.summarised)) == (2, 1)
    assert len(compactions(session)) == 1
    assert sum(isinstance(event, SessionCompact) for event in told) == 1
    ends = [e.message for e in told if isinstance(e, MessageEnd)]
    assert [m.text for m in ends if isinstance(m, AssistantMessage)] == ["", "there"]
    assert [text_of(m.content) for m in ends if m.role == "user"] == ["u"]
    assert [e.message for e in session.branch() if isinstance(e, MessageEntry)][-3:] == ends


class Stalls:
    """A model that sends one piece and then nothing, until it is stopped."""

    model = Model(id="m", provider="p", context_window=200_000)

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.stopped = False

    async def stream(self, _request: Request, signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        yield Start()
        yield TextDelta(index=0, delta="## Goal\n")
        self.begun.set()
        await signal.wait()
        self.stopped = True
        yield End(reason="aborted")


@pytest.mark.parametrize("how", ["by hand", "by itself", "after a run"])
@pytest.mark.parametrize("moment", ["before it is sent", "in the stream"])
async def test_an_abort_stops_the_request_for_a_summary_and_nothing_is_written(
    moment: str, how: str
) -> None:
    """C-25: told once, and no other compaction follows."""
    session = session_of(*[words(1_000), says(words(1_000), usage=5_000)] * 3)
    stalls = Stalls()
    waits = asyncio.Event()
    told: list[Any] = []
    full = 199_000 if how == "after a run" else 5_000
    harness = harness_of(
        Talker(reply("answer", usage=used(full)), context_window=200_000), session=session,
        told=told, compaction={"keep": 1, "model": stalls},
    )  # fmt: skip
    if how == "by itself":
        harness.compaction.reserve = 196_000
    before = len(session.entry_ids())

    async def never(event: Any) -> None:
        if of_summary(event.request):
            stalls.begun.set()
            await waits.wait()

    if moment == "before it is sent":
        harness.on("before_provider_request", never)
    work: Any = harness.compact() if how == "by hand" else harness.prompt("u")
    running = asyncio.create_task(work)
    await stalls.begun.wait()
    await harness.abort()

    if how == "by hand":
        with pytest.raises(PiError, match="it was aborted"):
            await running
        assert len(session.entry_ids()) == before
    else:
        result = await running
        assert result.aborted is not None
        assert result.message.stop_reason == ("aborted" if how == "by itself" else "stop")
        expected = [] if how == "by hand" else [("threshold", "begins"), ("threshold", "failed")]
        assert decisions(told) == expected
    assert stalls.stopped == (moment == "in the stream")
    assert compactions(session) == []
    assert harness.phase == "idle"
    assert sum(isinstance(event, AbortEvent) for event in told) == 1


async def test_a_run_that_was_aborted_when_it_was_full_is_not_compacted_after_it(
    make_tool: Make,
) -> None:
    """C-25."""
    model = Talker(reply(call("stop"), usage=used(198_000)))

    async def stop(context: Any) -> str:
        await context.state["harness"].abort()
        return "stopped"

    told: list[Any] = []
    session = session_of("u", says("a"))
    harness = harness_of(
        model, session=session, tools=[make_tool("stop", stop)], told=told, compaction={"keep": 1}
    )

    result = await harness.prompt("u")

    assert result.reason == "aborted"
    assert (len(model.asked), len(model.summarised)) == (1, 0)
    assert decisions(told) == []


async def test_what_is_typed_while_a_run_compacts_is_delivered_after_it_once_as_what_it_is() -> (
    None
):
    """C-46."""
    held = Held()
    model = Talker(lambda r: f"re {question(r)}", held, context_window=8_000)
    session = session_of(words(4_000), says(words(3_000)))
    harness = harness_of(model, session=session, compaction={"keep": 10})

    running = asyncio.create_task(harness.prompt("u"))
    await held.begun.wait()
    await harness.follow_up("B")
    await harness.steer("A")
    held.go_on.set()
    result = await running

    assert result.text == "re B"
    assert [question(request) for request in model.asked] == ["u", "A", "B"]
    said = [e.message for e in session.branch() if isinstance(e, MessageEntry)]
    assert [text_of(getattr(m, "content", "")) for m in said][2:] == [
        "u",
        "re u",
        "A",
        "re A",
        "B",
        "re B",
    ]


async def test_what_is_typed_while_somebody_compacts_goes_before_the_next_prompt() -> None:
    """C-46: where no run follows."""
    held = Held()
    model = Talker(summaries=held)
    session = session_of("u", says("a"), "u", says("a"))
    harness = harness_of(model, session=session, compaction={"keep": 1})

    compacting = asyncio.create_task(harness.compact())
    await held.begun.wait()
    await harness.steer("A")
    await harness.follow_up("B")
    held.go_on.set()
    await compacting
    await harness.prompt("u3")

    assert sent(model.asked[0])[-3:] == ["A", "B", "u3"]
    assert len(model.asked) == 1


# --- what is open and what is done ------------------------------------------------------------


@pytest.mark.parametrize("how", ["threshold", "overflow"])
async def test_a_prompt_that_was_not_sent_yet_is_sent_word_for_word(how: str) -> None:
    """C-47: three thousand tokens of it, where one thousand are kept; by weight and by error."""
    window = 20_000 if how == "threshold" else 200_000
    session = session_of(words(9_000), says(words(6_000)), "u", says("a", usage=15_000))
    turns = [TOO_LONG, "there"] if how == "overflow" else "there"
    model = Talker(turns, context_window=window)
    harness = harness_of(model, session=session, compaction={"keep": 1_000})
    prompt = f"here it is: {words(3_000)}"

    result = await harness.prompt(prompt)

    assert result.text == "there"
    assert [done.trigger for done in result.compactions] == [how]
    assert sent(model.asked[-1])[-1] == prompt
    assert all("here it is" not in question(request) for request in model.summarised)


async def test_after_a_compaction_nothing_that_was_answered_is_asked_again() -> None:
    """C-48, starred: what was done is in the summary's material, and nobody is asked."""
    session = session_of("send the report", says("", "c"), gives("c", "sent to Ada"))
    kept, *_ = grow(session, says("It is sent."))
    grow(session, "thanks, now X", says("X is done."))
    model = Talker()
    harness = harness_of(model, session=session)

    plan = harness.plan(Wish(keep=1))
    assert plan
    await harness.apply(await harness.propose(plan.move(kept)))  # type: ignore[union-attr]

    assert (len(model.asked), len(model.summarised)) == (0, 1)
    assert "[Tool result]: sent to Ada" in question(model.summarised[0])
    assert "so that nobody does it a second time" in " ".join(question(model.summarised[0]).split())
    await harness.prompt("and Y?")
    summary, *rest = sent(model.asked[0])
    assert "nothing in it is open" in summary
    assert "describes what has already happened and asks for nothing" in summary
    assert rest == ["It is sent.", "thanks, now X", "X is done.", "and Y?"]


@pytest.mark.parametrize("resumed", [True, False])
async def test_a_compaction_after_a_call_without_a_result_leaves_a_request_that_is_valid(
    strict: Strict, resumed: bool
) -> None:
    """C-04, starred: the call stays above it, and its result is found or said to be missing."""
    session = session_of("u1", says("a1"), "u2", says("", "x", "y"))
    model = Talker()
    harness = harness_of(model, session=session, compaction={"keep": 1})

    await harness.compact()
    if resumed:
        grow(session, gives("y", "late"))
    await harness.prompt("u3")
    await harness.compact()
    await harness.prompt("u4")

    for request in model.asked:
        strict(request.messages)
    assert ("late" in sent(model.asked[0])) == resumed


async def test_fifteen_compactions_in_a_row_do_not_make_the_summary_grow(make_tool: Make) -> None:
    """C-50: similar turns; finished items merge, and the length has a bound."""
    lengths: list[int] = []
    turn = [reply("I look.", call("read", path="src/bean.py")), "There are 12 beans, as before."]
    model = ScriptedModel(turn * 60)
    harness = harness_of(
        model, tools=[make_tool("read")], compaction={"keep": 1, "summariser": extractive}
    )

    for number in range(15):
        for _ in range(4):
            await harness.prompt(f"Count the beans again, round {number}; never guess.")
        lengths.append(len((await harness.compact()).summary))

    assert max(lengths) <= BOUND
    assert lengths[-1] <= lengths[4] * 1.25


# --- the same everywhere ----------------------------------------------------------------------

STEPS = st.sampled_from(
    ["prompt", "prompt", "prompt", "call", "compact", "move", "leave", "omit", "undo", "fork"]
)


@pytest.mark.parametrize("on_disk", [True, False], ids=["file", "memory"])
@settings(max_examples=25)
@given(st.lists(STEPS, min_size=1, max_size=14), st.data())
def test_the_context_at_work_is_the_one_that_the_log_gives(
    on_disk: bool, steps: list[str], data: st.DataObject
) -> None:
    """C-52: after every prompt, compaction, navigation, edit and fork, in v3 and v4: what a
    harness sends is what its log says, here, built anew, and opened by somebody else."""
    format: Format = data.draw(st.sampled_from(["v3", "v4"]), label="format")

    async def live(folder: Path) -> None:
        path = folder / "s.jsonl" if on_disk else None
        options: dict[str, Any] = {"format": format, "durability": "flush"}
        with Session.create(path, cwd=folder, **options) as session:
            tools = [AgentTool(ToolSpec(name="x"), _echo)]
            model = Talker(_calls_where_asked)
            harness = harness_of(model, session=session, tools=tools, compaction={"keep": 3})
            for number, step in enumerate(steps):
                with contextlib.suppress(PiError):  # nothing to compact, to undo, to leave out
                    await _do(step, harness, data)
                _same(session, model, step)
                if path is not None:
                    copy = folder / f"{number}.jsonl"
                    copy.write_bytes(path.read_bytes())
                    with Session.open(copy, read_only=True) as again:
                        assert again.context() == session.context()
                if step == "fork":
                    repo = SessionRepo(folder / "forks")
                    with (await fork_session(session, harness.leaf, repo=repo)).session as made:
                        assert made.context().messages == session.context().messages

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))


async def _echo(_arguments: dict[str, Any], _context: ToolContext) -> ToolResult:
    return answer("ok")


def _calls_where_asked(request: Request) -> Any:
    last = request.messages[-1]
    return reply(call("x")) if last.role == "user" and question(request) == "call" else "answer"


async def _do(step: str, harness: AgentHarness, data: st.DataObject) -> None:
    """One step; a harness that refuses it has changed nothing."""
    ids = harness.session.entry_ids()
    match step:
        case "prompt" | "call":
            await harness.prompt(step)
        case "compact":
            await harness.compact()
        case "undo":
            await harness.undo()
        case "move" | "leave" if ids:
            to = data.draw(st.sampled_from(ids), label=step)
            await harness.navigate(to, summarize=step == "leave")
        case "omit" if ids:
            await harness.omit(data.draw(st.sampled_from(ids), label=step))


def _same(session: Session, model: Talker, step: str) -> None:
    event(step)
    context = session.context()
    assert context == build_session_context(session.branch())
    if step in ("prompt", "call"):
        # The last request held all but the answer to it.
        expected = pair(convert_to_llm(context.messages[:-1]), model.model).messages
        assert list(model.asked[-1].messages) == list(expected)
