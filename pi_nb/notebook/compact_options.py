"""What a `%compact` line says: one thing to do, what it takes, and words for the summary.

Instructions are free words: an apostrophe in them is one, and they may stand before or after
the options. Options that do not go together are refused with what they do go with.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from pi_nb.harness.compaction_settings import AUTO
from pi_nb.text import quoted

from .parsing import HelpShown, Parser

COMPACT = "compact"
ACTIONS = (
    *("plan", "propose", "edit", "text", "apply", "discard", "undo"),
    *("omit", "replace", "restore", "pin", "unpin", "auto"),
)
"""Options that are a thing to do each; without one: plan, summarise and apply at once."""
_HOW = ("cut", "keep", "reserve", "policy", "model")
_TAKES = {"": _HOW, "propose": _HOW, "plan": _HOW[:-1]}
"""Which options say how, and with which actions."""
COMPACT_OPTIONS = (*(f"--{name}" for name in (*ACTIONS, *_HOW)), "-o", "-q", "-h")
_INSTRUCTED = ("", "propose")
_WITH_BODY = ("edit", "text", "replace")

# Quoted where the quotes begin and end a word, so that an apostrophe within one does not.
_WORD = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|(\S+))(?=\s|$)|\s*(\S+)""")
_TOKENS = re.compile(r"(\d[\d_,]*(?:\.\d+)?)\s*([km]?)", re.IGNORECASE)
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}


def how_many(text: str) -> int:
    """A number of tokens as people write it: `4k`, `20_000`, `1.5k`.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if (found := _TOKENS.fullmatch(text)) is None:
        said = f"a number of tokens, such as 4k or 20_000, not {quoted(text)}"
        raise argparse.ArgumentTypeError(said)
    return int(float(re.sub("[_,]", "", found[1])) * _TIMES[found[2].lower()])


def _auto(text: str) -> str:
    if text not in AUTO:
        raise argparse.ArgumentTypeError(f"it is {', '.join(AUTO)}, not {quoted(text)}")
    return text


class CompactParser(Parser):
    """The options of `%compact`."""

    def __init__(self, prog: str) -> None:
        super().__init__(
            prog,
            usage="%%compact [--plan | --propose | ...] [options] [INSTRUCTIONS]",
            description="Make room in the context: older messages give way to a summary.\n"
            "Free words are instructions for it, as is the body of a %%compact cell.\n"
            "Rows are the numbers that %tree shows, labels, or ids.",
            epilog="In Python: agent.plan(...), .propose(...), .pending(), .revise(...), "
            ".apply(...),\n.discard(...), .compact(...), .undo(), .omit(...), .replace(...), "
            ".restore(...),\n.pin(...), .unpin(...), .compaction.auto.",
        )
        add = self.add_argument_group(
            "what to do, one of these; none: all of it at once"
        ).add_argument
        add("--plan", action="store_true", help="only say what would be done and why: free")
        add("--propose", action="store_true", help="have the summary written; nothing is in force")
        add(
            "--edit",
            nargs="+",
            metavar="SECTION",
            help="%%%%compact --edit Goal: the body is that section of the proposal",
        )
        add("--text", action="store_true", help="%%%%compact --text: the body is all of its text")
        add("--apply", action="store_true", help="put the proposal in force, to the letter")
        add("--discard", action="store_true", help="drop the proposal")
        add("--undo", action="store_true", help="take the newest compaction or edit back")
        add("--omit", nargs="+", metavar="ROW", help="leave entries out of what the model sees")
        add("--replace", metavar="ROW", help="%%%%compact --replace 4: show the body instead of it")
        add("--restore", metavar="ROW", help="show an edited entry as it was written")
        add("--pin", nargs="+", metavar="ROW", help="keep entries word for word, whatever comes")
        add("--unpin", nargs="+", metavar="ROW", help="take pins out")
        add(
            "--auto",
            nargs="?",
            const=True,
            type=_auto,
            metavar="on|off|ask",
            help="whether a context that fills is compacted by itself; alone: say it",
        )
        add = self.add_argument_group("how").add_argument
        add("--cut", metavar="ROW", help="the first entry that is kept")
        add("--keep", type=how_many, metavar="N", help="tokens of the newest messages to keep: 4k")
        add("--reserve", type=how_many, metavar="N", help="tokens to leave free")
        add("--policy", metavar="NAME", help="what decides: pi, none, mask:keep=5, your own")
        add("--model", metavar="NAME", help="who writes; extractive: rules, and nobody is asked")
        add = self.add_argument_group("output").add_argument
        add("-o", "--out", metavar="NAME", help="bind what it gives to this name")
        add("-q", "--quiet", action="store_true", help="show nothing")
        self.add_argument("words", nargs="*", metavar="INSTRUCTIONS", help=argparse.SUPPRESS)

    def read(self, line: str, cell: str | None = None) -> argparse.Namespace:
        """The options of a line, checked: `action` is the one thing to do, `""` for all of it;
        `instructions` the words for the summary, None where there are none; `body` the cell's.

        Raises:
            UsageError: they do not fit, or not together.
            HelpShown: help was asked for.
        """
        raw = [found[0].strip() for found in _WORD.finditer(line)]
        words = [_unquoted(word) for word in raw]
        if "-h" in words or "--help" in words:
            raise HelpShown(self.format_help())
        options = self.parse_intermixed_args(words)
        options.action = self._action(options)
        options.body = cell
        options.instructions = self._instructions(options, _as_typed(options.words, raw)) or None
        if options.out is not None and not options.out.isidentifier():
            self.error(f"-o wants a Python name, not {quoted(options.out)}")
        return options

    def _action(self, options: argparse.Namespace) -> str:
        given = [name for name in ACTIONS if getattr(options, name) not in (None, False)]
        if len(given) > 1:
            both = " and ".join(f"--{name}" for name in given[:2])
            self.error(f"{both} do not go together: a line does one thing")
        action = given[0] if given else ""
        taken = _TAKES.get(action, ())
        for name in _HOW:
            if getattr(options, name) is not None and name not in taken:
                with_these = [f"--{a}" for a in _TAKES if a and name in _TAKES[a]]
                where = f"{', '.join(with_these)} or a plain %compact"
                self.error(f"--{name} does not go with --{action}; it goes with {where}")
        return action

    def _instructions(self, options: argparse.Namespace, words: str) -> str:
        action, body = options.action, options.body
        if action in _WITH_BODY:
            if body is None:
                given = getattr(options, action)
                said = "" if given is True else " " + (
                    " ".join(given) if isinstance(given, list) else given)  # fmt: skip
                self.error(
                    f"--{action} takes its text from the cell: `%%compact --{action}{said}`, and "
                    "the text below it"
                )
            if words:
                self.error(f"--{action} takes its text from the cell, not {quoted(words)}")
            return ""
        if action not in _INSTRUCTED and (words or (body is not None and body.strip())):
            said = quoted(words or (body or "").strip())
            self.error(
                f"--{action} takes no instructions ({said}); they go with --propose or a plain "
                "%compact"
            )
        if words and body is not None and body.strip():
            self.error("the instructions stand on the line or in the cell, not in both")
        return words or (body or "").strip()


def _unquoted(word: str) -> str:
    quotes = len(word) > 1 and word[0] == word[-1] and word[0] in "\"'"
    return word[1:-1] if quotes else word


def _as_typed(words: Sequence[str], raw: Sequence[str]) -> str:
    """Instructions with the quotes that they were typed with."""
    typed = iter(raw)
    return " ".join(next(word for word in typed if _unquoted(word) == wanted) for wanted in words)
