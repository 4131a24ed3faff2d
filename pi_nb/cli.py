"""`pi-nb`: the command line. A mistake is one line on stderr and exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pi_nb


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are one line with the next step."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}. See `{self.prog} -h`.\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="pi-nb",
        description="An agent harness that lives in a notebook.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pi-nb {pi_nb.__version__}")
    # No `required`: argparse would name the choices in its own words; `main` says it better.
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
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
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. Without a command it prints the help.

    Interrupting gives 130, as shells do.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return 0
    from pi_nb import demo  # only now: it loads the whole harness

    try:
        if options.notebook:
            return demo.run_notebook(Path(options.notebook))
        return demo.run(Path(options.folder) if options.folder else None)
    except demo.DemoError as error:
        print(f"pi-nb demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("pi-nb demo: interrupted", file=sys.stderr)
        return 130
