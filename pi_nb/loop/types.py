"""What a tool is, what it is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pi_nb.abort import AbortSignal
from pi_nb.messages import TextContent, UserBlock, text_of
from pi_nb.models.types import ToolSpec
from pi_nb.wire import Wire

T = TypeVar("T")
ExecutionMode = Literal["parallel", "sequential"]


class ToolResult(Wire):
    """What a tool answers.

    `details` is for people and views, never for the model. `terminate` asks the run to end
    after this batch; it ends only if every result of the batch asks. `is_error` makes the
    model see a failure; the run goes on.
    """

    content: tuple[UserBlock, ...] = ()
    details: Any = None
    terminate: bool = False
    is_error: bool = False

    @property
    def text(self) -> str:
        return text_of(self.content)


def answer(text: str, *, details: Any = None, is_error: bool = False) -> ToolResult:
    """A result of one text block."""
    return ToolResult(content=(TextContent(text=text),), details=details, is_error=is_error)


OnMain = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Run a plain function on the main thread and await what it returns or raises."""


async def no_main_thread(_job: Callable[[], Any]) -> Any:
    """The default where nobody serves the main thread.

    Raises:
        RuntimeError: always; the call becomes an error result that says so.
    """
    raise RuntimeError("nobody serves jobs for the main thread here")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running call may use besides its arguments."""

    call_id: str
    tool_name: str
    signal: AbortSignal
    update: Callable[[ToolResult], None] = lambda _partial: None
    """Show how far it has come. Callable from any thread; only the latest one matters."""
    on_main: OnMain = no_main_thread
    state: Mapping[str, Any] = field(default_factory=dict)
    """What the owner of the loop hands to its tools (the harness: `env`, `session`)."""


Execute = Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True, repr=False)
class AgentTool:
    """A tool: what the model is told, and what runs.

    Made by `@tool` it can still be called as the function it was: `weather("Bergen")`.
    `execute` gets arguments that fit `spec.parameters`. An exception from it is an error
    result with the exception's text.
    """

    spec: ToolSpec
    execute: Execute
    label: str = ""
    mode: ExecutionMode | None = None
    """None: as the loop's own setting. One `sequential` tool makes its whole batch so."""
    changes: bool = False
    """Changes the world (files, processes, the namespace): approval is asked for it."""
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Brings other shapes that models send into the schema's own, before it is checked.

    Pure, for any object at all; the call in the log stays as the model sent it.
    """
    function: Callable[..., Any] | None = field(default=None, compare=False)
    """The Python function it was made of, for calls from Python."""

    @property
    def name(self) -> str:
        return self.spec.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself: no schema, no thread. An async one gives a coroutine.

        Raises:
            TypeError: the tool was not made of a function.
        """
        if self.function is None:
            raise TypeError(f"{self!r} was not made of a function; await its execute(...)")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"AgentTool({self.name})"
