"""Which result belongs to which call: what a plan must not part, because providers refuse half
of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pi_nb.messages import AssistantMessage, ToolCall, ToolResultMessage
from pi_nb.session.context import ContextItem


class Called(NamedTuple):
    """A call, and the place of the message that made it."""

    place: int
    call: ToolCall


def calls_of(items: Sequence[ContextItem]) -> dict[int, Called]:
    """The place of each result to its call: the nearest one before it with its id.

    A result whose call is not there is left out.
    """
    made: dict[str, Called] = {}
    found: dict[int, Called] = {}
    for place, (_, message) in enumerate(items):
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                made[call.id] = Called(place, call)
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in made:
            found[place] = made[message.tool_call_id]
    return found
