"""pi 1.6.0 and we write one v3 file in turn, and after every turn both see the same session.

A plan is drawn at random: who begins, then turns of one to four operations. Each turn opens
the file, does its operations and closes it. Where a plan fails, Hypothesis shows the smallest
one that does; `PI_NB_PLANS` says how many are tried (500 unless told).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from interop import ours
from interop.peer import Peer
from interop.said import said_by_somebody
from strategies import json_values, texts

from pi_nb.messages import UserMessage
from pi_nb.session.session import Session

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PLANS = int(os.environ.get("PI_NB_PLANS", "500"))

Op = dict[str, Any]
Turn = tuple[str, list[Op]]

USAGE = {
    "input": 10,
    "output": 2,
    "cacheRead": 3,
    "cacheWrite": 0,
    "totalTokens": 15,
    "cost": {"input": 0.5, "output": 0.25, "cacheRead": 0, "cacheWrite": 0, "total": 0.75},
}

_which = st.integers(0, 40)
_blocks = st.lists(texts.map(lambda text: {"type": "text", "text": text}), max_size=2)
_tool_names = st.sampled_from(["read", "bash", "edit"])
_declared = st.fixed_dictionaries(
    {"role": st.just("system"), "content": texts, "timestamp": st.integers(0, 2**40)},
    optional={
        "sections": st.dictionaries(st.sampled_from(["style", "rules"]), st.none() | texts),
        "toolsAdded": st.lists(
            st.fixed_dictionaries({"name": _tool_names, "description": texts}), max_size=2
        ),
        "toolsRemoved": st.lists(st.fixed_dictionaries({"name": _tool_names}), max_size=2),
    },
)
_custom = st.fixed_dictionaries(
    {
        "role": st.just("custom"),
        "customType": texts,
        "content": texts | _blocks,
        "display": st.booleans(),
        "timestamp": st.integers(0, 2**40),
    }
)
_message = said_by_somebody | _declared | _custom


def op(name: str, /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    return st.fixed_dictionaries({"op": st.just(name), **fields})


first_words = op("message", message=texts.map(lambda t: UserMessage(content=t).to_wire()))
"""pi makes a file with the first thing that is said."""
ops = st.one_of(
    op("message", message=_message),
    op("custom_message", customType=texts, content=texts | _blocks, display=st.booleans()),
    op("custom", customType=texts, data=json_values),
    op("model", provider=st.sampled_from("pq"), modelId=st.sampled_from("mn")),
    op("thinking", level=st.sampled_from(["off", "low", "high"])),
    op("usage", kind=texts, provider=texts, model=texts, usage=st.just(USAGE)),
    op("name", name=texts),
    op("label", which=_which, label=st.none() | texts),
    op("branch", which=_which),
    op("branch_summary", which=_which, summary=texts),
    op(
        "compaction",
        which=_which,
        summary=texts,
        tokensBefore=st.integers(0, 2**40),
        details=st.just({"readFiles": ["a"], "modifiedFiles": []}),
        usage=st.just(USAGE),
        fromHook=st.booleans(),
    ),
    op(
        "context_edit",
        which=_which,
        replacement=st.none() | st.fixed_dictionaries({"content": texts | _blocks}),
    ),
)
ours_alone = op("record", usage=st.just(USAGE))
"""Bookkeeping of ours that pi sees as entries of an extension."""

pis_turn = st.tuples(st.just("pi"), st.lists(ops, min_size=1, max_size=4))
our_turn = st.tuples(st.just("ours"), st.lists(ops | ours_alone, min_size=1, max_size=4))
plans = st.tuples(
    st.tuples(st.sampled_from(["pi", "ours"]), st.lists(first_words, min_size=1, max_size=1)),
    st.lists(pis_turn | our_turn, min_size=1, max_size=8),
)


async def begun(peer: Peer, folder: Path, turn: Turn) -> Path:
    side, first = turn
    if side == "pi":
        return peer.create(folder, first)
    path = folder / "ours.jsonl"
    with Session.create(path, cwd=folder, format="v3", durability="flush") as session:
        await ours.write(session, first)
    return path


async def taken(peer: Peer, path: Path, turn: Turn) -> None:
    side, ops = turn
    if side == "pi":
        peer.write(path, ops)
        return
    with Session.open(path, durability="flush") as session:
        session.context()  # kept, and grown by what follows
        await ours.write(session, ops)
        grown = ours.context_form(session.context())
    assert grown == ours.look(path)["context"]


def seen_alike(peer: Peer, path: Path) -> None:
    theirs = peer.look(path)
    assert ours.look(path) == {**theirs, "context": ours.as_ours(theirs["context"])}
    # That the last line lies on a branch that was left is no fault of the file.
    assert ours.oddities(path) <= {"newer_branch"}


# Without the phase that explains a failure: it would take as long as finding it.
@settings(
    max_examples=PLANS,
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=plans)
async def test_pi_and_we_write_one_file_in_turn_and_see_the_same(
    peer: Peer, plan: tuple[Turn, list[Turn]]
) -> None:
    first, turns = plan
    with tempfile.TemporaryDirectory() as folder:
        path = await begun(peer, Path(folder), first)
        seen_alike(peer, path)

        for turn in turns:
            await taken(peer, path, turn)
            seen_alike(peer, path)

        theirs = {at: ours.as_ours(context) for at, context in peer.contexts(path).items()}
        assert ours.contexts(path) == theirs
