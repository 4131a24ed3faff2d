"""What went wrong in compactions elsewhere, where no model is needed to see it (CMP, TRE)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.branches import prepare_branch
from pi_nb.compaction.budget import Budget, should_compact
from pi_nb.compaction.plan import NothingToCompact, Plan, plan_compaction
from pi_nb.compaction.shorten import LEAST, shortened
from pi_nb.compaction.transcript import as_text
from pi_nb.compaction.unanswered import keeping_unanswered, open_from
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    CompactionSummaryMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    convert_to_llm,
    text_of,
    user,
)
from pi_nb.models.pairing import pair
from pi_nb.session.codec import Format
from pi_nb.session.context import ContextItem
from pi_nb.session.entries import (
    CompactionEntry,
    ContextEditEntry,
    Entry,
    MessageEntry,
    Replacement,
)
from pi_nb.session.session import Session
from pi_nb.tokens import PI, estimate_tokens, weigh_by

FORMATS: list[Format] = ["v3", "v4"]


def words(tokens: int) -> str:
    """So many tokens by rule `pi`."""
    return "word" * tokens


def asks(text: str) -> AgentMessage:
    return user(text, timestamp=1)


def says(text: str = "", *calls: str, usage: int = 0, **fields: object) -> AssistantMessage:
    blocks = [TextContent(text=text)] if text else []
    made = [ToolCall(id=one, name="read", arguments={}) for one in calls]
    fields = {"content": (*blocks, *made), "timestamp": 1, **fields}
    return AssistantMessage(**fields, usage=Usage(input=usage, total_tokens=usage))  # type: ignore[arg-type]


def gives(call: str, text: str) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call, tool_name="read", content=(TextContent(text=text),), timestamp=1
    )


def session(*messages: AgentMessage, format: Format = "v4") -> Session:
    made = Session.create(None, cwd="/w", format=format)
    grow(made, *messages)
    return made


def grow(made: Session, *messages: AgentMessage) -> list[str]:
    return [made.append_sync(MessageEntry(message=message)).id for message in messages]


def compact(made: Session, summary: str, first_kept: str) -> str:
    return made.append_sync(CompactionEntry(summary=summary, first_kept_entry_id=first_kept)).id


def planned(made: Session, keep: int, **budget: int) -> Plan:
    plan = plan_compaction(Branch.of(made), Budget(keep=keep, **budget))
    assert isinstance(plan, Plan)
    return plan


def gone(plan: Plan) -> list[str]:
    return [text_of(getattr(item.message, "content", "")) for item in plan.gone]


def shown(items: Iterable[ContextItem]) -> list[str]:
    return [
        message.summary
        if isinstance(message := item.message, CompactionSummaryMessage)
        else text_of(getattr(message, "content", ""))
        for item in items
    ]


# --- where is cut -----------------------------------------------------------------------------


def test_a_pair_stays_whole_above_the_budget_and_the_plan_says_what_is_kept() -> None:
    """C-03: the budget is a target; the real number is told."""
    made = session(
        asks("old"), says("old"), asks(words(3_000)), says("", "c"), gives("c", words(18_000))
    )

    plan = planned(made, 16_000)

    assert plan.preparation is not None
    kept = made.context().items[plan.preparation.cut :]
    assert [type(item.message).__name__ for item in kept] == [
        "AssistantMessage",
        "ToolResultMessage",
    ]
    assert "  2 messages, ≈18,002 tokens" in str(plan)
    assert "moved back: what is newer are results" in str(plan)


def test_a_result_that_alone_fills_the_window_is_shown_cut_and_both_halves_stay() -> None:
    """C-03: only what is shown is shorter; a plan takes nothing out of the log."""
    made = session(asks("u"), says("", "a", "b"), gives("a", words(18_000)), gives("b", words(50)))
    branch = Branch.of(made)

    plan = shortened(branch, Budget(window=16_000), 10_000)

    assert plan is not None
    (edit,) = plan.edits
    assert edit.entry_id == branch.items[2].entry_id
    assert plan.freed >= 10_000
    assert plan.summarise is None


def test_nothing_is_shown_cut_below_what_is_always_shown() -> None:
    made = session(asks("u"), says("", "a"), gives("a", "x" * LEAST * 2))

    assert shortened(Branch.of(made), Budget(window=300), 10_000) is None


@pytest.mark.parametrize("format", FORMATS)
def test_a_result_whose_call_was_summarised_is_not_sent(format: Format) -> None:
    """C-04, starred: across two compactions, the result written below the first of them."""
    made = session(asks("u1"), says("", "x"), format=format)
    compact(made, "one", "nobody")
    kept, *_ = grow(made, gives("x", "late"), says("a2"), asks("u2"), says("a3"))
    compact(made, "two", kept)
    grow(made, asks("u3"))

    sent = pair(convert_to_llm(made.context().messages))

    assert shown(made.context().items)[:2] == ["two", "late"]
    assert [message.role for message in sent.messages] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert [change.code for change in sent.changes] == ["result_orphan"]


def test_a_plan_for_two_compactions_keeps_every_pair_whole() -> None:
    """C-04: a result is never the first entry that is kept."""
    made = session(asks("u1"), says("", "x"), gives("x", words(50)), says("a1"))
    compact(made, "one", made.branch_ids()[1])
    grow(made, asks("u2"), says("", "y", "z"), gives("y", words(50)), gives("z", words(50)))

    for keep in range(0, 250, 5):
        plan = plan_compaction(Branch.of(made), Budget(keep=keep))
        if isinstance(plan, Plan) and plan.preparation is not None:
            kept = [item.message for item in plan.branch.items[plan.preparation.cut :]]
            assert pair(convert_to_llm(kept)).changes == ()


@pytest.mark.parametrize("format", FORMATS)
def test_of_many_compactions_the_newest_counts(format: Format) -> None:
    """C-07, S-24."""
    made = session(asks("u0"), format=format)
    for number in range(30):
        (last,) = grow(made, says(f"a{number}", usage=100_000))
        compact(made, f"summary {number}", last)
    grow(made, asks("u"))

    plan = planned(made, 1)

    assert shown(made.context().items) == ["summary 29", "a29", "u"]
    assert plan.previous_summary == "summary 29"
    assert gone(plan) == ["a29"]
    # What was reported before the newest compaction measured another context.
    assert made.context().size.source == "pi"


def test_branches_that_were_left_are_neither_weighed_nor_summarised() -> None:
    """C-08."""
    made = session(asks("u1"), says("a1"))
    fork = made.leaf()
    grow(made, asks(words(25_000)), says(words(25_000)))
    made.move_sync(fork)
    grow(made, asks("u3"), says("a3"))

    plan = planned(made, 2)

    assert plan.tokens_before == 4
    assert gone(plan) == ["u1", "a1"]


def test_the_cut_counts_what_messages_weigh_and_not_what_was_reported_with_them() -> None:
    """C-30: what a provider reports is the whole context each time."""
    made = session()
    for turn in range(1, 6):
        grow(made, asks(words(50)), says(words(50), usage=turn * 10_000))

    found = plan_compaction(Branch.of(made), Budget(keep=20_000))

    assert isinstance(found, NothingToCompact)
    assert "≈500 tokens, is within what is kept" in str(found)
    assert planned(made, 200).freed == 300


@pytest.mark.parametrize("weigh", [estimate_tokens, weigh_by("o200k")])
def test_a_picture_weighs_the_same_wherever_it_is(weigh: object) -> None:
    """C-32: and not by its bytes."""
    assert callable(weigh)
    small, large = (ImageContent(data="aaaa" * n, mime_type="image/png") for n in (1, 250_000))
    result = ToolResultMessage(tool_call_id="c", content=(large,), timestamp=1)

    assert weigh(user("", [large])) == weigh(user("", [small])) == weigh(result)
    assert 1_000 < weigh(result) < 2_000


def test_a_kept_entry_that_is_not_there_means_that_nothing_is_kept_and_the_plan_says_so() -> None:
    """C-51: never the whole branch from its first entry on."""
    made = session(asks("u1"), says("a1"))
    compact(made, "one", "ffffffff")
    grow(made, asks("u2"), says("a2"), asks("u3"), says("a3"))

    plan = planned(made, 1)

    assert shown(made.context().items) == ["one", "u2", "a2", "u3", "a3"]
    assert gone(plan) == ["u2", "a2", "u3"]
    assert "keeps from an entry that is not above it: nothing is kept" in str(plan)


def test_a_compaction_that_names_itself_keeps_nothing_and_is_as_it_should_be() -> None:
    """C-51."""
    made = session(asks("u1"), says("a1"))
    made.append_sync(CompactionEntry(id="own", summary="one", first_kept_entry_id="own"))
    grow(made, asks("u2"), says("a2"))

    assert shown(made.context().items) == ["one", "u2", "a2"]
    assert "is not above it" not in str(planned(made, 1))


# --- how much it is ---------------------------------------------------------------------------


def test_what_was_read_from_a_cache_and_written_to_it_is_in_the_context_too() -> None:
    """C-29, starred: as a provider reports it that counts them apart; its total may be missing."""
    parts = Usage(input=1_000, cache_read=150_000, cache_write=20_000, output=500)
    made = session(asks("u"), says("a").having(usage=parts))

    size = Branch.of(made).size

    assert (size.tokens, size.source) == (171_500, "provider")


def test_usage_of_failures_and_of_nothing_is_not_believed_and_what_came_since_is_added() -> None:
    """C-27: otherwise the context looks empty, and is never compacted."""
    failed = {"stop_reason": "error", "error_message": "overloaded"}
    made = session(asks("u1"), says("a1", usage=150_000))
    grow(made, asks(words(9)), says("", **failed), asks(words(9)), says("", usage=7, **failed))
    grow(made, says("empty"))

    size = Branch.of(made).size

    assert (size.reported, size.source) == (150_000, "provider+estimate")
    assert 150_018 <= size.tokens < 150_030
    assert should_compact(size.tokens, Budget(window=160_000))


def test_the_size_before_is_that_of_the_context_as_it_is_now() -> None:
    """C-35: not what was reported before the compaction before, and never 0."""
    made = session(asks(words(100)), says(words(100), usage=90_000))
    compact(made, words(10), "nobody")
    grow(made, asks(words(100)), says(words(100)), asks(words(100)), says(words(100)))

    second = planned(made, 100)
    unknown = planned(session(asks(words(100)), says(words(100)), asks("u")), 1)

    assert second.tokens_before == 410
    assert unknown.tokens_before == 201
    assert "before      ≈201 (pi)" in str(unknown)


# --- what is summarised -----------------------------------------------------------------------


def test_thinking_is_not_read_to_a_summariser() -> None:
    """C-16: the request would outgrow what it shrinks."""
    messages = [
        says(content=(ThinkingContent(thinking=words(5_000)), TextContent(text=words(50))))
        for _ in range(10)
    ]

    assert PI.weigh_text(as_text(messages)) < 600


@pytest.mark.parametrize("format", FORMATS)
def test_names_of_sessions_are_not_read_to_a_summariser(format: Format) -> None:
    """C-61: only what is visible in context; in v3 a name stands in the tree."""
    made = session(asks("u1"), format=format)
    made.set_name_sync("secret plan")
    grow(made, says("a1"), asks("u2"))

    plan = planned(made, 1)

    assert as_text(item.message for item in plan.gone) == "[User]: u1\n\n[Assistant]: a1"


def test_an_action_that_was_done_is_read_with_its_outcome() -> None:
    """C-48, starred: the cut stands right after the result."""
    made = session(
        asks("send the report"),
        says("", "c"),
        gives("c", "sent"),
        says("It is sent."),
        asks("now X"),
    )

    plan = planned(made, 3).move(4)

    read = as_text(item.message for item in plan.gone)
    assert read.endswith("[Assistant tool calls]: read()\n\n[Tool result]: sent")


# --- what waits for an answer -----------------------------------------------------------------


@pytest.mark.parametrize(
    "failed",
    [
        says("", stop_reason="error", error_message="prompt is too long"),
        says("half", stop_reason="aborted"),
        says("", stop_reason="length", usage=100_000),
        says(" \n", stop_reason="stop"),
        says(content=(ThinkingContent(thinking="hm"),), stop_reason="length"),
    ],
)
def test_what_was_not_answered_stays_word_for_word_whatever_is_to_be_kept(
    failed: AssistantMessage,
) -> None:
    """C-47, C-41: a reply that failed, or that says nothing, answers nothing."""
    made = session(asks("u1"), says("a1"), asks(words(3_000)), failed)

    plan = keeping_unanswered(planned(made, 0))

    assert isinstance(plan, Plan)
    assert gone(plan) == ["u1", "a1"]
    assert "no model has answered yet" in str(plan)


def test_an_answered_request_is_not_kept_as_if_it_were_open() -> None:
    """C-48."""
    made = session(asks("u1"), says("a1"), asks("u2"), says("a2"))

    assert open_from(Branch.of(made)) == 4
    assert gone(keeping_unanswered(planned(made, 1))) == ["u1", "a1", "u2"]  # type: ignore[arg-type]


def test_a_split_turn_is_open_only_where_no_answer_follows() -> None:
    """C-48, C-22."""
    talk = [asks("send it"), says("", "c"), gives("c", "sent")]
    closed = session(*talk, says("It is sent."), asks("now X"))
    running = session(*talk, says("", "d"), gives("d", "sent too"))
    failed = session(*talk, says("It", stop_reason="error", error_message="boom"))

    for made, answered in ((closed, True), (running, False), (failed, False)):
        found = planned(made, 1).move(4).preparation
        assert found is not None
        assert found.is_split_turn
        assert found.turn_is_answered == answered


def test_results_that_nobody_has_read_stay_with_their_call() -> None:
    """C-47, C-04."""
    made = session(asks("u1"), says("a1"), asks("u2"), says("", "x", "y"), gives("x", "1"))
    grow(made, gives("y", words(500)))

    assert open_from(Branch.of(made)) == 3


def test_a_reply_that_was_cut_off_and_its_results_are_shown_both_or_neither() -> None:
    """C-44: what a request leaves out of a failed attempt, it leaves out with its results."""
    cut = says("", "x", stop_reason="length")
    failed = says("", "y", stop_reason="error", error_message="prompt is too long")
    made = session(asks("u1"), cut, gives("x", "not run"), failed, gives("y", "late"), asks("u2"))

    sent = pair(convert_to_llm(made.context().messages)).messages

    assert [m.role for m in sent] == ["user", "assistant", "toolResult", "user"]
    assert len(made.context().items) == 6
    for keep in range(20):
        plan = plan_compaction(Branch.of(made), Budget(keep=keep))
        if isinstance(plan, Plan) and plan.preparation is not None:
            kept = [item.message for item in plan.branch.items[plan.preparation.cut :]]
            left = pair(convert_to_llm(kept))
            assert "result_orphan" not in {change.code for change in left.changes}


# --- branches that are left -------------------------------------------------------------------


def test_a_summary_of_a_branch_reads_it_as_edited_with_what_failed_on_it() -> None:
    """T-09. `rules.md` 12 wins over the row where they differ: a failed reply counts as a
    message, because what failed on a branch is worth knowing; text that an edit hid or
    replaced does not come back, which is what the row is about."""
    failed = says("half an answer", stop_reason="error", error_message="boom")
    entries: list[Entry] = [
        MessageEntry(id="u1", message=asks("u1")),
        MessageEntry(id="a1", message=says("the secret")),
        MessageEntry(id="a2", message=failed),
        MessageEntry(id="u2", message=asks("hidden")),
        ContextEditEntry(id="e1", target_id="a1", replacement=Replacement(content="a note")),
        ContextEditEntry(id="e2", target_id="u2", replacement=None),
    ]

    left = prepare_branch(entries)

    read = as_text(item.message for item in left.items)
    assert read == "[User]: u1\n\n[Assistant]: a note\n\n[Assistant]: half an answer"
