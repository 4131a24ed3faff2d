"""A branch, or a whole tree, in a file of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_nb.messages import (
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    convert_to_llm,
    user,
)
from pi_nb.models.pairing import pair
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.fork import clone_session, fork_session
from pi_nb.session.jsonl import write_whole
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["v3", "v4"])
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    file = tmp_path / "one.jsonl"
    with Session.create(file, cwd=tmp_path, format=request.param, durability="flush") as session:
        yield session


@pytest.fixture
def repo(tmp_path: Path) -> SessionRepo:
    return SessionRepo(tmp_path / "sessions")


async def test_a_fork_has_the_branch_its_labels_and_what_stands_for_the_past(
    session: Session, repo: SessionRepo
) -> None:
    """T-01."""
    first = await session.append_message(user("one"))
    left = await session.append_message(user("left"))
    await session.move(first.id)
    await session.append_branch_summary("what was left", left.id)
    kept = await session.append_message(user("kept"))
    await session.append_compaction("so far", kept.id, 10)
    await session.append_context_edit(kept.id, None)
    last = await session.append_message(user("last"))
    context = session.context().messages
    await session.set_label(first.id, "start")
    await session.set_label(left.id, "gone")

    with (await fork_session(session, last.id, repo=repo)).session as made:
        said = [i for i in session.branch_ids(last.id) if not session.is_own(i)]
        assert [i for i in made.branch_ids() if i in session] == said
        assert made.context().messages == context
        assert dict(made.labels) == {first.id: "start"}
        assert left.id not in made
        file = made.path
    assert file is not None
    with Session.open(file) as again:
        assert again.context().messages == context
        assert not again.diagnostics


async def test_a_fork_names_its_parent_as_its_format_does(
    session: Session, repo: SessionRepo
) -> None:
    await session.append_message(user("one"))
    headers = {}
    for format in ("v3", "v4"):
        made = (await fork_session(session, session.leaf(), repo=repo, format=format)).session
        assert made.path is not None
        with made, made.path.open() as lines:
            assert made.format == format
            headers[format] = json.loads(lines.readline())

    assert headers["v3"]["parentSession"] == str(session.path)
    assert headers["v4"]["parentSessionId"] == session.id


async def test_a_path_with_labels_and_names_in_it_stays_whole(
    tmp_path: Path, repo: SessionRepo
) -> None:
    """T-02: every parent exists, in either format."""
    with Session.create(tmp_path / "one.jsonl", cwd=tmp_path, format="v3") as session:
        first = await session.append_message(user("one"))
        elsewhere = await session.append_message(user("elsewhere"))
        await session.move(first.id)
        await session.set_label(first.id, "start")
        await session.set_label(elsewhere.id, "gone")
        await session.set_name("Tea")
        last = await session.append_message(user("two"))

        for format in ("v3", "v4"):
            made = (await fork_session(session, last.id, repo=repo, format=format)).session
            with made:
                assert not made.diagnostics
                assert dict(made.labels) == {first.id: "start"}
                assert made.name == "Tea"
                assert made.context().messages == session.context().messages


@pytest.mark.parametrize("format", ["v3", "v4"])
async def test_a_fork_amid_a_tool_exchange_can_be_gone_on_with(
    session: Session, repo: SessionRepo, format: Format
) -> None:
    """T-05, starred: a call whose result stays behind gets one that says so."""
    await session.append_message(user("one"))
    call = ToolCall(id="x", name="read", arguments={"path": "a"})
    asked = await session.append_message(AssistantMessage(content=(call,), stop_reason="toolUse"))
    result = ToolResultMessage(
        tool_call_id="x", tool_name="read", content=(TextContent(text="tea"),)
    )
    await session.append_message(result)

    with (await fork_session(session, asked.id, repo=repo, format=format)).session as made:
        await made.append_message(user("go on"))
        sent = pair(convert_to_llm(made.context().messages)).messages

    roles = [message.role for message in sent]
    assert roles == ["user", "assistant", "toolResult", "user"]
    assert isinstance(sent[2], ToolResultMessage)
    assert sent[2].tool_call_id == "x"
    assert sent[2].text != "tea"


async def test_a_fork_before_a_prompt_gives_its_text_back(
    session: Session, repo: SessionRepo
) -> None:
    first = await session.append_message(user("one"))
    second = await session.append_message(user("two"))

    made = await fork_session(session, second.id, before=True, repo=repo)
    with made.session:
        assert made.text == "two"
        assert made.session.leaf() == first.id
    with pytest.raises(PiError, match="before the first"):
        await fork_session(session, None, before=True, repo=repo)


async def test_a_fork_of_nothing_is_an_empty_session(tmp_path: Path, repo: SessionRepo) -> None:
    with Session.create(None, cwd=tmp_path) as session:
        await session.append_message(user("one"))

        with (await fork_session(session, None, repo=repo, name="new")).session as made:
            assert len(made) == 0
            assert made.name == "new"


async def test_a_clone_has_every_branch_and_lane_the_records_and_a_life_of_its_own(
    session: Session, repo: SessionRepo
) -> None:
    first = await session.append_message(user("one"))
    await session.record("operation_started", intent={"kind": "run", "originalPrompt": "x"})
    await session.append_message(user("left"))
    await session.move(first.id)
    if session.format == "v4":
        await session.add_lane("side", first.id)
    await session.set_label(first.id, "start")

    with await clone_session(session, repo=repo, name="copy") as made:
        assert [i for i in made.entry_ids() if not made.is_own(i)][:3] == [
            i for i in session.entry_ids() if not session.is_own(i)
        ][:3]
        assert [r.id for r in made.records()] == [r.id for r in session.records()]
        assert made.lanes.keys() == session.lanes.keys()
        assert dict(made.labels) == dict(session.labels)
        assert (made.name, session.name) == ("copy", None)
        assert made.id != session.id
        await made.append_message(user("only here"))
    assert "only here" not in str(list(session.entries()))


def test_a_new_name_appears_only_when_all_is_written(tmp_path: Path) -> None:
    """A crash amid a fork leaves no half session behind that a list would show."""
    seen: list[list[str]] = []

    def lines() -> Iterator[bytes]:
        for number in range(3):
            seen.append([f for f in os.listdir(tmp_path) if f.endswith(".jsonl")])
            yield b"%d\n" % number

    write_whole(tmp_path / "s.jsonl", lines())

    assert seen == [[], [], []]
    assert (tmp_path / "s.jsonl").read_bytes() == b"0\n1\n2\n"
    assert os.listdir(tmp_path) == ["s.jsonl"]
