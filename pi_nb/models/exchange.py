"""What one line of a tape holds: a question with its answer, or a tool call with its result.

    {"type":"exchange","order":0,"after":null,"kept":0,"question":{...},"events":[[ms,{...}],...]}
    {"type":"call","order":1,"tool":"read","arguments":{...},"result":{...}}

Requests repeat the conversation, so a line holds only what an earlier one does not: `after`
is the exchange it goes on from (counted from 0), `kept` how many of its messages come
first, and a part that is not in `question` is as it was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from pi_nb.js import dumps
from pi_nb.wire import Wire

from .keys import scrub_keys, scrub_keys_data
from .partial_json import parse_object
from .question import Question, common, digest, marks_of
from .types import End, Model, StreamEvent

Timed = tuple[int, StreamEvent]
"""An event, and the milliseconds since the request when it came."""


class _Block(Wire):
    type: str
    text: str = ""


class _Message(Wire):
    role: str
    content: list[_Block]


class _Tool(Wire):
    name: str


class _Shape(Wire):
    """What the words about a difference rely on; a tape may come from anybody."""

    model: dict[str, Any]
    system_prompt: str
    tools: list[_Tool]
    options: dict[str, Any]
    messages: list[_Message]


_EVENT: TypeAdapter[StreamEvent] = TypeAdapter(Annotated[StreamEvent, Field(discriminator="type")])
_LOOK_BACK = 8
"""How many exchanges are looked at for the one to go on from; lanes take turns."""


@dataclass(frozen=True, slots=True, repr=False)
class Exchange:
    """One question and the events of its answer, of which the last is an `End`."""

    order: int
    """When it began, among everything on the tape."""
    question: Question
    events: tuple[Timed, ...]

    @property
    def digest(self) -> str:
        """The digest of its question."""
        return self.question.digest

    @property
    def model(self) -> Model:
        """Who answered, without an address."""
        return Model.model_validate(self.question.parts["model"])

    def __repr__(self) -> str:
        messages = len(self.question.messages)
        return f"Exchange({self.model}, {messages} messages, {len(self.events)} events)"


@dataclass(frozen=True, slots=True, repr=False)
class RecordedCall:
    """One tool call: its result in wire form, or why it was stopped."""

    order: int
    tool: str
    arguments: dict[str, Any]
    result: dict[str, Any] | None = None
    aborted: str | None = None

    @property
    def digest(self) -> str:
        """The digest of the tool's name and the arguments."""
        return call_digest(self.tool, self.arguments)

    def __repr__(self) -> str:
        return f"RecordedCall({self.tool}{', aborted' if self.result is None else ''})"

    def to_line(self) -> dict[str, Any]:
        """Plain data for the tape."""
        ending = {"aborted": self.aborted} if self.result is None else {"result": self.result}
        return {
            "type": "call",
            "order": self.order,
            "tool": self.tool,
            "arguments": self.arguments,
            **ending,
        }


def call_digest(tool: str, arguments: dict[str, Any]) -> str:
    """What calls are matched by."""
    return digest([tool, arguments])


# --- lines ----------------------------------------------------------------------------------


def exchange_line(exchange: Exchange, earlier: Sequence[Exchange]) -> dict[str, Any]:
    """Plain data for the tape, without what an `earlier` exchange holds already."""
    question = exchange.question
    near = range(max(len(earlier) - _LOOK_BACK, 0), len(earlier))
    kept, after = max(
        ((common(earlier[at].question.marks, question.marks), at) for at in near),
        default=(0, None),
    )
    base = {} if after is None else earlier[after].question.parts
    new = {part: value for part, value in question.parts.items() if base.get(part) != value}
    return {
        "type": "exchange",
        "order": exchange.order,
        "after": after,
        "kept": kept,
        "question": new | {"messages": question.messages[kept:]},
        "events": [[ms, event.to_wire()] for ms, event in exchange.events],
    }


def read_line(line: dict[str, Any], earlier: Sequence[Exchange]) -> Exchange | RecordedCall:
    """What a line holds.

    Raises:
        ValueError: it does not hold what it should; the text says what is wrong.
    """
    try:
        if line["type"] == "call":
            return _read_call(line)
        if line["type"] == "exchange":
            return _read_exchange(line, earlier)
    except KeyError as error:
        raise ValueError(f"{error.args[0]} is missing") from None
    except (TypeError, AttributeError, IndexError, RecursionError):
        raise ValueError("it has another shape than a line of a tape") from None
    raise ValueError("it is neither an exchange nor a call")


def _read_call(line: dict[str, Any]) -> RecordedCall:
    call = RecordedCall(
        int(line["order"]),
        str(line["tool"]),
        dict(line["arguments"]),
        dict(line["result"]) if "result" in line else None,
        None if "result" in line else str(line["aborted"]),
    )
    _ = call.digest  # refused here, and not when it is asked for
    return call


def _read_exchange(line: dict[str, Any], earlier: Sequence[Exchange]) -> Exchange:
    after, kept, said = line["after"], int(line["kept"]), line["question"]
    base = Question({}, (), ()) if after is None else earlier[after].question
    whole = {**base.parts, **said}
    parts = {name: whole[name] for name in ("model", "systemPrompt", "tools", "options")}
    new = tuple(said["messages"])
    try:
        _Shape.model_validate({**parts, "messages": new})
        marks = marks_of(new, base.marks[:kept])
        question = Question(parts, base.messages[:kept] + new, marks)
        events = tuple((int(ms), _EVENT.validate_python(event)) for ms, event in line["events"])
        exchange = Exchange(int(line["order"]), question, events)
        _ = exchange.model, exchange.digest
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}") from None
    if not events or not isinstance(events[-1][1], End):
        raise ValueError("its answer has no end")
    return exchange


# --- keys -----------------------------------------------------------------------------------


def without_keys(events: Iterable[Timed], secrets: Sequence[str]) -> tuple[Timed, ...]:
    """The events with `[key]` in the place of every key, also where one came in pieces.

    A block that held one has all its text in its first piece.
    """
    wires = [(ms, event.to_wire()) for ms, event in events]
    blocks: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for _, wire in wires:
        if "delta" in wire:
            blocks.setdefault((wire["type"], wire["index"]), []).append(wire)
    for (kind, _), pieces in blocks.items():
        text = "".join(piece["delta"] for piece in pieces)
        hidden = _hidden_json(text, secrets) if kind == "call_delta" else scrub_keys(text, secrets)
        if hidden != text:
            for piece in pieces:
                piece["delta"] = ""
            pieces[0]["delta"] = hidden
    return tuple((ms, _hidden_event(wire, secrets)) for ms, wire in wires)


def _hidden_json(text: str, secrets: Sequence[str]) -> str:
    """The text of arguments; it is read first, so that what is hidden takes no quote along."""
    arguments = parse_object(text)
    if arguments is None:
        return scrub_keys(text, secrets)
    hidden = scrub_keys_data(arguments, secrets)
    return text if hidden == arguments else dumps(hidden)


def _hidden_event(wire: dict[str, Any], secrets: Sequence[str]) -> StreamEvent:
    # The tag is ours, the pieces are done: alone, one could look like a key that is none.
    whole = {name: wire[name] for name in ("type", "delta") if name in wire}
    return _EVENT.validate_python(scrub_keys_data(wire, secrets) | whole)
