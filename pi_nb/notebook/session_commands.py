"""Subcommands of `%agent` that look at sessions, or change one that is not open."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from IPython.core.error import UsageError

from pi_nb.session.repo import SessionRepo
from pi_nb.text import count

from .making import working_folder
from .parsing import Command
from .status import Rows, Status

MOST_HITS = 50
"""Rows of a search in a cell; `SessionRepo().search(...)` gives all."""


class Magics(Protocol):
    """The magics, as far as sessions are concerned."""

    def repo(self) -> SessionRepo: ...

    def go_on(self, path: Path, **settings: Any) -> Status:
        """An agent on a session file, bound to `agent`."""
        ...


def _list(magics: Magics, options: argparse.Namespace) -> Rows:
    infos = magics.repo().list(None if options.all else working_folder())
    rows = [
        (
            info.id[-12:],
            info.name or "",
            _when(info.modified),
            "pi" if info.origin == "pi" else "",
            info.cwd if options.all else "",
        )
        for info in infos
        if not info.empty
    ]
    note = "`%agent resume ID` goes on with one."
    if not rows:
        note = "No sessions for this folder yet. A %%agent cell starts one."
    return Rows(("id", "name", "last message", "", "folder" if options.all else ""), rows, note)


def _resume(magics: Magics, options: argparse.Namespace) -> Status:
    repo, here = magics.repo(), working_folder()
    if options.session:
        info = repo.find(options.session)
    elif (latest := repo.latest(here)) is not None:
        info = latest
    else:
        raise UsageError(f"No session yet for {here}. `%agent list --all` shows the others.")
    return magics.go_on(info.path, **({"cwd": here} if options.here else {}))


def _search(magics: Magics, options: argparse.Namespace) -> Rows:
    text = " ".join(options.text)
    found = magics.repo().search(text, None if options.all else working_folder())
    hits = list(islice(found, MOST_HITS + 1))
    rows = [
        (hit.info.id[-12:], hit.info.name or "", f"#{hit.number}", hit.snippet)
        for hit in hits[:MOST_HITS]
    ]
    note = "`%agent resume ID`, then `%agent goto NUMBER` goes there." if rows else "Not found."
    if len(hits) > MOST_HITS:
        note = f"The first {count(MOST_HITS, 'hit')}; pi_nb.SessionRepo().search(...) gives all."
    return Rows(("id", "name", "entry", "text"), rows, note)


def _rename(magics: Magics, options: argparse.Namespace) -> Rows:
    repo = magics.repo()
    info = repo.find(options.session)
    repo.rename(info, options.name)
    said = f"is now named {options.name}" if options.name.strip() else "has no name any more"
    return Rows(("", ""), [], f"{info.id[-12:]} {said}.")


def _delete(magics: Magics, options: argparse.Namespace) -> Rows:
    repo = magics.repo()
    info = repo.find(options.session)
    repo.delete(info)
    return Rows(("", ""), [], f"{info.name or info.id[-12:]} is in the trash.")


def _when(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000).strftime("%Y-%m-%d %H:%M")


_SESSION = (("session",), {"metavar": "SESSION", "help": "id, its beginning or end, name, file"})
_ALL = (("--all",), {"action": "store_true", "help": "of every folder"})

SESSION_COMMANDS: Mapping[str, Command] = {
    "resume": Command(
        "go on with the latest session of this folder, or with the named one",
        _resume,
        (_SESSION[0], {**_SESSION[1], "nargs": "?"}),
        (("--here",), {"action": "store_true", "help": "in this folder, not in its own"}),
    ),
    "list": Command("the sessions of this folder, pi's too", _list, _ALL),
    "search": Command(
        "look for a text in the sessions of this folder",
        _search,
        (("text",), {"nargs": "+", "metavar": "TEXT"}),
        _ALL,
    ),
    "rename": Command(
        "name a session; '' takes its name away",
        _rename,
        _SESSION,
        (("name",), {"metavar": "NAME"}),
    ),
    "delete": Command("move a session to the trash", _delete, _SESSION),
}
