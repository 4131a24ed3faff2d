"""Which entries an outline shows, answered from the index and, at most, a glance at a line."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Literal, get_args

from msgspec import Struct
from msgspec.json import Decoder

from pi_nb.result import PiError

from .context import Step

Filter = Literal["default", "no-tools", "user-only", "labelled", "all"]
"""`default`: what was said and what changed the context, without bookkeeping. `no-tools`: of
that, no tool results and no answers that only call tools. `user-only`: what the user said.
`labelled`: entries with a label. `all`: every entry."""

FILTERS: tuple[Filter, ...] = get_args(Filter)

BOOKKEEPING = frozenset(
    {
        "model_change",
        "thinking_level_change",
        "active_tools_change",
        "custom",
        "label",
        "session_info",
        "usage",
        "leaf",
    }
)
"""Types that say nothing to the model. A message of the role `system`, which holds prompt
state, is bookkeeping too. Types that nobody knows are shown."""


def spelled(name: str) -> str:
    """A filter's name as it is spelled here; what is no filter stays as it is."""
    return "labelled" if name == "labeled" else name


def checked(name: str) -> Filter:
    """A filter by its name, in either spelling.

    Raises:
        PiError: `invalid_argument`: there is no such filter.
    """
    for known in FILTERS:
        if known == spelled(name):
            return known
    raise PiError(
        "invalid_argument", f"there is no filter {name!r}; there are {', '.join(FILTERS)}"
    )


def passes(
    name: Filter, labelled: Container[str], leaf: str | None, line_of: Callable[[str], bytes]
) -> Callable[[Step], bool]:
    """What decides of each entry whether a filter shows it.

    Args:
        labelled: The ids that have a label.
        leaf: Shown by `no-tools` even if it only calls tools: it is what goes on.
        line_of: An entry's line as it is in the log; asked for by `no-tools` alone.
    """

    def default(step: Step) -> bool:
        return step.type not in BOOKKEEPING and step.role != "system"

    def no_tools(step: Step) -> bool:
        if step.role == "toolResult" or not default(step):
            return False
        return step.role != "assistant" or step.id == leaf or not only_calls(line_of(step.id))

    match name:
        case "default":
            return default
        case "no-tools":
            return no_tools
        case "user-only":
            return lambda step: step.role == "user"
        case "labelled":
            return lambda step: step.id in labelled
        case "all":
            return lambda step: True


class _Block(Struct):
    type: str = ""
    text: str = ""


class _Said(Struct, rename="camel"):
    content: list[_Block] | str = ""
    stop_reason: str = ""


class _Glance(Struct):
    message: _Said


_GLANCE = Decoder(_Glance)


def only_calls(line: bytes) -> bool:
    """Whether an assistant's line holds calls and no text, and ended as it should.

    A line that cannot be read so is none: what is odd should be seen.
    """
    try:
        said = _GLANCE.decode(line).message
    except (ValueError, RecursionError):
        return False
    if isinstance(said.content, str) or said.stop_reason in ("error", "aborted"):
        return False
    texts = any(block.type == "text" and block.text.strip() for block in said.content)
    return not texts and any(block.type == "toolCall" for block in said.content)
