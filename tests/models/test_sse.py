from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.models.sse import SseEvent, SseParser, TooLong


def parse(*chunks: bytes, limit: int = 1_000) -> list[SseEvent | TooLong]:
    parser = SseParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


def data(*texts: str) -> list[SseEvent]:
    return [SseEvent(text) for text in texts]


@pytest.mark.parametrize(
    ("chunks", "events"),
    [
        ([b"data: a\n\ndata: b\n\n"], data("a", "b")),
        ([b"data: a\r\n\r\ndata: b\r\n\r\n"], data("a", "b")),
        #
        ([b"data: a\r\rdata: b\r\r"], data("a", "b")),
        ([b"data: {}\r", b"\n\r", b"\n"], data("{}")),
        ([b"data: a\r", b"\ndata: b\r", b"\n\r\n"], data("a\nb")),
        ([b"data: a\r", b"", b"\ndata: b\n\n"], data("a\nb")),
        ([b"\xef\xbb\xbfdata: a\n\n"], data("a")),
        ([b"\xef", b"\xbb\xbfdata: a\n\n"], data("a")),
        ([b"data:a\ndata:  b\ndata\n\n"], data("a\n b\n")),
        ([b"data:\n\n"], data("")),
        ([b"event: ping\ndata: {}\n\n"], [SseEvent("{}", "ping")]),
        ([b"event: only\n\ndata: a\n\n"], data("a")),
        #
        ([b": PROCESSING\n\n:\n\ndata: a\n\n"], data("a")),
        ([b"data: a\n: in the middle\ndata: b\n\n"], data("a\nb")),
        ([b"id: 1\nretry: 5\nother: x\ndata: a\n\n"], data("a")),
        ([b"data: {\"a: b\": 1}\n\n"], data('{"a: b": 1}')),
        # The last event may lack its blank line, or even its line end.
        ([b"data: a\n"], data("a")),
        ([b"data: a"], data("a")),
        ([b"", b"\n\n\n"], []),
        ([b"data: \xff\n\n"], data("\ufffd")),
    ],
)  # fmt: skip
def test_events_are_read_as_the_standard_says(chunks: list[bytes], events: list[SseEvent]) -> None:
    assert parse(*chunks) == events


def test_separators_of_unicode_are_characters_and_no_line_ends() -> None:
    """X-02."""
    text = '{"t":"a\u2028b\u2029c\u0085d\x0b\x0c\x1c"}'

    assert parse(f"data: {text}\n\n".encode()) == data(text)


def test_a_character_split_over_two_pieces_is_read_whole() -> None:
    whole = "data: 中😀\n\n".encode()

    for cut in range(len(whole)):
        assert parse(whole[:cut], whole[cut:]) == data("中😀")


lines = st.one_of(
    st.builds(lambda text: f"data: {text}", st.text(max_size=8)),
    st.sampled_from(["", "", ": note", "event: e", "data", "id: 7", "data: " + "y" * 70]),
)


@given(
    st.lists(st.tuples(lines, st.sampled_from(["\n", "\r", "\r\n"])), max_size=12),
    st.data(),
)
def test_whole_in_bytes_and_in_random_pieces_give_the_same_events(
    written: list[tuple[str, str]], draw: st.DataObject
) -> None:
    """X-02, X-03, X-04, and the limit besides."""
    whole = "".join(line + end for line, end in written).encode("utf-8", "replace")
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    single = [whole[at : at + 1] for at in range(len(whole))]

    expected = parse(whole, limit=60)

    assert parse(*single, limit=60) == expected
    assert parse(*pieces, limit=60) == expected


def test_an_event_beyond_the_limit_is_one_mark_and_the_next_one_is_read() -> None:
    long = b"data: " + b"x" * 200 + b"\ndata: more\n\n"

    assert parse(b"data: a\n\n" + long + b"data: b\n\n", limit=100) == [
        SseEvent("a"),
        TooLong(100),
        SseEvent("b"),
    ]


def test_a_line_that_never_ends_does_not_fill_the_memory() -> None:
    parser = SseParser(1_000)

    found = [event for _ in range(5_000) for event in parser.feed(b"x" * 1_000)]

    assert found == [TooLong(1_000)]
    assert len(parser._line) <= 1


def test_comments_may_go_on_for_ever() -> None:
    assert parse(b": still working\n" * 1_000 + b"data: a\n\n", limit=100) == data("a")
