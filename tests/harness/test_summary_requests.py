"""What a harness asks for a summary, by which way, and what it takes for one (CMP)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from loopback import sse
from talker import (
    SUMMARY,
    Make,
    Strict,
    Talker,
    compactions,
    decisions,
    gives,
    grow,
    harness_of,
    log_of,
    question,
    says,
    sent,
    session_of,
    words,
)

from pi_nb.abort import AbortSignal
from pi_nb.harness.compactor import Wish
from pi_nb.messages import (
    ToolResultMessage,
)
from pi_nb.models.openai_completions import OpenAICompletions
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.scripted import call, reply
from pi_nb.models.types import (
    ChatModel,
    Model,
    Request,
    RequestOptions,
    Start,
    StreamEvent,
    TextDelta,
)
from pi_nb.result import PiError
from pi_nb.session.entries import MessageEntry
from pi_nb.tokens import PI

pytestmark = pytest.mark.anyio


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


async def test_the_last_section_is_changed_and_what_stands_below_it_stays() -> None:
    """Pinned words and lists of files are no part of Critical Context."""
    session = session_of("never delete notes.md", says("", "c"), gives("c", "x"), says("a"), "u")
    await session.set_label(session.branch_ids()[0], "pin")
    summary = f"{SUMMARY}\n\n## Critical Context\nold words"
    harness = harness_of(Talker(summaries=summary), session=session, compaction={"keep": 1})

    proposal = await harness.propose()
    changed = proposal.edit("Critical Context", "new words")
    done = await harness.apply(changed)

    assert proposal.sections["Critical Context"] == "old words"
    assert changed.sections["Critical Context"] == "new words"
    assert done.summary == proposal.text.replace("old words", "new words")
    assert "[User]: never delete notes.md" in done.summary
