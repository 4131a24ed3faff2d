"""What the next request holds, by kind: every token in one row, and the total that is known."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.composing import KINDS
from pi_nb.compaction.composition import Composition
from pi_nb.estimators import estimator
from pi_nb.js import dumps
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    Usage,
    user,
)
from pi_nb.models.types import ToolSpec
from pi_nb.result import PiError
from pi_nb.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
)
from pi_nb.session.session import Session
from pi_nb.tokens import IMAGE_TOKENS, PI, Estimator

BUDGET = Budget(window=10_000, reserve=2_000, keep=100)


def text(tokens: int) -> str:
    """By rule `pi`."""
    return "four" * tokens


def answer(tokens: int, requested: int = 0, **said: object) -> AssistantMessage:
    content = (TextContent(text=text(tokens)),)
    usage = Usage(input=requested, output=tokens if requested else 0)
    return AssistantMessage.model_validate({"content": content, "usage": usage, **said})


def branch(*given: AgentMessage | Entry) -> Branch:
    made = Session.create(None, cwd="/w")
    for one in given:
        made.append_sync(one if isinstance(one, Entry) else MessageEntry(message=one))
    return Branch.of(made)


def rows(found: Composition) -> dict[str, int]:
    """Tokens of the rows that say something."""
    return {row.kind: row.tokens for row in found.rows() if row.tokens}


def test_every_kind_has_its_row_in_the_order_of_the_request() -> None:
    picture = ImageContent(data="x", mime_type="image/png")
    thought = ThinkingContent(thinking=text(7))
    found = Composition.of(
        branch(
            user("old"),
            CompactionEntry(summary=text(50), first_kept_entry_id="", tokens_before=9),
            BranchSummaryEntry(summary=text(40), from_id="x"),
            user(text(30), [picture]),
            CustomMessageEntry(custom_type="note", content=text(5)),
            BashExecutionMessage(command=text(1), output=text(4)),
            AssistantMessage(content=(thought, TextContent(text=text(20)))),
            ToolResultMessage(tool_call_id="c", content=(TextContent(text=text(60)), picture)),
        ),
        BUDGET,
        system_prompt={"base": text(11), "skills": text(12), "context files": text(13)},
        tools=[ToolSpec(name="read")],
    )

    schema = -(-len(dumps(ToolSpec(name="read").to_wire())) // 4)
    used = {
        "system prompt": 11,
        "tool schemas": schema,
        "skills and context files": 25,
        "summary": 50,
        "branch summaries": 40,
        "user": 40,
        "assistant": 20,
        "thinking": 7,
        "tool results": 60,
        "images": 2 * IMAGE_TOKENS,
    }
    total = sum(used.values())
    assert rows(found) == {**used, "free": 8_000 - total, "reserve": 2_000}
    assert tuple(used) == KINDS
    assert found.total.tokens == total
    assert found.total.source == "pi"
    items = {part.kind: part.items for part in found.parts}
    assert (items["skills and context files"], items["user"], items["images"]) == (2, 3, 2)


def test_a_reported_total_stands_and_the_difference_is_a_row() -> None:
    given = branch(user(text(100)), answer(50, requested=900), user(text(10)))

    found = Composition.of(given, BUDGET)

    assert found.total == given.size
    assert str(found.total) == "≈960 (provider+estimate)"
    assert rows(found)["unaccounted"] == 960 - 160
    assert "system prompt and tool schemas included" in str(found)


def test_estimates_that_are_too_high_are_said_to_be() -> None:
    found = Composition.of(branch(user(text(500)), answer(50, requested=300)), BUDGET)

    assert rows(found)["unaccounted"] == 350 - 550
    assert "below zero" in str(found)


def test_failed_answers_and_hidden_commands_are_a_row_as_far_as_the_total_counts_them() -> None:
    failed = answer(70, stop_reason="error")
    hidden = BashExecutionMessage(command=text(1), output=text(4), exclude_from_context=True)

    estimated = Composition.of(branch(user(text(9)), failed, hidden), BUDGET)
    measured = Composition.of(branch(user(text(9)), failed, hidden, answer(5, 100)), BUDGET)

    assert rows(estimated)["not sent"] == 75
    assert estimated.total.tokens == 84
    assert "not sent" not in rows(measured)
    assert rows(measured)["unaccounted"] == 105 - 14


def test_past_the_trigger_line_the_reserve_is_what_is_left() -> None:
    within = Composition.of(branch(user(text(7_999))), BUDGET)
    beyond = Composition.of(branch(user(text(9_000))), BUDGET)
    full = Composition.of(branch(user(text(12_000))), BUDGET)

    assert (within.free, within.reserve, within.over) == (1, 2_000, 0)
    assert (beyond.free, beyond.reserve, beyond.over) == (0, 1_000, 1_000)
    assert (full.free, full.reserve, full.over) == (0, 0, 4_000)
    assert "Trigger line: 8,000 (window 10,000 - reserve 2,000), passed by 1,000." in str(beyond)


def test_the_keep_line_names_the_row_where_the_newest_messages_begin() -> None:
    found = Composition.of(branch(user(text(90)), answer(60), user(text(50))), BUDGET)
    short = Composition.of(branch(user(text(9))), BUDGET)

    assert found.keep_from is not None
    assert found.keep_from.number == 2
    assert "the newest 100 stay in a compaction, about from row 2 (assistant: four" in str(found)
    assert short.keep_from is None
    assert "everything is within it" in str(short)


def test_the_largest_items_are_named_the_older_first_where_they_are_equal() -> None:
    given = branch(user(text(5)), answer(9), user(text(9)), user(text(1)))

    found = Composition.of(given, BUDGET, system_prompt=text(7), largest=3)

    assert [(item.number, item.kind, item.tokens) for item in found.largest] == [
        (2, "assistant", 9),
        (3, "user", 9),
        (0, "system prompt", 7),
    ]
    assert found.largest[0].entry_id == given.items[1].entry_id
    assert Composition.of(given, BUDGET, largest=0).largest == ()


def test_an_empty_branch_is_all_free() -> None:
    found = Composition.of(branch(), BUDGET)

    assert rows(found) == {"free": 8_000, "reserve": 2_000}
    assert found.largest == ()


def test_it_reads_the_same_every_time_and_as_data() -> None:
    given = branch(user(text(9)), answer(5, 100))

    one, other = (Composition.of(given, BUDGET, system_prompt="be brief") for _ in "ab")

    assert repr(one) == str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()
    data = json.loads(json.dumps(one.to_dict()))
    assert (data["tokens"], data["trigger"], data["keep"]) == (105, 8_000, 100)
    assert sum(row["tokens"] for row in data["rows"]) == 10_000


def test_a_frame_is_made_where_pandas_is() -> None:
    found = Composition.of(branch(user("x")), BUDGET)

    if find_spec("pandas"):
        assert list(found.to_frame()["kind"])[-1] == "reserve"
    else:
        with pytest.raises(PiError, match="pip install pandas"):
            found.to_frame()


message = st.one_of(
    st.builds(user, st.text(max_size=200)),
    st.builds(answer, st.integers(0, 300), st.sampled_from([0, 0, 500, 9_000])),
    st.builds(lambda n: answer(n, stop_reason="error"), st.integers(0, 300)),
    st.builds(
        lambda thought, said: AssistantMessage(
            content=(ThinkingContent(thinking=thought), TextContent(text=said))
        ),
        st.text(max_size=50),
        st.text(max_size=50),
    ),
)


@given(st.lists(message, max_size=12), st.sampled_from(["pi", "piece/claude_v3", "piece/qwen3"]))
def test_the_rows_together_are_the_window_and_the_used_ones_the_total(
    messages: list[AgentMessage], name: str
) -> None:
    given = branch(*messages)
    given.estimator = estimator(name)

    found = Composition.of(given, BUDGET, system_prompt="be brief")

    assert sum(part.tokens for part in found.parts) == found.total.tokens
    assert sum(row.tokens for row in found.rows()) == max(10_000, found.total.tokens)
    if given.size.reported:
        assert found.total == given.size
    assert all(part.tokens >= 0 for part in found.parts if part.kind != "unaccounted")


# Of what GitHub lets through: see tests/session/test_outline.py.
ELEMENTS = {"p", "strong", "table", "thead", "tbody", "tr", "th", "td", "br"}


class _Read(HTMLParser):
    """Markup that is whole, of these elements, with no attribute but `align`."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS
        assert {name for name, _ in attrs} <= {"align"}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_html_and_the_text_of_a_hostile_session_are_text() -> None:
    bad = "<img src=x onerror=alert(1)>\x1b[2J\u202e" * 3
    found = Composition.of(
        branch(user(bad), CompactionEntry(summary=bad, first_kept_entry_id="", tokens_before=1)),
        BUDGET,
        system_prompt={bad: "x"},
        tools=[ToolSpec(name=bad)],
    )

    read = _Read()
    read.feed(found._repr_html_())
    read.close()

    assert read.open == []
    assert "<img" in read.words
    assert "\x1b" not in str(found) + read.words


def test_a_composition_weighs_each_message_a_few_times_at_most() -> None:
    weighed: list[AgentMessage] = []

    def weigh(message: AgentMessage) -> int:
        weighed.append(message)
        return PI.weigh(message)

    given = branch(*(answer(20) if i % 2 else user(f"{i} prices") for i in range(1_000)))
    given.estimator = Estimator("pi", weigh, PI.weigh_text)

    found = Composition.of(given, Budget())

    assert found.total.tokens > 1_000
    assert len(weighed) <= 3_000
