"""A real folder, an environment on it, and a way to call a tool as the loop does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.env.local import LocalEnv
from pi_nb.loop.schema import check_arguments
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.result import Err

Call = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def env(tmp_path: Path) -> LocalEnv:
    return LocalEnv(tmp_path)


@pytest.fixture
def call() -> Call:
    """`await call(tool, name=value, ...)`: prepared, checked, run."""

    async def call(
        made: AgentTool,
        signal: AbortSignal | None = None,
        update: Callable[[ToolResult], None] = lambda _: None,
        **arguments: Any,
    ) -> ToolResult:
        given = made.prepare(arguments) if made.prepare else arguments
        checked = check_arguments(made.spec.parameters, given)
        if isinstance(checked, Err):
            return answer(checked.error, is_error=True)
        context = ToolContext("c1", made.name, signal or AbortSignal(), update=update)
        return await made.execute(checked.value, context)

    return call
