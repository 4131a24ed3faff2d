"""Subcommands of `%agent` that make an agent, or say which one the magics use.

To look makes nothing: without an agent, `status`, `model` and `doctor` say what there is.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from IPython.core.error import UsageError

from pi_nb.result import PiError
from pi_nb.session.naming import called, short
from pi_nb.session.repo import SessionRepo
from pi_nb.text import quoted, safe_line

from .agent import Agent
from .current import agents
from .doctor import examine
from .making import working_folder
from .parsing import Command, tokens
from .status import Rows, Status

NONE_YET = (
    "No agent yet. A %%agent cell starts one; `%agent resume` goes on with the latest session of "
    "this folder, `%agent model http://127.0.0.1:8080` points a new one at a server."
)

HERE = (("--here",), {"action": "store_true", "help": "in this folder, not in its own"})


class Magics(Protocol):
    """The magics, as far as their agents and their sessions are concerned."""

    def repo(self) -> SessionRepo: ...

    def looked_at(self) -> Agent | None:
        """The agent to look at, if there is one. To look makes none."""
        ...

    def in_use(self) -> Agent:
        """The agent to use; where there is none, a new one."""
        ...

    def fresh(self, **settings: Any) -> Status:
        """A new session, with the model and the approvals of the agent before it."""
        ...

    def go_on(self, path: Path, **settings: Any) -> Status:
        """An agent on a session file, bound to `agent`."""
        ...

    def named(self, variable: str) -> Agent | None:
        """The open agent that a variable of the user names."""
        ...

    def bind(self, made: Agent) -> Agent:
        """Make an agent the one that the magics use, and `agent`."""
        ...


def _status(magics: Magics, _options: argparse.Namespace) -> Rows | Status:
    found = magics.looked_at()
    return Rows(("", ""), [], NONE_YET) if found is None else magics.in_use().status()


def _new(magics: Magics, options: argparse.Namespace) -> Status:
    given = {"name": options.name, "format": options.format, "model": options.model}
    return magics.fresh(**{key: value for key, value in given.items() if value})


def _open(magics: Magics, options: argparse.Namespace) -> Status:
    return magics.go_on(session_file(options.file), **where(options))


def session_file(given: str) -> Path:
    """The path of a file that is there.

    Raises:
        UsageError: it is not.
    """
    path = Path(given).expanduser()
    if not path.exists():
        raise UsageError(f"There is no file {safe_line(given)}. `%agent list` shows the sessions.")
    return path


def where(options: argparse.Namespace) -> dict[str, Any]:
    """The folder to work in, for `go_on`: the session's own, or with `--here` this one."""
    return {"cwd": working_folder()} if options.here else {}


def _model(magics: Magics, options: argparse.Namespace) -> Rows | Status:
    if not options.model:
        if options.window:
            raise UsageError("%agent model: --window goes with a model.")
        return _status(magics, options)
    asked = magics.in_use()
    asked.use_model(options.model, window=options.window)
    return asked.status()


def _use(magics: Magics, options: argparse.Namespace) -> Status:
    held = magics.named(options.agent)
    if held is None:
        open_ = [agent for agent in agents() if isinstance(agent, Agent)]
        fits = called(options.agent, open_, lambda a: (a.session.id, a.session.name))
        if len(fits) != 1:
            known = ", ".join(_short(agent) for agent in open_) or "none"
            what = f"{len(fits)} open agents fit" if fits else "There is no open agent"
            raise UsageError(
                f"%agent use: {what} {quoted(options.agent)}. Open: {known}. A closed session "
                "is for `%agent resume`."
            )
        held = fits[0]
    return magics.bind(held).status()


def _short(agent: Agent) -> str:
    return safe_line(agent.session.name or short(agent.session.id), 40)


def _fork(magics: Magics, options: argparse.Namespace) -> Status:
    asked = needed(magics)
    made = asked.fork(
        options.entry,
        before=options.before,
        whole=options.whole,
        format=options.format,
        name=options.name,
        session_dir=magics.repo().root,
    )
    status = magics.go_on(made.path, tools=asked.tools)
    return replace(status, to_edit=made.text)


def _doctor(magics: Magics, _options: argparse.Namespace) -> Rows:
    found = magics.looked_at()
    return examine(None) if found is None else magics.in_use().doctor()


def needed(magics: Magics) -> Agent:
    """The agent, for what makes no sense without one.

    Raises:
        PiError: `invalid_state`, there is none yet; no file is made.
    """
    if magics.looked_at() is None:
        raise PiError("invalid_state", NONE_YET)
    return magics.in_use()


def open_line(file: str, folder: str) -> str:
    """The magic that goes on with a session file that works in `folder`."""
    here = "" if Path(folder).is_dir() else " --here"
    return f"%agent open {shlex.quote(file)}{here}"


CHOOSING_COMMANDS: Mapping[str, Command] = {
    "status": Command("where the agent stands: session, model, context", _status),
    "new": Command(
        "start a new session, with the same model",
        _new,
        (("--name",), {"help": "a name for the session"}),
        (("--model",), {"help": "a server's address"}),
        (("--format",), {"choices": ("v4", "v3"), "help": "v3: for pi to go on with"}),
    ),
    "open": Command("go on with a session file", _open, (("file",), {"metavar": "FILE"}), HERE),
    "model": Command(
        "show the model, or use another: http://host:port, with #name for one of its list",
        _model,
        (("model",), {"nargs": "?", "metavar": "MODEL"}),
        (("--window",), {"type": tokens, "help": "tokens of its context window"}),
    ),
    "use": Command(
        "use another open agent",
        _use,
        (("agent",), {"metavar": "AGENT", "help": "a variable, a session's name, its id's end"}),
    ),
    "fork": Command(
        "go on in a new session that holds this branch, up to an entry",
        _fork,
        (("entry",), {"nargs": "?", "metavar": "ENTRY", "help": "the leaf where none is named"}),
        (("--before",), {"action": "store_true", "help": "up to before it, to ask it otherwise"}),
        (("--whole",), {"action": "store_true", "help": "every branch"}),
        (("--format",), {"choices": ("v3", "v4"), "help": "v3 is what pi opens too"}),
        (("--name",), {"help": "a name for the new session"}),
    ),
    "doctor": Command("look at kernel, versions, session file and model server", _doctor),
}
