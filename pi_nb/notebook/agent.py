"""`pi_nb.agent(...)`: one conversation as a value in the notebook.

An `Agent` is a harness with its session, its tools on real files, and the functions behind
the magics. The harness lives on the loop thread; every method here may be called from a
cell, a callback or a plain thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from pi_nb import background
from pi_nb.abort import AbortSignal
from pi_nb.background import Run, RunAborted, drive, drive_blocking
from pi_nb.env.local import LocalEnv
from pi_nb.env.types import ExecutionEnv
from pi_nb.harness.approval import ApprovalRequest, Approve, Decision
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.turn import (
    AbortResult,
    NavigateResult,
    PromptContext,
    SystemPrompt,
    TurnResult,
)
from pi_nb.loop.types import AgentTool
from pi_nb.messages import ImageContent
from pi_nb.models.registry import resolve
from pi_nb.models.types import (
    ChatModel,
    End,
    Model,
    Request,
    RequestOptions,
    StreamEvent,
    ThinkingLevel,
)
from pi_nb.resources.system_prompt import default_system_prompt
from pi_nb.result import Err, PiError
from pi_nb.session.outline import Outline
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session
from pi_nb.text import count
from pi_nb.tokens import estimate_all
from pi_nb.tools import default_tools

from .display import LiveCell, footer
from .kernel import ask_by_input, can_ask, in_cell, on_main_thread
from .status import Status

NO_MODEL = (
    "No model yet. Point at a local server, `%agent model http://127.0.0.1:8080`, or make an "
    'agent with one, `agent = pi_nb.agent(model=pi_nb.ScriptedModel(["Hello."]))`.'
)


class NoModel:
    """Stands where no model was chosen yet. Asking it is an error that says what to do."""

    model = Model(id="none", provider="none", name="no model")

    async def stream(self, request: Request, signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        yield End(reason="error", error_message=NO_MODEL, failure="invalid")


class Agent:
    """A conversation with a model that may use tools, written to a session file.

    Made by `pi_nb.agent(...)`. `agent.last` is the last result, `agent.session` the tree,
    `agent.harness` everything underneath.
    """

    def __init__(self, harness: AgentHarness) -> None:
        self.harness = harness
        self.last: TurnResult | None = None
        """What the last prompt came to; None before the first."""
        self.closed = False
        self._run: Run[TurnResult] | None = None
        self._can_ask = False
        harness.approval.asker = self._ask

    # --- what it is -------------------------------------------------------------------

    @property
    def session(self) -> Session:
        return self.harness.session

    @property
    def env(self) -> ExecutionEnv | None:
        return self.harness.env

    @property
    def model(self) -> Model:
        return self.harness.model.model

    def outline(self) -> Outline:
        """The session's tree as text and HTML."""
        return self.session.outline()

    def status(self) -> Status:
        """Where it stands: session, model, size of the context, tools, approvals."""
        items = self.session.context(self.harness.lane).items
        approve = self.harness.approval.approve
        return Status(
            session=str(self.session.path or "in memory"),
            name=self.session.name,
            cwd=self.env.cwd if self.env else "",
            model=self.model,
            thinking_level=self.harness.thinking_level,
            tools=self.harness.active_tools,
            approve=approve if isinstance(approve, str) else "by a function",
            messages=len(items),
            context=estimate_all(item.message for item in items),
            phase=self.harness.phase,
        )

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.harness.phase
        entries = count(len(self.session), "entry", "entries")
        return f"Agent({self.model}, {entries}, {state})"

    # --- asking -----------------------------------------------------------------------

    async def prompt(
        self, text: str, images: Sequence[ImageContent] = (), *, show: bool = False
    ) -> TurnResult:
        """Ask, and wait for the end of the run without blocking the kernel.

        Args:
            show: Stream the run into the cell, as `%%agent` does.

        Returns:
            The result, also of a failed or aborted run: see `TurnResult.ok`.

        Raises:
            RunAborted: the cell was interrupted; what had arrived is in the session.
            PiError: `busy`; `invalid_state`: no model, or the agent is closed.
        """
        live, run = self._start(text, images, show)
        # In a kernel a cancellation is the user's interrupt; elsewhere it is the caller's.
        try:
            result = await drive(run, RunAborted if in_cell() else asyncio.CancelledError)
        except BaseException:
            self._finish(live, None)
            raise
        self._finish(live, result)
        return result

    def prompt_sync(
        self, text: str, images: Sequence[ImageContent] = (), *, show: bool = False
    ) -> TurnResult:
        """Ask, and block until the run ended. Works in any cell, callback or thread.

        Raises:
            As `prompt`.
        """
        live, run = self._start(text, images, show)
        try:
            result = drive_blocking(run)
        except BaseException:
            self._finish(live, None)
            raise
        self._finish(live, result)
        return result

    def _start(
        self, text: str, images: Sequence[ImageContent], show: bool
    ) -> tuple[LiveCell, Run[TurnResult]]:
        self.check_ready()
        self._can_ask = can_ask() and on_main_thread()
        live = LiveCell(quiet=not show)

        async def work(_run: Run[TurnResult]) -> TurnResult:
            leave = self.harness.subscribe(live.add)
            try:
                return await self.harness.prompt(text, images)
            finally:
                leave()

        self._run = run = Run(work, self._abort_soon)
        return live, run

    def _finish(self, live: LiveCell, result: TurnResult | None) -> None:
        if result is None:
            live.finish("Aborted.")
            return
        self.last = result
        items = self.session.context(self.harness.lane).items
        size = result.message.usage.total_tokens or estimate_all(i.message for i in items).tokens
        live.finish(result.ending, footer(result, size))

    def _abort_soon(self) -> None:
        """On the loop thread. The harness keeps the task alive until it is settled."""
        self._aborting = asyncio.ensure_future(self.harness.abort())

    def abort(self) -> AbortResult:
        """Stop what runs and wait until it is written. While idle it does nothing."""
        return background.call(self.harness.abort())

    async def _ask(self, request: ApprovalRequest) -> Decision:
        run = self._run
        if run is None or not self._can_ask:
            reason = (
                f"{request.tool.name} needs an approval, and nobody can be asked here. "
                "Make the agent with approve='allow', or run it where input() works."
            )
            return Decision(False, "policy", reason)
        decision: Decision = await run.on_main(lambda: ask_by_input(request))
        return decision

    async def _on_main(self, job: Callable[[], Any]) -> Any:
        if self._run is None:
            raise RuntimeError("nobody serves jobs for the main thread here")
        return await self._run.on_main(job)

    # --- moving and settings ----------------------------------------------------------

    def goto(self, where: str) -> NavigateResult:
        """Move the leaf to an entry, by its id, the beginning of its id, or a label.

        At a user message the leaf goes to before it, and its text comes back for editing.

        Raises:
            PiError: `invalid_argument`, nothing or more than one entry fits; `busy`.
        """
        self._check_open()
        entry = self.session.find(where)
        return background.call(self.harness.navigate(entry.id))

    def use_model(self, model: ChatModel | str, *, window: int | None = None) -> Model:
        """Use another model from the next turn on: an object, or a server's address.

        Args:
            model: A `ChatModel`, or `http://host:port`, with `#name` for one of its list.
            window: Tokens of its context window, where the server does not say it right.

        Raises:
            PiError: `invalid_argument`, with what is wrong and the next step.
        """
        self._check_open()
        chosen = chat_model(model, window)
        background.call(self.harness.set_model(chosen))
        return chosen.model

    def close(self) -> None:
        """Abort what runs, and give the session file free. The second call does nothing."""
        if self.closed:
            return
        self.closed = True
        if self._run is not None and not self._run.finished:
            self._run.abort()
            background.call(self.harness.wait(), timeout=background.GRACE + 1)
        self.session.close()
        _forget(self)

    def check_ready(self) -> None:
        """Whether a prompt could run now.

        Raises:
            PiError: `invalid_state`, no model or closed; `busy`, it is at work.
        """
        self._check_open()
        if isinstance(self.harness.model, NoModel):
            raise PiError("invalid_state", NO_MODEL)
        if self._run is not None and not self._run.finished:
            raise PiError("busy", "This agent is at work. Wait for it, or `agent.abort()`.")

    def _check_open(self) -> None:
        if self.closed:
            raise PiError("invalid_state", "This agent is closed. Make one with pi_nb.agent(...).")

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def chat_model(model: ChatModel | str | None, window: int | None = None) -> ChatModel:
    """What the user named as a model, ready to ask. Looks a server up; blocks meanwhile.

    Raises:
        PiError: `invalid_argument`, with what is wrong and the next step.
    """
    if model is None:
        named = os.environ.get("PI_NB_MODEL")
        return chat_model(named, window) if named else NoModel()
    if not isinstance(model, str):
        if not hasattr(model, "stream"):
            raise PiError("invalid_argument", f"{model!r} is no model: it cannot be asked.")
        return model
    found = background.call(resolve(model, window=window))
    if isinstance(found, Err):
        raise PiError("invalid_argument", str(found.error))
    return found.value


# --- one agent a session, one current agent for the magics ------------------------------------

_lock = threading.Lock()
_agents: list[Agent] = []
_current: Agent | None = None


def current() -> Agent | None:
    """The agent that the magics use: the newest one made, unless it was closed."""
    return _current


def make_current(agent: Agent | None) -> None:
    """Make the magics use this agent."""
    global _current
    _current = agent


def _forget(agent: Agent) -> None:
    global _current
    with _lock:
        if agent in _agents:
            _agents.remove(agent)
        if _current is agent:
            _current = None


def agent(
    file: str | Path | None = None,
    *,
    model: ChatModel | str | None = None,
    cwd: str | Path | None = None,
    tools: Sequence[AgentTool] | None = None,
    system_prompt: SystemPrompt | None = None,
    approve: Approve = "ask",
    thinking_level: ThinkingLevel | None = None,
    name: str | None = None,
    window: int | None = None,
    options: RequestOptions | None = None,
) -> Agent:
    """Make an agent and make it the magics' current one.

    Args:
        file: A session file to go on with; one that does not exist is made. None makes a
            new one among the sessions of `cwd`.
        model: A `ChatModel`, a server's address, or None to choose later (or by the
            environment variable `PI_NB_MODEL`).
        cwd: The folder where its tools work; None is the present one, or the session's.
        tools: None gives read, write, edit and bash.
        approve: `ask`, `allow`, `deny`, or a function, for tools that change things.
        name: A name for the session.
        window: Tokens of the model's context window, where the server does not say it.

    Raises:
        PiError: `session`: no session, or somebody else has it; `invalid_argument`.
    """
    chosen = chat_model(model, window)  # before a file is made that nobody would use
    session = _session(file, cwd)
    try:
        env = LocalEnv(cwd if cwd is not None else _folder(session))
        harness: AgentHarness
        made: list[Agent] = []
        harness = AgentHarness(
            chosen,
            session=session,
            env=env,
            tools=default_tools(env) if tools is None else tools,
            system_prompt=_prompt if system_prompt is None else system_prompt,
            thinking_level=thinking_level,
            options=options,
            approve=approve,
            on_main=lambda job: made[0]._on_main(job),
        )
        result = Agent(harness)
        made.append(result)
        if name:
            background.call(_named(session, name))
    except BaseException:
        session.close()
        raise
    with _lock:
        _agents.append(result)
    make_current(result)
    return result


def _prompt(context: PromptContext) -> str:
    return default_system_prompt(context.cwd, context.tools)


async def _named(session: Session, name: str) -> None:
    await session.set_name(name)


def _session(file: str | Path | None, cwd: str | Path | None) -> Session:
    folder = str(Path(cwd).expanduser().resolve()) if cwd is not None else os.getcwd()
    if file is None:
        return SessionRepo().create(folder)
    path = Path(file).expanduser().resolve()
    for other in list(_agents):  # one agent a file: the former one ends
        if other.session.path == path:
            other.close()
    if not path.exists():
        return Session.create(path, cwd=folder)
    return Session.open(path)


def _folder(session: Session) -> str:
    """The session's folder, or the present one where that is gone."""
    if Path(session.cwd).is_dir():
        return session.cwd
    raise PiError(
        "session",
        f"The session's folder {session.cwd} is not there. Say where to go on: "
        "pi_nb.agent(file, cwd='.').",
    )


def is_ours(value: object) -> bool:
    """Whether a name in the user's namespace is an agent that may be replaced."""
    return isinstance(value, Agent)
