"""Asking a model for a summary: one request that fits, one answer that is looked at.

The request goes out by whatever way the harness asks (hooks, retries, limits, usage); here
is what is in it and what comes back. However long the history is, the request fits: long
tool results are cut first, then the history is read in pieces, each with the summary so far.

    pieces of the transcript --> request --> answer --> checked --> Written
                  ^ the summary so far is the earlier summary of the next piece
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pi_nb.messages import AgentMessage, AssistantMessage, Usage, user
from pi_nb.models.retry import failure_of
from pi_nb.models.types import Model, Request, RequestOptions
from pi_nb.result import PiError
from pi_nb.text import clip, count, safe_line
from pi_nb.tokens import PI, Estimator

from .prompts import PREFIX_HEADINGS, Prompts
from .sections import has_shape, headings
from .summary import Material, Written
from .transcript import LONGEST_RESULT, parts_of

Ask = Callable[[Request], Awaitable[AssistantMessage]]
"""One question and its answer, also where that is a failure."""

ANSWER = 8_192
"""Tokens to leave for the answer where nobody said how long one may be, and at most a quarter
of the window: reasoning counts too, and a summary that is cut off is none (C-12, C-13)."""
MARGIN = 0.8
"""Of what is left for the history, as much is used: estimates err."""
MOST_PIECES = 12
"""A history that would need more is cut harder instead: each piece is a request that costs."""
SMALLEST_PART = 200
"""Characters that stay of one message, however hard is cut."""
TRIES = 3
"""How often a request that a server found too long is made again, half as long each time."""

_MARKUP = re.compile(
    r"^\s*<\|?/?(?:tool_calls?|function_calls?|antml:\w+|invoke|tool_use|tool_call_begin)\b", re.M
)


class SummaryFailed(PiError):
    """No summary, and why. Nothing was written."""

    def __init__(self, material: Material, why: str, said: AssistantMessage | None = None) -> None:
        code = "branch_summary" if material.kind == "branch" else "compaction"
        super().__init__(code, f"No summary: {why}")
        self.said = said
        """The answer that could not be used."""


@dataclass(slots=True)
class ModelSummariser:
    """Writes summaries by asking a model.

    Raises when called:
        SummaryFailed: the answer was empty, cut off, failed, aborted, called tools, or had
            none of the headings twice (rule 29).
    """

    ask: Ask
    model: Model
    prompts: Prompts = field(default_factory=Prompts)
    options: RequestOptions = field(default_factory=RequestOptions)
    """Those of the session's turns; the limit of the answer is set here."""
    check_shape: bool = True
    estimator: Estimator = PI
    progress: Callable[[int, int], None] = lambda piece, pieces: None
    """Told before each request: its number from 1, and how many there will be."""

    async def __call__(self, material: Material) -> Written:
        material = replace(material, previous=self._previous(material.previous))
        pieces = fitted(material.messages, self._room(material), self.estimator)
        usage, text, done, cuts = Usage(), "", 0, 0
        while done < len(pieces):
            self.progress(done + 1, len(pieces))
            said = await self._asked(material, pieces[done])
            usage += said.usage
            if said.stop_reason == "error" and failure_of(said).kind == "overflow" and cuts < TRIES:
                # The estimate was wrong: what is still to be read is read in halves.
                pieces[done:] = [half for piece in pieces[done:] for half in _halves(piece)]
                cuts += 1
                continue
            text, extra = await self._checked(material, pieces[done], said)
            usage += extra
            material, done = replace(material, previous=text), done + 1
        return Written(text, "model", str(self.model), usage)

    def _previous(self, previous: str | None) -> str | None:
        """An earlier summary, cut where it alone would fill more than a quarter of the window."""
        most = self.model.context_window // 4
        if not previous or (weight := self.estimator.weigh_text(previous)) <= most:
            return previous
        return clip(previous, max(len(previous) * most // weight, SMALLEST_PART))

    async def _asked(
        self, material: Material, text: str, *, again: bool = False
    ) -> AssistantMessage:
        asked = self.prompts.asked(material, text, again=again)
        return await self.ask(
            Request(
                system_prompt=self.prompts.system,
                messages=(user(asked),),
                options=self.options.having(
                    max_tokens=self._limit(asked),
                    thinking_level=self.options.thinking_level if self.model.reasoning else "off",
                ),
            )
        )

    def _limit(self, asked: str) -> int | None:
        """Tokens of the answer at most: what the model may, within what the window leaves."""
        most = self.options.max_tokens or self.model.max_tokens
        if most is None:
            return None
        prompt = self.estimator.weigh_text(asked) + self.estimator.weigh_text(self.prompts.system)
        return max(min(most, self.model.context_window - prompt), 1)

    def _room(self, material: Material) -> int:
        """Tokens of the window that the conversation may take."""
        window = self.model.context_window
        answer = min(self.options.max_tokens or self.model.max_tokens or ANSWER, window // 4)
        around = self.prompts.asked(material, "", again=True) + self.prompts.system
        return max(int((window - answer - self.estimator.weigh_text(around)) * MARGIN), 1)

    async def _checked(
        self, material: Material, text: str, said: AssistantMessage
    ) -> tuple[str, Usage]:
        """The summary in an answer; one without the headings is asked for once more.

        Returns:
            It, and what asking again took.
        """
        found = _text_of(material, said)
        if not self.check_shape or _in_shape(material, found):
            return found, Usage()
        again = await self._asked(material, text, again=True)
        found = _text_of(material, again)
        if not _in_shape(material, found):
            why = f"twice the answer had none of the headings: {safe_line(found, 60)}"
            raise SummaryFailed(material, why, again)
        return found, again.usage


def _text_of(material: Material, said: AssistantMessage) -> str:
    """Raises:
    SummaryFailed: the answer is none.
    """

    def failed(why: str) -> SummaryFailed:
        return SummaryFailed(material, why, said)

    match said.stop_reason:
        case "error":
            raise failed(said.error_message or "the model gave no reason")
        case "aborted":
            raise failed("it was aborted")
        case "length":
            raise failed("the answer was cut off at the output limit; a part is not stored")
    if said.tool_calls:
        names = ", ".join(call.name for call in said.tool_calls)
        raise failed(f"the model called a tool instead ({safe_line(names, 40)})")
    text = said.text.strip()
    if not text:
        raise failed("the answer was empty")
    return text


def _in_shape(material: Material, text: str) -> bool:
    if _MARKUP.search(text):
        return False
    if material.kind == "turn_prefix":
        known = {name.casefold() for name in PREFIX_HEADINGS}
        return any(words.casefold() in known for _, _, words in headings(text)) or has_shape(text)
    return has_shape(text)


# --- fitting --------------------------------------------------------------------------------


def fitted(messages: Sequence[AgentMessage], room: int, estimator: Estimator = PI) -> list[str]:
    """The messages read aloud in as few pieces as fit `room` tokens each, at least one piece.

    Long parts are cut so that one fits into half a piece; where more than `MOST_PIECES` would
    be needed, every part is cut harder; where even that is too much, the oldest are left out,
    and the first piece says how many.
    """
    limit = max(room * 2, SMALLEST_PART)  # characters, at 4 a token and half of the room
    while True:
        pieces = _packed(_parts(messages, limit), room, estimator)
        if len(pieces) <= MOST_PIECES:
            return pieces
        if limit <= SMALLEST_PART:
            kept = pieces[-MOST_PIECES:]
            left_out = count(len(pieces) - MOST_PIECES, "piece")
            note = f"[the oldest {left_out} of {len(pieces)} left out: too long to be read]"
            return [f"{note}\n\n{kept[0]}", *kept[1:]]
        limit = max(limit // 4, SMALLEST_PART)


def _parts(messages: Sequence[AgentMessage], limit: int) -> Iterator[str]:
    for message in messages:
        for part in parts_of(message, min(LONGEST_RESULT, limit)):
            yield clip(part, limit)


def _halves(piece: str) -> Sequence[str]:
    """A piece in two, between two parts where there are two of them."""
    middle = piece.find("\n\n", len(piece) // 2)
    middle = len(piece) // 2 if middle < 0 else middle
    return [half for half in (piece[:middle].strip(), piece[middle:].strip()) if half]


def _packed(parts: Iterator[str], room: int, estimator: Estimator) -> list[str]:
    """Parts in order, as many to a piece as fit; a part that alone does not fit is cut."""
    pieces: list[list[str]] = []
    used = room
    for part in parts:
        weight = estimator.weigh_text(part) + 1
        while weight > room and len(part) > SMALLEST_PART:
            part = clip(part, max(len(part) * room // (weight * 2), SMALLEST_PART // 2))
            weight = estimator.weigh_text(part) + 1
        if used + weight > room:
            pieces.append([])
            used = 0
        pieces[-1].append(part)
        used += weight
    return ["\n\n".join(piece) for piece in pieces] or ["(no text)"]
