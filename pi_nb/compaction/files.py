"""Which files a piece of history read and which it changed, from the calls in it (rule 11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pi_nb.messages import AgentMessage, AssistantMessage, ToolResultMessage

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
        for name, arguments in _calls(message):
            path = arguments.get("path") if isinstance(arguments, dict) else None
            if not isinstance(path, str):
                continue
            if name in _CHANGES:
                modified.add(path)
            elif name == "read":
                read.add(path)
    return Files(_sorted(read - modified), _sorted(modified))


def _sorted(paths: set[str]) -> tuple[str, ...]:
    """In the order of UTF-16 units, as the original sorts."""
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass")))


def _calls(message: AgentMessage) -> Iterable[tuple[str, Any]]:
    if isinstance(message, AssistantMessage):
        return [(call.name, call.arguments) for call in message.tool_calls]
    if isinstance(message, ToolResultMessage):
        nested = [call for call in message.nested_calls or () if isinstance(call, dict)]
        return [(str(call.get("name")), call.get("arguments")) for call in nested]
    return []


def _paths(value: Any) -> list[str]:
    return [path for path in value if isinstance(path, str)] if isinstance(value, list) else []
