"""The agents of this process: one a session file, and one that the magics use."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import Protocol

from pi_nb.session.session import Session


class Conversation(Protocol):
    """An `Agent`, as far as its place among the others goes."""

    @property
    def session(self) -> Session: ...

    def close(self) -> None: ...


_lock = threading.Lock()
# Weak: an agent that nobody holds is closed with its session, not kept.
_open: weakref.WeakSet[Conversation] = weakref.WeakSet()
_held: set[Conversation] = set()
_current: Conversation | None = None


def current() -> Conversation | None:
    """The agent that the magics use where no variable `agent` says otherwise: the newest one
    made, unless it was closed."""
    return _current


def agents() -> list[Conversation]:
    """The agents that are open in this process, by their sessions' ids: oldest first."""
    with _lock:
        return sorted(_open, key=lambda agent: agent.session.id)


def make_current(agent: Conversation) -> None:
    """Make the magics use this agent."""
    global _current
    with _lock:
        _open.add(agent)
        _current = agent


def hold(agent: Conversation) -> None:
    """Keep an agent open until it is closed, whoever holds it.

    For those that the magics made: `%agent use NAME` goes back to one that no variable
    names any more.
    """
    with _lock:
        _held.add(agent)


def forget(agent: Conversation) -> None:
    """The agent was closed."""
    global _current
    with _lock:
        _open.discard(agent)
        _held.discard(agent)
        if _current is agent:
            _current = None


def on_file(path: Path) -> list[Conversation]:
    """The open agents whose session is this file: one at most, unless two threads raced."""
    with _lock:
        return [agent for agent in _open if agent.session.path == path]
