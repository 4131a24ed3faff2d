"""`%tree`: the outline of a session, and what one does from there.

%tree                          the tree of `agent`'s session
%tree FILE                     that of a file, read and not written: pi's own too
%tree --goto 12                move the leaf to row 12
%tree --goto 12 --summarize    the same, with a summary of the branch that is left
%tree --label 12 good start    label it
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import line_magic, magics_class, no_var_expand

from pi_nb.session.filters import FILTERS, spelled
from pi_nb.session.listing import session_head
from pi_nb.session.outline import LIMIT, Outline
from pi_nb.session.session import Session
from pi_nb.text import safe_line

from .agent import Agent
from .choosing import open_line, session_file
from .commands import finds, labelled, went, where_now
from .looking import LookingMagics
from .parsing import Parser, as_usage_errors

TREE = "tree"


def _parser() -> Parser:
    parser = Parser(
        "%tree",
        description="The tree of a session. Rows have numbers; --goto, --label and "
        "`%agent fork` take them. FILE comes first.",
        epilog="In Python: agent.outline(...), session.outline(...), agent.goto(12), "
        "agent.label('text', 12).",
    )
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="a session file to read, instead of the agent's")
    add("--filter", type=spelled, choices=FILTERS, default="default", metavar="F",
        help=", ".join(FILTERS))  # fmt: skip
    add("--find", nargs="+", metavar="TEXT", help="only entries that hold it, whole texts searched")
    add("--goto", metavar="ENTRY", help="move the leaf there: a number, a label or an id")
    add(
        "--summarize",
        nargs="*",
        metavar="WORDS",
        help="with --goto: have the branch that is left summarised, with these words in mind",
    )
    add("--label", nargs="+", metavar=("ENTRY", "TEXT"), help="label an entry; '' takes it away")
    add("--lane", metavar="NAME", help="mark this lane's branch instead of the agent's")
    add("--ids", action="store_true", help="show the ends of ids")
    add("--fold", action="store_true", help="of other branches, the first row only")
    add("--all", action="store_true", help=f"draw every row, not {LIMIT} of them")
    add("-o", "--out", metavar="NAME", help="bind the outline to this name")
    return parser


@magics_class
class TreeMagics(LookingMagics):
    """`%tree` in one shell."""

    @line_magic(TREE)  # type: ignore[arg-type]
    @no_var_expand
    def tree(self, line: str) -> Outline | None:
        """Show the tree of a session. `%tree -h` says how."""
        parser = _parser()
        if (options := self._read(parser, line)) is None:
            return None
        if options.label is not None and len(options.label) < 2:
            parser.error("--label wants an entry and a text, '' to take the label away")
        if options.summarize is not None and options.goto is None:
            parser.error("--summarize goes with --goto: of the branch that is left")
        if options.file is not None and (options.goto is not None or options.label is not None):
            self._only_read(options)
        with as_usage_errors():
            outline = self._of_file(options) if options.file else self._of_agent(options)
        self._bind(options.out, outline)
        return outline

    def _of_agent(self, options: argparse.Namespace) -> Outline:
        asked = self._found()
        if asked is None:
            raise UsageError(f"{self._none_yet} `%tree FILE` reads a session's file.")
        if options.label is not None:
            print(_labelled(asked, options.label))
        if options.goto is not None:
            moved = went(asked, options.goto, options.summarize)
            print(where_now(asked, moved))
            if moved.editor_text:
                print(f"Text to edit: {safe_line(moved.editor_text, 400)}")
        if news := asked.news():
            print(news)
        return _worded(asked.outline(options.lane, **_wish(options)), options)

    def _only_read(self, options: argparse.Namespace) -> NoReturn:
        """What to type instead, word for word."""
        path = session_file(options.file)
        head = session_head(path)
        line = open_line(options.file, head.cwd if head else str(path.parent))
        then = "--goto" if options.label is None else "--label"
        raise UsageError(
            f"%tree: {safe_line(options.file)} is only read here. `{safe_line(line, 300)}` makes "
            f"an agent on it; after that, {then} without FILE."
        )

    def _of_file(self, options: argparse.Namespace) -> Outline:
        path = session_file(options.file)
        open_here = Session.opened(path)
        session = open_here or Session.open(path, read_only=True)
        try:
            return _worded(session.outline(options.lane or "main", **_wish(options)), options)
        finally:
            if open_here is None:
                session.close()


def _labelled(asked: Agent, words: Sequence[str]) -> str:
    """Label the entry that the first word names. Where the last one names it, say so."""
    right = "`%tree --label {entry} {text}`"
    where, *rest = words
    text = " ".join(rest)
    if len(rest) > 1 and not finds(asked, where) and finds(asked, rest[-1]):
        where, text = " ".join(words[:-1]), rest[-1]  # refused, with the right line
    return labelled(asked, where, text, right)


def _worded(outline: Outline, options: argparse.Namespace) -> Outline:
    """What draws the rest of the rows, in options."""
    return replace(outline, more="--all without --fold" if options.fold else "--all")


def _wish(options: argparse.Namespace) -> dict[str, Any]:
    """What `outline` takes, but for the lane."""
    return {
        "filter": options.filter,
        "find": " ".join(options.find) if options.find else None,
        "ids": options.ids,
        "fold": options.fold,
        "limit": None if options.all else LIMIT,
    }
