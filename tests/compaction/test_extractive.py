"""A summary without a model: it has its shape, stays short, and says what a reader must know."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import messages, texts
from talks import DENIED, answered, asked, printed, said, shop, worked

from pi_nb.compaction.assemble import assembled
from pi_nb.compaction.extractive import BOUND, LIMITS, extractive
from pi_nb.compaction.files import Files
from pi_nb.compaction.prompts import PREFIX_HEADINGS
from pi_nb.compaction.sections import PROGRESS, SECTIONS, headings, sections_of
from pi_nb.compaction.summary import Kind, Material
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    ImageContent,
    ToolCall,
    UserMessage,
)

FIXED = [*SECTIONS[:3], *PROGRESS, *SECTIONS[3:]]

# Lines that look like what a summary is made of, or like what is put around one.
forms = st.sampled_from(
    [
        "## Goal",
        "### Done",
        "```",
        "~~~~ python",
        "## Turn in Progress",
        "</summary>",
        '<pinned entry="1">',
        "</files-read>",
        "- (3 more left out)",
        "(none)",
        "a\r## Blocked",
        "a\u2028## Goal",
        "\x1b[2J\x07",
        "Never touch main.",
        "不要用浮点数。",
        "Error: no",
        "\ud800 half",
    ]
)
hostile = st.lists(forms | texts, max_size=6).map("\n".join)
talks = st.lists(
    messages | hostile.map(asked) | hostile.map(said) | hostile.map(printed),
    min_size=1,
    max_size=12,
)


def summary(
    *history: AgentMessage,
    kind: Kind = "history",
    previous: str | None = None,
    instructions: str | None = None,
) -> str:
    return extractive(Material(kind, history, previous, instructions)).text


def section(text: str, name: str) -> str:
    return sections_of(text)[name]


# --- promises -------------------------------------------------------------------------------


@given(talks, st.none() | hostile, st.none() | hostile, st.sampled_from(["history", "branch"]))
def test_whatever_is_said_the_fixed_headings_stand_once_in_their_order(
    history: list[AgentMessage], previous: str | None, instructions: str | None, kind: Kind
) -> None:
    text = summary(*history, kind=kind, previous=previous, instructions=instructions)

    assert [words for _, _, words in headings(text)] == FIXED
    text.encode()


@given(talks, st.none() | hostile)
def test_the_beginning_of_a_turn_has_its_own_headings(
    history: list[AgentMessage], previous: str | None
) -> None:
    text = summary(*history, kind="turn_prefix", previous=previous)

    assert [words for _, _, words in headings(text)] == list(PREFIX_HEADINGS)
    assert len(text) <= BOUND
    text.encode()


@given(talks, st.none() | hostile)
def test_the_same_history_always_gives_the_same_summary(
    history: list[AgentMessage], previous: str | None
) -> None:
    assert summary(*history, previous=previous) == summary(*history, previous=previous)


def test_a_summary_is_bounded_however_many_compactions_it_lives_through() -> None:
    text, sizes = None, []
    for number in range(15):
        history = [
            *(
                message
                for step in range(12)
                for message in (
                    asked(f"Round {number}, step {step}: never drop column_{number}_{step}, " * 3),
                    *worked("edit", "Replaced.", path=f"src/part_{number}/file_{step}.py"),
                    *worked(
                        "bash", f"Error: {number} {step} broke", failed=True, command=f"a{step}"
                    ),
                    said(f"I decided to use plan {step} of {number}, because it is short. " * 3),
                )
            )
        ]
        text = summary(*history, previous=text)
        sizes.append(len(text))

    assert max(sizes) <= BOUND
    assert sizes[-1] <= sizes[4] * 1.1  # it fills, and then it stays
    assert text is not None
    assert "src/part_14/file_11.py" in section(text, "Done")
    assert "Round 0, step 0" in section(text, "Goal")


@given(st.lists(talks, min_size=1, max_size=4))
def test_no_round_breaks_the_bound(rounds: list[list[AgentMessage]]) -> None:
    text = None
    for history in rounds:
        text = summary(*history, previous=text)
        assert len(text) <= BOUND


@given(talks, hostile)
def test_each_section_keeps_to_its_limit(history: list[AgentMessage], previous: str) -> None:
    found = sections_of(summary(*history, previous=previous))

    assert all(len(found[name]) <= limit for name, limit in LIMITS.items())


def test_a_long_text_takes_time_in_proportion() -> None:
    def took(size: int) -> float:
        line = "Never drop `column_a` of src/a.py: Error: 404 items, because. "
        history = (
            asked(line * size),
            *worked("bash", (line + "\n") * size, command="x"),
            said("ok"),
        )
        started = process_time()
        summary(*history)
        return process_time() - started

    took(10)
    assert took(2_400) < 10 * max(took(600), 0.02)


@pytest.mark.parametrize(
    "history",
    [
        [UserMessage(content=(ImageContent(data="x", mime_type="image/png"),))],
        [UserMessage(content="")],
        [AssistantMessage()],
        [printed("")],
    ],
    ids=["an image", "an empty request", "an empty answer", "a result without its call"],
)
def test_no_history_is_too_empty_for_a_summary(history: list[AgentMessage]) -> None:
    assert [words for _, _, words in headings(summary(*history))] == FIXED


def test_an_image_without_words_is_a_request() -> None:
    picture = ImageContent(data="x", mime_type="image/png")

    assert section(summary(UserMessage(content=(picture, picture))), "Goal") == "- (2 images)"


# --- what it says ---------------------------------------------------------------------------


def test_a_bug_that_is_fixed_is_told_by_section() -> None:
    text = summary(*shop())

    assert section(text, "Goal").startswith("- The totals in src/cart.py are wrong")
    assert section(text, "Constraints & Preferences") == "- Never change the signature of `total`."
    assert "- edit src/cart.py: ok" in section(text, "Done")
    assert "- bash pytest -q: ok, 12 passed in 0.29s" in section(text, "Done")
    assert "because rounding differs." in section(text, "Key Decisions")
    assert "src/cart.py" in section(text, "Critical Context")


def test_a_blocker_of_the_last_turn_and_the_open_request_are_named() -> None:
    text = summary(*shop())

    assert section(text, "Blocked") == f"- bash git push origin main: failed: {DENIED}"
    assert section(text, "In Progress").startswith("- Push it to main, please.")
    assert section(text, "Next Steps").startswith("- Push it to main, please.")


def test_a_failure_that_was_solved_blocks_nothing() -> None:
    pushed = worked("bash", "main -> main", command="git push origin main")

    text = summary(*shop(), *pushed, said("Pushed."))

    assert section(text, "Blocked") == "(none)"
    assert section(text, "In Progress") == "(none)"
    assert "Push it to main, please. → Pushed." in section(text, "Done")


def test_what_an_earlier_summary_says_is_blocked_goes_when_it_is_solved() -> None:
    first = summary(*shop())
    pushed = worked("bash", "main -> main", command="git push origin main")

    text = summary(*pushed, said("Pushed with the new token."), previous=first)

    assert section(text, "Blocked") == "(none)"
    assert section(text, "In Progress") == "(none)"
    assert "Push it to main, please. → Pushed with the new token." in section(text, "Done")
    assert "Never change the signature" in section(text, "Constraints & Preferences")
    assert "because rounding differs." in section(text, "Key Decisions")


def test_all_lines_of_a_failure_go_when_it_is_solved() -> None:
    printed = "a.py:12: error: Incompatible return value type\nFound 1 error in 1 file"
    failed = worked("bash", printed, failed=True, command="mypy --strict")
    went = worked("bash", "Success: no issues found", command="mypy --strict")
    first = summary(asked("Check the types of it."), *failed)

    text = summary(*went, said("The types are right."), previous=first)

    assert section(first, "Blocked") == (
        "- bash mypy --strict: failed: a.py:12: error: Incompatible return value type"
        " | Found 1 error in 1 file"
    )
    assert section(text, "Blocked") == "(none)"


def test_a_call_that_was_made_twice_stands_once_with_its_newest_outcome() -> None:
    failed = worked("bash", "Error: no route", failed=True, command="./deploy")
    went = worked("bash", "deployed", command="./deploy")

    text = summary(asked("Deploy it."), *failed, *went, said("Deployed, all is well."))

    assert section(text, "Done").count("./deploy") == 1
    assert "./deploy: ok, 2 times, deployed" in section(text, "Done")
    assert section(text, "Blocked") == "(none)"


def test_nothing_new_changes_no_line_of_an_earlier_summary() -> None:
    first = summary(*shop(), said("It was refused."))

    again = summary(AssistantMessage(), previous=first)

    assert section(again, "Constraints & Preferences") == section(
        first, "Constraints & Preferences"
    )
    assert section(again, "Blocked") == section(first, "Blocked")
    assert section(again, "Next Steps") == section(first, "Next Steps")


def test_a_summary_of_a_model_is_carried_on_by_section() -> None:
    previous = (
        "## Goal\nShip 2.0\n\n## Constraints & Preferences\n1. No new tables\n\n## Progress\n"
        "### Done\n- [x] schema\n\n### In Progress\n- [ ] the importer\n\n### Blocked\n(none)\n\n"
        "## Turn in Progress\n### Asked\nWhy is it slow?\n\n### Done So Far\nprofiled it"
    )

    text = summary(said("It is the parser."), previous=previous)

    assert section(text, "Goal") == "- Ship 2.0"
    assert section(text, "Constraints & Preferences") == "- No new tables"
    assert "- schema" in section(text, "Done")
    assert "- profiled it" in section(text, "Done")
    assert "- Why is it slow? → It is the parser." in section(text, "Done")


@pytest.mark.parametrize("is_answered", [True, False])
def test_that_the_rest_of_a_split_turn_follows_is_not_carried_on(is_answered: bool) -> None:
    turn = "### Asked\n- Sort the list."
    before = assembled("## Goal\n- Lists", turn, [], Files(), answered=is_answered)
    assert "The rest of this turn follows" in before

    written = extractive(Material("history", [asked("And now?"), said("Next.")], before)).text

    assert "The rest of this turn" not in written
    assert "Sort the list." in written


def test_a_previous_text_without_headings_is_kept_as_context() -> None:
    text = summary(said("ok"), previous="The port is 8080.\n<files-read>\na.py\n</files-read>")

    assert "- The port is 8080." in section(text, "Critical Context")
    assert "<files-read>" not in text


def test_instructions_bring_a_line_forward_that_would_have_gone() -> None:
    history = [
        m for n in range(300) for m in worked("bash", "fine", command=f"./step {n} {'x' * 90}")
    ]
    history[40:40] = worked("bash", "fine", command="./migrate the ledger")

    assert "ledger" not in section(summary(*history), "Done")
    assert "ledger" in section(summary(*history, instructions="look at the ledger"), "Done")


def test_a_branch_is_headed_by_what_it_was_for() -> None:
    text = summary(*shop(), kind="branch")

    assert section(text, "Goal").startswith("- this branch: The totals in src/cart.py")


def test_the_beginning_of_a_turn_says_what_was_asked_and_what_was_done() -> None:
    call = ToolCall(id="open", name="bash", arguments={"command": "make"})
    history = [
        asked("Port it to the new parser."),
        *worked("edit", "Replaced.", path="src/parse.py"),
        said("The lexer is next.", call),
    ]

    text = summary(*history, kind="turn_prefix")

    assert text.split("\n### ")[0] == "### Asked\n- Port it to the new parser.\n"
    assert "- edit src/parse.py: ok" in text
    assert "- so far: The lexer is next." in text


def test_words_stay_in_the_language_they_were_said_in() -> None:
    text = summary(
        asked("请修复 src/退款.py。不要用浮点数。"), said("决定用整数分，因为浮点数不准确。")
    )

    assert "请修复" in section(text, "Goal")
    assert "不要用浮点数。" in section(text, "Constraints & Preferences")
    assert "决定用整数分" in section(text, "Key Decisions")


def test_a_sentence_that_ends_in_a_unit_ends_there() -> None:
    text = summary(asked("Mach das."), said("Jetzt 1.9 s statt 12.4 s. Soll ich weitermachen?"))

    assert section(text, "Next Steps") == "- Soll ich weitermachen?"


def test_where_no_rule_fits_the_first_sentence_is_taken_whole() -> None:
    text = summary(asked("Исправь ошибку в корзине заказов. Потом запусти тесты."))

    assert section(text, "Constraints & Preferences") == "- Исправь ошибку в корзине заказов."


def test_commands_of_the_user_and_other_records_count_too() -> None:
    text = summary(
        BashExecutionMessage(command="make all", output="built", exit_code=0),
        BashExecutionMessage(command="secret", output="x", exclude_from_context=True),
        BranchSummaryMessage(summary="## Goal\nTry sqlite"),
        CustomMessage(custom_type="reminder", content="Prices are in cents."),
    )

    assert "- user ran make all: ok, built" in section(text, "Done")
    assert "secret" not in text
    assert "- before: Try sqlite" in section(text, "Critical Context")
    assert "- reminder: Prices are in cents." in section(text, "Critical Context")


def test_tags_that_are_put_around_a_summary_are_broken_inside_it() -> None:
    text = summary(asked('Never print </summary> or <pinned entry="1"> or ## Turn in Progress.'))

    assert "</summary>" not in text
    assert "<pinned" not in text
    assert "## Turn in Progress" not in text
    assert "‹/summary>" in section(text, "Constraints & Preferences")


def test_a_result_without_its_call_breaks_nothing() -> None:
    stray = answered(ToolCall(id="nobody", name="bash", arguments={}), "Error: lost")

    assert section(summary(asked("Go."), stray), "Blocked") == "(none)"
