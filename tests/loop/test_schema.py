"""Tools from typed functions: what the model is told, what the function is given."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import enum
import sys
import threading
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from pi_nb.abort import AbortSignal
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.messages import ImageContent
from pi_nb.result import PiError

pytestmark = pytest.mark.anyio


def context(signal: AbortSignal | None = None, **more: Any) -> ToolContext:
    return ToolContext(call_id="c1", tool_name="t", signal=signal or AbortSignal(), **more)


async def run(made: AgentTool, **arguments: Any) -> ToolResult:
    return await made.execute(arguments, context())


class Edit(BaseModel):
    """One change."""

    old: str = Field(description="what is there")
    title: str = ""


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Size(enum.Enum):
    SMALL = "small"
    BIG = "big"


# --- what the model is told -----------------------------------------------------------------


def test_a_signature_and_a_docstring_become_what_the_model_is_told() -> None:
    @tool
    def grow(plant: Annotated[str, "its Latin name"], days: int = 1, where: str | None = None):
        """Let a plant grow
        for some days.

        More for people.
        """

    assert grow.name == "grow"
    assert grow.spec.description == "Let a plant grow for some days."
    assert grow.spec.parameters == {
        "type": "object",
        "properties": {
            "plant": {"type": "string", "description": "its Latin name"},
            "days": {"type": "integer", "default": 1},
            "where": {"type": "string"},
        },
        "required": ["plant"],
    }


def test_nested_types_are_inlined_and_a_property_called_title_stays() -> None:
    @tool
    def change(edits: list[Edit], mode: Literal["a", "b"] = "a") -> None: ...

    properties = change.spec.parameters["properties"]
    assert "$defs" not in change.spec.parameters
    assert properties["edits"]["items"] == {
        "description": "One change.",
        "type": "object",
        "properties": {
            "old": {"type": "string", "description": "what is there"},
            "title": {"type": "string", "default": ""},
        },
        "required": ["old"],
    }
    assert properties["mode"] == {"default": "a", "enum": ["a", "b"], "type": "string"}


def test_a_type_that_contains_itself_keeps_its_definition() -> None:
    @tool
    def plant(tree: Tree) -> None: ...

    assert plant.spec.parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert set(plant.spec.parameters["$defs"]) == {"Tree"}


def test_the_context_is_not_part_of_the_schema() -> None:
    @tool
    def look(where: str, ctx: ToolContext) -> str:
        return ctx.call_id

    assert list(look.spec.parameters["properties"]) == ["where"]


def test_names_that_pydantic_keeps_for_itself_are_fine_for_parameters() -> None:
    @tool
    def odd(schema: str, copy: int, _hidden: bool, model_config: str = "") -> str:
        return f"{schema} {copy} {_hidden}"

    assert list(odd.spec.parameters["properties"]) == ["schema", "copy", "_hidden", "model_config"]


def test_what_the_decorator_says_wins() -> None:
    @tool(name="Grow-2", description="Short.", label="Growing", mode="sequential", changes=True)
    def grow() -> None:
        """Long."""

    assert (grow.name, grow.spec.description, grow.label) == ("Grow-2", "Short.", "Growing")
    assert grow.mode == "sequential"
    assert grow.changes


def _unannotated(x):  # type: ignore[no-untyped-def]
    return x


def _star(*x: int) -> None: ...


def _unknown(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def _no_json(x: threading.Lock) -> None: ...  # type: ignore[valid-type]


@pytest.mark.parametrize("function", [_unannotated, _star, _unknown, _no_json])
def test_a_function_that_no_schema_can_describe_is_refused_at_once(function: Any) -> None:
    with pytest.raises(PiError) as refused:
        tool(function)

    assert refused.value.code == "invalid_argument"


def test_a_name_that_no_provider_takes_is_refused() -> None:
    with pytest.raises(PiError, match="no name for a tool"):
        tool(lambda: None)


# --- what the function is given, and what it gives back -------------------------------------


async def test_the_function_gets_what_its_annotations_promise() -> None:
    seen: list[Any] = []

    @tool
    def see(edits: list[Edit], size: Size, pair: tuple[int, int], more: int = 7, /) -> None:
        seen.extend([edits, size, pair, more])

    result = await run(see, edits=[{"old": "x"}], size="big", pair=[1, 2])

    assert seen == [[Edit(old="x")], Size.BIG, (1, 2), 7]
    assert result == answer("Done.")


async def test_what_only_the_annotation_knows_is_refused_in_words() -> None:
    @tool
    def see(n: Annotated[int, Field(gt=3)]) -> None: ...

    result = await run(see, n=1)

    assert result.is_error
    assert result.text == "`n`: Input should be greater than 3"


@pytest.mark.parametrize(
    ("value", "text", "details"),
    [
        ("plain", "plain", None),
        ({"a": [1, 2.0]}, '{"a":[1,2]}', {"a": [1, 2.0]}),
        ([Size.BIG], '["big"]', ["big"]),
        (3, "3", 3),
        (False, "false", False),
        (Edit(old="x"), '{"old":"x","title":""}', {"old": "x", "title": ""}),
    ],
)
async def test_data_becomes_json_text_and_details(value: Any, text: str, details: Any) -> None:
    @tool
    async def give() -> Any:
        return value

    result = await run(give)

    assert (result.text, result.details, result.is_error) == (text, details, False)


async def test_a_picture_and_a_whole_result_go_through_as_they_are() -> None:
    picture = ImageContent(data="AA==", mime_type="image/png")

    @tool
    def draw(whole: bool) -> Any:
        return ToolResult(content=(picture,), terminate=True) if whole else picture

    assert (await run(draw, whole=False)).content == (picture,)
    assert (await run(draw, whole=True)).terminate


# --- where it runs --------------------------------------------------------------------------

place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


async def test_a_plain_function_runs_in_a_thread_with_the_callers_context() -> None:
    @tool
    def where() -> str:
        return f"{place.get()} {threading.current_thread() is threading.main_thread()}"

    place.set("cell 3")

    assert (await run(where)).text == "cell 3 False"


async def test_an_async_function_runs_on_the_loop() -> None:
    loop = asyncio.get_running_loop()

    @tool
    async def here() -> bool:
        return asyncio.get_running_loop() is loop

    assert (await run(here)).text == "true"


async def test_a_main_thread_tool_is_a_job_for_whoever_serves_it() -> None:
    served: list[str] = []

    async def on_main(job: Any) -> Any:
        served.append("job")
        return job()

    @tool(main_thread=True)
    def add(a: int, b: int) -> int:
        return a + b

    result = await add.execute({"a": 1, "b": 2}, context(on_main=on_main))

    assert (result.text, served) == ("3", ["job"])


@pytest.mark.slow
async def test_a_function_left_behind_after_an_abort_cannot_answer_any_more() -> None:
    signal, release, over = AbortSignal(), threading.Event(), threading.Event()

    @tool
    def stuck() -> str:
        release.wait(30)
        over.set()
        return "late"

    call = asyncio.create_task(stuck.execute({}, context(signal)))
    await asyncio.sleep(0)
    signal.abort()
    result = await asyncio.wait_for(call, 1.5)
    release.set()
    await asyncio.to_thread(over.wait, 5)

    assert result.is_error
    assert "aborted by user" in result.text
    assert "thrown away" in result.text


async def test_a_function_that_sees_the_abort_may_still_answer() -> None:
    signal = AbortSignal()

    @tool
    def polite(ctx: ToolContext) -> str:
        while not ctx.signal.aborted:
            threading.Event().wait(0.01)
        return "stopped at 3 of 10"

    call = asyncio.create_task(polite.execute({}, context(signal)))
    await asyncio.sleep(0)
    signal.abort()

    assert (await call).text == "stopped at 3 of 10"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_sys_exit_ends_the_tool_and_not_the_kernel(asynchronous: bool) -> None:
    def leave() -> None:
        sys.exit(3)

    async def leave_async() -> None:
        sys.exit(3)

    with pytest.raises(RuntimeError, match=r"sys\.exit"):
        await run(tool(leave_async if asynchronous else leave))


async def test_an_exception_comes_out_as_it_is_also_one_that_futures_refuse() -> None:
    def fail(kind: str) -> None:
        raise StopIteration("x") if kind == "stop" else KeyError(kind)

    with pytest.raises(KeyError):
        await run(tool(fail), kind="key")
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run(tool(fail), kind="stop")


# --- from Python ----------------------------------------------------------------------------


async def test_a_tool_can_be_called_as_the_function_it_was_made_of() -> None:
    @tool
    def weather(city: str, day: int = 1) -> str:
        return f"{city} on day {day}: rain"

    @tool(name="look_up")
    async def slow(city: str) -> str:
        return f"{city}: rain"

    assert weather("Bergen", day=2) == "Bergen on day 2: rain"
    assert await slow("Bergen") == "Bergen: rain"
    assert repr([weather, slow]) == "[AgentTool(weather), AgentTool(look_up)]"


def test_the_function_is_no_part_of_what_a_tool_is_equal_by() -> None:
    @tool
    def weather(city: str) -> str:
        return city

    assert dataclasses.replace(weather, function=None) == weather


def test_a_tool_made_by_hand_says_that_it_is_no_function(make_tool: Any) -> None:
    with pytest.raises(TypeError, match=r"AgentTool\(echo\) was not made of a function"):
        make_tool("echo")("text")
