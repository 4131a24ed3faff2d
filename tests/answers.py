"""Recorded answers of providers, and an adapter's reader fed with them in any pieces.

A fixture is what a server sends as the body of a response, byte for byte, in a file
`models/fixtures/<api>/<name>.sse` (`.json` where it is one document). They are written by hand
after the providers' published descriptions of their streams.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from pi_nb.messages import AssistantMessage
from pi_nb.models.adapter import read
from pi_nb.models.answer import Answer
from pi_nb.models.fold import Fold
from pi_nb.models.http import HttpFailure
from pi_nb.models.types import End, Model, StreamEvent

FOLDER = Path(__file__).parent / "models" / "fixtures"
_OWN_ID = re.compile(r"call_[0-9a-f]{32}")


def fixtures(api: str = "*") -> list[Path]:
    """The files of one wire format, or of all."""
    return sorted(path for path in FOLDER.glob(f"{api}/*") if path.suffix in (".sse", ".json"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


async def heard(
    reader: Callable[[], Answer], pieces: Iterable[bytes | HttpFailure]
) -> list[StreamEvent]:
    """The events of an answer that comes in these pieces; ids that we made up count up."""

    async def answer() -> AsyncIterator[bytes | HttpFailure]:
        for piece in pieces:
            yield piece

    events = [event async for event in read(answer(), reader())]
    made: dict[str, str] = {}
    for at, event in enumerate(events):
        identity = getattr(event, "id", None)
        if isinstance(identity, str) and _OWN_ID.fullmatch(identity):
            known = made.setdefault(identity, f"made-{len(made)}")
            events[at] = event.having(id=known)  # type: ignore[union-attr]
    return events


def message_of(events: Iterable[StreamEvent]) -> AssistantMessage:
    """What they come to."""
    fold = Fold(Model(id="m", provider="p"))
    for event in events:
        fold.apply(event)
    return fold.message().having(timestamp=0)


def end_of(events: list[StreamEvent]) -> End:
    assert isinstance(events[-1], End)
    assert not any(isinstance(event, End) for event in events[:-1])
    return events[-1]
