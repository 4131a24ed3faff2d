"""What a harness works with, and how it is changed: told at once, in force from the next turn.

A change while something runs is written at the save point, after the turn's own messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.types import AgentTool
from pi_nb.messages import AgentMessage
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.types import THINKING_LEVELS, ChatModel, ThinkingLevel
from pi_nb.result import PiError
from pi_nb.session.session import Session

from .approval import Approval
from .events import ModelUpdate, ThinkingLevelUpdate, ToolsUpdate
from .host import Host, State
from .limits import Limits
from .operations import Journal
from .queues import Write
from .turn import Phase


class Settings:
    """The settings of an `AgentHarness`. Setters belong to its event loop."""

    _state: State
    _host: Host

    @property
    def phase(self) -> Phase:
        return self._state.phase

    @property
    def retry(self) -> RetryPolicy | None:
        """How often a request that failed is made again; None: never."""
        return self._host.retry

    @retry.setter
    def retry(self, policy: RetryPolicy | None) -> None:
        self._host.retry = policy

    @property
    def limits(self) -> Limits:
        """Where a run ends with reason `budget`; looked at between turns."""
        return self._state.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._state.limits = limits

    @property
    def session(self) -> Session:
        return self._state.session

    @property
    def lane(self) -> str:
        return self._state.lane

    @property
    def env(self) -> ExecutionEnv | None:
        return self._state.env

    @property
    def model(self) -> ChatModel:
        return self._state.model

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self._state.thinking_level

    @property
    def tools(self) -> tuple[AgentTool, ...]:
        """Every registered tool."""
        return tuple(self._state.tools.values())

    @property
    def active_tools(self) -> tuple[str, ...]:
        """Names of the tools that the model is told of, in order of registration."""
        return self._state.active

    @property
    def approval(self) -> Approval:
        """Who decides about tools that change things."""
        return self._state.approval

    @property
    def leaf(self) -> str | None:
        """The entry that the next prompt follows; None before the first."""
        return self._state.session.tip(self._state.lane)

    async def use_lane(self, name: str, *, begin: bool = False) -> None:
        """Go on in another lane of the session, with the thinking level and the tools that
        are on record there. The model stays.

        Args:
            begin: A new lane, which begins at the present leaf.

        Raises:
            PiError: `busy`; `invalid_argument`, there is no such lane, or it is there already.
        """
        if self.phase != "idle":
            raise PiError("busy", f"The harness is busy ({self.phase}): it stays in its lane.")
        if begin:
            await self.session.add_lane(name, self.leaf)
        state, context = self._state, self.session.context(name)
        active, level = context.active_tools, context.thinking_level
        state.lane = name
        state.thinking_level = next((known for known in THINKING_LEVELS if known == level), "off")
        state.active = tuple(tool for tool in state.tools if active is None or tool in active)
        self._host.journal = Journal(self.session, name)

    async def set_model(self, model: ChatModel) -> None:
        """Another model, from the next turn on; on record."""
        previous, self._state.model = self._state.model, model
        data = model.model
        await self._state.tell(ModelUpdate(model=data, previous=previous.model))
        await self._write(
            lambda: self.session.append_model_change(data.provider, data.id, lane=self.lane)
        )

    async def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Another thinking level, from the next turn on; on record.

        Raises:
            PiError: `invalid_argument`, there is no such level.
        """
        if level not in THINKING_LEVELS:
            known = ", ".join(THINKING_LEVELS)
            raise PiError("invalid_argument", f"No thinking level {level!r}. Levels: {known}.")
        previous, self._state.thinking_level = self._state.thinking_level, level
        await self._state.tell(ThinkingLevelUpdate(level=level, previous=previous))
        await self._write(lambda: self.session.append_thinking_level_change(level, lane=self.lane))

    async def set_tools(self, tools: Sequence[AgentTool]) -> None:
        """Register these tools instead of the former ones, all of them active.

        Raises:
            PiError: `invalid_argument`, two share a name.
        """
        self._state.tools = by_name(tools)
        await self.set_active_tools(tuple(self._state.tools))

    async def set_active_tools(self, names: Sequence[str]) -> None:
        """The tools that the model is told of from the next turn on; on record.

        Raises:
            PiError: `invalid_argument`, a name is unknown or given twice.
        """
        if unknown := [name for name in names if name not in self._state.tools]:
            known = ", ".join(self._state.tools) or "none"
            raise PiError(
                "invalid_argument", f"No tool named {', '.join(unknown)}. Tools: {known}."
            )
        if len(set(names)) != len(names):
            raise PiError("invalid_argument", f"A tool is named twice: {', '.join(names)}.")
        active = self._state.active = tuple(names)
        await self._state.tell(ToolsUpdate(tools=tuple(self._state.tools), active=active))
        await self._write(
            lambda: self.session.append_active_tools_change(list(active), lane=self.lane)
        )

    async def append_message(self, message: AgentMessage) -> None:
        """Write a message without asking; during a turn it is written at the save point."""
        await self._write(lambda: self.session.append_message(message, lane=self.lane))

    async def _write(self, write: Write) -> None:
        if self._state.phase == "idle":
            await self._state.pending.flush()  # what the disk refused before goes first
            await write()
        else:
            self._state.pending.add(write)


def by_name(tools: Sequence[AgentTool]) -> dict[str, AgentTool]:
    """Tools by their names.

    Raises:
        PiError: `invalid_argument`, two share one.
    """
    named = {tool.name: tool for tool in tools}
    if len(named) != len(tools):
        raise PiError("invalid_argument", "Two tools share a name.")
    return named


def known_level(stored: str) -> ThinkingLevel:
    """A session may hold a level that this version does not know; then it thinks not."""
    for level in THINKING_LEVELS:
        if level == stored:
            return level
    return "off"
