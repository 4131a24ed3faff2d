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
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from functools import reduce
from operator import add
from typing import Any, TypeVar

from pi_nb.abort import AbortSignal
from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.events import AgentEnd
from pi_nb.loop.run import run_loop
from pi_nb.loop.types import AgentTool, ExecutionMode, OnMain, no_main_thread
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    Usage,
    UserMessage,
    user,
)
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.types import ChatModel, RequestOptions, ThinkingLevel
from pi_nb.result import PiError
from pi_nb.session.session import Session

from .approval import Approval, Approve, Asker
from .auto import AutoCompactor
from .checkpoints import Checkpoints
from .compacting import Compacting
from .compaction_settings import CompactionSettings
from .compactor import Compactor
from .events import (
    AbortEvent,
    Settled,
)
from .hooks import Handler
from .host import Host, State, Subscriber, logged
from .limits import Attempts, Limits
from .navigating import Navigating
from .operations import Recovered, recover
from .queues import QueueMode, QueueName, Queues
from .requests import SentRequest
from .retrying import waits
from .settings import Settings, by_name, known_level
from .steps import Gate
from .turn import (
    AbortResult,
    Phase,
    SystemPrompt,
    TurnResult,
)

T = TypeVar("T")
ABORT_LIMIT = 2.0
"""Seconds that a cancelled caller waits for its run to write how it ended."""

# The harnesses whose runs the present code is part of: it must not wait for their end.
_inside: ContextVar[tuple[AgentHarness, ...]] = ContextVar("pi_nb_inside", default=())


class AgentHarness(Compacting, Navigating, Settings):
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
        retry: RetryPolicy | None = None,
        limits: Limits | None = None,
        approve: Approve = "ask",
        asker: Asker | None = None,
        on_main: OnMain = no_main_thread,
        checkpoints: bool = False,
        compaction: CompactionSettings | None = None,
    ) -> None:
        """
        Args:
            session: None keeps the conversation in memory only.
            system_prompt: Text, or a function that is asked once a turn.
            thinking_level: None takes the session's.
            retry: How often a request that failed is made again; None: never.
            asker: Who decides where `approve="ask"`; None denies.
            on_main: How tools reach the main thread.
            checkpoints: Keep copies of the files that tools write, for `navigate(files=True)`.
            compaction: How a context that fills is compacted; None: by itself, as pi does.

        Raises:
            PiError: `invalid_argument`, two tools share a name.
        """
        session = session or Session.create(None, cwd=env.cwd if env else "/")
        context = session.context(lane)
        named = by_name(tools)
        active = context.active_tools
        self._state = State(
            session=session,
            lane=lane,
            env=env,
            model=model,
            tools=named,
            active=tuple(name for name in named if active is None or name in active),
            thinking_level=thinking_level or known_level(context.thinking_level),
            system_prompt=system_prompt,
            options=options or RequestOptions(),
            mode=mode,
            approval=Approval(approve, asker),
            queues=Queues(steering_mode, follow_up_mode),
            on_main=on_main,
            limits=limits or Limits(),
        )
        self._host = Host(self._state, {"env": env, "session": session, "harness": self})
        self._host.retry = retry
        settings = CompactionSettings() if compaction is None else compaction
        self._compactor = Compactor(self._state, self._host, settings)
        self._auto = AutoCompactor(self._state, self._compactor)
        self._host.before_turn = self._auto.before_turn
        if checkpoints and env is not None:
            self._host.checkpoints = Checkpoints(session, env)
        session.missing = tuple(name for name in active or () if name not in named)
        self._dropped: AbortResult | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    # --- what it is -------------------------------------------------------------------

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

    async def prompt(
        self,
        text: str,
        images: Sequence[ImageContent] = (),
        *,
        cell: Mapping[str, Any] | None = None,
        gate: Gate | None = None,
    ) -> TurnResult:
        """Ask, and go on until nothing is left to do.

        Args:
            cell: What the run was asked from, kept in its record as it is.
            gate: Where the run waits before each action; see `steps`.

        An abort is an ordinary ending. If the caller is cancelled, the run is aborted and
        written before the cancellation goes on.

        Raises:
            PiError: `busy`; `hook`, a hook failed; `session`, the log could not be written.
        """
        return await self._operation("turn", self._run_prompt(user(text, images), cell, gate))

    async def resume(self) -> Recovered:
        """Close what a process that ended left open on this lane: every call of its last
        answer gets a result that says so, every open operation its end.

        Nothing is asked, and no tool is run again. Without open operations nothing is written.

        Raises:
            PiError: `busy`; `session`, the log could not be written.
        """
        self._check_idle()
        return await recover(self.session, self.lane)

    @property
    def requests(self) -> Sequence[SentRequest]:
        """The last requests as they were sent, the newest last."""
        return tuple(self._host.requests)

    async def run_settings(self) -> dict[str, Any]:
        """What an answer depends on besides the conversation: model, thinking level, tools,
        and a digest of the system prompt."""
        return await self._host.settings()

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
            with logged("the record of an abort"):
                await self._host.journal.abort_requested()
        else:
            dropped = self._dropped
        if self not in _inside.get():
            await self._idle.wait()
        return dropped

    async def wait(self) -> None:
        """Return when the harness is idle.

        Raises:
            PiError: `invalid_state`: called from inside the run, which would wait for itself.
        """
        if self in _inside.get() and self._state.phase != "idle":
            raise PiError("invalid_state", "A run cannot wait for its own end.")
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

    # --- one operation at a time ------------------------------------------------------

    def _check_idle(self) -> None:
        if self._state.phase != "idle":
            raise PiError(
                "busy",
                f"The harness is busy ({self._state.phase}). Wait for it, steer it, or abort it.",
            )
        if self.session.runs.get(self.lane, self) is not self:
            text = f"Another harness runs on the lane {self.lane}; writers of one lane take turns."
            raise PiError("busy", text)

    async def _operation(self, phase: Phase, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_idle()
        except PiError:
            work.close()
            raise
        self._state.phase = phase
        self.session.runs[self.lane] = self
        self._state.signal = AbortSignal()
        self._dropped = None
        self._idle.clear()
        # A task of its own: a cancelled caller must not cut off what is being written.
        task = asyncio.create_task(self._settling(work))
        try:
            await asyncio.wait({task})
            return task.result()
        except asyncio.CancelledError:
            task.add_done_callback(_left_behind)
            if not task.done():
                stop = asyncio.create_task(self.abort())
                await asyncio.wait({task, stop}, timeout=ABORT_LIMIT)
            raise

    async def _settling(self, work: Coroutine[Any, Any, T]) -> T:
        _inside.set((*_inside.get(), self))
        state = self._state
        phase = state.phase
        failure: BaseException | None = None
        try:
            result = await work
        except BaseException as error:
            failure = error
            raise
        finally:
            try:
                await self._host.clear_up(failure)
            finally:
                # Taken now: a subscriber to what follows may begin the next operation.
                dropped = self._dropped
                state.phase, state.gate = "idle", None
                self.session.runs.pop(self.lane, None)
                self._idle.set()
                if phase == "turn":
                    await state.tell(Settled())
                if dropped is not None:
                    await state.tell(AbortEvent(steer=dropped.steer, follow_up=dropped.follow_up))
        return result

    async def _run_prompt(
        self, message: UserMessage, cell: Mapping[str, Any] | None, gate: Gate | None
    ) -> TurnResult:
        self._state.gate = gate
        waiting = self._state.take("next_turn")
        if waiting:
            await self._state.tell(self._state.queues.update())
        extra: Sequence[AgentMessage] = await self._host.begin(message, cell)
        model = self._state.model.model
        prompts = [*waiting, message, *extra]
        self._auto.begin()
        self._state.incoming = prompts
        end = await run_loop(self._host, prompts, self._state.signal)
        messages, reason = await self._retried(end)
        if await self._auto.overflowed(messages):
            end = await run_loop(self._host, [], self._state.signal)
            again, reason = await self._retried(end)
            await self._auto.asked_again(again)
            messages += again
        await self._auto.after_run(reason)
        answers = [m for m in messages if isinstance(m, AssistantMessage)]
        return TurnResult(
            message=answers[-1],
            messages=messages,
            reason=reason,
            usage=reduce(add, (answer.usage for answer in answers), Usage()),
            leaf_id=self.leaf,
            model=model,
            aborted=self._dropped,
            compactions=tuple(self._auto.made),
            advice=self._auto.advice(answers[-1]),
        )

    async def _retried(self, end: AgentEnd) -> tuple[tuple[AgentMessage, ...], str]:
        """Ask again while a failure may pass; returns all messages and why it ended at last.

        The failed answers stay in the log and out of later requests. Calls that ran are not
        run again: the request is made from where the branch is.
        """
        state, messages = self._state, end.messages
        attempts = Attempts(self.retry, messages)
        async for _ in waits(state, attempts):
            end = await run_loop(self._host, [], state.signal)
            attempts.newest = end.messages
            messages += end.messages
        return messages, end.reason


def _left_behind(task: asyncio.Task[Any]) -> None:
    """What an operation raised after its caller was cancelled: nobody else will look at it."""
    if not task.cancelled():
        with logged("an operation whose caller was cancelled"):
            task.result()
