"""Which tool call a piece belongs to, for servers that number and name them as they like.

The standard is an index and an id at the first piece and the index alone afterwards.
Servers leave either out, use index 0 for every call, start at 1, repeat the name, send
empty strings, or change the id on the way (known faults X-10 and X-11). The rules:

    a known id                          its call
    an index in use, no name            its call, whatever the id
    an index in use, a name             its call, unless the name begins another one
    a new index, or a new id            a new call
    neither                             the call before, unless a name begins another one
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pi_nb.ids import uuid7
from pi_nb.js import dumps

from .partial_json import parse_object
from .types import CallDelta, CallStart

UNREADABLE = "(arguments nested too deep to be read)"


def new_call_id() -> str:
    """An id for a call whose server gave none; not used before in any session."""
    return f"call_{uuid7().replace('-', '')}"


@dataclass(slots=True)
class _Call:
    block: int
    name: str
    pieces: list[str] = field(default_factory=list)

    def complete(self, *, empty: bool) -> bool:
        """Its arguments are a whole object; `empty` says what no text at all counts as."""
        text = "".join(self.pieces).strip()
        return text.endswith("}") and parse_object(text) is not None if text else empty


class CallDeltas:
    """Sorts the pieces of one answer's calls.

    Args:
        next_block: Gives the index in the message's content for a call that begins.
        new_id: Makes an id where the server gave none.
    """

    def __init__(
        self, next_block: Callable[[], int], new_id: Callable[[], str] = new_call_id
    ) -> None:
        self._next_block = next_block
        self._new_id = new_id
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}
        self._current: _Call | None = None

    def __bool__(self) -> bool:
        """A call has begun."""
        return self._current is not None

    def feed(self, piece: Mapping[str, Any]) -> Iterator[CallStart | CallDelta]:
        """The events of one element of `tool_calls`. One that says nothing gives none."""
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        identity, name = _text(piece.get("id")), _text(function.get("name"))
        index = piece.get("index")
        index = index if isinstance(index, int) else None
        arguments = function.get("arguments")
        # A list is no object: as text it is refused, where as nothing the call would run.
        whole = isinstance(arguments, dict | list)
        text = _written(arguments) if whole else _text(arguments)

        call = self._find(identity, index, name)
        if call is None:
            if not (identity or name or text):
                return
            call = _Call(self._next_block(), name)
            identity = identity or self._new_id()
            yield CallStart(index=call.block, id=identity, name=name)
            name = ""
        self._remember(call, identity, index)
        late_name = name if name and not call.name else None
        if text or late_name:
            call.name = call.name or name
            call.pieces.append(text)
            yield CallDelta(index=call.block, delta=text, name=late_name)

    def _find(self, identity: str, index: int | None, name: str) -> _Call | None:
        if identity in self._by_id:
            return self._by_id[identity]
        if index is not None:
            call = self._by_index.get(index)
        else:
            call = None if identity else self._current
        if call is None or not name or not call.name:
            return call
        # A name where there is one already. A new id makes it a new call even if the one
        # before it has no arguments: two calls without parameters look like that.
        begins_another = name != call.name or call.complete(empty=bool(identity))
        return None if begins_another else call

    def _remember(self, call: _Call, identity: str, index: int | None) -> None:
        self._current = call
        if identity:
            self._by_id[identity] = call
        if index is not None:
            self._by_index[index] = call


def _written(arguments: Any) -> str:
    """Arguments that came as an object, as the text they are everywhere else."""
    try:
        return dumps(arguments)
    except ValueError:
        return UNREADABLE


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
