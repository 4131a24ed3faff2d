"""A history of any length is read aloud in pieces that fit, in order, and says what it cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from strategies import messages, texts

from pi_nb.compaction.fitting import LEAST_ROOM, MOST_PIECES, cut_to, fitted, halves
from pi_nb.compaction.transcript import as_text, parts_of
from pi_nb.messages import AgentMessage, TextContent, ToolResultMessage, user
from pi_nb.pieces import estimate_pieces
from pi_nb.tokens import PI, Estimator, weigh_by

PIECES = Estimator("piece/o200k", weigh_by("o200k"), lambda text: estimate_pieces(text, "o200k"))
ESTIMATORS = st.sampled_from([PI, PIECES])
ROOMS = st.one_of(st.integers(1, 400), st.integers(400, 20_000))

_long = st.builds(lambda text, times: text * times, texts, st.integers(1, 3_000))
HISTORIES: st.SearchStrategy[list[AgentMessage]] = st.lists(
    st.one_of(
        messages,
        _long.map(lambda text: user(text, timestamp=1)),
        _long.map(lambda text: _result(text)),
    ),
    max_size=12,
).flatmap(lambda some: st.integers(1, 20).map(lambda times: some * times))


def _result(text: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id="c", content=(TextContent(text=text),), timestamp=1)


@given(HISTORIES, ROOMS, ESTIMATORS)
def test_no_piece_is_empty_or_weighs_more_than_its_room(
    history: list[AgentMessage], room: int, estimator: Estimator
) -> None:
    pieces = fitted(history, room, estimator)

    event(f"{len(pieces)} pieces")
    assert 1 <= len(pieces) <= MOST_PIECES
    assert all(pieces)
    assert max(map(estimator.weigh_text, pieces)) <= max(room, LEAST_ROOM)


@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=300), ROOMS)
def test_every_part_that_is_read_is_in_its_place_and_what_is_not_read_is_counted(
    sizes: list[int], room: int
) -> None:
    history = [user(f"{number}: {'x' * size}") for number, size in enumerate(sizes)]

    pieces = fitted(history, room)

    read = [int(number) for number in re.findall(r"\[User\]: (\d+):", "\n\n".join(pieces))]
    assert read == list(range(len(sizes)))[-len(read) :]
    missing = len(sizes) - len(read)
    if missing:
        event("parts left out")
        assert pieces[0].startswith(f"[the oldest {missing:,} of {len(sizes):,} parts are left out")


@given(st.lists(messages, max_size=6))
def test_a_short_history_is_one_piece_to_the_letter(history: list[AgentMessage]) -> None:
    assert fitted(history, 100_000) == [as_text(history) or "(no text)"]


@pytest.mark.parametrize("room", [64, 100, 300, 1_000, 100_000])
@pytest.mark.parametrize("of", ["user", "result"])
def test_a_cut_says_how_much_is_missing_of_the_words_as_they_were(room: int, of: str) -> None:
    """However often it had to be cut again."""
    words = "".join(f"{n:06} " for n in range(60_000))
    message = user(words) if of == "user" else _result(words)

    (piece,) = fitted([message], room)

    label = "[User]: " if of == "user" else "[Tool result]: "
    found = re.fullmatch(r"(.*)\n\[([\d,]+) more characters left out\]", piece, re.DOTALL)
    assert found is not None
    shown = found[1].removeprefix(label)
    assert words.startswith(shown)
    assert len(shown) + int(found[2].replace(",", "")) == len(words)


@given(texts.filter(str.strip), st.integers(1, 5_000), st.integers(LEAST_ROOM, 500), ESTIMATORS)
def test_a_text_is_cut_to_what_fits_and_not_where_it_fits(
    text: str, times: int, room: int, estimator: Estimator
) -> None:
    whole = text * times

    cut = cut_to(whole, room, estimator)

    assert estimator.weigh_text(cut) <= room
    if estimator.weigh_text(whole) <= room:
        assert cut == whole


def test_halves_part_between_two_parts_and_keep_every_word() -> None:
    history = [user(f"{n} {'x' * 50}") for n in range(9)]
    (piece,) = fitted(history, 1_000)

    first, second = halves(piece)

    assert f"{first}\n\n{second}" == piece
    assert second.startswith("[User]: ")
    assert halves("abcd") == ["ab", "cd"]
    assert halves("a") == ["a"]


def test_a_message_that_says_nothing_has_no_part() -> None:
    assert parts_of(user("")) == []
    assert fitted([user("")], 1_000) == ["(no text)"]
