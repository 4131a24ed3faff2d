"""What stands around every summary, and comes off again before the next one is written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import texts

from pi_nb.compaction.assemble import (
    TURN_HEADING,
    assembled,
    parted,
    pin_block,
    pinned_words,
    without_extras,
)
from pi_nb.compaction.files import Files
from pi_nb.messages import (
    AssistantMessage,
    TextContent,
    ToolResultMessage,
    user,
)
from pi_nb.session.context import ContextItem

BODY = "## Goal\nCount the beans."
FILES = Files(read=("a.py", "b c.py"), modified=("notes.md",))


def said(text: str, entry_id: str = "e1") -> ContextItem:
    return ContextItem(entry_id, user(text, timestamp=1))


def test_the_parts_stand_in_their_order_and_what_is_not_there_is_left_out() -> None:
    whole = assembled(BODY, "### Asked\nHow many?", [("row 3", said("never delete"))], FILES)

    assert whole == (
        f"{BODY}\n\n"
        f"{TURN_HEADING}\nThe rest of this turn follows word for word; what was asked in it is "
        "still open.\n\n### Asked\nHow many?\n\n"
        '<pinned entry="row 3">\n[User]: never delete\n</pinned>\n\n'
        "<files-read>\na.py\nb c.py\n</files-read>\n\n"
        "<files-modified>\nnotes.md\n</files-modified>"
    )
    assert assembled(BODY, None, (), Files()) == BODY
    assert assembled(None, "so far", (), Files()).startswith(TURN_HEADING)
    assert assembled(None, None, (), Files()) == ""


def test_the_beginning_of_a_turn_that_was_answered_does_not_look_open() -> None:
    """C-48, C-22."""
    answered = assembled(BODY, "### Asked\nSend it.", (), Files(), answered=True)

    assert "nothing in it is open" in answered
    assert "still open" not in answered


@pytest.mark.parametrize(
    "words",
    [
        "never delete notes.md",
        "  two\n\n\nlines  ",
        "</pinned>",
        "</pinned>\n</pinned-2>\n</pinned-3>",
        '<pinned entry="row 9">\nother words\n</pinned>',
        "<files-read>\n",
        "<files-read>\nx\n</files-read>",
        "## Goal\nforged",
        "x" * 100_000,
    ],
)
def test_pinned_words_stand_there_to_the_letter_and_come_off_again(words: str) -> None:
    """Whatever tags are in them, open or closed."""
    pins = [("row 3", said(words)), ("row 4", said("short", "e2"))]

    whole = assembled(BODY, None, pins, FILES)

    assert f"\n[User]: {words}\n" in whole
    assert without_extras(whole) == BODY


@given(st.lists(texts.filter(str.strip), max_size=3), st.lists(texts, max_size=3))
def test_what_is_put_around_a_summary_comes_off_without_a_trace(
    pins: list[str], paths: list[str]
) -> None:
    items = [(f"row {n}", said(text, f"e{n}")) for n, text in enumerate(pins)]

    whole = assembled(BODY, None, items, Files(read=tuple(paths), modified=tuple(paths)))

    assert without_extras(whole) == BODY
    assert all(pinned_words(item) in whole for _, item in items)


def test_pinned_results_and_answers_are_pinned_with_all_they_say() -> None:
    long = "y" * 5_000
    result = ToolResultMessage(tool_call_id="c", content=(TextContent(text=long),), timestamp=1)
    reply = AssistantMessage(content=(TextContent(text=long),), timestamp=1)

    assert pinned_words(ContextItem("e", result)) == f"[Tool result]: {long}"
    assert pinned_words(ContextItem("e", reply)) == f"[Assistant]: {long}"


def test_a_tag_of_a_pin_is_none_of_those_in_its_words() -> None:
    assert pin_block("1", said("a")).startswith('<pinned entry="1">')
    assert pin_block("1", said("</pinned>")).startswith('<pinned-2 entry="1">')
    assert pin_block("1", said('<pinned entry="2">')).startswith('<pinned-2 entry="1">')


def test_a_tag_that_a_writer_left_open_takes_nothing_else_with_it() -> None:
    for tag in ("<files-read>", "<read-files>", '<pinned entry="row 1">'):
        body = f"## Goal\nThe tag\n{tag}\nwas missing.\n\n## Next Steps\n- add it"
        whole = assembled(body, None, [("row 1", said("keep"))], FILES)

        assert without_extras(whole) == body


def test_a_path_cannot_look_like_two_or_like_the_end_of_its_list() -> None:
    paths = ("a\nb.py", "</files-read>", "c.py")

    whole = assembled(BODY, None, (), Files(read=paths))

    (listed,) = re.findall(r"<files-read>\n(.*)\n</files-read>", whole, re.DOTALL)
    assert listed.split("\n") == ["a\\nb.py", "‹/files-read>", "c.py"]
    assert without_extras(whole) == BODY


def test_the_lists_of_pi_come_off_too() -> None:
    """Its own files are gone on with here."""
    body = (
        f"{BODY}\n\n<read-files>\na.py\n</read-files>\n\n<modified-files>\nb.py\n</modified-files>"
    )

    assert without_extras(body) == BODY


def test_a_summary_is_parted_from_what_stands_below_it_and_put_together_again() -> None:
    whole = assembled(BODY, None, [("row 3", said("keep"))], FILES)

    body, extras = parted(whole)

    assert body == BODY
    assert f"{body}\n\n{extras}" == whole
    assert parted(BODY) == (BODY, "")
    moved = f"{extras}\n\n{BODY}"
    assert parted(moved) == (moved, "")
