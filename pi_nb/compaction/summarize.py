"""Asking a model for a summary: one request that fits, one answer that is looked at.

The request goes out by whatever way the harness asks (hooks, retries, limits, usage); here
is what is in it and what comes back. However long the history is, the request fits (`fitting`): it
is read in pieces, each with the summary so far.

    pieces of the transcript --> request --> answer --> checked --> Written
                  ^ the summary so far is the earlier summary of the next piece
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from pi_nb.messages import AssistantMessage, Usage, user
from pi_nb.models.retry import failure_of
from pi_nb.models.types import Model, Request, RequestOptions
from pi_nb.result import PiError
from pi_nb.text import safe_line
from pi_nb.tokens import PI, Estimator

from .fitting import cut_to, fitted, halves
from .prompts import PREFIX_HEADINGS, Prompts
from .sections import has_shape, headings, outside_fences
from .summary import Material, Written

Ask = Callable[[Request], Awaitable[AssistantMessage]]
"""One question and its answer, also where that is a failure."""

ANSWER = 8_192
"""Tokens to leave for the answer where nobody said how long one may be, and at most a quarter
of the window: reasoning counts too, and a summary that is cut off is none (C-12, C-13)."""
MARGIN = 0.8
"""Of what is left for the history, as much is used: estimates err."""
TRIES = 3
"""How often a request that a server found too long is made again, half as long each time."""

_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call")
"""Of a body; servers refuse some of them where no tools are sent (C-19)."""
# As models write calls where nobody offered them tools: in the tags of several families.
_MARKUP = re.compile(
    r"\s*(?:<[|｜]?/?(?:tool[_▁](?:call|use|code|request)|function(?:_call|=)|antml:|invoke\b"
    r"|python_tag|channel[|｜])|\[TOOL_(?:CALL|REQUEST))"
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
    """Those of the session's turns. The limit of the answer is another one: a summary that is
    cut off is none, however short the answers of the session shall be. No tools are sent, and
    nothing that speaks of them."""
    check_shape: bool = True
    estimator: Estimator = PI
    progress: Callable[[int, int], None] = lambda piece, pieces: None
    """Told before each request: its number from 1, and how many there will be."""

    async def __call__(self, material: Material) -> Written:
        material = replace(material, previous=self._carried(material.previous))
        pieces = fitted(material.messages, self._room(material), self.estimator)
        if len(pieces) > 1:
            room = self._room(material, in_pieces=True)
            pieces = fitted(material.messages, room, self.estimator)
        usage, text, done, cuts = Usage(), "", 0, 0
        while done < len(pieces):
            self.progress(done + 1, len(pieces))
            said = await self._asked(material, pieces[done])
            usage += said.usage
            if said.stop_reason == "error" and failure_of(said).kind == "overflow" and cuts < TRIES:
                # The estimate was wrong: what is still to be read is read in halves.
                pieces[done:] = [half for piece in pieces[done:] for half in halves(piece)]
                cuts += 1
                continue
            text, extra = await self._checked(material, pieces[done], said)
            usage += extra
            material, done = replace(material, previous=self._carried(text)), done + 1
        return Written(text, "model", str(self.model), usage)

    def _carried(self, previous: str | None) -> str | None:
        """The summary so far, cut where it alone would fill more than a quarter of the window."""
        most = self.model.context_window // 4
        return cut_to(previous, most, self.estimator) if previous else None

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
                    extra_body={
                        name: value
                        for name, value in self.options.extra_body.items()
                        if name not in _TOOL_FIELDS
                    },
                ),
            )
        )

    @property
    def _most(self) -> int | None:
        """Tokens that an answer may have by the model's own limit; None: nobody said.

        A limit that was set because nobody knows the model's stands in for it, unless it is
        too small for a summary.
        """
        if self.model.max_tokens is not None:
            return self.model.max_tokens
        given = self.options.max_tokens
        return None if given is None else max(given, ANSWER)

    def _limit(self, asked: str) -> int | None:
        """Tokens of the answer at most: what the model may, within what the window leaves."""
        if self._most is None:
            return None
        prompt = self.estimator.weigh_text(asked) + self.estimator.weigh_text(self.prompts.system)
        return max(min(self._most, self.model.context_window - prompt), 1)

    def _room(self, material: Material, *, in_pieces: bool = False) -> int:
        """Tokens of the window that the conversation may take.

        Args:
            in_pieces: Leave room for the summary so far too, as long as it may be.
        """
        window = self.model.context_window
        carried = 0
        if in_pieces:
            carried = window // 4
            material = replace(material, previous="-")
        around = self.prompts.asked(material, "", again=True) + self.prompts.system
        answer = min(self._most or ANSWER, window // 4)
        return int((window - answer - carried - self.estimator.weigh_text(around)) * MARGIN)

    async def _checked(
        self, material: Material, text: str, said: AssistantMessage
    ) -> tuple[str, Usage]:
        """The summary in an answer; one without the headings is asked for once more.

        Returns:
            It, and what asking again took.
        """
        found = _text_of(material, said)
        if not self.check_shape or not _wrong_with(material, found):
            return found, Usage()
        again = await self._asked(material, text, again=True)
        found = _text_of(material, again)
        if wrong := _wrong_with(material, found):
            why = f"twice it was asked for, and the answer {wrong}: {safe_line(found, 60)}"
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


def _wrong_with(material: Material, text: str) -> str:
    """Why a text is no summary, in words; empty: it is one (rule 29).

    What is quoted between fences is no call: a conversation may be about them.
    """
    if any(_MARKUP.match(line) for _, line in outside_fences(text)):
        return "calls a tool in words"
    if has_shape(text):
        return ""
    known = {name.casefold() for name in PREFIX_HEADINGS}
    if material.kind == "turn_prefix" and any(w.casefold() in known for _, _, w in headings(text)):
        return ""
    return "has none of the headings"
