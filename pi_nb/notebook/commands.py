"""Subcommands of `%agent` that are one function of the agent each."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pi_nb.models.types import THINKING_LEVELS
from pi_nb.result import PiError
from pi_nb.text import safe_line

from .agent import Agent
from .kernel_tools import python_tool
from .parsing import Command
from .status import Rows, Status


def _label(asked: Agent, options: argparse.Namespace) -> Rows:
    if options.text is None:
        rows = [(label, entry[-8:]) for entry, label in asked.session.labels.items()]
        return Rows(("label", "entry"), rows, "" if rows else "No labels yet.")
    entry = asked.label(options.text, options.entry)
    said = f"labelled {options.text}" if options.text.strip() else "no longer labelled"
    return Rows(("", ""), [], f"{entry.id[-8:]} is {safe_line(said)}.")


def _lane(asked: Agent, options: argparse.Namespace) -> Rows:
    if options.lane:
        asked.use_lane(options.lane, begin=options.new)
    elif options.new:
        raise PiError("invalid_argument", "A new lane wants a name: `%agent lane NAME --new`.")
    rows = [
        (name, leaf[-8:] if leaf else "before the first entry", "here" if here else "")
        for name, leaf in asked.lanes.items()
        for here in [name == asked.harness.lane]
    ]
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


def _doctor(asked: Agent, _options: argparse.Namespace) -> Rows:
    return asked.doctor()


def _export(asked: Agent, options: argparse.Namespace) -> Rows:
    done = asked.export(
        options.file,
        format=options.format,
        redact=options.redact,
        overwrite=options.overwrite,
        whole=options.whole,
    )
    return Rows(("", ""), [], f"Written: {done}")


AGENT_COMMANDS: Mapping[str, Command] = {
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
    ),
    "tools": Command(
        "the tools; offer some, or no longer",
        _tools,
        (("--on",), {"nargs": "+", "metavar": "TOOL"}),
        (("--off",), {"nargs": "+", "metavar": "TOOL"}),
    ),
    "doctor": Command("look at kernel, versions, session file and model server", _doctor),
    "export": Command(
        "write the branch as Markdown, or the session as a page or a file",
        _export,
        (("file",), {"metavar": "FILE", "help": "ends in .md, .html or .jsonl"}),
        (("--format",), {"metavar": "FORMAT", "help": "v3 (pi's) or v4, for a .jsonl"}),
        (("--redact",), {"action": "store_true", "help": "leave out keys and home folders"}),
        (("--whole",), {"action": "store_true", "help": "for .md: all branches"}),
        (("--overwrite",), {"action": "store_true", "help": "replace FILE if it is there"}),
    ),
}
