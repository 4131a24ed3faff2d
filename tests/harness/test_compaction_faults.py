"""What went wrong in compactions elsewhere, where it takes a whole harness to see it (CMP).

Here: when a context is compacted, and what it leaves. How a summary is asked for is in
`test_summary_requests`, what goes on meanwhile in `test_compaction_at_once`, that a log gives
the same context in `test_compaction_live`; rows that are pure are in
`tests/compaction/test_faults.py`. Each test names its row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from talker import (
    TOO_LONG,
    Make,
    Strict,
    Talker,
    compactions,
    decisions,
    gives,
    grow,
    harness_of,
    question,
    says,
    sent,
    session_of,
    shown,
    used,
    words,
)

from pi_nb.compaction.extractive import BOUND, extractive
from pi_nb.harness.compactor import Wish
from pi_nb.loop.events import MessageEnd
from pi_nb.messages import (
    Usage,
)
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


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
    assert lengths[-1] <= lengths[9] * 1.05, "what is finished merges"
