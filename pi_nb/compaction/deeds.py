"""What happened in a piece of history: what was asked, what was called with which outcome, what
was answered.

    asked -> call, call, call -> answered -> asked -> call ...
                                             open

A request is open until an assistant ends a turn with words. An error stands until the same
work goes well: the same tool on the same file, the same program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pi_nb.js import dumps
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from pi_nb.text import count, one_line

from .finds import word_set
from .voices import PATHS, errors

LOOKS = word_set("read grep ls find glob search cat view")
"""Tools that change nothing: they are counted, not listed, and their failure is soon past."""
_PRINTING = word_set("cat head tail grep rg sed awk less ls find echo wc jq") | {
    *("git diff", "git log", "git show", "git status", "git grep", "git blame")
}
"""Programs that print what others wrote: an error in it is not theirs."""
_PAIRED = word_set("git npm pnpm yarn cargo go docker kubectl uv poetry pip make just gh")
"""Programs of which the word after their name says what they do."""
NO_RESULT, ABORTED = "no result", "aborted"
_TARGET = 120
_RESULT = 100
_GOING = re.compile(r"^\s*cd \S+ *&& *")
_ABORTED = re.compile(
    r"\W*(?:(?:command|operation|request) )?(?:was )?(?:aborted|cancell?ed)\b", re.I
)
_READ = 60_000
"""Characters at the beginning and at the end of an output that are looked through for errors."""


@dataclass(slots=True)
class Deed:
    """One call, or several of the same kind on the same thing."""

    name: str
    target: str
    """The file or the command, on one line; empty where it has none."""
    work: str
    """What it is about: a later deed with the same work that goes well solves its error."""
    place: int
    """Of the message that holds its newest outcome."""
    outcome: str = NO_RESULT
    """`ok`, `failed`, `aborted` or `no result`."""
    errors: list[str] = field(default_factory=list)
    said: str = ""
    """The last line that it printed, where that is short."""
    times: int = 1

    @property
    def looks(self) -> bool:
        return self.name in LOOKS

    @property
    def title(self) -> str:
        return f"{self.name} {self.target}".strip()

    def __str__(self) -> str:
        said = self.errors[0] if self.errors else self.said
        times = f", {count(self.times, 'time')}" if self.times > 1 else ""
        return f"{self.title}: {self.outcome}{times}" + (f", {said}" if said else "")


@dataclass(slots=True)
class Request:
    """What a user asked for."""

    text: str
    place: int
    answer: str | None = None
    """What the assistant ended the turn with; None: it is open."""


@dataclass(slots=True)
class Story:
    """A piece of history, read once."""

    requests: list[Request] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)
    """In the order of their newest outcome, the same kind on the same thing put together."""
    answers: list[tuple[int, str]] = field(default_factory=list)
    """Every text of an assistant with its place."""
    ended: str = ""
    """The words with which an assistant ended a turn for the first time."""
    looks: int = 0
    """Calls that only looked, and went well."""
    stopped: str = ""
    """The failure of the last message, where it is one."""
    solved: frozenset[str] = frozenset()
    """The works that went well at their last try."""
    open: list[Request] = field(default_factory=list)
    """The requests that nothing answered yet."""

    def standing(self) -> list[Deed]:
        """The failures that nothing after them solved, oldest first."""
        newest = self.requests[-1].place if self.requests else 0
        return [
            deed
            for deed in self.deeds
            if deed.outcome == "failed"
            and deed.work not in self.solved
            and (not deed.looks or deed.place > newest)
        ]


def story_of(messages: Sequence[AgentMessage]) -> Story:
    """Read a piece of history."""
    story = Story()
    calls: dict[str, Deed] = {}
    for place, message in enumerate(messages):
        match message:
            case UserMessage():
                if text := request_text(message):
                    story.requests.append(request := Request(text, place))
                    story.open.append(request)
            case AssistantMessage():
                _take_answer(story, place, message)
                for call in message.tool_calls:
                    calls[call.id] = deed = _deed(call, place)
                    story.deeds.append(deed)
            case ToolResultMessage():
                if (known := calls.get(message.tool_call_id)) is not None:
                    _take_result(known, place, message.text, message.is_error)
            case BashExecutionMessage() if not message.exclude_from_context:
                command = one_line(message.command, _TARGET)
                deed = Deed("user ran", command, work_of(message.command), place)
                failed = bool(message.exit_code) or message.cancelled
                _take_result(deed, place, message.output, failed)
                story.deeds.append(deed)
            case _:
                pass
    story.looks = sum(deed.looks and deed.outcome == "ok" for deed in story.deeds)
    story.deeds = list(_grouped(story.deeds))
    last = {deed.work: deed.outcome for deed in story.deeds}
    story.solved = frozenset(work for work, outcome in last.items() if outcome == "ok")
    return story


def request_text(message: UserMessage) -> str:
    """The words of a user; of images alone, how many there are."""
    if text := text_of(message.content).strip():
        return text
    images = sum(isinstance(block, ImageContent) for block in blocks_of(message.content))
    return f"({count(images, 'image')})" if images else ""


def _take_answer(story: Story, place: int, message: AssistantMessage) -> None:
    story.stopped = ""
    if message.stop_reason in ("error", "aborted"):
        story.stopped = one_line(message.error_message or message.stop_reason, 300)
        return
    if not message.text.strip():
        return
    story.answers.append((place, message.text))
    if not message.tool_calls and message.stop_reason != "toolUse":
        story.ended = story.ended or message.text
        for request in story.open:
            request.answer = message.text
        story.open = []


def _take_result(deed: Deed, place: int, output: str, failed: bool) -> None:
    deed.place = place
    ends = output if len(output) <= 2 * _READ else f"{output[:_READ]}\n{output[-_READ:]}"
    prints = deed.looks or deed.work in _PRINTING
    found = [] if prints and not failed else errors("failure" if failed else "output", ends)
    # A test run may fail without its tool failing: what it printed decides.
    deed.outcome = "failed" if failed or found else "ok"
    deed.errors = list(dict.fromkeys(found))
    if failed and len(found) == 1 and _ABORTED.match(found[0]):
        deed.outcome = ABORTED
    last = output[-4 * _RESULT :].rstrip().rpartition("\n")[2].strip()
    if not deed.looks and deed.name not in ("edit", "write") and len(last) <= _RESULT:
        deed.said = last


def _deed(call: ToolCall, place: int) -> Deed:
    path = next((v for k, v in call.arguments.items() if k in PATHS and isinstance(v, str)), None)
    command = call.arguments.get("command")
    if isinstance(command, str):
        shown = one_line(_GOING.sub("", command, count=1), _TARGET)
        return Deed(call.name, shown, work_of(command), place)
    if path is not None:
        target = one_line(path, _TARGET)
        # What could not be edited may be written: the file is what the work is about.
        work = target if call.name in ("edit", "write") else f"{call.name} {target}"
        return Deed(call.name, target, work, place)
    target = one_line(_arguments(call.arguments), _TARGET)
    return Deed(call.name, target, call.name, place)


def _arguments(arguments: dict[str, Any]) -> str:
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0][: 4 * _TARGET]
    return ", ".join(
        f"{name}={dumps(value)[:_TARGET]}" for name, value in list(arguments.items())[:8]
    )


def work_of(command: str) -> str:
    """The program that a command is about: of `cd a && npm run check | tail`, `npm run check`.

    Of several commands in a row it is the last one, for its outcome is what is seen.
    """
    head = command.strip().split("\n", 1)[0][:2_000]
    last = next((p for p in reversed(head.replace(";", "&&").split("&&")) if p.strip()), head)
    words = [word for word in last.split("|")[0].split() if "=" not in word]
    if not words:
        return "command"
    if words[0] not in _PAIRED:
        return words[0].rpartition("/")[2] or words[0]
    options = 3 if len(words) > 1 and words[1] == "run" else 2
    return " ".join(word for word in words[:options] if not word.startswith("-"))


def _grouped(deeds: Sequence[Deed]) -> Iterator[Deed]:
    """The same tool on the same thing as one deed, with its newest outcome and its place."""
    last: dict[str, Deed] = {}
    times: dict[str, int] = {}
    for deed in deeds:
        title = deed.title
        times[title] = times.get(title, 0) + 1
        last.pop(title, None)
        last[title] = deed
    for title, deed in last.items():
        deed.times = times[title]
        yield deed
