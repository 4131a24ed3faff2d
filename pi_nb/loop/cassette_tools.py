"""Tools on a cassette: what a call gave back is recorded, and played without the world.

The model's side is `pi_nb.models.cassette`. A tool that is played reads no file and runs
no program; its schema, its approval and the hooks around it are as they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pi_nb.abort import Aborted
from pi_nb.models.cassette import Cassette
from pi_nb.models.exchange import RecordedCall, call_digest
from pi_nb.models.reel import Head

from .types import AgentTool, ToolContext, ToolResult, answer


def cassette_tools(cassette: Cassette, tools: Iterable[AgentTool]) -> list[AgentTool]:
    """The same tools, recorded on or played from a tape as its mode says.

    A call is found by the tool's name and its checked arguments; equal calls get their
    results in the order in which they were made. In mode `play` a call that is not on the
    tape gives an error result. In mode `auto` it runs, in a world in which the calls that
    were played have changed nothing.
    """
    head = cassette.call_head()
    return [replace(tool, execute=_Taped(tool, cassette, head)) for tool in tools]


class _Taped:
    def __init__(self, tool: AgentTool, cassette: Cassette, head: Head[RecordedCall]) -> None:
        self._tool = tool
        self._cassette = cassette
        self._head = head

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """An exception is what the call fails with, also where the tape could not be written."""
        name = self._tool.name
        asked = self._cassette.arguments(arguments)
        found = self._head.take(call_digest(name, asked))
        if found is not None:
            if found.result is None:
                raise Aborted(found.aborted or "")
            return ToolResult.model_validate(found.result)
        if self._cassette.mode == "play":
            return answer(self._cassette.why_no_result(name, asked), is_error=True)
        order = self._cassette.begin()
        try:
            result = await self._tool.execute(arguments, context)
        except (Aborted, asyncio.CancelledError):
            if context.signal.aborted:
                self._cassette.add_call(order, name, asked, aborted=context.signal.reason)
            raise
        except Exception as error:
            result = answer(str(error) or type(error).__name__, is_error=True)
        self._cassette.add_call(order, name, asked, result=result.to_wire())
        return result
