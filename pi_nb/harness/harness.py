"""The harness: one conversation that is written down, asked, steered, stopped and moved.

    prompt -> before_agent_start -> agent_start
                turn: snapshot, request, answer, calls   message_end = on disk, then told
                turn_end, pending writes, save_point     changes of settings take effect
              agent_end, settled

One operation at a time: `prompt`, `compact` and `navigate` fail with `busy` in any phase but
`idle`. Setters are taken at any time, told at once, and hold from the next turn on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from functools import reduce
from operator import add
from typing import Any, TypeVar

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.run import run_loop
from pi_nb.loop.types import AgentTool, ExecutionMode, OnMain, no_main_thread
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    Usage,
    UserMessage,
    text_of,
    user,
)
from pi_nb.models.types import THINKING_LEVELS, ChatModel, RequestOptions, ThinkingLevel
from pi_nb.result import PiError
from pi_nb.session.entries import MessageEntry
from pi_nb.session.session import Session

from .approval import Approval, Approve, Asker
from .events import (
    AbortEvent,
    ModelUpdate,
    SessionTree,
    Settled,
    ThinkingLevelUpdate,
    ToolsUpdate,
)
from .hooks import BeforeTree, Handler
from .host import Host, State, Subscriber
from .queues import QueueMode, QueueName, Queues, Write
from .turn import (
    AbortResult,
    NavigateResult,
    Phase,
    SystemPrompt,
    TurnResult,
)

T = TypeVar("T")
ABORT_LIMIT = 2.0
"""Seconds that a cancelled caller waits for its run to write how it ended."""

# The harnesses whose runs the present code is part of: it must not wait for their end.
_inside: ContextVar[tuple[AgentHarness, ...]] = ContextVar("pi_nb_inside", default=())


class AgentHarness:
    """A model, tools and a session, driven prompt by prompt.

    Everything but the constructor and `subscribe`/`on` belongs to one event loop.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        session: Session | None = None,
        env: ExecutionEnv | None = None,
        tools: Sequence[AgentTool] = (),
        system_prompt: SystemPrompt = "",
        thinking_level: ThinkingLevel | None = None,
        lane: str = "main",
        options: RequestOptions | None = None,
        mode: ExecutionMode = "parallel",
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        approve: Approve = "ask",
        asker: Asker | None = None,
        on_main: OnMain = no_main_thread,
    ) -> None:
        """
        Args:
            session: None keeps the conversation in memory only.
            system_prompt: Text, or a function that is asked once a turn.
            thinking_level: None takes the session's.
            asker: Who decides where `approve="ask"`; None denies.
            on_main: How tools reach the main thread.

        Raises:
            PiError: `invalid_argument`, two tools share a name.
        """
        session = session or Session.create(None, cwd=env.cwd if env else "/")
        context = session.context(lane)
        named = _by_name(tools)
        active = context.active_tools
        self._state = State(
            session=session,
            lane=lane,
            env=env,
            model=model,
            tools=named,
            active=tuple(name for name in named if active is None or name in active),
            thinking_level=thinking_level or _level(context.thinking_level),
            system_prompt=system_prompt,
            options=options or RequestOptions(),
            mode=mode,
            approval=Approval(approve, asker),
            queues=Queues(steering_mode, follow_up_mode),
            on_main=on_main,
        )
        self._host = Host(self._state, {"env": env, "session": session, "harness": self})
        self._dropped: AbortResult | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    # --- what it is -------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        return self._state.phase

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
        return self._state.session.leaf(self._state.lane)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Be told every event, in order; returns a function that ends it.

        A subscriber watches: what it returns is dropped, what it raises is logged.
        """
        self._state.subscribers.append(subscriber)

        def leave() -> None:
            if subscriber in self._state.subscribers:
                self._state.subscribers.remove(subscriber)

        return leave

    def on(self, name: str, handler: Handler) -> Callable[[], None]:
        """Register a hook; returns a function that takes it out. See `hooks`.

        Raises:
            PiError: `invalid_argument`, there is no such hook.
        """
        return self._state.hooks.add(name, handler)

    # --- operations -------------------------------------------------------------------

    async def prompt(self, text: str, images: Sequence[ImageContent] = ()) -> TurnResult:
        """Ask, and go on until nothing is left to do.

        An abort is an ordinary ending. If the caller is cancelled, the run is aborted and
        written before the cancellation goes on.

        Raises:
            PiError: `busy`; `hook`, a hook failed; `session`, the log could not be written.
        """
        return await self._operation("turn", self._run_prompt(user(text, images)))

    async def navigate(self, entry_id: str) -> NavigateResult:
        """Move the leaf to an entry, or to before a user message, whose text comes back.

        Moving to the present leaf does nothing. Files do not move with the tree.

        Raises:
            PiError: `busy`; `invalid_argument`, there is no such entry; `hook`.
        """
        return await self._operation("branch_summary", self._navigate(entry_id))

    async def compact(self, instructions: str | None = None) -> None:
        """Replace the older part of the branch by a summary.

        Raises:
            PiError: `busy`; else `compaction`: this version cannot compact yet.
        """
        self._check_idle()
        raise PiError("compaction", "Compaction is not part of this version yet.")

    async def abort(self, reason: str = "aborted by user") -> AbortResult:
        """Stop what runs, drop what waits to steer or follow, and wait until it is settled.

        Called from inside the run (a hook, a subscriber, a tool) it does not wait. While
        idle it does nothing.
        """
        if self._state.phase == "idle":
            return AbortResult()
        if self._dropped is None:
            self._dropped = AbortResult(*self._state.queues.clear())
            # First: a subscriber that takes its time must not hold up the stop.
            self._state.signal.abort(reason)
            dropped = self._dropped
            await self._state.tell(self._state.queues.update())
        else:
            dropped = self._dropped
        if self not in _inside.get():
            await self._idle.wait()
        return dropped

    async def wait(self) -> None:
        """Return when the harness is idle."""
        await self._idle.wait()

    # --- messages that wait -----------------------------------------------------------

    async def steer(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Put a message in before the next request of what runs now.

        Raises:
            PiError: `invalid_state`, nothing runs.
        """
        await self._enqueue("steer", user(text, images))

    async def follow_up(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Put a message in when what runs now has nothing left to do.

        Raises:
            PiError: `invalid_state`, nothing runs.
        """
        await self._enqueue("follow_up", user(text, images))

    async def next_turn(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Put a message in before the next prompt, whenever that comes."""
        await self._enqueue("next_turn", user(text, images))

    async def _enqueue(self, name: QueueName, message: UserMessage) -> None:
        if name != "next_turn" and self._state.phase == "idle":
            raise PiError("invalid_state", f"Nothing runs: {name} needs a run. Use prompt.")
        self._state.queues.put(name, message)
        await self._state.tell(self._state.queues.update())

    # --- settings ---------------------------------------------------------------------

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
        self._state.tools = _by_name(tools)
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

    # --- one operation at a time ------------------------------------------------------

    def _check_idle(self) -> None:
        if self._state.phase != "idle":
            raise PiError(
                "busy",
                f"The harness is busy ({self._state.phase}). Wait for it, steer it, or abort it.",
            )

    async def _operation(self, phase: Phase, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_idle()
        except PiError:
            work.close()
            raise
        self._state.phase = phase
        self._state.signal = AbortSignal()
        self._dropped = None
        self._idle.clear()
        # A task of its own: a cancelled caller must not cut off what is being written.
        task = asyncio.create_task(self._settling(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                stop = asyncio.create_task(self.abort())
                await asyncio.wait({task, stop}, timeout=ABORT_LIMIT)
            raise

    async def _settling(self, work: Coroutine[Any, Any, T]) -> T:
        _inside.set((*_inside.get(), self))
        state = self._state
        phase = state.phase
        failed = True
        try:
            result = await work
            failed = False
        finally:
            try:
                await self._host.clear_up(failed=failed)
            finally:
                # Taken now: a subscriber to what follows may begin the next operation.
                dropped = self._dropped
                state.phase = "idle"
                self._idle.set()
                if phase == "turn":
                    await state.tell(Settled())
                if dropped is not None:
                    await state.tell(AbortEvent(steer=dropped.steer, follow_up=dropped.follow_up))
        return result

    async def _run_prompt(self, message: UserMessage) -> TurnResult:
        waiting = self._state.take("next_turn")
        if waiting:
            await self._state.tell(self._state.queues.update())
        extra: Sequence[AgentMessage] = await self._host.begin(message)
        model = self._state.model.model
        end = await run_loop(self._host, [*waiting, message, *extra], self._state.signal)
        answers = [m for m in end.messages if isinstance(m, AssistantMessage)]
        return TurnResult(
            message=answers[-1],
            messages=end.messages,
            reason=end.reason,
            usage=reduce(add, (answer.usage for answer in answers), Usage()),
            leaf_id=self.session.leaf(self.lane),
            model=model,
            aborted=self._dropped,
        )

    async def _navigate(self, entry_id: str) -> NavigateResult:
        entry = self.session.entry(entry_id)
        before = self.session.leaf(self.lane)
        if entry.id == before:
            return NavigateResult()
        asked = self._state.hooks.cancels_tree(BeforeTree(entry.id, before))
        try:
            cancelled = await unless_aborted(asked, self._state.signal)
        except Aborted:
            cancelled = True
        if cancelled or self._state.signal.aborted:
            return NavigateResult(cancelled=True)
        leaf: str | None = entry.id
        editor_text = None
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
            leaf = entry.parent_id
            editor_text = text_of(entry.message.content)
        if leaf != before:
            await self.session.move(leaf, lane=self.lane)
            await self._state.tell(SessionTree(leaf_id=leaf, previous=before))
        return NavigateResult(editor_text=editor_text)


def _by_name(tools: Sequence[AgentTool]) -> dict[str, AgentTool]:
    named = {tool.name: tool for tool in tools}
    if len(named) != len(tools):
        raise PiError("invalid_argument", "Two tools share a name.")
    return named


def _level(stored: str) -> ThinkingLevel:
    """A session may hold a level that this version does not know; then it thinks not."""
    for level in THINKING_LEVELS:
        if level == stored:
            return level
    return "off"
