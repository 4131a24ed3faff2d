"""What a summary does not mention: found by matching, named so, counted, and shown as text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import messages, texts
from talks import asked, items, printed, said, shop, worked

from pi_nb.compaction.extractive import extractive
from pi_nb.compaction.finds import Kind
from pi_nb.compaction.mentions import LISTED, Mentions, not_mentioned
from pi_nb.compaction.summary import Material
from pi_nb.messages import AgentMessage, BashExecutionMessage, ToolResultMessage
from pi_nb.session.context import ContextItem

LOG = "\n".join(f"{number:>5}  2024-01-02T03:04:05 line" for number in range(900, 1_100))


def missing(*history: AgentMessage, summary: str = "", kind: Kind | None = None) -> list[str]:
    found = not_mentioned(items(*history), summary)
    return [mention.text for mention in found if kind in (None, mention.kind)]


# --- what is found again --------------------------------------------------------------------


def test_what_stands_in_the_summary_or_in_what_is_kept_is_not_listed() -> None:
    history = items(asked("Rename `old_name` in src/a.py. Never touch src/b.py. Wait 300 ms."))
    kept = [said("Now `old_name` is gone, after 300ms.")]

    found = not_mentioned(history, "src/a.py was changed", kept)

    assert [mention.text for mention in found] == ["Never touch src/b.py.", "src/b.py"]
    assert found.tallies["path"] == (1, 2)
    assert found.tallies["identifier"] == (1, 1)
    assert found.tallies["number"] == (1, 1)
    assert found.tallies["constraint"] == (0, 1)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("see /home/me/shop/src/cart.py", "changed cart.py"),
        ("see src/cart.py", "changed /home/me/shop/src/cart.py"),
        ("see ./src/cart.py", "- `src/cart.py`"),
        ("see src/cart.py:87", "src/cart.py"),
        ("call `shop.cart.total`", "it is self.shop.cart.total() that fails"),
        ("call parse_all", "`parse_all()` fails"),
        ("pass --keep-recent", "the option `--keep-recent`"),
        ("it took 300 ms", "took 300ms"),
        ("Never touch\nmain.", "- Never touch main."),
        ("不要用浮点数。", "用户:不要用浮点数"),
        ("open https://example.org/a.", "(https://example.org/a)"),
    ],
)
def test_another_way_to_write_the_same_thing_is_a_mention(text: str, summary: str) -> None:
    assert missing(asked(text), summary=summary) == []


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("see a/cart.py and b/cart.py", "cart.py"),
        ("call parse_all", "parse_all_now"),
        ("call parse_all", "reparse_all"),
        ("it took 300 ms", "it took 1300 ms"),
        ("it took 300 ms", "it took 300 s"),
        ("see src/cart.py", "see src/cart.pyi"),
    ],
)
def test_what_only_looks_alike_is_no_mention(text: str, summary: str) -> None:
    assert missing(asked(text), summary=summary) != []


def test_an_error_is_found_again_within_a_line_of_the_summary() -> None:
    history = worked("bash", "E   assert 90 == 81\n1 failed", failed=True, command="x")

    assert missing(*history, summary="blocked: `E assert 90 == 81`", kind="error") == ["1 failed"]


def test_two_ways_to_one_file_are_one_path() -> None:
    found = not_mentioned(items(asked("see /home/me/src/cart.py"), said("src/cart.py it is")), "")

    (mention,) = found.of("path")
    assert mention.text == "/home/me/src/cart.py"
    assert mention.entry_ids == ("e0", "e1")
    assert found.tallies["path"].total == 1


# --- what counts, and what does not ---------------------------------------------------------


def test_only_a_user_sets_constraints() -> None:
    history = (
        asked("Never touch main."),
        said("You must never push."),
        *worked("read", "You must always sign.", path="README.md"),
    )

    assert missing(*history, kind="constraint") == ["Never touch main."]


@pytest.mark.parametrize(
    "text",
    [
        "Please go on with it and then do the same for the others.",
        "Is it 3 or 4? I think the first one is right.",
        "True, and/or false: it is either/or.",
        "Bitte mach weiter, das ist gut so.",
        "接下来继续吧。",
    ],
)
def test_ordinary_words_are_nothing_to_be_missed(text: str) -> None:
    assert missing(asked(text)) == []


def test_numbers_that_a_tool_put_before_lines_are_not_numbers() -> None:
    numbered = "\n".join(f"{number}\tx = {number + 7000}" for number in range(500, 503))
    found = "src/a.py:815:    pass\nsrc/a.py-816-    pass"

    assert missing(printed(numbered), kind="number") == ["7500", "7501", "7502"]
    assert missing(printed(found), kind="number") == []
    assert missing(printed(LOG), kind="number") == []


def test_hashes_are_neither_names_nor_numbers_unless_they_are_asked_for() -> None:
    text = (
        "commit 7451700a1b, id toolu_01GDop9s8DBp8sZnT9Wpy9Cy, 550e8400-e29b-41d4-a716-446655440000"
    )

    assert missing(asked(text)) == []
    asked_for = not_mentioned(items(asked(text)), "", kinds=("hash",))
    assert len(asked_for) == 3
    assert set(asked_for.tallies) == {"hash"}


def test_what_is_kept_from_the_model_is_not_looked_through() -> None:
    history = BashExecutionMessage(command="cat secret_key.py", exclude_from_context=True)

    assert missing(history) == []


# --- order and numbers ----------------------------------------------------------------------


def test_what_was_said_often_and_late_comes_first() -> None:
    history = items(
        asked("see early_name"),
        asked("see often_name"),
        said("often_name again"),
        printed("printed_name"),
        said("late_name"),
    )

    names = [mention.text for mention in not_mentioned(history, "")]

    assert names == ["often_name", "late_name", "early_name", "printed_name"]


def test_each_mention_knows_its_entries_and_how_often_it_stands_there() -> None:
    found = not_mentioned(items(asked("a_b a_b"), said("no"), said("a_b")), "")

    (mention,) = found
    assert mention.entry_ids == ("e0", "e2")
    assert mention.times == 3


def test_recall_is_the_mean_over_the_kinds_that_occur() -> None:
    found = not_mentioned(items(asked("see a.py, b.py and c_d")), "a.py and c_d")

    assert found.recall == pytest.approx((0.5 + 1.0) / 2)
    assert not_mentioned((), "x").recall is None


@given(st.lists(messages, max_size=6), texts, st.lists(messages, max_size=3))
def test_every_find_is_either_mentioned_or_listed(
    history: list[AgentMessage], summary: str, kept: list[AgentMessage]
) -> None:
    found = not_mentioned(items(*history), summary, kept)

    for kind, tally in found.tallies.items():
        assert tally.total - tally.mentioned == len(found.of(kind))
    json.dumps(found.to_dict(), allow_nan=False)
    str(found).encode()


@given(st.lists(messages, min_size=1, max_size=6))
def test_what_is_kept_whole_is_mentioned_whole(history: list[AgentMessage]) -> None:
    assert list(not_mentioned(items(*history), "", history)) == []


def test_an_extractive_summary_mentions_what_a_reader_must_know() -> None:
    found = not_mentioned(items(*shop()), extractive(Material("history", shop())).text)

    assert found.tallies["constraint"] == (1, 1)
    assert found.tallies["path"].recall == 1.0
    assert (found.recall or 0) > 0.6


def test_a_megabyte_is_looked_through_in_proportion() -> None:
    line = "call parse_name_{0} of src/part_{0}.py: Error: {0} items, never again.\n"

    def took(lines: int) -> float:
        text = "".join(line.format(number) for number in range(1_000, 1_000 + lines))
        started = process_time()
        not_mentioned(items(asked(text), printed(text)), "## Goal\nnothing")
        return process_time() - started

    took(10)
    assert took(3_200) < 10 * max(took(800), 0.02)


# --- to look at -----------------------------------------------------------------------------


def many() -> Mentions:
    names = " ".join(f"name_{number:03}" for number in range(LISTED + 34))
    return not_mentioned(items(asked(names)), "nothing")


def test_long_lists_say_how_many_more_there_are() -> None:
    assert "and 34 more" in str(many())
    assert "and 34 more" in many()._repr_html_()
    assert len(many().to_dict()["notFoundVerbatim"]) == LISTED + 34


def test_it_never_says_that_something_was_lost() -> None:
    for text in (str(many()), many()._repr_html_()):
        assert "Not found verbatim" in text
        assert "lost" not in text


def test_entries_are_named_by_their_rows_where_they_are_known() -> None:
    found = not_mentioned(items(asked("see a_b")), "")

    assert "(in row 7)" in found.to_text({"e0": 7})
    assert "(in e0)" in found.to_text()


def test_nothing_to_look_for_is_a_sentence() -> None:
    assert str(not_mentioned((), "x")).startswith("Nothing that could be looked for")


def test_hostile_words_are_shown_as_text() -> None:
    evil = "Never <script>alert(1)</script> \x1b[2J\u202e<img src=x onerror=y> a_b."
    found = not_mentioned([ContextItem("<b>", asked(evil))], "")

    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, _: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(found._repr_html_())
    assert set(tags) <= {"p", "strong", "details", "summary", "ul", "li", "code", "em"}
    assert "\x1b" not in str(found)


def test_a_lone_surrogate_is_replaced() -> None:
    found = not_mentioned(items(asked("Never use \ud800 here.")), "")

    str(found).encode()
    assert [mention.text for mention in found] == ["Never use \ufffd here."]


def test_a_failure_without_an_error_line_is_its_own_error() -> None:
    result = ToolResultMessage.model_validate(
        {"tool_call_id": "c", "content": "Nothing matches oldText.", "is_error": True}
    )

    assert missing(result, kind="error") == ["Nothing matches oldText."]
