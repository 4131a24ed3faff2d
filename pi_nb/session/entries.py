"""What stands in a session's tree: one class for each type of entry.

An entry is made without `id`, `parent_id` and `timestamp`; the session gives it those when
it is written. Times are milliseconds here whatever the file's format, and fields that a
newer writer added are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError

from pi_nb.messages import (
    AgentMessage,
    Content,
    UnknownMessage,
    Usage,
    read_message,
    text_of,
)
from pi_nb.text import quoted, safe_line, unquoted
from pi_nb.wire import Brief, Wire


class Entry(Brief):
    """The base of all entries, and the form of one whose type is not known.

    `id` is empty until the entry is written, unless its maker reserved one. `parent_id` is
    None for a root. `lane` is None for an entry that was detached from every lane.
    """

    type: str
    id: str = ""
    parent_id: str | None = None
    timestamp: int = 0
    lane: str | None = None

    def about(self) -> str:
        return f"{_short(self.id)}, {self.gist()}"

    def gist(self) -> str:
        """What it says, in a few words, for the repr."""
        return unquoted(self.type)


class MessageEntry(Entry):
    """Something said. `terminate` marks a tool result that asked the run to end."""

    type: Literal["message"] = "message"
    message: AgentMessage
    terminate: bool | None = None

    def gist(self) -> str:
        if isinstance(self.message, UnknownMessage):
            return self.message.about()
        return f"{self.message.role}: {self.message.about()}"


class ModelChangeEntry(Entry):
    type: Literal["model_change"] = "model_change"
    provider: str
    model_id: str

    def gist(self) -> str:
        return unquoted(f"{self.provider}/{self.model_id}", 60)


class ThinkingLevelChangeEntry(Entry):
    type: Literal["thinking_level_change"] = "thinking_level_change"
    thinking_level: str

    def gist(self) -> str:
        return unquoted(self.thinking_level)


class ActiveToolsChangeEntry(Entry):
    type: Literal["active_tools_change"] = "active_tools_change"
    active_tool_names: tuple[str, ...]

    def gist(self) -> str:
        return unquoted(", ".join(self.active_tool_names), 60) or "none"


class CompactionEntry(Entry):
    """A summary in the place of what came before `first_kept_entry_id`.

    Kept is what lies from that entry up to this one: nothing if it is this entry's own id,
    or not on the branch. `retained_tail`, where given, is what is kept instead.
    """

    type: Literal["compaction"] = "compaction"
    summary: str
    first_kept_entry_id: str = ""
    tokens_before: int = 0
    details: Any = None
    usage: Usage | None = None
    from_hook: bool | None = None
    retained_tail: tuple[AgentMessage, ...] | None = None
    system_message: AgentMessage | None = None
    """pi 1.x: the whole of prompt and tools as they were at this moment."""

    def gist(self) -> str:
        return f"{self.tokens_before:,} tokens: {quoted(self.summary)}"


class BranchSummaryEntry(Entry):
    """What happened on a branch that was left; `from_id` was its leaf."""

    type: Literal["branch_summary"] = "branch_summary"
    summary: str
    from_id: str | None = None
    details: Any = None
    usage: Usage | None = None
    from_hook: bool | None = None

    def gist(self) -> str:
        return quoted(self.summary)


class CustomEntry(Entry):
    """Data of an extension. The model never sees it."""

    type: Literal["custom"] = "custom"
    custom_type: str
    data: Any = None

    def gist(self) -> str:
        return unquoted(self.custom_type)


class CustomMessageEntry(Entry):
    """Something an extension says to the model; shown to people where `display` is true."""

    type: Literal["custom_message"] = "custom_message"
    custom_type: str
    content: Content = ""
    display: bool = True
    details: Any = None

    def gist(self) -> str:
        return f"{unquoted(self.custom_type, 20)}: {quoted(text_of(self.content))}"


class Replacement(Wire):
    """New content of an edited entry: text, or blocks as the role of the target has them."""

    content: Any


class ContextEditEntry(Entry):
    """Changes what the model sees of `target_id`, never what the log says.

    A `replacement` of None leaves the target out. The newest edit on a branch wins.
    """

    type: Literal["context_edit"] = "context_edit"
    target_id: str
    replacement: Replacement | None

    def gist(self) -> str:
        what = "leaves out" if self.replacement is None else "replaces"
        return f"{what} {_short(self.target_id)}"


class LabelEntry(Entry):
    """v3 alone: a label on an entry, or None that takes it away. In v4 this is a fact."""

    type: Literal["label"] = "label"
    target_id: str
    label: str | None = None

    def gist(self) -> str:
        what = quoted(self.label) if self.label else "no label"
        return f"{what} on {_short(self.target_id)}"


class SessionInfoEntry(Entry):
    """v3 alone: the session's name from here on. In v4 this is a fact."""

    type: Literal["session_info"] = "session_info"
    name: str | None = None

    def gist(self) -> str:
        return f"name {quoted(self.name)}" if self.name else "no name"


class UsageEntry(Entry):
    """v3 alone: tokens that were paid for without a message, such as a cache kept warm."""

    type: Literal["usage"] = "usage"
    kind: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage | None = None
    note: str | None = None

    def gist(self) -> str:
        return unquoted(f"{self.kind}: {self.provider}/{self.model}", 60)


class LeafEntry(Entry):
    """v3 alone, of a few older versions: the leaf is `target_id` from here on."""

    type: Literal["leaf"] = "leaf"
    target_id: str | None = None

    def gist(self) -> str:
        return f"to {_short(self.target_id)}" if self.target_id else "to the root"


_TYPES: dict[str, type[Entry]] = {
    "message": MessageEntry,
    "model_change": ModelChangeEntry,
    "thinking_level_change": ThinkingLevelChangeEntry,
    "active_tools_change": ActiveToolsChangeEntry,
    "compaction": CompactionEntry,
    "branch_summary": BranchSummaryEntry,
    "custom": CustomEntry,
    "custom_message": CustomMessageEntry,
    "context_edit": ContextEditEntry,
}
_V3_TYPES: dict[str, type[Entry]] = {
    **_TYPES,
    "label": LabelEntry,
    "session_info": SessionInfoEntry,
    "usage": UsageEntry,
    "leaf": LeafEntry,
}


def read_entry(data: Mapping[str, Any]) -> Entry:
    """An entry from its wire form, as the class of its type; `Entry` for an unknown type.

    Raises:
        pydantic.ValidationError: the fields do not fit the type.
    """
    if data.get("type") == "message" and isinstance(data.get("message"), dict):
        data = {**data, "message": read_message(data["message"])}
    return _TYPES.get(str(data.get("type")), Entry).model_validate(data)


def read_v3_entry(data: Mapping[str, Any]) -> Entry:
    """As `read_entry`, with the types that only v3 has."""
    if data.get("type") == "message" and isinstance(data.get("message"), dict):
        data = {**data, "message": read_message(data["message"])}
    return _V3_TYPES.get(str(data.get("type")), Entry).model_validate(data)


def _short(entry_id: str) -> str:
    """The end of an id: the beginning is the time, and alike in neighbours."""
    if not entry_id:
        return "not written"
    return unquoted(entry_id) if len(entry_id) <= 8 else f"…{unquoted(entry_id[-8:])}"


def why(error: Exception) -> str:
    """What is wrong with a body, on one line and without the body's own words."""
    if not isinstance(error, ValidationError):
        return safe_line(str(error), 200)
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return safe_line(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", 200)
