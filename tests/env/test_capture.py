"""The kept end of a command's output: the same for every way of reading it, and small."""

from __future__ import annotations

import codecs
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.env.capture import Tail
from pi_nb.env.types import Output
from pi_nb.text import plain


def tail_of(*pieces: bytes, max_lines: int = 2_000, max_bytes: int = 50_000) -> Output:
    tail = Tail(max_lines, max_bytes)
    for piece in pieces:
        tail.feed(piece)
    return tail.output()


def test_what_fits_is_kept_whole() -> None:
    assert tail_of(b"one\ntwo\n") == Output("one\ntwo\n", False, 2, 8)
    assert tail_of(b"one\ntwo") == Output("one\ntwo", False, 2, 7)
    assert tail_of() == Output("", False, 0, 0)


def test_the_last_lines_are_kept_whole() -> None:
    many = b"".join(b"line %d\n" % i for i in range(5_000))

    output = tail_of(many)

    assert output.text.startswith("line 3000\n")
    assert output.text.endswith("line 4999\n")
    assert (output.truncated, output.total_lines, output.total_bytes) == (True, 5_000, len(many))


def test_bytes_are_the_limit_where_lines_are_long() -> None:
    output = tail_of(b"a" * 60 + b"\n" + b"b" * 30 + b"\nc\n", max_bytes=50)

    assert output.text == "b" * 30 + "\nc\n"


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_of_one_huge_line_the_end_is_shown(end: bytes) -> None:
    """E-09."""
    output = tail_of(b"x" * 200_000 + b"THE END" + end)

    assert output.text.rstrip("\n").endswith("xTHE END")
    assert len(output.text.encode()) == 50_000
    assert output.truncated
    assert (output.total_lines, output.total_bytes) == (1, 200_007 + len(end))


def test_a_character_is_not_cut_in_two() -> None:
    output = tail_of("中".encode() * 100, max_bytes=50)

    assert output.text == "中" * 16


def test_invalid_bytes_are_replaced() -> None:
    assert tail_of(b"a\xff\xfeb\xe4\xb8").text == "a��b"
    assert tail_of(b"\xe4\xb8", b"\xad").text == "中"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((b"\x1b[3", b"1mred\x1b[0m"), "red"),
        ((b"\x1b", b"[31mred"), "red"),
        ((b"\x1b]133;A\x07$ ls\x1b]133;C\x1b", b"\\"), "$ ls"),
        ((b"a\x1b\\b",), "ab"),
        ((b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",), "link"),
        ((b"10%\r50%\r", b"100%\ndone"), "100%\ndone"),
        ((b"one\r", b"\ntwo\r\n"), "one\ntwo\n"),
        ((b"kept\r",), "kept"),
        ((b"kept\r", b"\r", b"\n"), "kept\n"),
        ((b"|\x08/", b"\x08-\x08", b"\x08done"), "done"),
        ((b"\x1b]never ended\nnext",), "never ended\nnext"),
    ],
)
def test_escapes_go_and_progress_lines_collapse(pieces: tuple[bytes, ...], text: str) -> None:
    """E-12."""
    assert tail_of(*pieces).text == text


noise = st.lists(
    st.sampled_from(
        [
            *(b"a", b"bc ", b"\n", b"\r", b"\r\n", b"long line " * 3),
            *(b"\x1b", b"[", b"]", b"31m", b"\x07", b"\\", b"0;t", b"\x00"),
            *(b"\xc2", b"\x9b", b"\xe4\xb8\xad", b"\xff", b"\xf0\x9f"),
        ]
    ),
    max_size=60,
).map(b"".join)


@given(noise, st.lists(st.integers(0, 400), max_size=12), st.integers(1, 6), st.integers(4, 40))
def test_how_the_bytes_arrive_changes_nothing(
    data: bytes, cuts: list[int], max_lines: int, max_bytes: int
) -> None:
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places)]
    pieces.append(data[sum(map(len, pieces)) :])

    whole = tail_of(data, max_lines=max_lines, max_bytes=max_bytes)

    assert tail_of(*pieces, max_lines=max_lines, max_bytes=max_bytes) == whole
    assert len(whole.text.encode()) <= max_bytes
    assert whole.text.rstrip("\n").count("\n") < max_lines or whole.text.endswith("\n")


@given(st.lists(st.one_of(noise, st.just(b"\x08"))))
def test_what_is_kept_is_what_plain_says(pieces: list[bytes]) -> None:
    output = tail_of(*pieces)
    # Not the very end: the decoder holds back a character that may go on.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    assert output.text == plain(decoder.decode(b"".join(pieces)))
    assert not output.truncated


@pytest.mark.parametrize("piece", [b"x" * 65_536, b"y\n" * 32_768, b"\x1b]0;" + b"t" * 65_532])
def test_memory_stays_small_however_much_comes(piece: bytes) -> None:
    tail = Tail()
    tracemalloc.start()
    for _ in range(80):
        tail.feed(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 3_000_000
    assert tail.total_bytes == 80 * 65_536
