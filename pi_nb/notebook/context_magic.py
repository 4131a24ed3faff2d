"""`%context`: what the next request holds, by kind, and what is left of the window.

%context                          of `agent`
%context FILE                     of a session file, read and not written: pi's own too
%context --largest 20             name more of the largest items
%context --estimator exact/o200k  weigh otherwise
%context --dict -o parts          as plain data, bound to a name
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import line_magic, magics_class, no_var_expand

from pi_nb.compaction.budget import Budget
from pi_nb.compaction.composition import LARGEST, Composition
from pi_nb.estimators import estimator_names
from pi_nb.text import safe_line

from .context_view import context_of_file
from .looking import LookingMagics
from .parsing import Parser, as_usage_errors, tokens

CONTEXT = "context"
OPTIONS = ("--estimator", "--largest", "--window", "--dict", "--frame", "-o", "-h")


def _parser() -> Parser:
    parser = Parser(
        "%context",
        description="What the next request holds, by kind. Nothing is asked, nothing written.",
        epilog="In Python: agent.context(), .parts, .largest, .to_dict(), .to_frame().",
    )
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="a session file to read, instead of the agent's")
    add(
        "--estimator",
        metavar="NAME",
        help="calibrated, piece, pi, piece/FAMILY or exact/FAMILY; default: as plans weigh",
    )
    add("--largest", type=_number, default=LARGEST, metavar="N", help="name the N largest items")
    add("--window", type=tokens, metavar="N", help="tokens of the window, for a FILE")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--dict", action="store_true", help="give plain data")
    shape.add_argument("--frame", action="store_true", help="give a pandas DataFrame")
    add("-o", "--out", metavar="NAME", help="bind it to this name")
    return parser


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number of items, not {safe_line(text)!r}")
    return int(text)


@magics_class
class ContextMagics(LookingMagics):
    """`%context` in one shell."""

    @line_magic(CONTEXT)  # type: ignore[arg-type]
    @no_var_expand
    def context(self, line: str) -> Any:
        """Show what the next request holds. `%context -h` says how."""
        parser = _parser()
        if (options := self._read(parser, line)) is None:
            return None
        if options.window is not None and options.file is None:
            parser.error("--window is for a FILE; an agent's window is its model's")
        with as_usage_errors():
            found = self._of_file(options) if options.file else self._of_agent(options)
            given: Any = found
            if options.dict:
                given = found.to_dict()
            elif options.frame:
                given = found.to_frame()
        self._bind(options.out, given)
        return given

    def _of_agent(self, options: argparse.Namespace) -> Composition:
        asked = self._found()
        if asked is None:
            raise UsageError(f"{self._none_yet} `%context FILE` reads a session's file.")
        return asked.context(options.estimator, largest=options.largest)

    def _of_file(self, options: argparse.Namespace) -> Composition:
        if not Path(options.file).expanduser().exists():
            raise UsageError(
                f"There is no file {safe_line(options.file)}. `%agent list` shows the sessions."
            )
        budget = Budget(window=options.window) if options.window else None
        name = options.estimator or "calibrated"
        return context_of_file(options.file, name, largest=options.largest, budget=budget)


def context_candidates(line: str) -> list[str]:
    """All words that could stand at the end of a line that begins with `%context`."""
    words = line.split()[1:]
    if not line.endswith((" ", "\t")) and words:
        words.pop()
    if words[-1:] == ["--estimator"]:
        return ["calibrated", "piece", *estimator_names()]
    if words[-1:] in (["--largest"], ["--window"], ["-o"]):
        return []
    return [option for option in OPTIONS if option not in words]
