"""What Hypothesis draws for more than one folder: texts, messages, entries."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_nb.session.entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
)
from pi_nb.wire import Wire

W = TypeVar("W", bound=Wire)

# Line ends to Python that are none to JSON, and characters outside the first plane.
AWKWARD = '\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\r\n\x00\\"😀中é'

texts = st.text(
    st.one_of(st.characters(exclude_categories=("Cs",)), st.sampled_from(AWKWARD)), max_size=30
)
"""Any text that UTF-8 can hold."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def made(cls: type[W], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[W]:
    """Values of a wire class. `builds` would draw required fields twice, by name and alias."""
    return st.fixed_dictionaries(fields).map(lambda drawn: cls(**drawn))


_when = st.integers(0, 2**45)
_blocks = st.lists(made(TextContent, text=texts), max_size=3).map(tuple)
_calls = made(
    ToolCall,
    id=st.sampled_from(["c1", "c2"]),
    name=st.sampled_from(["read", "bash"]),
    arguments=st.dictionaries(texts, json_values, max_size=2),
)

messages: st.SearchStrategy[AgentMessage] = st.one_of(
    made(UserMessage, content=texts | _blocks, timestamp=_when),
    made(
        AssistantMessage,
        content=st.lists(made(TextContent, text=texts) | _calls, max_size=3).map(tuple),
        provider=st.sampled_from(["", "p", "q"]),
        model=st.sampled_from(["m1", "m2"]),
        stop_reason=st.sampled_from(["stop", "error", "aborted", "toolUse"]),
        timestamp=_when,
    ),
    made(
        ToolResultMessage,
        tool_call_id=st.sampled_from(["c1", "c2"]),
        content=_blocks,
        is_error=st.booleans(),
        timestamp=_when,
    ),
    made(BashExecutionMessage, command=texts, output=texts, timestamp=_when),
)

bodies: st.SearchStrategy[Entry] = st.one_of(
    made(MessageEntry, message=messages),
    made(ModelChangeEntry, provider=st.just("p"), model_id=st.sampled_from(["m1", "m3"])),
    made(ThinkingLevelChangeEntry, thinking_level=st.sampled_from(["off", "high"])),
    made(ActiveToolsChangeEntry, active_tool_names=st.just(("read",))),
    made(CustomEntry, custom_type=texts, data=json_values),
    made(CustomMessageEntry, custom_type=texts, content=texts),
    made(BranchSummaryEntry, summary=texts, from_id=st.none()),
)
"""Entries as a caller hands them in, without those that speak of other entries."""
