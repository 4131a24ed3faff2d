"""`pi-nb`: the command line. A mistake is one line on stderr.

Exit codes: 0; 1, something was refused (a file, a demo's folder); 2, the command line says
something that there is not; 130, interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pi_nb
from pi_nb.result import PiError
from pi_nb.text import safe_line

WORDS = {
    "overwrite=True replaces it": "--overwrite replaces it",
    "format= says what it is": "--format says what it is",
}
"""What an error says in Python's words, to what is typed here instead."""

FORMATS = ("v3", "v4", "md", "html")


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are one line with the next step."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {safe_line(message, 200)}. See `{self.prog} -h`.\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="pi-nb",
        description="An agent harness that lives in a notebook.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pi-nb {pi_nb.__version__}")
    # No `required`: argparse would name the choices in its own words; `main` says it better.
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    _add_demo(commands)
    _add_list(commands)
    _add_inspect(commands)
    _add_export(commands)
    _add_open(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        allow_abbrev=False,
        help="watch a scripted agent mend a small project, with real files and tools",
        description="Lay out a small project whose test fails, and let a scripted agent find "
        "and mend it with the real tools. Needs no key and no network.",
    )
    demo.add_argument(
        "--notebook",
        nargs="?",
        const="00_first_prompt.ipynb",
        metavar="FILE",
        help="instead, execute the first notebook and write it to FILE "
        "(default: %(const)s in this folder; needs pi-nb[notebook])",
    )
    demo.add_argument(
        "--folder", metavar="FOLDER", help="work here instead of in a new temporary folder"
    )


def _add_list(commands: Any) -> None:
    parser = commands.add_parser(
        "list",
        allow_abbrev=False,
        help="the sessions of this folder",
        description="The sessions that worked in this folder, ours and pi's own; the one with "
        "the newest message first, those without any left out. In front, the end of the id.",
    )
    parser.add_argument("--all", action="store_true", help="those of every folder")
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_inspect(commands: Any) -> None:
    parser = commands.add_parser(
        "inspect",
        allow_abbrev=False,
        help="what a session holds: tree, numbers, context, what is odd",
        description="Show a session without changing a byte of it: its tree, numbers and "
        "costs, what a model would be sent, and what is odd about the file. Of a broken file "
        "the valid part is shown.",
    )
    _add_target(parser)
    parser.add_argument("--lane", default="main", metavar="LANE", help="default: main")
    parser.add_argument("--all", action="store_true", help="draw every row of the tree")
    parser.add_argument("--json", action="store_true", help="for programs")


def _add_export(commands: Any) -> None:
    parser = commands.add_parser(
        "export",
        allow_abbrev=False,
        help="write a session as Markdown, as a page, or in the other format",
        description="Write a session to OUT: .md is a transcript of one branch, .html a page "
        "that needs no network, .jsonl a session file.",
    )
    _add_target(parser)
    parser.add_argument("out", metavar="OUT", help="a file that is not there yet")
    parser.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT", help=f"one of {', '.join(FORMATS)}"
    )
    parser.add_argument("--redact", action="store_true", help="leave out keys and home folders")
    parser.add_argument(
        "--name", action="append", default=[], help="leave out this name too; may be repeated"
    )
    parser.add_argument(
        "--pattern",
        action="append",
        default=[],
        help="leave out what this regular expression matches; may be repeated",
    )
    parser.add_argument("--lane", default="main", metavar="LANE", help="default: main")
    parser.add_argument("--whole", action="store_true", help="for .md: all branches")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it is there")


def _add_open(commands: Any) -> None:
    parser = commands.add_parser(
        "open",
        allow_abbrev=False,
        help="go on with a session in a notebook",
        description="Write a small notebook into this folder that goes on with a session, and "
        "start JupyterLab on it where that is installed.",
    )
    _add_target(parser)
    parser.add_argument("--print", action="store_true", help="only print what the cells hold")
    parser.add_argument("--notebook", metavar="FILE", help="write it here")


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        metavar="SESSION",
        help="a session's file, its name (or the beginning of it), or its id (or the beginning or "
        "the end of it)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. Without a command it prints the help."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return 0
    prog = f"pi-nb {options.command}"
    try:
        code = _run(options)
        sys.stdout.flush()
    except PiError as error:
        print(f"{prog}: {safe_line(_in_options(error.message), 400)}", file=sys.stderr)
        return 2 if error.code == "invalid_argument" else 1
    except BrokenPipeError:
        # Whoever read has enough; Python would complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    return code


def _run(options: argparse.Namespace) -> int:
    """The command that was asked for. What it needs is loaded only now."""
    if options.command == "demo":
        return _demo(options)
    if options.command == "open":
        from pi_nb import cli_open

        return cli_open.open_session(
            options.session, only_print=options.print, notebook=options.notebook
        )
    from pi_nb import cli_sessions

    if options.command == "list":
        return cli_sessions.list_sessions(everywhere=options.all, as_json=options.json)
    if options.command == "inspect":
        return cli_sessions.inspect(
            options.session, lane=options.lane, every_row=options.all, as_json=options.json
        )
    from pi_nb.session.redact import Redaction

    wanted = options.redact or options.name or options.pattern
    return cli_sessions.export(
        options.session,
        options.out,
        format=options.format,
        redact=Redaction(names=tuple(options.name), patterns=tuple(options.pattern))
        if wanted
        else None,
        overwrite=options.overwrite,
        lane=options.lane,
        whole=options.whole,
    )


def _in_options(message: str) -> str:
    """An error's next step as options: whoever types a command knows no arguments of Python."""
    for said, typed in WORDS.items():
        message = message.replace(said, typed)
    return message


def _demo(options: argparse.Namespace) -> int:
    from pi_nb import demo

    try:
        if options.notebook:
            return demo.run_notebook(Path(options.notebook))
        return demo.run(Path(options.folder) if options.folder else None)
    except demo.DemoError as error:
        print(f"pi-nb demo: {error}", file=sys.stderr)
        return 1
