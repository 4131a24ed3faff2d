"""What Tab offers after `%agent`, `%tree` and `%compact`: commands, options, models, labels,
numbers, levels, tools, policies, open agents.

Nothing is made and nobody is asked: only what is known already is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pi_nb.compaction.plan import Plan
from pi_nb.compaction.policy import policies
from pi_nb.compaction.sections import PROGRESS, SECTIONS
from pi_nb.harness.compaction_settings import AUTO
from pi_nb.models.registry import last_list
from pi_nb.models.types import THINKING_LEVELS
from pi_nb.result import PiError
from pi_nb.session.filters import FILTERS
from pi_nb.session.naming import short
from pi_nb.session.session import Session

from .agent import Agent
from .compact_options import COMPACT_OPTIONS
from .compacting import EXTRACTIVE
from .current import agents

HOOK = "complete_command"
NEWEST = 30
"""Entries that are offered, the newest of the branch."""

TREE_OPTIONS = (
    "--filter", "--find", "--goto", "--summarize", "--label", "--lane", "--ids", "--fold",
    "--all", "-o", "-h",
)  # fmt: skip


def candidates(line: str, commands: Iterable[str], found: Agent | None) -> list[str]:
    """All words that could stand at the end of a line, whatever has been typed of it.

    Args:
        line: From `%agent` up to the cursor.
        found: The agent that the magics would use, if there is one.
    """
    words = line.split()[1:]
    if not line.endswith((" ", "\t")) and words:
        words.pop()  # the word being typed
    if not words:
        return [*commands, "-h"]
    match words[0]:
        case "use":
            return [name for agent in agents() for name in _names(agent.session)]
        case "thinking":
            return [*THINKING_LEVELS]
        case "tools" if found is not None:
            return ["--on", "--off", *dict.fromkeys([*(t.name for t in found.tools), "python"])]
        case "model" if found is not None:
            return [*last_list(found.model.base_url)]
        case "lane" if found is not None:
            return [*found.lanes, "--new"]
        case "goto" | "fork" if found is not None:
            return ["--summarize"] if words[0] == "goto" and len(words) > 1 else _rows(found)
        case "open" | "resume":
            return ["--here"]
        case "label" if found is not None:
            return _rows(found) if len(words) > 1 else [*found.session.labels.values()]
        case _:
            return ["-h"]


def _names(session: Session) -> list[str]:
    return [*([session.name] if session.name else []), short(session.id)]


def tree_candidates(line: str, found: Agent | None) -> list[str]:
    """The same for a line that begins with `%tree`: what its last option takes, or options."""
    words = line.split()[1:]
    if not line.endswith((" ", "\t")) and words:
        words.pop()
    match words[-1:]:
        case ["--filter"]:
            return [*FILTERS]
        case ["--lane"]:
            return [*found.lanes] if found is not None else []
        case ["--goto" | "--label"]:
            return _rows(found) if found is not None else []
        case _:
            return [option for option in TREE_OPTIONS if option not in words]


def compact_candidates(line: str, found: Agent | None) -> list[str]:
    """The same for `%compact` and `%%compact`."""
    words = line.split()[1:]
    if not line.endswith((" ", "\t")) and words:
        words.pop()
    option = next((word for word in reversed(words) if word.startswith("-")), "")
    last = words[-1] if words else ""
    match option:
        case "--policy" if last == option:
            return [*policies()]
        case "--auto" if last == option:
            return [*AUTO]
        case "--edit" if last == option:
            return [*SECTIONS, *PROGRESS]
        case "--model" if last == option:
            return [EXTRACTIVE, *(last_list(found.model.base_url) if found else ())]
        case "--cut" if last == option and found is not None:
            return _cuts(found)
        case "--replace" | "--restore" if last == option and found is not None:
            return _rows(found)
        case "--omit" | "--pin" | "--unpin" if found is not None:
            return _rows(found)
        case _:
            return [known for known in COMPACT_OPTIONS if known not in words]


def _cuts(found: Agent) -> list[str]:
    """The rows where the branch may be cut, the newest first, and labels on them."""
    try:
        plan = found.plan(keep=1)
    except PiError:  # settings that name no policy: the magic says so when it is run
        return []
    cuts = plan.cuts_near(NEWEST) if isinstance(plan, Plan) else []
    labels = found.session.labels
    named = [label for cut in cuts if (label := labels.get(cut.entry_id))]
    return [*named, *(str(cut.number) for cut in reversed(cuts))]


def _rows(found: Agent) -> list[str]:
    """Labels, and the numbers that the outline shows, the newest first."""
    session = found.session
    ids = session.branch_ids(found.harness.lane)[-NEWEST:]
    return [*session.labels.values(), *(str(session.number(id)) for id in reversed(ids))]


class Completion:
    """The hook for one magic in one shell."""

    def __init__(self, ip: Any, key: str, known: Callable[[str], list[str]]) -> None:
        """
        Args:
            key: What the line begins with, `%agent`.
            known: The words that could stand at the end of a line.
        """
        self._ip = ip
        self._key = key
        self._known = known

    def install(self) -> None:
        self._ip.set_hook(HOOK, self._complete, str_key=self._key)

    def uninstall(self) -> None:
        """IPython has no way to take a hook back: its table is what it is kept in."""
        self._ip.strdispatchers[HOOK].strs.pop(self._key, None)

    def _complete(self, _ip: Any, event: Any) -> list[str]:
        known = self._known(event.line)
        # A name with a space would be two words.
        return [word for word in known if word.startswith(event.symbol) and " " not in word]
