"""Which files a piece of history read and which it changed, from the calls in it (rule 11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pi_nb.messages import AgentMessage, AssistantMessage, ToolCall, ToolResultMessage

_CHANGES = ("write", "edit")


@dataclass(frozen=True, slots=True)
class Files:
    """Paths as the calls had them, sorted; what was changed is not among what was read."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    def details(self) -> dict[str, list[str]]:
        """As a summary's entry keeps them."""
        return {"readFiles": list(self.read), "modifiedFiles": list(self.modified)}


def files_of(messages: Iterable[AgentMessage], known: Iterable[Any] = ()) -> Files:
    """The files of these messages, and of the `details` of earlier summaries.

    Calls that ran inside another tool (`nestedCalls` of its result) count like any other.
    """
    read: set[str] = set()
    modified: set[str] = set()
    for details in known:
        if isinstance(details, dict):
            read.update(_paths(details.get("readFiles")))
            modified.update(_paths(details.get("modifiedFiles")))
    for message in messages:
        # A history of 100,000 messages is looked through for every plan that asks: no lists.
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, ToolCall):
                    _note(block.name, block.arguments, read, modified)
        elif isinstance(message, ToolResultMessage) and message.nested_calls:
            for call in message.nested_calls:
                if isinstance(call, dict):
                    _note(call.get("name"), call.get("arguments"), read, modified)
    return Files(_sorted(read - modified), _sorted(modified))


def _sorted(paths: set[str]) -> tuple[str, ...]:
    """In the order of UTF-16 units, as the original sorts."""
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass")))


def _note(name: Any, arguments: Any, read: set[str], modified: set[str]) -> None:
    """Take down the file of one call, if it has one."""
    if name == "read" or name in _CHANGES:
        path = arguments.get("path") if isinstance(arguments, dict) else None
        if isinstance(path, str):
            (read if name == "read" else modified).add(path)


def _paths(value: Any) -> list[str]:
    return [path for path in value if isinstance(path, str)] if isinstance(value, list) else []
