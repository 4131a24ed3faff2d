"""`%%agent` and `%agent`: the functions of `agent` from a cell's first line; `tree_magic`
has `%tree`, `context_magic` has `%context`, `compact_magic` has `%compact`.

    %%agent [-o NAME] [-q] [-b]     the cell's body is the prompt, word for word
    %agent [status|new|open|resume|list|model|goto|...] ...

A user's mistake is a `UsageError`: one line that names the next step, and a failed cell. A
model that fails makes a failed cell too; what had arrived is in the session and shown.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from traitlets import CaselessStrEnum, Int, Unicode

from pi_nb.session.repo import SessionRepo, pi_sessions
from pi_nb.text import safe_line

from .agent import Agent
from .cells import Cell, Walked
from .choosing import CHOOSING_COMMANDS, NONE_YET, needed
from .commands import AGENT_COMMANDS
from .compact_magic import CompactMagics
from .compact_options import COMPACT
from .completion import Completion, candidates, compact_candidates, tree_candidates
from .context_magic import CONTEXT, ContextMagics, context_candidates
from .current import current, hold, make_current
from .display import LiveCell
from .kernel import AWAITED, MAGIC, AwaitedCells
from .making import RETRY, agent
from .parsing import Command, HelpShown, Parser, as_usage_errors
from .session_commands import SESSION_COMMANDS
from .status import Rows, Status
from .tree_magic import TREE, TreeMagics

NAME = "agent"


class ModelFailed(Exception):
    """The model gave no answer. Shown as one line, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def _cell_parser() -> Parser:
    parser = Parser("%%agent", description="Ask the agent; the cell's body is the prompt.")
    parser.add_argument("-o", "--out", metavar="NAME", help="bind the result to this name")
    parser.add_argument("--fresh", action="store_true", help="ask also where this was asked before")
    parser.add_argument(
        "-b", "--background", action="store_true", help="return at once; -o binds the run itself"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show nothing in the cell")
    return parser


@magics_class
class PiMagics(Magics):
    """The magics of one shell, and their settings: `%config PiMagics`."""

    model = Unicode(
        "", help="The model of new agents, e.g. http://127.0.0.1:8080 or http://...#name."
    ).tag(config=True)
    approve = CaselessStrEnum(
        ("ask", "allow", "deny"),
        default_value="ask",
        help="For tools that change things in new agents: ask, allow or deny.",
    ).tag(config=True)
    walk = CaselessStrEnum(
        ("show", "kernel"),
        default_value="show",
        help="For a cell answered from the session: kernel runs its python calls again.",
    ).tag(config=True)
    display = CaselessStrEnum(
        ("stream", "quiet"),
        default_value="stream",
        help="What a %%agent cell shows: the run as it goes on, or nothing, as with -q.",
    ).tag(config=True)
    session_dir = Unicode(
        "", help="Where new sessions go; empty: PI_NB_SESSION_DIR, else ~/.pi_nb/sessions."
    ).tag(config=True)
    session_format = CaselessStrEnum(
        ("v4", "v3"),
        default_value="v4",
        help="The form of new sessions: v4, our own, or v3, which pi opens too.",
    ).tag(config=True)
    retry_attempts = Int(
        RETRY.attempts, min=1, help="How often a request is made at most, in new agents."
    ).tag(config=True)

    # --- %%agent ----------------------------------------------------------------------

    @cell_magic(MAGIC)  # type: ignore[arg-type]
    @no_var_expand
    def agent_cell(self, line: str, cell: str) -> None:
        """Ask the agent and wait, blocking; what a rewritten cell does by await."""
        if (ready := self._prepare(line, cell)) is None:
            return
        asked, options = ready
        with self._kept(asked, options), as_usage_errors():
            text, live = cell.strip("\n"), self._live(options)
            if (place := self._entered(asked, text, live, options)) is None:
                return
            asked.prompt_sync(text, show=live, cell=place)
        self._done(asked)

    @cell_magic(AWAITED)  # type: ignore[arg-type]
    @no_var_expand
    async def agent_awaited(self, line: str, cell: str) -> None:
        """The form that a top-level `%%agent` cell is rewritten to."""
        if (ready := self._prepare(line, cell)) is None:
            return
        asked, options = ready
        with self._kept(asked, options), as_usage_errors():
            text, live = cell.strip("\n"), self._live(options)
            if (place := self._entered(asked, text, live, options)) is None:
                return
            await asked.prompt(text, show=live, cell=place)
        self._done(asked)

    def _prepare(self, line: str, cell: str) -> tuple[Agent, argparse.Namespace] | None:
        parser = _cell_parser()
        try:
            options = parser.read(line)
        except HelpShown as shown:
            print(shown)
            return None
        if options.out is not None and not options.out.isidentifier():
            parser.error(f"-o wants a Python name, not {options.out!r}")
        if not cell.strip():
            raise UsageError("%%agent: the cell is empty. Write the prompt below the first line.")
        with as_usage_errors():
            asked = self.in_use()
            asked.check_ready()
        return asked, options

    def _live(self, options: argparse.Namespace) -> LiveCell:
        return LiveCell(quiet=options.quiet or self.display == "quiet", raises=True)

    def _entered(
        self, asked: Agent, text: str, live: LiveCell, options: argparse.Namespace
    ) -> Cell | None:
        """The cell, gone to where it begins; None where it was walked, and is shown, or
        goes on in the background."""
        cell = asked.cell(text)
        entered = asked.enter(cell, fresh=options.fresh)
        if isinstance(entered, Walked):
            again = asked.repeat_in_kernel(entered) if self.walk == "kernel" else []
            live.walk(entered.result.messages, entered.note(again))
            return None
        live.told = entered
        if options.background:
            run = asked.start(text, show=live, cell=cell)
            if options.out:
                self._namespace[options.out] = run
            return None
        return cell

    @contextlib.contextmanager
    def _kept(self, asked: Agent, options: argparse.Namespace) -> Iterator[None]:
        """Bind the result to its name, also that of an interrupted run."""
        before = asked.last
        try:
            yield
        finally:
            if options.out and not options.background and asked.last is not before:
                self._namespace[options.out] = asked.last

    @staticmethod
    def _done(asked: Agent) -> None:
        result = asked.last
        if result is not None and result.message.stop_reason == "error":
            why = safe_line(result.message.error_message or "no reason given", 300).rstrip(". ")
            raise ModelFailed(
                f"{result.model} gave no answer: {why}. "
                "The prompt and what had arrived are in the session."
            )

    # --- %agent -----------------------------------------------------------------------

    @line_magic(MAGIC)  # type: ignore[arg-type]
    @no_var_expand
    def agent_line(self, line: str) -> Rows | Status | None:
        """Look at the agent, or change it. `%agent -h` says how."""
        name, _, rest = line.strip().partition(" ")
        if name in ("-h", "--help", "help"):
            print(_HELP)
            return None
        command = _COMMANDS.get(name or "status")
        if command is None:
            near = difflib.get_close_matches(name, _COMMANDS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else "A prompt goes into a %%agent cell."
            known = ", ".join(_COMMANDS)
            raise UsageError(f"%agent has no {name!r}. {hint} It has {known}; see `%agent -h`.")
        parser = Parser(f"%agent {name or 'status'}", description=command.about)
        command.options(parser)
        try:
            options = parser.read(rest)
        except HelpShown as shown:
            print(shown)
            return None
        with as_usage_errors():
            about = self._whom(command, options) if name in AGENT_COMMANDS else self
            answer: Rows | Status | None = command.run(about, options)
        self._tell()
        return answer

    def _whom(self, command: Command, options: argparse.Namespace) -> Agent:
        """The agent that a command speaks of; only one that sets something makes it."""
        return self.in_use() if command.begins(options) else needed(self)

    def _tell(self) -> None:
        """What a write did to the session's file besides, once."""
        if (found := self._former()) is not None and (news := found.news()):
            print(news)

    def in_use(self) -> Agent:
        """The agent that `agent` names, else the newest one, else a new one bound to `agent`.

        A name that the user gave to something else, or to another agent, is left as it is.

        Raises:
            PiError: `invalid_state`, `agent` names one that was closed.
        """
        held = self._namespace.get(NAME)
        if isinstance(held, Agent):
            held.check_open()
            make_current(held)
            return held
        found = self._former() or self._made(model=self.model or None, approve=self.approve)
        self._namespace.setdefault(NAME, found)
        return found

    def _made(self, file: Path | None = None, **settings: Any) -> Agent:
        """An agent with what `%config PiMagics` says of all of them."""
        retry = replace(RETRY, attempts=self.retry_attempts)
        folder, settings = self.session_dir or None, {"format": self.session_format, **settings}
        return agent(file, retry=retry, session_dir=folder, **settings)

    def bind(self, made: Agent) -> Agent:
        """What the user asked for by name becomes `agent`, unless that is something else."""
        make_current(made)
        hold(made)
        if isinstance(self._namespace.get(NAME, made), Agent):
            self._namespace[NAME] = made
        return made

    def _former(self) -> Agent | None:
        """The open agent whose model and approvals a new one takes over."""
        for found in (self._namespace.get(NAME), current()):
            if isinstance(found, Agent) and not found.closed:
                return found
        return None

    def looked_at(self) -> Agent | None:
        """The agent to look at: what `agent` names, else the newest one. To look makes none.

        Raises:
            PiError: `invalid_state`, `agent` names one that was closed.
        """
        held = self._namespace.get(NAME)
        if isinstance(held, Agent):
            held.check_open()
            return held
        return self._former()

    @property
    def _namespace(self) -> dict[str, Any]:
        namespace: dict[str, Any] = self.shell.user_ns if self.shell else {}
        return namespace

    def fresh(self, *, model: str | None = None, **settings: Any) -> Status:
        """A new session, with the model and the approvals of the agent before it."""
        return self._begun(model=model, **settings)

    def go_on(self, path: Path, **settings: Any) -> Status:
        """An agent on a session file, with the model and the approvals of the one before it."""
        return self._begun(path, model=None, **settings)

    def _begun(self, file: Path | None = None, *, model: str | None, **settings: Any) -> Status:
        before = self._former()
        chosen: Any = model or (before.harness.model if before else None) or self.model or None
        approve = before.harness.approval.approve if before else self.approve
        return self.bind(self._made(file, model=chosen, approve=approve, **settings)).status()

    def named(self, variable: str) -> Agent | None:
        """The open agent that a variable of the user names."""
        held = self._namespace.get(variable)
        return held if isinstance(held, Agent) and not held.closed else None

    def repo(self) -> SessionRepo:
        """The sessions that the commands speak of: ours where they are kept, and pi's."""
        return SessionRepo(self.session_dir or None, pi_root=pi_sessions())


_COMMANDS: Mapping[str, Command] = {**CHOOSING_COMMANDS, **SESSION_COMMANDS, **AGENT_COMMANDS}

_HELP = "\n".join(
    [
        "%agent [COMMAND]                       look at the agent, or change it",
        "%%agent [-o NAME] [-q] [-b] [--fresh]  ask it; the cell's body is the prompt",
        "%tree                                  the session as a tree; `%tree -h`",
        "%context                               what the next request holds; `%context -h`",
        "%compact                               make room in it; `%compact -h`",
        "",
        *(f"  %agent {name:<8} {command.about}" for name, command in _COMMANDS.items()),
        "",
        "`%agent COMMAND -h` shows a command's options. In Python: pi_nb.agent(...),",
        "agent.status(), .use_model(...), .goto(...), .outline(), pi_nb.SessionRepo().list().",
    ]
)


# --- loading ----------------------------------------------------------------------------------

_loaded: dict[int, tuple[tuple[Magics, ...], AwaitedCells, list[Completion]]] = {}


def load(ip: Any) -> None:
    """Register the magics in a shell. The second call does nothing."""
    if id(ip) in _loaded:
        return
    magics = PiMagics(shell=ip, parent=ip)
    looking = (ip, magics.looked_at, NONE_YET)
    looks = (TreeMagics(*looking), ContextMagics(*looking), CompactMagics(*looking))
    registered = (magics, *looks)
    ip.register_magics(*registered)
    cells = AwaitedCells(ip)
    cells.install()
    former = magics._former
    completions = [
        Completion(ip, f"%{MAGIC}", lambda line: candidates(line, _COMMANDS, former())),
        Completion(ip, f"%{TREE}", lambda line: tree_candidates(line, former())),
        Completion(ip, f"%{CONTEXT}", context_candidates),
        *(
            Completion(ip, f"{mark}{COMPACT}", lambda line: compact_candidates(line, former()))
            for mark in ("%", "%%")
        ),
    ]
    for completion in completions:
        completion.install()
    _loaded[id(ip)] = (registered, cells, completions)


def unload(ip: Any) -> None:
    """Take the magics out of a shell again."""
    if (entry := _loaded.pop(id(ip), None)) is None:
        return
    registered, cells, completions = entry
    cells.uninstall()
    for completion in completions:
        completion.uninstall()
    manager = ip.magics_manager
    for magics in registered:
        for kind, named in magics.magics.items():
            for name in named:
                manager.magics[kind].pop(name, None)
        manager.registry.pop(type(magics).__name__, None)
        if magics in ip.configurables:
            ip.configurables.remove(magics)
