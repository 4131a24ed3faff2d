"""What can be looked at and changed of an agent without asking its model anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pi_nb import background
from pi_nb.env.types import ExecutionEnv
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.operations import Recovered
from pi_nb.harness.requests import SentRequest
from pi_nb.loop.types import AgentTool
from pi_nb.models.types import ChatModel, Model, ThinkingLevel
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.entries import Entry
from pi_nb.session.exporting import Exported, ExportFormat
from pi_nb.session.fork import Fork, clone_session, fork_session
from pi_nb.session.index import Diagnostic
from pi_nb.session.markdown import to_markdown
from pi_nb.session.outline import LIMIT, Outline
from pi_nb.session.redact import Redaction
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session

from .cells import Cells
from .doctor import examine
from .model_choice import chat_model
from .status import Rows, Status, audit, sentence


class ForkedFile(NamedTuple):
    """A new session's file. `text` is the user message it stops before, to be edited."""

    path: Path
    text: str = ""


class AgentSettings:
    """The part of an `Agent` that needs no run. Every method may be called from any thread
    but the loop's."""

    harness: AgentHarness
    recovered: Recovered
    _cells: Cells
    _told: tuple[Diagnostic, ...] = ()
    """What is odd about the session's file, as far as it is known to the user."""

    def check_open(self) -> None:
        """Raises:
        PiError: `invalid_state`, it was closed.
        """
        raise NotImplementedError

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

    @property
    def tools(self) -> tuple[AgentTool, ...]:
        return self.harness.tools

    @property
    def requests(self) -> Sequence[SentRequest]:
        """The last requests as they were sent, the newest last: `agent.requests[-1]`."""
        return self.harness.requests

    @property
    def lanes(self) -> Mapping[str, str | None]:
        """The session's lanes and the leaf of each."""
        return self.session.lanes

    def audit(self) -> Rows:
        """Every tool call on the present branch: what it was, who let it run, what came of it."""
        return audit(self.session, self.harness.lane)

    def outline(
        self,
        lane: str | None = None,
        *,
        filter: str = "default",
        find: str | None = None,
        ids: bool = False,
        fold: bool = False,
        limit: int | None = LIMIT,
    ) -> Outline:
        """The session's tree as text and HTML, the branch of the agent's lane marked.

        Args and errors are those of `session.outline`.
        """
        lane = lane or self.harness.lane
        return self.session.outline(lane, filter=filter, find=find, ids=ids, fold=fold, limit=limit)

    def status(self) -> Status:
        """Where it stands: session, model, size of the context, tools, approvals."""
        context = self.session.context(self.harness.lane)
        approve = self.harness.approval.approve
        return Status(
            session=str(self.session.path or "in memory"),
            name=self.session.name,
            cwd=self.env.cwd if self.env else "",
            model=self.model,
            thinking_level=self.harness.thinking_level,
            tools=self.harness.active_tools,
            approve=approve if isinstance(approve, str) else "by a function",
            messages=len(context.items),
            recovered=str(self.recovered) if self.recovered else "",
            context=self.harness.size,
            used=context.model,
            phase=self.harness.phase,
        )

    def news(self) -> str:
        """What writing did to the session's file besides: a torn end set aside, v3 made of
        v1. Each is said once; `session.diagnostics` keeps it. Empty: nothing new."""
        now = self.session.diagnostics
        new = [odd for odd in now if odd not in self._told]
        self._told = now
        return " ".join(sentence(odd.message) for odd in new)

    def doctor(self) -> Rows:
        """What may be wrong, looked at: kernel, versions, lock, session, model server.

        The server is asked for its list, without any key.
        """
        return examine(self.harness)

    def markdown(self) -> str:
        """The present branch as Markdown: what was asked and answered, and the calls."""
        return "\n".join(to_markdown(self.session, lane=self.harness.lane))

    def export(
        self,
        file: str | Path,
        *,
        format: ExportFormat | None = None,
        redact: bool | Redaction | None = None,
        overwrite: bool = False,
        whole: bool = False,
    ) -> Exported:
        """As `Session.export`, with this agent's lane."""
        return self.session.export(
            file,
            format=format,
            redact=redact,
            overwrite=overwrite,
            lane=self.harness.lane,
            whole=whole,
        )

    # --- moving and settings ----------------------------------------------------------

    def find(self, where: str | int | Entry) -> Entry:
        """An entry by itself, its number in the outline, its label, or its id.

        Raises:
            PiError: `invalid_argument`, nothing or more than one entry fits.
        """
        return where if isinstance(where, Entry) else self.session.find(str(where))

    def label(self, text: str | None, where: str | int | Entry | None = None) -> Entry:
        """Label an entry, the leaf where none is named; no text takes the label away.

        Raises:
            PiError: `invalid_argument`, there is no such entry.
        """
        self.check_open()
        target = self.harness.leaf if where is None else self.find(where).id
        if target is None:
            raise PiError("invalid_argument", "There is nothing to label yet.")
        background.call(self.session.set_label(target, text))
        return self.session.entry(target)

    def fork(
        self,
        where: str | int | Entry | None = None,
        *,
        before: bool = False,
        whole: bool = False,
        format: Format | None = None,
        cwd: str | Path | None = None,
        name: str | None = None,
        session_dir: str | Path | None = None,
    ) -> ForkedFile:
        """Write the branch up to an entry, the leaf where none is named, into a new session.

        Args:
            before: Stop before that entry; the text of a user message comes back.
            whole: Take every branch, and the records.
            format: `v3`, which pi opens too, or `v4`; None is that of the session.
            cwd: The folder that it is a session of, instead of this one's; where that is gone,
                the one that the agent works in.
            session_dir: Where it goes, instead of `PI_NB_SESSION_DIR`.

        Returns:
            Its file, for `pi_nb.agent(...)`, and that text. This agent stays where it is.

        Raises:
            PiError: `invalid_argument`, there is no such entry; `session`.
        """
        self.check_open()
        if cwd is None and self.env is not None and not Path(self.session.cwd).is_dir():
            cwd = self.env.cwd
        where_to: dict[str, Any] = {
            "format": format,
            "cwd": cwd,
            "repo": SessionRepo(session_dir),
            "name": name,
        }
        if whole:
            if before or where is not None:
                raise PiError("invalid_argument", "The whole tree has no end: name no entry.")
            made = Fork(background.call(clone_session(self.session, **where_to)))
        else:
            leaf = self.harness.leaf if where is None else self.find(where).id
            made = background.call(fork_session(self.session, leaf, before=before, **where_to))
        path = made.session.path
        made.session.close()
        assert path is not None, "a repo gives files"
        return ForkedFile(path, made.text)

    def use_lane(self, name: str, *, begin: bool = False) -> None:
        """Go on in another lane of the session; `begin` makes it, at the present leaf.

        Raises:
            PiError: `busy`; `invalid_argument`, there is no such lane, or it is there already.
        """
        self.check_open()
        background.call(self.harness.use_lane(name, begin=begin))
        self._cells = Cells(self.harness)

    def use_model(self, model: ChatModel | str, *, window: int | None = None) -> Model:
        """Use another model from the next turn on: an object, or a server's address.

        Args:
            model: A `ChatModel`; `http://host:port`, with `#name` for one of its list; or
                the name of another model of the present server.
            window: Tokens of its context window, where the server does not say it right.

        Raises:
            PiError: `invalid_argument`, with what is wrong and the next step.
        """
        self.check_open()
        chosen = chat_model(model, window, beside=self.model)
        background.call(self.harness.set_model(chosen))
        return chosen.model

    def use_thinking(self, level: ThinkingLevel) -> None:
        """Another thinking level, from the next turn on.

        Raises:
            PiError: `invalid_argument`, there is no such level.
        """
        self.check_open()
        background.call(self.harness.set_thinking_level(level))

    def use_tools(self, *, on: Sequence[str] = (), off: Sequence[str] = ()) -> None:
        """Offer these tools to the model from the next turn on, and those no longer.

        Raises:
            PiError: `invalid_argument`, there is no such tool.
        """
        self.check_open()
        names = [tool.name for tool in self.tools]
        if unknown := [name for name in (*on, *off) if name not in names]:
            raise PiError(
                "invalid_argument",
                f"No tool named {', '.join(unknown)}. Tools: {', '.join(names) or 'none'}.",
            )
        active = ({*self.harness.active_tools} | {*on}) - {*off}
        background.call(self.harness.set_active_tools([name for name in names if name in active]))

    def add_tool(self, tool: AgentTool) -> None:
        """One more tool, offered from the next turn on; one of that name is replaced.

        Raises:
            PiError: `invalid_state`, the agent is closed.
        """
        self.check_open()
        active = [*self.harness.active_tools]
        others = [other for other in self.tools if other.name != tool.name]

        async def add() -> None:
            await self.harness.set_tools([*others, tool])
            await self.harness.set_active_tools([*(n for n in active if n != tool.name), tool.name])

        background.call(add())
