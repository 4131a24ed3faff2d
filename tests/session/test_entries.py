"""One line for each entry: what a notebook shows of a branch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, user
from pi_nb.session.entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
    ThinkingLevelChangeEntry,
    read_entry,
)

ID = "01890a5d-ac96-774b-bcce-b302a1b2c3d4"
CALL = ToolCall(id="c", name="read", arguments={})


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (MessageEntry(id=ID, message=user("Which tests are slow?")),
         "MessageEntry(…a1b2c3d4, user: 'Which tests are slow?')"),
        (MessageEntry(id=ID, message=AssistantMessage(content=(TextContent(text="Hm"), CALL))),
         "MessageEntry(…a1b2c3d4, assistant: 'Hm', 1 call)"),
        (MessageEntry(message=ToolResultMessage(tool_call_id="c", tool_name="ls", content="a")),
         "MessageEntry(not written, toolResult: ls, ok, 'a')"),
        (read_entry({"type": "message", "id": "e1", "message": {"role": "martian"}}),
         "MessageEntry(e1, martian)"),
        (ModelChangeEntry(id=ID, provider="p", model_id="m"), "ModelChangeEntry(…a1b2c3d4, p/m)"),
        (ThinkingLevelChangeEntry(id="e1", thinking_level="low"),
         "ThinkingLevelChangeEntry(e1, low)"),
        (ActiveToolsChangeEntry(id="e1", active_tool_names=("read", "bash")),
         "ActiveToolsChangeEntry(e1, read, bash)"),
        (ActiveToolsChangeEntry(id="e1", active_tool_names=()), "ActiveToolsChangeEntry(e1, none)"),
        (CompactionEntry(id="e1", summary="We did.", tokens_before=12_345),
         "CompactionEntry(e1, 12,345 tokens: 'We did.')"),
        (BranchSummaryEntry(id="e1", summary="We tried."), "BranchSummaryEntry(e1, 'We tried.')"),
        (CustomEntry(id="e1", custom_type="x.y", data={"a": 1}), "CustomEntry(e1, x.y)"),
        (CustomMessageEntry(id="e1", custom_type="note", content="hi"),
         "CustomMessageEntry(e1, note: 'hi')"),
        (ContextEditEntry(id="e1", target_id=ID, replacement=None),
         "ContextEditEntry(e1, leaves out …a1b2c3d4)"),
        (ContextEditEntry(id="e1", target_id="e0", replacement=Replacement(content="x")),
         "ContextEditEntry(e1, replaces e0)"),
        (Entry(type="novelty", id="e1"), "Entry(e1, novelty)"),
    ],
)  # fmt: skip
def test_an_entry_shows_itself_in_one_line(entry: Entry, line: str) -> None:
    assert repr(entry) == str(entry) == line


def test_the_whole_of_an_entry_is_its_wire_form() -> None:
    entry = CustomEntry(id="e1", custom_type="x", data="y" * 1_000)

    assert entry.to_wire()["data"] == "y" * 1_000
    assert len(repr(entry)) < 40


hostile = st.text(st.sampled_from("ab'\\\n\r\t\b\x1b[31m\x07\x9b\u202e\u2028\ud83d\U000e0041"))


@given(hostile, st.sampled_from(["message", "model_change", "compaction", "custom_message", "x"]))
def test_hostile_text_neither_obeys_nor_hides_in_a_repr(text: str, kind: str) -> None:
    data: dict[str, Any] = {
        "type": kind if kind != "x" else text,
        "id": text,
        "message": {"role": "toolResult", "toolCallId": text, "toolName": text, "content": text},
        "provider": text,
        "modelId": text,
        "summary": text,
        "customType": text,
        "content": text,
    }
    if data["type"] not in ("message", "model_change", "compaction", "custom_message"):
        data["type"] = f"~{text}"

    line = repr(read_entry(data))

    assert line.isprintable()
    assert len(line) <= 130
