"""Subcommands of `%agent` that are one function of the agent each."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping, Sequence

from IPython.core.error import UsageError

from pi_nb.harness.turn import NavigateResult
from pi_nb.models.types import THINKING_LEVELS
from pi_nb.result import PiError
from pi_nb.session.redact import Redaction
from pi_nb.text import quoted

from .agent import Agent
from .compact_progress import SummaryProgress
from .kernel_tools import python_tool
from .parsing import Command
from .status import Rows, Status, leaf_line, numbered, row_of

_NUMBER = re.compile(r"#?[1-9]\d*")


def _goto(asked: Agent, options: argparse.Namespace) -> Rows:
    moved = went(asked, options.entry, options.summarize)
    rows = [("text to edit", moved.editor_text)] if moved.editor_text else []
    return Rows(("", ""), rows, where_now(asked, moved))


def went(asked: Agent, where: str, summarize: Sequence[str] | None) -> NavigateResult:
    """Go to an entry; with words, or none of them, have the branch that is left summarised."""
    if summarize is None:
        return asked.goto(where)
    progress = SummaryProgress()
    progress.begin()
    said = "No summary."
    try:
        moved = asked.goto(
            where,
            summarize=True,
            instructions=" ".join(summarize) or None,
            on_text=progress.text,
        )
        said = "Summary written." if moved.summary_entry_id else "There was nothing to summarise."
    finally:
        progress.leave(said)
    return moved


def where_now(asked: Agent, moved: NavigateResult) -> str:
    """Where the leaf is after a move, and whether a summary stands there."""
    line = leaf_line(asked.session, asked.harness.leaf)
    if moved.summary_entry_id is None:
        return line
    return f"{line}. A summary of the branch that was left stands there."


def _label(asked: Agent, options: argparse.Namespace) -> Rows:
    session = asked.session
    if options.text is None:
        rows = [
            (label, *(numbered(session, entry).split(", ", 1) if entry in session else ("?", "")))
            for entry, label in session.labels.items()
        ]
        return Rows(("label", "#", "entry"), rows, "" if rows else "No labels yet.")
    note = labelled(asked, options.entry, options.text, "`%agent label {text} {entry}`")
    return Rows(("", ""), [], note)


def labelled(asked: Agent, where: str | None, text: str, right: str) -> str:
    """Label an entry, and say so.

    Args:
        where: The entry, as `find` takes it; None is the leaf.
        right: The line that does it, with `{text}` and `{entry}`.

    Raises:
        UsageError: the two stand the wrong way round, or the label would be taken for a number.
        PiError: `invalid_argument`, there is no such entry.
    """
    if where is not None and not finds(asked, where) and finds(asked, text):
        line = right.format(text=shlex.quote(where), entry=shlex.quote(text))
        raise UsageError(f"There is no entry {quoted(where)}; the other way round it is {line}.")
    if _NUMBER.fullmatch(text.strip()):
        line = right.format(text=shlex.quote(where or "TEXT"), entry=text.strip())
        raise UsageError(
            f"A label {text.strip()} would be taken for the number of an entry. To label that "
            f"entry: {line}."
        )
    entry = asked.label(text, where)
    said = f"labelled {quoted(text.strip())}" if text.strip() else "no longer labelled"
    return f"{asked.session.number(entry.id)} is {said}."


def finds(asked: Agent, where: str) -> bool:
    """Whether a word names an entry of the session, and one alone."""
    try:
        asked.find(where)
    except PiError:
        return False
    return True


def _lane(asked: Agent, options: argparse.Namespace) -> Rows:
    if options.lane:
        asked.use_lane(options.lane, begin=options.new)
    elif options.new:
        raise PiError("invalid_argument", "A new lane wants a name: `%agent lane NAME --new`.")
    session = asked.session
    rows = []
    for name in asked.lanes:
        leaf = row_of(session, session.leaf(name))
        said = "before the first entry" if leaf is None else numbered(session, leaf)
        rows.append((name, said, "here" if name == asked.harness.lane else ""))
    return Rows(("lane", "leaf", ""), rows)


def _thinking(asked: Agent, options: argparse.Namespace) -> Status:
    if options.level:
        asked.use_thinking(options.level)
    return asked.status()


def _tools(asked: Agent, options: argparse.Namespace) -> Rows:
    registered = {tool.name for tool in asked.tools}
    if "python" in (options.on or ()) and "python" not in registered:
        asked.add_tool(python_tool())
    asked.use_tools(on=options.on or (), off=options.off or ())
    active = asked.harness.active_tools
    rows = [
        (tool.name, "on" if tool.name in active else "off", "yes" if tool.changes else "")
        for tool in asked.tools
    ]
    note = "" if "python" in registered else "`%agent tools --on python` adds the python tool."
    return Rows(("tool", "offered", "asks first"), rows, note)


def wanted_redaction(options: argparse.Namespace) -> Redaction | None:
    """What `--redact`, `--name` and `--pattern` ask for; a name alone asks for all of it."""
    if not (options.redact or options.name or options.pattern):
        return None
    return Redaction(names=tuple(options.name), patterns=tuple(options.pattern))


def _export(asked: Agent, options: argparse.Namespace) -> Rows:
    done = asked.export(
        options.file,
        format=options.format,
        redact=wanted_redaction(options),
        overwrite=options.overwrite,
        whole=options.whole,
    )
    return Rows(("", ""), [], f"Written: {done}")


AGENT_COMMANDS: Mapping[str, Command] = {
    "goto": Command(
        "go to an entry of the session: the next prompt branches from there",
        _goto,
        (
            ("entry",),
            {"metavar": "ENTRY", "help": "its number in the outline, its label, or its id"},
        ),
        (
            ("--summarize",),
            {
                "nargs": "*",
                "metavar": "WORDS",
                "help": "have the branch that is left summarised; words are instructions for it",
            },
        ),
    ),
    "label": Command(
        "label an entry, so that `goto` finds it; without words, the labels",
        _label,
        (("text",), {"nargs": "?", "metavar": "LABEL", "help": "'' takes it away"}),
        (("entry",), {"nargs": "?", "metavar": "ENTRY", "help": "the leaf where none is named"}),
    ),
    "lane": Command(
        "the session's lanes; go on in another one",
        _lane,
        (("lane",), {"nargs": "?", "metavar": "NAME"}),
        (("--new",), {"action": "store_true", "help": "begin it, at the present leaf"}),
    ),
    "thinking": Command(
        "show or change how much the model thinks",
        _thinking,
        (("level",), {"nargs": "?", "choices": THINKING_LEVELS, "metavar": "LEVEL"}),
        begins=lambda options: options.level,
    ),
    "tools": Command(
        "the tools; offer some, or no longer",
        _tools,
        (("--on",), {"nargs": "+", "metavar": "TOOL"}),
        (("--off",), {"nargs": "+", "metavar": "TOOL"}),
        begins=lambda options: options.on or options.off,
    ),
    "export": Command(
        "write the branch as Markdown, or the session as a page or a file",
        _export,
        (("file",), {"metavar": "FILE", "help": "ends in .md, .html or .jsonl"}),
        (("--format",), {"metavar": "FORMAT", "help": "v3 (pi's) or v4, for a .jsonl"}),
        (("--redact",), {"action": "store_true", "help": "leave out keys and home folders"}),
        (
            ("--name",),
            {"action": "append", "default": [], "help": "leave out this name too; repeatable"},
        ),
        (
            ("--pattern",),
            {
                "action": "append",
                "default": [],
                "help": "leave out what this regular expression matches; repeatable",
            },
        ),
        (("--whole",), {"action": "store_true", "help": "for .md: all branches"}),
        (("--overwrite",), {"action": "store_true", "help": "replace FILE if it is there"}),
    ),
}
