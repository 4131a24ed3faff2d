"""What a session cost: every request once, summaries included."""

from __future__ import annotations

from pathlib import Path

import pytest

from pi_nb.messages import (
    AssistantMessage,
    Cost,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_nb.session.entries import UsageEntry
from pi_nb.session.session import Session
from pi_nb.session.statistics import NO_MODEL, statistics

pytestmark = pytest.mark.anyio


def _usage(tokens: int) -> Usage:
    return Usage(input=tokens, total_tokens=tokens, cost=Cost(total=tokens / 1000))


def _answer(tokens: int, **fields: object) -> AssistantMessage:
    return AssistantMessage(
        content=(TextContent(text="hm"),),
        provider="p",
        model="m",
        usage=_usage(tokens),
        **fields,  # type: ignore[arg-type]
    )


async def test_summaries_tools_and_failed_answers_are_paid_for_too(session: Session) -> None:
    asked = await session.append_message(UserMessage(content="hi"))
    await session.append_message(_answer(1))
    await session.append_message(_answer(2, stop_reason="error"))
    await session.append_message(
        ToolResultMessage(tool_call_id="c", tool_name="task", usage=_usage(4), is_error=True)
    )
    await session.append_compaction("s", asked.id, 9, usage=_usage(8))
    await session.append_branch_summary(
        "s", None, usage=_usage(16), details={"provider": "p", "model": "small"}
    )

    found = statistics(session)

    assert found.total.usage.total_tokens == 31
    assert found.total.requests == 5
    assert {name: t.usage.total_tokens for name, t in found.by_cause.items()} == {
        "answers": 3,
        "tools": 4,
        "compactions": 8,
        "branch summaries": 16,
    }
    assert {name: t.usage.total_tokens for name, t in found.by_model.items()} == {
        "p/m": 3,
        NO_MODEL: 12,
        "p/small": 16,
    }
    assert found.failed == {"task": 1}


async def test_a_record_beside_an_entry_that_says_its_own_cost_is_not_counted_again(
    session: Session,
) -> None:
    said = await session.append_message(_answer(1))
    silent = await session.append_compaction("s", None, 9)
    await session.record("usage", usage=_usage(1), cause="assistant", entry_id=said.id)
    await session.record("usage", usage=_usage(2), cause="compaction", entry_id=silent.id)
    await session.record("usage", usage=_usage(4), cause="hook")

    found = statistics(session)

    assert found.total.usage.total_tokens == 7
    assert {name: t.usage.total_tokens for name, t in found.by_cause.items()} == {
        "answers": 1,
        "compactions": 2,
        "hook": 4,
    }


async def test_usage_entries_of_pi_are_counted_under_their_own_kind(tmp_path: Path) -> None:
    path = tmp_path / "v3.jsonl"
    with Session.create(path, cwd=tmp_path, format="v3", durability="flush") as session:
        await session.append_message(_answer(1))
        await session.append(
            UsageEntry(kind="cache_warming", provider="p", model="m", usage=_usage(2))
        )

        found = statistics(session)

    assert found.by_cause["cache_warming"].usage.total_tokens == 2
    assert found.by_model["p/m"].usage.total_tokens == 3


async def test_what_is_said_is_counted_over_all_branches(session: Session) -> None:
    first = await session.append_message(UserMessage(content="hi"))
    call = ToolCall(id="c", name="bash", arguments={})
    await session.append_message(AssistantMessage(content=(call, call), stop_reason="toolUse"))
    await session.move(first.id)
    last = await session.append_message(UserMessage(content="again"))

    found = statistics(session)

    assert (found.entries, found.roots, found.branches) == (3, 1, 2)
    assert found.roles == {"user": 2, "assistant": 1}
    assert found.tools == {"bash": 2}
    assert (found.first, found.last) == (first.timestamp, last.timestamp)
    assert found.total.requests == 0, "an answer without usage was not paid for"


def test_an_empty_session_has_nothing(tmp_path: Path) -> None:
    with Session.create(cwd=tmp_path) as session:
        found = statistics(session)

    assert (found.entries, found.branches, found.first) == (0, 0, None)
    assert found.to_data()["usage"]["requests"] == 0
