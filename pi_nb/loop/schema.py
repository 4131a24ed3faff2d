"""Tools from typed Python functions.

    @tool
    def grow(plant: Annotated[str, "its Latin name"], days: int = 1) -> str:
        "Let a plant grow."

The signature becomes the JSON schema that a model sees, the docstring's first paragraph
its description. The function gets what the annotations promise: a model's JSON is turned
into pydantic models, enums, literals and defaults before it runs.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar, get_args, get_type_hints, overload

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from pi_nb.js import dumps
from pi_nb.messages import ImageContent, TextContent
from pi_nb.models.types import ToolSpec
from pi_nb.own_thread import in_own_thread
from pi_nb.result import PiError
from pi_nb.text import one_line
from pi_nb.wire import Wire

from .arguments import check_arguments
from .json_schema import Schema, schema_of
from .types import AgentTool, ExecutionMode, ToolContext, ToolResult, answer

__all__ = ["check_arguments", "tool"]

T = TypeVar("T")
Function = Callable[..., Any]

ABORT_GRACE = 0.5
"""Seconds that a function in a thread may still use after an abort, to end by itself."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@overload
def tool(function: Function, /) -> AgentTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    label: str = "",
    mode: ExecutionMode | None = None,
    changes: bool = False,
    main_thread: bool = False,
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Callable[[Function], AgentTool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    label: str = "",
    mode: ExecutionMode | None = None,
    changes: bool = False,
    main_thread: bool = False,
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> AgentTool | Callable[[Function], AgentTool]:
    """Make a tool of a typed function, as a decorator with or without arguments.

    `Annotated[str, "text"]` or pydantic's `Field(description="text")` describes a
    parameter. A parameter annotated `ToolContext` is filled in and not in the schema.

    From Python the tool is called as the function it was made of: `grow("Salix")`.

    An async function runs on the loop. A plain function runs in a thread of its own, with
    the caller's context variables. After an abort it has half a second to notice
    `context.signal`; then it is left behind: it runs on to its end, because Python cannot
    stop a thread, and its late result is thrown away. `main_thread=True` runs a plain
    function on the main thread, where somebody serves it.

    It may return a `ToolResult`; a text; None, which becomes a short "Done."; a content
    block; or data, which becomes JSON text, and `details` for views. An exception becomes
    an error result by the loop's hand.

    Args:
        name: What the model calls it: letters, digits, `_`, `-`, at most 64. The function's
            own name by default.
        description: Instead of the docstring's first paragraph.
        label: For people. Empty: the name.
        mode: See `AgentTool`.
        changes: It changes the world, so that approval is asked for it.
        main_thread: See above; for a plain function only.
        prepare: See `AgentTool`.

    Raises:
        PiError: `invalid_argument` where a parameter has no annotation, is `*args` or
            `**kwargs`, has a type without a JSON form, or the name is not allowed.
    """
    # Annotations may name types that exist only where the function is written.
    scope = sys._getframe(1).f_locals

    def make(function: Function) -> AgentTool:
        called = name or str(getattr(function, "__name__", type(function).__name__))
        if not _NAME.fullmatch(called):
            raise PiError(
                "invalid_argument",
                f"{called!r} is no name for a tool: use letters, digits, _ and -, at most 64",
            )
        shape = _Shape(function, called, scope)
        about = description if description is not None else _first_paragraph(function)
        spec = ToolSpec(name=called, description=about, parameters=shape.schema())
        if main_thread and shape.is_async:
            raise PiError(
                "invalid_argument", f"{called}: an async function cannot be a main-thread tool"
            )

        async def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            try:
                call = shape.bind(arguments, context)
            except ValidationError as error:
                return answer(_refusal(error), is_error=True)
            # No await before the function is called: calls of one batch start in order.
            if shape.is_async:
                return _as_result(await _without_exit(call()))
            if main_thread:
                return _as_result(await context.on_main(call))
            return await _in_thread(call, context)

        return AgentTool(
            spec,
            execute,
            label=label,
            mode=mode,
            changes=changes,
            prepare=prepare,
            function=function,
        )

    return make if function is None else make(function)


class _Shape:
    """What a function takes, as a pydantic model whose fields are its parameters."""

    def __init__(self, function: Function, name: str, scope: Mapping[str, Any]) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        self._context: list[str] = []
        self._fields: dict[str, str] = {}
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 (an object may be callable, async)
        )
        fields: dict[str, Any] = {}
        for parameter, annotation in self._annotations(name, scope).items():
            if annotation is ToolContext or ToolContext in get_args(annotation):
                self._context.append(parameter)
                continue
            # Fields get names of ours and the parameter's as alias: `schema`, `copy` or
            # `_x` are fine for a parameter and not for a pydantic field.
            field = f"p{len(fields)}"
            self._fields[parameter] = field
            default = self._signature.parameters[parameter].default
            fields[field] = (annotation, _field(annotation, parameter, default))
        try:
            self._model: type[BaseModel] = create_model(name, **fields)
            self._schema = schema_of(self._model)
        except Exception as error:
            # Pydantic has a dozen exceptions for types it cannot describe, with no base.
            raise PiError(
                "invalid_argument", f"{name}: no JSON schema: {one_line(str(error), 300)}"
            ) from error

    def _annotations(self, name: str, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Each parameter's type, with its `Annotated` parts."""
        given: dict[str, Any] = {}
        for parameter in self._signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise PiError(
                    "invalid_argument", f"{name}: a tool cannot take *{parameter.name}; name each"
                )
            if parameter.annotation is parameter.empty:
                raise PiError("invalid_argument", f"{name}: say the type of {parameter.name!r}")
            given[parameter.name] = parameter.annotation
        inner = inspect.unwrap(self._function)
        inner = getattr(inner, "__func__", inner)
        known = getattr(inner, "__globals__", None) or vars(sys.modules[type(inner).__module__])
        try:
            # The return type is left out: it may be a name for type checkers only.
            holder = SimpleNamespace(__annotations__=given)
            return get_type_hints(holder, known, dict(scope), include_extras=True)
        except (NameError, TypeError, SyntaxError, AttributeError) as error:
            raise PiError(
                "invalid_argument", f"{name}: an annotation is not known: {error}"
            ) from error

    def schema(self) -> Schema:
        return self._schema

    def bind(self, arguments: Mapping[str, Any], context: ToolContext) -> Callable[[], Any]:
        """The call, ready to be made.

        Raises:
            pydantic.ValidationError: the arguments are not what the annotations say.
        """
        values = self._model.model_validate(arguments)
        call = inspect.BoundArguments(self._signature, OrderedDict())
        for parameter in self._signature.parameters:
            call.arguments[parameter] = (
                context if parameter in self._context else getattr(values, self._fields[parameter])
            )
        return lambda: self._function(*call.args, **call.kwargs)


def _field(annotation: Any, parameter: str, default: Any) -> Any:
    """The parameter's field. A default that is itself a pydantic `Field` is kept as such."""
    texts = [part for part in getattr(annotation, "__metadata__", ()) if isinstance(part, str)]
    about = texts[0] if texts else None
    if isinstance(default, FieldInfo):
        return FieldInfo.merge_field_infos(default, Field(alias=parameter))
    options: dict[str, Any] = {"alias": parameter}
    if about is not None:
        options["description"] = about
    return Field(... if default is inspect.Parameter.empty else default, **options)


# --- running --------------------------------------------------------------------------------


async def _without_exit(awaitable: Awaitable[T]) -> T:
    try:
        return await awaitable
    except SystemExit as error:
        raise _exited(error) from error


def _exited(error: SystemExit) -> RuntimeError:
    """`sys.exit` in a tool ends the tool, not the kernel."""
    return RuntimeError(f"the tool called sys.exit({error.code!r})")


async def _in_thread(call: Callable[[], Any], context: ToolContext) -> ToolResult:
    """Run it in a daemon thread, and leave it behind if it does not end after an abort."""

    def work() -> Any:
        try:
            return call()
        except SystemExit as error:
            raise _exited(error) from None
        except StopIteration as error:
            raise RuntimeError(f"the tool raised StopIteration({error.value!r})") from None

    done = in_own_thread(work, f"pi_nb tool {context.tool_name}")
    stop = asyncio.ensure_future(context.signal.wait())
    try:
        await asyncio.wait((done, stop), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            await asyncio.wait((done,), timeout=ABORT_GRACE)
    finally:
        stop.cancel()
        # From here on a late result is thrown away, also where this call was cancelled.
        left_behind = done.cancel()
    if not left_behind:
        return _as_result(done.result())
    return answer(
        f"{context.signal.reason}; the function still runs in its thread, and what it "
        "returns will be thrown away",
        is_error=True,
    )


def _as_result(value: Any) -> ToolResult:
    match value:
        case ToolResult():
            return value
        case None:
            return answer("Done.")
        case str():
            return answer(value)
        case TextContent() | ImageContent():
            return ToolResult(content=(value,))
    data = value.to_wire() if isinstance(value, Wire) else to_jsonable_python(value, fallback=repr)
    return answer(dumps(data), details=data)


def _refusal(error: ValidationError) -> str:
    """What the annotations ask beyond the schema, in a line for each argument."""
    lines = [
        f"`{'.'.join(map(str, part['loc'])) or 'arguments'}`: {part['msg']}"
        for part in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return "\n".join(lines)


def _first_paragraph(function: Function) -> str:
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n")[0].split())
