"""Every recorded answer, for every adapter: the pieces in which it comes make no difference."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers import end_of, fixtures, heard, message_of, name_of
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loopback

from pi_nb.abort import AbortSignal
from pi_nb.models.answer import Answer
from pi_nb.models.anthropic_events import Events as AnthropicEvents
from pi_nb.models.completions_events import Events as CompletionsEvents
from pi_nb.models.http import post

pytestmark = pytest.mark.anyio

READERS: dict[str, Callable[[], Answer]] = {
    "anthropic-messages": AnthropicEvents,
    "openai-completions": CompletionsEvents,
}
every_fixture = pytest.mark.parametrize("path", fixtures(), ids=name_of)


def reader_of(path: Path) -> Callable[[], Answer]:
    return READERS[path.parent.name]


def test_every_adapter_has_recorded_answers() -> None:
    assert {path.parent.name for path in fixtures()} == set(READERS)


@every_fixture
async def test_byte_by_byte_an_answer_means_what_it_means_whole(path: Path) -> None:
    body, reader = path.read_bytes(), reader_of(path)

    whole = await heard(reader, [body])
    single = await heard(reader, [body[at : at + 1] for at in range(len(body))])

    assert single == whole


@every_fixture
@settings(max_examples=20)
@given(data=st.data())
def test_in_any_pieces_an_answer_means_what_it_means_whole(path: Path, data: st.DataObject) -> None:
    body, reader = path.read_bytes(), reader_of(path)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=8)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    assert asyncio.run(heard(reader, pieces)) == asyncio.run(heard(reader, [body]))


@every_fixture
async def test_an_answer_that_is_cut_anywhere_is_whole_or_an_error(path: Path) -> None:
    """X-07: only an explicit end is success, and what is success is the whole answer."""
    body, reader = path.read_bytes(), reader_of(path)
    whole = message_of(await heard(reader, [body]))

    for cut in range(len(body)):
        events = await heard(reader, [body[:cut]])
        if end_of(events).reason != "error":
            said = message_of(events)
            assert (said.content, said.stop_reason) == (whole.content, whole.stop_reason), cut


@every_fixture
async def test_over_a_socket_byte_by_byte_nothing_is_lost(path: Path, loopback: Loopback) -> None:
    body, reader = path.read_bytes(), reader_of(path)
    loopback.answer(body, cut=1)

    pieces: list[Any] = [
        piece async for piece in post(f"{loopback.url}/x", {}, signal=AbortSignal())
    ]

    assert b"".join(pieces) == body
    assert await heard(reader, pieces) == await heard(reader, [body])
