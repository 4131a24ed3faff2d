"""What Tab offers after `%agent`: commands, models, labels and ids, levels, tools, open agents.

Nothing is made and nobody is asked: only what is known already is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pi_nb.models.registry import last_list
from pi_nb.models.types import THINKING_LEVELS
from pi_nb.session.session import Session

from .agent import Agent
from .current import agents

KEY = "%agent"
HOOK = "complete_command"
NEWEST = 30
"""Entries whose ids are offered, the newest of the branch."""


def candidates(line: str, commands: Iterable[str], found: Agent | None) -> list[str]:
    """All words that could stand at the end of a line, whatever has been typed of it.

    Args:
        line: From `%agent` up to the cursor.
        found: The agent that the magics would use, if there is one.
    """
    words = line.split()[1:]
    if not line.endswith((" ", "\t")) and words:
        words.pop()  # the word being typed
    if not words:
        return [*commands, "-h"]
    match words[0]:
        case "use":
            return [name for agent in agents() for name in _names(agent.session)]
        case "thinking":
            return [*THINKING_LEVELS]
        case "tools" if found is not None:
            return ["--on", "--off", *dict.fromkeys([*(t.name for t in found.tools), "python"])]
        case "model" if found is not None:
            return [*last_list(found.model.base_url)]
        case "lane" if found is not None:
            return [*found.lanes, "--new"]
        case "goto" | "fork" if found is not None:
            return _entries(found)
        case "label" if found is not None:
            return _entries(found) if len(words) > 1 else [*found.session.labels.values()]
        case _:
            return ["-h"]


def _names(session: Session) -> list[str]:
    return [*([session.name] if session.name else []), session.id[-12:]]


def _entries(found: Agent) -> list[str]:
    session = found.session
    ids = session.branch_ids(found.harness.lane)[-NEWEST:]
    return [*session.labels.values(), *(id[-8:] for id in reversed(ids))]


class Completion:
    """The hook in one shell."""

    def __init__(self, ip: Any, commands: Iterable[str], found: Callable[[], Agent | None]) -> None:
        self._ip = ip
        self._commands = tuple(commands)
        self._found = found

    def install(self) -> None:
        self._ip.set_hook(HOOK, self._complete, str_key=KEY)

    def uninstall(self) -> None:
        """IPython has no way to take a hook back: its table is what it is kept in."""
        self._ip.strdispatchers[HOOK].strs.pop(KEY, None)

    def _complete(self, _ip: Any, event: Any) -> list[str]:
        known = candidates(event.line, self._commands, self._found())
        # A name with a space would be two words.
        return [word for word in known if word.startswith(event.symbol) and " " not in word]
