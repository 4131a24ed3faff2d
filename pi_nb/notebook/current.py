"""The agents of this process: one a session file, and one that the magics use."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from pi_nb.session.session import Session


class Conversation(Protocol):
    """An `Agent`, as far as its place among the others goes."""

    @property
    def session(self) -> Session: ...

    def close(self) -> None: ...


_lock = threading.Lock()
_open: list[Conversation] = []
_current: Conversation | None = None


def current() -> Conversation | None:
    """The agent that the magics use where no variable `agent` says otherwise: the newest one
    made, unless it was closed."""
    return _current


def make_current(agent: Conversation) -> None:
    """Make the magics use this agent."""
    global _current
    with _lock:
        if agent not in _open:
            _open.append(agent)
        _current = agent


def forget(agent: Conversation) -> None:
    """The agent was closed."""
    global _current
    with _lock:
        if agent in _open:
            _open.remove(agent)
        if _current is agent:
            _current = None


def on_file(path: Path) -> list[Conversation]:
    """The open agents whose session is this file: one at most, unless two threads raced."""
    with _lock:
        return [agent for agent in _open if agent.session.path == path]
