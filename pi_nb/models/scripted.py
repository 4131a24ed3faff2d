"""A model that says what it is told to: for notebooks without a key, for tests, for demos.

It streams, reports usage, fails, waits and can be aborted like any other model, and it
gives the same answers every time.

    model = ScriptedModel(["Hello.", reply("I look.", call("read", path="a.py")), "Done."])
    model = ScriptedModel(lambda request: f"You sent {len(request.messages)} messages.")
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.grown import common
from pi_nb.js import utf16_len
from pi_nb.messages import (
    AssistantBlock,
    AssistantMessage,
    LlmMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from pi_nb.result import PiError
from pi_nb.text import count
from pi_nb.tokens import estimate_all, estimate_tokens

from .playback import aborted_within, events_of
from .retry import classify
from .types import (
    End,
    Model,
    Price,
    Request,
    Start,
    StreamEvent,
    UsageUpdate,
)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. Make it with `reply`."""

    blocks: tuple[AssistantBlock, ...] = ()
    stop_reason: StopReason = "stop"
    error: str | None = None
    failure: str | None = None
    delay: float = 0
    usage: Usage | None = None
    retry_after: float | None = None


Answer = Any
"""A text; a `Reply`; a dict in wire form (`content`, `stopReason`, `errorMessage`, `usage`);
or a function of the request, plain or async, that returns one of these."""


def reply(
    *blocks: str | AssistantBlock,
    stop_reason: StopReason | None = None,
    error: str | None = None,
    failure: str | None = None,
    delay: float = 0,
    usage: Usage | None = None,
    retry_after: float | None = None,
) -> Reply:
    """An answer of several blocks, or one that fails.

    Args:
        blocks: Texts, `call(...)`, `thinking(...)`, or content blocks.
        stop_reason: None: `error` if there is an error, `toolUse` if there are calls, else
            `stop`.
        error: What went wrong; the blocks arrive before it.
        failure: The class of the error; None: as `classify` reads the error's words.
        delay: Seconds before the first event.
        usage: None: estimated.
        retry_after: Seconds that the "server" asks to wait.
    """
    content = tuple(TextContent(text=b) if isinstance(b, str) else b for b in blocks)
    if stop_reason is None:
        has_calls = any(isinstance(block, ToolCall) for block in content)
        stop_reason = "error" if error else "toolUse" if has_calls else "stop"
    if stop_reason == "error" and failure is None:
        failure = classify(text=error or "").kind
    return Reply(content, stop_reason, error, failure, delay, usage, retry_after)


def call(name: str, /, id: str | None = None, **arguments: Any) -> ToolCall:
    """A tool call. Without an id it gets `call_1`, `call_2`, ... when it is streamed.

    For an argument called `id` make a `ToolCall` of `pi_nb.messages`.
    """
    return ToolCall(id=id or "", name=name, arguments=arguments)


def raw_call(name: str, text: str, id: str | None = None) -> ToolCall:
    """A tool call whose argument text is streamed as it stands, broken or not."""
    return ToolCall(id=id or "", name=name, arguments={}, raw_arguments=text)


def thinking(text: str, signature: str | None = None) -> ThinkingContent:
    """A block of reasoning."""
    signed = {"thinking_signature": signature} if signature else {}
    return ThinkingContent(thinking=text, **signed)  # type: ignore[arg-type]


class Script:
    """A queue of answers that several models may draw from, in the order they are asked.

    Raises:
        PiError: `invalid_argument` where something in the list is no answer, with its number.
    """

    def __init__(self, answers: Iterable[Answer] | Callable[[Request], Answer]) -> None:
        self._function = answers if callable(answers) else None
        self._queue: deque[Answer] = deque()
        self._given = 0
        if not callable(answers):
            self.add(*_listed(answers))
        self._asked = 0
        self._calls = 0

    @property
    def remaining(self) -> int | None:
        """Answers that were not asked for yet; None where a function gives them."""
        return None if self._function else len(self._queue)

    def add(self, *answers: Answer) -> None:
        """Put answers at the end of the queue: all of them, or none.

        Raises:
            PiError: `invalid_argument` where one is no answer, with its number in the script.
        """
        taken = [_taken(answer, self._given + place) for place, answer in enumerate(answers, 1)]
        self._queue.extend(taken)
        self._given += len(taken)

    def call_id(self) -> str:
        """The next id for a tool call that brings none; unique within the script."""
        self._calls += 1
        return f"call_{self._calls}"

    async def next(self, request: Request) -> Reply:
        """The answer to this request. What a function of the script raises is an error reply."""
        self._asked += 1
        if self._function is None and not self._queue:
            return reply(
                error=f"The script has no answer for request {self._asked}: it held "
                f"{count(self._given, 'answer')}. Give the scripted model one more, or a "
                "function of the request.",
                failure="invalid",
            )
        answer = self._function or self._queue.popleft()
        try:
            while callable(answer):
                answer = answer(request)
                if inspect.isawaitable(answer):
                    answer = await answer
            return _as_reply(answer)
        except Exception as error:
            return reply(
                error=f"The script failed with {type(error).__name__}: {error}", failure="invalid"
            )


def _listed(answers: Iterable[Answer]) -> Iterable[Answer]:
    if isinstance(answers, str | dict | Reply):
        raise PiError("invalid_argument", "answers is a list of answers; put this one in brackets")
    if not isinstance(answers, Iterable):
        found = type(answers).__name__
        raise PiError("invalid_argument", f"answers is a list or a function, not {found}")
    return answers


def _taken(answer: Answer, number: int) -> Answer:
    """The answer, made sure of now: later it would be the model that seems to fail."""
    if callable(answer):
        return answer
    try:
        return _as_reply(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        words = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (TypeError, PiError) as error:
        words = str(error)
    raise PiError("invalid_argument", f"answer {number} of the script is none: {words}")


def _as_reply(answer: Answer) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return reply(answer)
    if isinstance(answer, dict):
        return _from_wire(answer)
    found = type(answer).__name__
    hint = f"; put it into reply(...), as {found} is a part of one" if _is_block(answer) else ""
    raise TypeError(f"an answer is a text, a reply or a dict, not {found}{hint}")


def _is_block(value: Any) -> bool:
    return isinstance(value, TextContent | ThinkingContent | ToolCall)


def _from_wire(data: dict[str, Any]) -> Reply:
    content = data.get("content", ())
    if isinstance(content, list | tuple):
        content = [_with_id(block) for block in content]
    message = AssistantMessage.model_validate({**data, "role": "assistant", "content": content})
    given = "stopReason" in data or "stop_reason" in data
    return reply(
        *message.content,
        stop_reason=message.stop_reason if given else None,
        error=message.error_message,
        usage=message.usage if "usage" in data else None,
    )


def _with_id(block: Any) -> Any:
    if isinstance(block, dict) and block.get("type") == "toolCall":
        return {"id": "", "arguments": {}, **block}
    return block


class ScriptedModel:
    """A `ChatModel` that plays answers.

    Args:
        answers: A list of answers, a function of the request, or a `Script` to share.
        pace: Seconds between two pieces; None: as fast as it is read.
        images, reasoning, context_window, max_tokens, price: What it claims of itself.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[Request], Answer] | Script = (),
        *,
        id: str = "scripted",
        provider: str = "scripted",
        context_window: int = 200_000,
        max_tokens: int | None = None,
        pace: float | None = None,
        images: bool = True,
        reasoning: bool = True,
        price: Price | None = None,
    ) -> None:
        self.script = answers if isinstance(answers, Script) else Script(answers)
        self.pace = pace
        self.requests: list[Request] = []
        """Every request it was asked, oldest first."""
        self._counted: tuple[Sequence[LlmMessage], int] = ((), 0)
        self._model = Model(
            id=id,
            provider=provider,
            api="scripted",
            context_window=context_window,
            max_tokens=max_tokens,
            images=images,
            reasoning=reasoning,
            price=price,
        )

    def __repr__(self) -> str:
        left = self.script.remaining
        return f"ScriptedModel({self._model}, {'a function' if left is None else f'{left} left'})"

    @property
    def model(self) -> Model:
        return self._model

    @property
    def remaining(self) -> int | None:
        """Answers left in its script; None where a function gives them."""
        return self.script.remaining

    def _usage(self, request: Request, answer: Reply) -> Usage:
        """What a provider might report, by rule `pi` (characters / 4).

        Of a request that continues the one before it, only what is new is counted.
        """
        known, tokens = self._counted
        if common(known, request.messages) < len(known):
            known, tokens = (), 0
        tokens += estimate_all(request.messages[len(known) :]).tokens
        self._counted = (request.messages, tokens)
        told = "".join([request.system_prompt, *(tool.to_json() for tool in request.tools)])
        sent = tokens - (-utf16_len(told) // 4)
        said = estimate_tokens(AssistantMessage(content=answer.blocks, timestamp=0))
        return Usage(input=sent, output=said, total_tokens=sent + said)

    async def stream(
        self, request: Request, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        """Play the next answer. An aborted signal takes none from the script."""
        if signal.aborted:
            yield End(reason="aborted")
            return
        self.requests.append(request)
        try:
            answer = await unless_aborted(self.script.next(request), signal)
        except Aborted:
            yield End(reason="aborted")
            return
        if await aborted_within(answer.delay, signal):
            yield End(reason="aborted")
            return
        answer = replace(answer, blocks=tuple(map(self._named, answer.blocks)))
        yield Start(response_model=self._model.id)
        for index, block in enumerate(answer.blocks):
            for event in events_of(index, block):
                if await aborted_within(self.pace or 0, signal):
                    yield End(reason="aborted")
                    return
                yield event
        yield UsageUpdate(usage=answer.usage or self._usage(request, answer))
        yield End(
            reason=answer.stop_reason,
            error_message=answer.error,
            failure=answer.failure,
            retry_after=answer.retry_after,
        )

    def _named(self, block: AssistantBlock) -> AssistantBlock:
        if isinstance(block, ToolCall) and not block.id:
            return block.having(id=self.script.call_id())
        return block
