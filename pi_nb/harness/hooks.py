"""Hooks: functions that may change what happens, in the order they were registered.

    before_agent_start(BeforeAgentStart)  -> StartPatch | None     messages, system prompt
    context(ContextHook)                  -> messages | None       what the request holds
    before_provider_request(RequestHook)  -> Request | None        the question as a whole
    before_provider_payload(PayloadHook)  -> dict | None           the body that is sent
    tool_call(ToolCallHook)               -> Blocked | None        block a call
    tool_result(ToolResultHook)           -> ResultPatch | None    change a result
    session_before_compact(BeforeCompact) -> {"cancel": True} | {"summary": text} | None
    session_before_tree(BeforeTree)       -> {"cancel": True} | {"summary": text} | None

A hook is a plain or an async function. A tool hook that raises fails its call; any other
that raises fails the operation with code `hook`. An answer of another kind counts as raised:
a `True` that was meant to block a call must not let it run.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from pi_nb.compaction.plan import Plan
from pi_nb.loop.calls import Blocked
from pi_nb.loop.types import ToolResult
from pi_nb.messages import AgentMessage, CustomMessage, ToolCall, UserBlock, UserMessage
from pi_nb.models.types import Model, Request
from pi_nb.result import PiError

T = TypeVar("T")
HookName = Literal[
    "before_agent_start",
    "context",
    "before_provider_request",
    "before_provider_payload",
    "tool_call",
    "tool_result",
    "session_before_compact",
    "session_before_tree",
]
HOOKS: tuple[str, ...] = get_args(HookName)


@dataclass(frozen=True, slots=True)
class BeforeAgentStart:
    """A prompt is about to run."""

    message: UserMessage
    system_prompt: str


@dataclass(frozen=True, slots=True)
class StartPatch:
    """`system_prompt` holds for this run; `messages` follow the prompt in the log."""

    system_prompt: str | None = None
    messages: tuple[CustomMessage | UserMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextHook:
    """The messages of a request, before they are converted for the provider."""

    messages: Sequence[AgentMessage]


@dataclass(frozen=True, slots=True)
class RequestHook:
    """A request as it would go to the adapter, converted and paired."""

    request: Request
    model: Model


@dataclass(frozen=True, slots=True)
class PayloadHook:
    """The JSON body of a request, in the provider's own form; no key and no header is in it."""

    payload: dict[str, Any]
    model: Model


@dataclass(frozen=True, slots=True)
class ToolCallHook:
    """A call whose arguments fit, before it runs."""

    call: ToolCall
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResultHook:
    """What a call that ran gave back."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class ResultPatch:
    """Fields that are not None replace those of the result."""

    content: tuple[UserBlock, ...] | None = None
    details: Any = None
    is_error: bool | None = None
    terminate: bool | None = None

    def on(self, result: ToolResult) -> ToolResult:
        """The result with this patch applied."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return result.having(**{k: v for k, v in fields.items() if v is not None})


@dataclass(frozen=True, slots=True)
class BeforeTree:
    """The leaf is about to move."""

    target_id: str | None
    """None: before the first entry."""
    leaf_id: str | None


@dataclass(frozen=True, slots=True)
class BeforeCompact:
    """A plan is about to be summarised."""

    plan: Plan
    trigger: str
    """`manual`, `threshold`, `overflow`."""
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What the hooks before a summary said together."""

    cancel: bool = False
    summary: str | None = None


Handler = Callable[[Any], Any]


class Hooks:
    """The registered handlers, by name."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {name: [] for name in HOOKS}

    def add(self, name: str, handler: Handler) -> Callable[[], None]:
        """Register; returns a function that takes the handler out again.

        Raises:
            PiError: `invalid_argument`, there is no such hook.
        """
        if name not in self._handlers:
            known = ", ".join(HOOKS)
            raise PiError("invalid_argument", f"No hook is named {name!r}. Hooks: {known}.")
        handlers = self._handlers[name]
        handlers.append(handler)

        def remove() -> None:
            if handler in handlers:
                handlers.remove(handler)

        return remove

    def any(self, name: HookName) -> bool:
        return bool(self._handlers[name])

    async def start(self, event: BeforeAgentStart) -> StartPatch:
        """All patches together: the last system prompt wins, messages add up."""
        prompt: str | None = None
        messages: list[CustomMessage | UserMessage] = []
        async for patch in self._checked("before_agent_start", event, StartPatch):
            prompt = prompt if patch.system_prompt is None else patch.system_prompt
            messages.extend(patch.messages)
        return StartPatch(prompt, tuple(messages))

    async def context(self, messages: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        """Each handler sees what the one before it left."""
        for handler in tuple(self._handlers["context"]):
            asked = self._checked("context", ContextHook(messages), Sequence, (handler,))
            async for changed in asked:
                messages = changed
        return messages

    async def tool_call(self, event: ToolCallHook) -> Blocked | None:
        """The first handler that blocks decides."""
        for handler in tuple(self._handlers["tool_call"]):
            if (blocked := await _ask(handler, event, Blocked)) is not None:
                return blocked
        return None

    async def tool_result(self, event: ToolResultHook) -> ToolResult:
        """Patches one after another; each handler sees what the one before it left."""
        result = event.result
        for handler in tuple(self._handlers["tool_result"]):
            patch = await _ask(handler, ToolResultHook(event.call, result), ResultPatch)
            result = result if patch is None else patch.on(result)
        return result

    async def request(self, request: Request, model: Model) -> Request:
        """Each handler sees what the one before it left."""
        for handler in tuple(self._handlers["before_provider_request"]):
            event = RequestHook(request, model)
            async for changed in self._checked(
                "before_provider_request", event, Request, (handler,)
            ):
                request = changed
        return request

    async def payload(self, payload: dict[str, Any], model: Model) -> dict[str, Any]:
        """Each handler sees what the one before it left."""
        for handler in tuple(self._handlers["before_provider_payload"]):
            event = PayloadHook(payload, model)
            async for changed in self._checked("before_provider_payload", event, dict, (handler,)):
                payload = changed
        return payload

    async def before_summary(self, event: BeforeTree | BeforeCompact) -> Said:
        """The first handler that cancels ends it; of the summaries given the last one holds.

        Raises:
            PiError: `hook`, a handler raised, or gave a summary that is no text.
        """
        summary: str | None = None
        name: HookName = (
            "session_before_tree" if isinstance(event, BeforeTree) else "session_before_compact"
        )
        async for answer in self._checked(name, event, dict):
            if answer.get("cancel"):
                return Said(cancel=True)
            given = answer.get("summary", summary)
            if given is not None and (not isinstance(given, str) or not given.strip()):
                raise PiError("hook", f"A {name} hook failed: its summary is no text")
            summary = given
        return Said(summary=summary)

    async def _checked(
        self,
        name: HookName,
        event: Any,
        kind: type[Any],
        handlers: Sequence[Handler] | None = None,
    ) -> AsyncIterator[Any]:
        """What each handler says to one event, None left out.

        Raises:
            PiError: `hook`, a handler raised.
        """
        for handler in tuple(self._handlers[name]) if handlers is None else handlers:
            try:
                answer = await _ask(handler, event, kind)
            except Exception as error:
                raise PiError("hook", f"A {name} hook failed: {error}") from error
            if answer is not None:
                yield answer


async def _ask(handler: Handler, event: Any, kind: type[T]) -> T | None:
    """Raises:
    TypeError: the answer is no `kind`; and whatever the handler raises.
    """
    answer = handler(event)
    answer = await answer if inspect.isawaitable(answer) else answer
    if answer is not None and (not isinstance(answer, kind) or isinstance(answer, str)):
        raise TypeError(f"it gave {type(answer).__name__} instead of {kind.__name__} or None")
    return answer
