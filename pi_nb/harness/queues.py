"""What waits for its turn: messages to put in, and changes to write at the save point."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

from pi_nb.messages import UserMessage
from pi_nb.result import PiError

from .events import QueueUpdate

QueueName = Literal["steer", "follow_up", "next_turn"]
QueueMode = Literal["one-at-a-time", "all"]


class Queues:
    """Three queues of user messages.

    `steer` goes in before the next request of the run, `follow_up` when the run has nothing
    left to do, `next_turn` before the next prompt.
    """

    def __init__(self, steering: QueueMode, following: QueueMode) -> None:
        self.modes: dict[str, QueueMode] = {"steer": steering, "follow_up": following}
        self._waiting: dict[QueueName, deque[UserMessage]] = {
            "steer": deque(),
            "follow_up": deque(),
            "next_turn": deque(),
        }

    def put(self, name: QueueName, message: UserMessage) -> None:
        self._waiting[name].append(message)

    def take(self, name: QueueName) -> list[UserMessage]:
        """One message or all of them, by the queue's mode; `next_turn` always gives all."""
        waiting = self._waiting[name]
        if waiting and self.modes.get(name, "all") == "one-at-a-time":
            return [waiting.popleft()]
        taken = list(waiting)
        waiting.clear()
        return taken

    def put_back(self, messages: list[UserMessage]) -> None:
        """Give messages back that a run took and could not write: they go before the next
        prompt, in front of what waits for it already."""
        self._waiting["next_turn"].extendleft(reversed(messages))

    def clear(self) -> tuple[int, int]:
        """Drop what steers and follows; returns how many of each."""
        dropped = len(self._waiting["steer"]), len(self._waiting["follow_up"])
        self._waiting["steer"].clear()
        self._waiting["follow_up"].clear()
        return dropped

    def leave_for_next_turn(self) -> bool:
        """A run ended with messages waiting for it: they go before the next prompt."""
        left = self._waiting["steer"] + self._waiting["follow_up"]
        self.clear()
        self._waiting["next_turn"].extend(left)
        return bool(left)

    def update(self) -> QueueUpdate:
        return QueueUpdate(
            steer=len(self._waiting["steer"]),
            follow_up=len(self._waiting["follow_up"]),
            next_turn=len(self._waiting["next_turn"]),
        )


Write = Callable[[], Awaitable[object]]


class PendingWrites:
    """Changes made during a turn, in order, until the turn's own messages are written."""

    def __init__(self) -> None:
        self._writes: deque[Write] = deque()

    def __bool__(self) -> bool:
        return bool(self._writes)

    def add(self, write: Write) -> None:
        self._writes.append(write)

    async def flush(self) -> bool:
        """Write them all. One that the disk refuses stays first in line.

        Returns:
            Whether there was anything.

        Raises:
            PiError: `session`, the disk refused; else what was to be written is wrong, and
                is dropped: it would fail at every later save point too.
        """
        had = bool(self._writes)
        while self._writes:
            write = self._writes.popleft()
            try:
                await write()
            except PiError as error:
                if error.code == "session":
                    self._writes.appendleft(write)
                raise
        return had
