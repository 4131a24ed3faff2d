"""Prompt and tools as a session's system messages declare them.

pi 1.x writes its prompt into the session: the first system message declares it whole, later
ones add text and patch sections and tools, and a compaction restates it. It is prompt state,
not conversation: what is shown here was in force for the program that wrote it, and is never
sent by us.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pi_nb.messages import SystemMessage, text_of

from .context import Step
from .entries import CompactionEntry, Entry, MessageEntry


@dataclass(frozen=True, slots=True)
class Declared:
    """What is in force at the end of a branch; empty where no system message says anything."""

    content: str = ""
    """All texts that were given, oldest first, a blank line between them: a later one is an
    additional instruction."""
    sections: dict[str, str] = field(default_factory=dict)
    """The newest text of each section, in the order in which they came."""
    tools: dict[str, Any] = field(default_factory=dict)
    """Tools by name, as they were declared."""

    def __bool__(self) -> bool:
        return bool(self.content or self.sections or self.tools)

    def as_message(self, timestamp: int) -> SystemMessage:
        """The whole of it in one message, as a compaction restates it."""
        given: dict[str, Any] = {}
        if self.sections:
            given["sections"] = dict(self.sections)
        if self.tools:
            given["tools_added"] = list(self.tools.values())
        return SystemMessage(content=self.content, timestamp=timestamp, **given)


def declared(steps: Sequence[Step], read: Callable[[str], Entry]) -> Declared:
    """What a branch declares, reading only its system messages and newest compactions."""
    patches: list[SystemMessage] = []
    for step in reversed(steps):
        if step.type == "message" and step.role == "system":
            entry = read(step.id)
            if isinstance(entry, MessageEntry) and isinstance(entry.message, SystemMessage):
                patches.append(entry.message)
        elif step.type == "compaction":
            compaction = read(step.id)
            whole = compaction.system_message if isinstance(compaction, CompactionEntry) else None
            if isinstance(whole, SystemMessage):
                patches.append(whole)
                break  # it says all that was in force
    texts, sections, tools = list[str](), dict[str, str](), dict[str, Any]()
    for patch in reversed(patches):
        texts.append(text_of(patch.content))
        for name, text in (patch.sections or {}).items():
            if text is None:
                sections.pop(name, None)
            else:
                sections[name] = text
        for name in map(_name, patch.tools_removed or ()):
            tools.pop(name, None)
        for tool in patch.tools_added or ():
            tools[_name(tool)] = tool
    return Declared("\n\n".join(filter(None, texts)), sections, tools)


def _name(tool: Any) -> str:
    return str(tool.get("name", "")) if isinstance(tool, dict) else str(tool)
