"""Files of pi's older versions, and real ones: whoever opens them sees the same branch.

v1 has no ids and speaks of kept entries by their number, v2 has ids and another word for
custom messages. pi writes such a file anew as v3 when it opens it, so it is asked about a
copy; we do with the first append, and keep the original beside it. The ids of a v1 file are
made up by whoever upgrades it: before that only what is said can be compared. Where an old
line lacks what later ones have (`totalTokens`), we fill it in; pi's answer is read likewise.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interop import ours
from interop.peer import Peer
from interop.said import said_by_somebody
from strategies import texts

from pi_nb.messages import UserMessage
from pi_nb.session.session import Session

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SAMPLES = os.environ.get("PI_NB_SAMPLES", "")
FILES = sorted(Path(SAMPLES).glob("*.jsonl")) if SAMPLES else []
STAMP = "2025-11-30T12:00:00.000Z"

samples = pytest.mark.skipif(not FILES, reason="PI_NB_SAMPLES names no folder of sample sessions")

_hook = st.fixed_dictionaries(
    {
        "role": st.just("hookMessage"),
        "customType": texts,
        "content": texts,
        "display": st.booleans(),
        "timestamp": st.integers(0, 2**40),
    }
)


def line(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), "timestamp": st.just(STAMP), **fields})


_settings = line("thinking_level_change", thinkingLevel=st.sampled_from(["off", "high"])) | line(
    "model_change", provider=st.sampled_from("pq"), modelId=st.sampled_from("mn")
)
_v1_compaction = line(
    "compaction",
    summary=texts,
    firstKeptEntryIndex=st.integers(0, 20),
    tokensBefore=st.integers(0, 10_000),
)
_talk = line("message", message=said_by_somebody)
v1_lines = st.lists(_talk | _settings | _v1_compaction, min_size=1, max_size=15)
v2_lines = st.lists(_talk | line("message", message=_hook) | _settings, min_size=1, max_size=15)


def header(version: int, cwd: Path) -> dict[str, Any]:
    said = {"version": version} if version > 1 else {}
    return {"type": "session", **said, "id": "old", "timestamp": STAMP, "cwd": str(cwd)}


def with_ids(lines: list[dict[str, Any]], parents: list[int]) -> list[dict[str, Any]]:
    """Lines as a tree: each follows one of those before it, or none."""
    made = []
    for number, (body, drawn) in enumerate(zip(lines, parents, strict=True)):
        parent = drawn % (number + 1)  # 0 is the root
        ids = {"id": f"{number + 1:08x}", "parentId": f"{parent:08x}" if parent else None}
        made.append({**body, **ids})
    return made


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")


async def seen_alike_whoever_upgrades(peer: Peer, path: Path) -> None:
    """The promise of this file, for one session; `path` is left upgraded by us."""
    copy = shutil.copyfile(path, path.with_name("pi.jsonl"))
    original = path.read_bytes()
    before = ours.look(path)
    theirs = peer.look(copy)

    assert without_ids(before["context"]) == without_ids(ours.as_read(theirs)["context"])
    assert path.read_bytes() == original

    # What pi upgraded is ours to read.
    assert ours.look(copy) == ours.as_read(theirs)

    # What we upgraded is pi's to read.
    with Session.open(path, durability="flush") as session:
        await session.append_message(UserMessage(content="and on", timestamp=1))
    ended = ours.look(path)
    assert ended == ours.as_read(peer.look(path))
    assert without_ids(ended["context"])["messages"] == [
        *without_ids(before["context"])["messages"],
        {"role": "user", "content": "and on", "timestamp": 1},
    ]


def without_ids(context: dict[str, Any]) -> dict[str, Any]:
    spoken = [{k: v for k, v in said.items() if k != "fromId"} for said in context["messages"]]
    return {**context, "messages": spoken}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=v1_lines)
async def test_a_v1_file_shows_the_same_whoever_upgrades_it(
    peer: Peer, lines: list[dict[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v1.jsonl"
        write(path, [header(1, path.parent), *lines])

        await seen_alike_whoever_upgrades(peer, path)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=v2_lines, parents=st.lists(st.integers(0, 20), min_size=15, max_size=15))
async def test_a_v2_file_shows_the_same_whoever_upgrades_it(
    peer: Peer, lines: list[dict[str, Any]], parents: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v2.jsonl"
        write(path, [header(2, path.parent), *with_ids(lines, parents[: len(lines)])])

        await seen_alike_whoever_upgrades(peer, path)


@samples
@pytest.mark.parametrize("sample", FILES, ids=lambda path: path.name)
async def test_a_real_session_shows_what_pi_would_send(
    peer: Peer, sample: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copyfile(sample, tmp_path / sample.name))

    await seen_alike_whoever_upgrades(peer, path)
