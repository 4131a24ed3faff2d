"""Subcommands of `%agent` that look at sessions, or change one that is not open."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import islice

from IPython.core.error import UsageError

from pi_nb.result import PiError
from pi_nb.session.listing import SessionInfo, list_table
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session
from pi_nb.text import count, safe_line

from .choosing import HERE, Magics, where
from .making import working_folder
from .parsing import Command
from .status import Rows, Status, sentence

MOST_HITS = 50
"""Rows of a search in a cell where nobody says how many."""


def _list(magics: Magics, options: argparse.Namespace) -> Rows:
    infos = magics.repo().list(None if options.all else working_folder())
    head, rows = list_table(infos, everywhere=options.all)
    note = "`%agent resume ID` goes on with one."
    if not rows:
        note = "No sessions yet" if options.all else "No sessions for this folder yet"
        note += ". A %%agent cell starts one" + _others(options) + "."
    return Rows(head, rows, note)


def _others(options: argparse.Namespace) -> str:
    return "" if options.all else "; `--all` looks in every folder"


def _resume(magics: Magics, options: argparse.Namespace) -> Status:
    repo, here = magics.repo(), working_folder()
    if options.session:
        info = _named(repo, options.session)
    elif (latest := repo.latest(here)) is not None:
        info = latest
    else:
        raise UsageError(f"No session yet for {here}. `%agent list --all` shows the others.")
    return magics.go_on(info.path, **where(options))


def _named(repo: SessionRepo, word: str) -> SessionInfo:
    try:
        return repo.find(word)
    except PiError as error:
        if error.code != "invalid_argument":
            raise
        text = f"{error.message}. `%agent list --all` shows the sessions."
        raise PiError(error.code, text) from None


def _search(magics: Magics, options: argparse.Namespace) -> Rows:
    text, most = " ".join(options.text), options.most
    found = magics.repo().search(text, None if options.all else working_folder())
    hits = list(islice(found, most + 1))
    rows = [
        (hit.info.short_id, hit.info.name or "", f"#{hit.number}", hit.snippet)
        for hit in hits[:most]
    ]
    note = "`%agent resume ID`, then `%agent goto NUMBER` goes there."
    if not rows:
        note = f"Not found{_others(options)}."
    elif len(hits) > most:
        note = f"The first {count(most, 'hit')}; `--most {10 * most}` shows more."
    return Rows(("id", "name", "entry", "text"), rows, note)


def _rename(magics: Magics, options: argparse.Namespace) -> Rows:
    repo = magics.repo()
    info = _named(repo, options.session)
    done = repo.rename(info, options.name)
    named = safe_line(options.name)
    said = f"is now named {named}" if named else "has no name any more"
    # An agent that is open on it tells the rest itself.
    besides = (
        "" if Session.opened(info.path) else "".join(f" {sentence(odd.message)}" for odd in done)
    )
    return Rows(("", ""), [], f"{info.short_id} {said}.{besides}")


def _delete(magics: Magics, options: argparse.Namespace) -> Rows:
    repo = magics.repo()
    info = _named(repo, options.session)
    known = safe_line(info.name or info.short_id)
    if info.origin != "pi" and Session.opened(info.path) is not None:
        raise UsageError(
            f"{known} is open here. `agent.close()` on the agent that has it, then delete it."
        )
    repo.delete(info)
    return Rows(("", ""), [], f"{known} is in the trash.")


def _many(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of rows, not {text!r}")
    return int(text)


_SESSION = (
    ("session",),
    {"metavar": "SESSION", "help": "name, id, a beginning of them, or file"},
)
_ALL = (("--all",), {"action": "store_true", "help": "of every folder"})

SESSION_COMMANDS: Mapping[str, Command] = {
    "resume": Command(
        "go on with the latest session of this folder, or with the named one",
        _resume,
        (_SESSION[0], {**_SESSION[1], "nargs": "?"}),
        HERE,
    ),
    "list": Command("the sessions of this folder, pi's too", _list, _ALL),
    "search": Command(
        "look for a text in the sessions of this folder",
        _search,
        (("text",), {"nargs": "+", "metavar": "TEXT"}),
        _ALL,
        (
            ("--most",),
            {"type": _many, "default": MOST_HITS, "metavar": "N", "help": "rows; default 50"},
        ),
    ),
    "rename": Command(
        "name a session; '' takes its name away",
        _rename,
        _SESSION,
        (("name",), {"metavar": "NAME"}),
    ),
    "delete": Command("move a session to the trash", _delete, _SESSION),
}
