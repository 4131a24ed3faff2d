from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.text import (
    backspaced,
    clip,
    count,
    fence,
    one_line,
    plain,
    quoted,
    safe_line,
    scrub,
    scrub_data,
    unquoted,
    visible,
    without_escapes,
)

ESC = "\x1b"
anything = st.text(st.characters(codec=None))
terminal = (
    st.text(st.sampled_from("\x1b\x9b\x9c\x07[]PX^_\\;0139mK?/ \r\n\b\tab中\ud83d")) | anything
)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (f"{ESC}[31mred{ESC}[0m", "red"),
        (f"{ESC}[38;5;196mred{ESC}[m", "red"),
        (f"{ESC}]0;a title\x07$ ", "$ "),
        (f"{ESC}]8;;https://example.org{ESC}\\link{ESC}]8;;{ESC}\\", "link"),
        (f"{ESC}]133;A{ESC}\\$ ls", "$ ls"),
        (f"{ESC}P+q544e{ESC}\\text", "text"),
        (f"{ESC}(B{ESC}=plain", "plain"),
        ("\x9b1mbold\x9b0m", "bold"),
        (f"lone terminator {ESC}\\here", "lone terminator here"),
        (f"cut off {ESC}[3", "cut off "),
        (f"cut off {ESC}]0;tit", "cut off "),
        (f"cut off {ESC}", "cut off "),
        ("bell\x07 and nul\x00", "bell and nul"),
        ("tab\tand line\n", "tab\tand line\n"),
        ("raw \u2028 and \u00a0 stay", "raw \u2028 and \u00a0 stay"),
    ],
)
def test_escapes_are_taken_out_of_terminal_output(printed: str, shown: str) -> None:
    """E-12."""
    assert plain(printed) == shown


def test_a_title_that_never_ends_hides_no_line_after_it() -> None:
    assert plain(f"{ESC}]0;oops\nthe error is here\n") == "0;oops\nthe error is here\n"


@given(terminal, st.lists(st.integers(0, 40)))
def test_a_stream_in_pieces_shows_what_the_whole_shows(printed: str, cuts: list[int]) -> None:
    """E-12: a piece on its own would leave a fragment of an escape."""
    whole, held_at_the_end = without_escapes(printed)
    edges = sorted({0, len(printed), *(cut for cut in cuts if cut < len(printed))})

    shown, held = "", ""
    for start, end in pairwise(edges):
        text, held = without_escapes(held + printed[start:end])
        shown += text

    assert (shown, held) == (whole, held_at_the_end)


@pytest.mark.parametrize("start", [f"{ESC}[", f"{ESC}]0;", f"{ESC}P", f"{ESC}(", "\x9b"], ids=ascii)
def test_an_escape_that_never_ends_does_not_hold_up_a_stream(start: str) -> None:
    held, longest = start, 0
    for _ in range(100):
        _, held = without_escapes(held + "0" * 4_096)
        longest = max(longest, len(held))

    assert longest < 100_000
    assert held == ""


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("  0%\r 50%\r100%\n", "100%\n"),
        ("100%\r", "100%"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("a\rb\r\nc", "b\nc"),
        (f" 50%\r{ESC}[K100%", "100%"),
        ("N\bNA\bAME", "NAME"),
        ("|\b/\b-\bdone", "done"),
        ("\b\bnothing before", "nothing before"),
        ("\r\r\r", ""),
    ],
)
def test_a_progress_line_is_shown_as_it_ended(printed: str, shown: str) -> None:
    """E-12."""
    assert plain(printed) == shown


@given(terminal)
def test_plain_text_holds_no_control_characters_and_can_be_written(printed: str) -> None:
    shown = plain(printed)

    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    shown.encode()
    assert plain(shown) == shown


@given(st.text("ab\b"), st.text("ab\b"))
def test_backspaces_reach_back_into_what_came_before(first: str, second: str) -> None:
    before, none_before_it = backspaced(first)

    kept, reach = backspaced(second)

    joined, missing = backspaced(first + second)
    assert joined == before[: max(len(before) - reach, 0)] + kept
    assert missing == none_before_it + max(reach - len(before), 0)


@pytest.mark.parametrize(
    "piece",
    [
        *(f"{ESC}[", f"{ESC}]", f"{ESC}P", f"{ESC}[0;", f"{ESC}]0;a", ESC, "\x9b", "\x9b0 "),
        *(f"{ESC}[{'0' * 1000}", f"{ESC}[{' ' * 1000}", f"{ESC}P{'a' * 1000}"),
        *("\r", "\b", "a\b", "a\r"),
    ],
    ids=ascii,
)
def test_a_megabyte_made_to_be_slow_is_not(piece: str) -> None:
    hostile = piece * (1_000_000 // len(piece))

    started = time.perf_counter()
    plain(hostile)

    # A quadratic one would take minutes.
    assert time.perf_counter() - started < 5


@given(anything)
def test_scrubbed_text_can_be_written_and_is_as_long_as_javascript_sees_it(text: str) -> None:
    """S-29."""
    scrubbed = scrub(text)

    scrubbed.encode()
    assert len(scrubbed.encode("utf-16-le")) == len(text.encode("utf-16-le", "surrogatepass"))
    assert scrub(scrubbed) == scrubbed


@given(st.text())
def test_text_without_surrogates_is_left_as_it_is(text: str) -> None:
    assert scrub(text) == text


def test_a_lone_half_is_replaced_and_a_pair_is_joined() -> None:
    assert scrub("a\ud83d") == "a\ufffd"
    assert scrub("\ude00\ud83d!") == "\ufffd\ufffd!"
    assert scrub("\ud83d" + "\ude00") == "😀"


def test_data_is_scrubbed_all_the_way_down() -> None:
    dirty = {"k\ud83d": ["v\ude00", 1, None, {"a": ("\ud83d",)}]}

    assert scrub_data(dirty) == {"k\ufffd": ["v\ufffd", 1, None, {"a": ["\ufffd"]}]}


def test_a_cut_says_how_much_is_missing() -> None:
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdef", 2) == "ab\n[4 more characters left out]"
    assert clip("x" * 3_000, 0) == "\n[3,000 more characters left out]"


@given(st.text(), st.integers(1, 100))
def test_one_line_is_one_line_and_no_longer_than_asked(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line) <= limit
    assert line.splitlines() in ([], [line])


def test_a_safe_line_obeys_nothing_and_reads_only_what_it_shows() -> None:
    hostile = "\x1b]0;title\x07evil\x1b[2Jname\nsecond line " + "x" * 10_000_000

    started = time.perf_counter()
    line = safe_line(hostile, 24)

    assert line == "evilname second line xx…"
    assert time.perf_counter() - started < 0.1


def test_things_are_counted_in_words() -> None:
    assert count(1, "turn") == "1 turn"
    assert count(0, "turn") == "0 turns"
    assert count(1_200, "entry", "entries") == "1,200 entries"


@given(st.lists(st.sampled_from(["`", "``", "```", "````", "x", "\n"])).map("".join))
def test_no_code_closes_its_own_fence(code: str) -> None:
    first, *inside, last = fence(code, "python").split("\n")

    mark = first.removesuffix("python")
    assert set(mark) == {"`"}
    assert last == mark
    assert "\n".join(inside) == code
    assert mark not in code


def test_a_language_cannot_break_out_of_its_fence() -> None:
    assert fence("x", "py`\n# oops").splitlines()[0] == "```py#oops"


@given(anything | terminal, st.integers(5, 60))
def test_a_quoted_text_is_short_and_all_of_it_can_be_seen(text: str, limit: int) -> None:
    line = quoted(text, limit)

    assert line.isprintable()
    assert len(line) <= limit + 2
    assert unquoted(text, limit) == line[1:-1]


def test_a_mark_that_turns_the_line_around_is_shown_as_what_it_is() -> None:
    assert quoted("a\u202eb") == "'a\\u202eb'"


def test_somebody_elses_line_stays_one_line_and_loses_nothing() -> None:
    assert visible("a\nb\r\x1b[2J\u202e\ud800\u2028") == "a\\nb\\r\\x1b[2J\\u202e\\ud800\\u2028"
    assert visible("tab\t, 中文 and \u202f stay") == "tab\t, 中文 and \u202f stay"


def test_a_line_of_somebody_else_reads_in_the_order_it_is_stored() -> None:
    assert safe_line("rm \u202etxt.exe\u202c now") == "rm \\u202etxt.exe\\u202c now"
