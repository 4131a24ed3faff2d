"""X-10 and X-11: the ways in which servers number and name the pieces of tool calls."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from pi_nb.models.call_deltas import UNREADABLE, CallDeltas, new_call_id
from pi_nb.models.types import CallStart


def piece(
    args: Any = None, *, index: Any = None, id: Any = None, name: Any = None
) -> dict[str, Any]:
    made: dict[str, Any] = {"function": {}}
    if index is not None:
        made["index"] = index
    if id is not None:
        made["id"] = id
    if name is not None:
        made["function"]["name"] = name
    if args is not None:
        made["function"]["arguments"] = args
    return made


def assemble(*pieces: dict[str, Any]) -> list[tuple[str, str, str]]:
    """`(id, name, argument text)` of each call, in order."""
    blocks, ids = itertools.count(), itertools.count(1)
    deltas = CallDeltas(lambda: next(blocks), lambda: f"new_{next(ids)}")
    calls: dict[int, list[str]] = {}
    for one in pieces:
        for event in deltas.feed(one):
            if isinstance(event, CallStart):
                calls[event.index] = [event.id, event.name, ""]
            else:
                calls[event.index][1] = event.name or calls[event.index][1]
                calls[event.index][2] += event.delta
    return [(id, name, text) for id, name, text in calls.values()]


A, B = ("a", "read", '{"p":1}'), ("b", "read", '{"p":2}')


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        pytest.param(
            [piece("", index=0, id="a", name="read"), piece('{"p"', index=0),
             piece(":1}", index=0)],
            [A],
            id="the standard",
        ),
        pytest.param(
            [piece("", index=0, id="a", name="read"), piece("", index=1, id="b", name="read"),
             piece('{"p":2}', index=1), piece('{"p":1}', index=0)],
            [A, B],
            id="two calls interleaved",
        ),
        pytest.param(
            [piece('{"p":1}', index=0, id="a", name="read"),
             piece('{"p":2}', index=0, id="b", name="read")],
            [A, B],
            id="all calls at index 0 with ids of their own",
        ),
        pytest.param(
            [piece("{}", index=0, id="a", name="read"), piece("", index=0, id="b", name="write")],
            [("a", "read", "{}"), ("b", "write", "")],
            id="index 0 again for another tool",
        ),
        pytest.param(
            [piece("", index=0, id="a", name="now"), piece("", index=0, id="b", name="now")],
            [("a", "now", ""), ("b", "now", "")],
            id="two calls without arguments at index 0",
        ),
        pytest.param(
            [piece('{"p"', id="a", name="read"), piece(":1}"),
             piece('{"p":2}', id="b", name="read")],
            [A, B],
            id="no index",
        ),
        pytest.param(
            [piece("", index=0, name="read"), piece('{"p":1}', index=0)],
            [("new_1", "read", '{"p":1}')],
            id="no id at all",
        ),
        pytest.param(
            [piece("", index=0, name="read"), piece('{"p":1}', index=0, id="late")],
            [("new_1", "read", '{"p":1}')],
            id="the id comes late",
        ),
        pytest.param(
            [piece('{"p"', index=0, id="a", name="read"), piece(":1}", index=0, id="", name="")],
            [A],
            id="later pieces with empty id and name",
        ),
        pytest.param(
            [piece('{"p"', index=0, id="a", name="read"), piece(":", index=0, id="a2"),
             piece("1}", index=0, id="a3")],
            [A],
            id="the id changes while the index stays",
        ),
        pytest.param(
            [piece('{"p"', index=0, id="a", name="read"), piece(":1}", index=0, name="read")],
            [A],
            id="the name is repeated",
        ),
        pytest.param(
            [piece('{"p"', index=0, id="a", name="read"), piece(":1}", index=7, id="a")],
            [A],
            id="a known id wins over the index",
        ),
        pytest.param(
            [piece('{"p"', index=0, id="a", name="read"), piece(":1}")],
            [A],
            id="a piece with neither id nor index",
        ),
        pytest.param(
            [piece({"p": 1}, name="read"), piece({"p": 2}, name="read")],
            [("new_1", "read", '{"p":1}'), ("new_2", "read", '{"p":2}')],
            id="whole calls without id and index, arguments as objects",
        ),
        pytest.param(
            [piece("", index=1, id="a", name="read"), piece('{"p":1}', index=1)],
            [A],
            id="X-11: the first call at index 1, no phantom",
        ),
        pytest.param(
            [piece("", index=0, id="a"), piece(index=0, name="read"), piece('{"p":1}', index=0)],
            [A],
            id="the name comes late",
        ),
        pytest.param([piece(), {}, {"function": None}, piece("", id="", name="")], [], id="none"),
        pytest.param(
            [piece(3, index="0", id=4, name=["x"]), piece('{"p":1}', id="a", name="read")],
            [A],
            id="values of the wrong type are as if absent",
        ),
    ],
)  # fmt: skip
def test_pieces_find_their_call(
    pieces: list[dict[str, Any]], calls: list[tuple[str, str, str]]
) -> None:
    assert assemble(*pieces) == calls


def test_arguments_that_nest_without_end_harm_nobody() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}

    assert assemble(piece(deep, id="a", name="read")) == [("a", "read", UNREADABLE)]


def test_ids_that_are_made_here_are_never_the_same() -> None:
    assert len({new_call_id() for _ in range(100)}) == 100


@pytest.mark.parametrize("wrong", [[1], [], [{"p": 1}]])
def test_arguments_that_are_a_list_are_text_that_is_no_object(wrong: Any) -> None:
    """L-05: as nothing at all the call would run without its arguments."""
    ((_, _, text),) = assemble(piece(wrong, index=0, id="a", name="read"))

    assert text == json.dumps(wrong, separators=(",", ":"))
