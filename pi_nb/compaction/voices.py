"""A message as texts, each with the voice that it is said in, and what is found in them.

Who speaks decides what counts: a constraint comes from the user, an error from a program, a
number before a line of output from the tool that numbered it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Literal, NamedTuple

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from pi_nb.text import scrub

from .finds import ERROR, Kind, error_lines, identifiers, numbers, places, without_line_numbers
from .sentences import constraints

Voice = Literal["user", "assistant", "call", "output", "failure", "record"]
"""`call`: the arguments of a tool call, or a command of the user. `failure`: the output of a
tool that failed. `record`: a summary, or what an extension says."""

PATHS = frozenset({"path", "file", "file_path", "filePath", "filename", "notebook_path", "cwd"})
"""Arguments that hold a path, whatever it looks like."""
_DEEPEST = 8
_ENDED = re.compile(r"\W*(?:command |process )?(?:exited with code|exit (?:code|status))", re.I)
_SHORT_FAILURE = 4
"""Lines of a message; more are the output of a program."""


class Spoken(NamedTuple):
    """One text of a message."""

    voice: Voice
    text: str
    is_path: bool = False


class Found(NamedTuple):
    """One find in a message."""

    kind: Kind
    text: str
    said: bool
    """A user, an assistant or a record said it, or it is the path of a call; False: it stands
    in what was written, run or printed."""


def spoken(message: AgentMessage) -> Iterator[Spoken]:
    """The texts of a message in order. Thinking and images are left out (rule 14)."""
    match message:
        case UserMessage():
            yield Spoken("user", text_of(message.content))
        case AssistantMessage():
            yield Spoken("assistant", message.text)
            for call in message.tool_calls:
                yield from _strings(call.arguments)
            if message.error_message:
                yield Spoken("failure", message.error_message)
        case ToolResultMessage():
            yield Spoken("failure" if message.is_error else "output", message.text)
        case BashExecutionMessage() if not message.exclude_from_context:
            yield Spoken("call", message.command)
            yield Spoken("failure" if message.exit_code else "output", message.output)
        case CustomMessage():
            yield Spoken("record", text_of(message.content))
        case BranchSummaryMessage() | CompactionSummaryMessage():
            yield Spoken("record", message.summary)
        case _:
            return


def _strings(value: Any, name: str = "", depth: int = 0) -> Iterator[Spoken]:
    if isinstance(value, str):
        is_path = name in PATHS and "\n" not in value and 0 < len(value) <= 200
        yield Spoken("call", value, is_path)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _strings(inner, str(key), depth + 1)
    elif isinstance(value, list | tuple) and depth < _DEEPEST:
        for inner in value:
            yield from _strings(inner, name, depth + 1)


def found_in(message: AgentMessage, kinds: Collection[Kind]) -> Iterator[Found]:
    """What of these kinds stands in a message, as often as it stands there."""
    for voice, raw, is_path in spoken(message):
        text = scrub(raw)
        if not text.strip():
            continue
        if is_path:
            if "path" in kinds:
                yield Found("path", text.strip().removeprefix("./"), True)
            continue
        said = voice in ("user", "assistant", "record")
        if "constraint" in kinds and voice == "user":
            yield from (Found("constraint", sentence, True) for sentence in constraints(text))
        if "error" in kinds and voice not in ("call", "record"):
            yield from (Found("error", line, said) for line in errors(voice, text))
        if voice in ("output", "failure"):
            text = without_line_numbers(text)
        finds, rest = places(text, hashes="hash" in kinds)
        yield from (Found(find.kind, find.text, said) for find in finds if find.kind in kinds)
        if "identifier" in kinds:
            yield from (Found("identifier", n, said) for n in identifiers(rest, ticked=said))
        if "number" in kinds:
            yield from (Found("number", number, said) for number in numbers(rest))


def errors(voice: Voice, text: str) -> list[str]:
    """The error lines of a text. Of a failure without one: its first line that says something,
    or the last one where it is long, for then a program ran and its end tells how it ended."""
    lines = list(error_lines(text))
    # That a program failed says nothing where it said itself how.
    lines = [line for line in lines if not _ENDED.match(line)] or lines
    if lines or voice != "failure":
        return lines
    said = [line.strip()[:ERROR] for line in text.split("\n") if line.strip()]
    return said[-1:] if len(said) > _SHORT_FAILURE else said[:1]
