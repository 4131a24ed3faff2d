"""`pi_nb.agent(...)`: a session, an environment, tools and a model, made into an `Agent`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pi_nb import background
from pi_nb.env.local import LocalEnv
from pi_nb.harness.approval import Approval, Approve
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.limits import Limits
from pi_nb.harness.turn import PromptContext, SystemPrompt
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool
from pi_nb.models.retry import RetryPolicy
from pi_nb.models.types import ChatModel, RequestOptions, ThinkingLevel
from pi_nb.resources.system_prompt import default_system_prompt
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session
from pi_nb.text import safe_line
from pi_nb.tools import default_tools

from . import current
from .agent import Agent
from .model_choice import chat_model

RETRY = RetryPolicy()


def agent(
    file: str | Path | None = None,
    *,
    model: ChatModel | str | None = None,
    cwd: str | Path | None = None,
    tools: Sequence[AgentTool | Callable[..., Any]] | None = None,
    system_prompt: SystemPrompt | None = None,
    approve: Approve = "ask",
    thinking_level: ThinkingLevel | None = None,
    name: str | None = None,
    window: int | None = None,
    options: RequestOptions | None = None,
    retry: RetryPolicy | None = RETRY,
    limits: Limits | None = None,
    at: Literal["leaf", "root"] = "leaf",
    checkpoints: bool = False,
    session_dir: str | Path | None = None,
    format: Format = "v4",
) -> Agent:
    """Make an agent and make it the magics' current one.

    Args:
        file: A session file to go on with; one that does not exist is made, in a folder
            that does. None makes a new one among the sessions of `cwd`.
        model: A `ChatModel`, a server's address, or None to choose later (or by the
            environment variable `PI_NB_MODEL`).
        cwd: The folder where its tools work; None is the present one, or the session's.
        tools: Instead of read, bash, edit and write; typed functions are made into tools.
        approve: `ask`, `allow`, `deny`, or a function, for tools that change things.
        name: A name for the session.
        window: Tokens of the model's context window, where the server does not say it.
        retry: How often a request that failed is made again, where the failure may pass;
            None: never.
        limits: Where a run ends with reason `budget`.
        checkpoints: Keep copies of the files that tools write, for `goto(..., files=True)`.
        at: `root` begins a pass over a notebook: the leaf goes to before the first entry, and
            cells that ask what was asked there before are answered from the session.
        session_dir: Where a new session goes, instead of `PI_NB_SESSION_DIR`.
        format: Of a new session: `v4`, our own; `v3`, for one that pi shall go on with.

    Raises:
        PiError: `session`: no session, or somebody else has it; `invalid_argument`.
    """
    # What may be refused is looked at before a file is made that nobody would use.
    Approval(approve)
    own = None if tools is None else _checked(tools)
    chosen = chat_model(model, window)
    session = _session(file, cwd, session_dir, format)
    try:
        env = LocalEnv(cwd if cwd is not None else _folder(session))
        harness: AgentHarness
        made: list[Agent] = []
        harness = AgentHarness(
            chosen,
            session=session,
            env=env,
            tools=default_tools(env) if own is None else own,
            system_prompt=_prompt if system_prompt is None else system_prompt,
            thinking_level=thinking_level,
            options=options,
            retry=retry,
            limits=limits,
            approve=approve,
            checkpoints=checkpoints,
            on_main=lambda job: made[0]._on_main(job),
        )
        result = Agent(harness)
        made.append(result)
        if name:
            background.call(_named(session, name))
        result.recovered = background.call(harness.resume())
        if at == "root":
            result.begin_pass()
    except BaseException:
        session.close()
        raise
    current.make_current(result)
    return result


def _checked(tools: Sequence[AgentTool | Callable[..., Any]]) -> list[AgentTool]:
    """The tools, typed functions made into some."""
    if isinstance(tools, str | AgentTool) or not isinstance(tools, Sequence):
        raise PiError("invalid_argument", f"tools is a list of tools, not {tools!r}.")
    made = []
    for given in tools:
        if not isinstance(given, AgentTool) and not callable(given):
            raise PiError("invalid_argument", f"{given!r} is no tool and no function.")
        made.append(given if isinstance(given, AgentTool) else tool(given))
    return made


def _prompt(context: PromptContext) -> str:
    return default_system_prompt(context.cwd, context.tools)


async def _named(session: Session, name: str) -> None:
    await session.set_name(name)


def _session(
    file: str | Path | None,
    cwd: str | Path | None,
    session_dir: str | Path | None,
    format: Format,
) -> Session:
    folder = working_folder() if cwd is None else str(Path(cwd).expanduser().resolve())
    if not Path(folder).is_dir():
        raise PiError("invalid_argument", f"There is no folder {folder} to work in.")
    if file is None:
        return SessionRepo(session_dir).create(folder, format=format)
    path = Path(file).expanduser().resolve()
    for other in current.on_file(path):  # one agent a file: the former one ends
        other.close()
    if not path.exists():
        if not path.parent.is_dir():
            raise PiError("session", f"There is no folder {path.parent} for the session file.")
        return Session.create(path, cwd=folder, format=format)
    return Session.open(path)


def working_folder() -> str:
    """The present folder.

    Raises:
        PiError: `invalid_state`, it was deleted under the process.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise PiError(
            "invalid_state",
            "The present folder is gone. Go to another one with %cd, or pass cwd=...",
        ) from None


def _folder(session: Session) -> str:
    """The session's folder, or the present one where that is gone."""
    if Path(session.cwd).is_dir():
        return session.cwd
    raise PiError(
        "session",
        f"The session's folder {safe_line(session.cwd, 300)} is not there. To go on in the "
        "present one: pi_nb.agent(file, cwd='.'), `%agent open FILE --here` or `%agent resume "
        "SESSION --here`; then "
        "agent.fork(whole=True, cwd='.') makes a session of this folder of it.",
    )
