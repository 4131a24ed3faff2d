"""Asking a model and collecting what it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.messages import AssistantMessage
from pi_nb.models.fold import Fold
from pi_nb.models.types import ChatModel, End, Request, StreamEvent


@dataclass(frozen=True)
class Said:
    """All events of one stream, and the message they make."""

    events: list[StreamEvent]
    message: AssistantMessage

    @property
    def end(self) -> End:
        assert isinstance(self.events[-1], End)
        return self.events[-1]


Ask = Callable[..., Awaitable[Said]]


async def _ask(
    model: ChatModel,
    request: Request | None = None,
    signal: AbortSignal | None = None,
    on_event: Callable[[StreamEvent], None] = lambda _event: None,
) -> Said:
    events: list[StreamEvent] = []
    fold = Fold(model.model)
    async for event in model.stream(request or Request(), signal or AbortSignal()):
        assert not events or not isinstance(events[-1], End), "something came after the end"
        events.append(event)
        fold.apply(event)
        on_event(event)
    assert fold.end is not None, "a stream ends with an End"
    return Said(events, fold.message())


@pytest.fixture(scope="session")
def ask() -> Ask:
    return _ask
