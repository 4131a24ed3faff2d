"""argparse for magics: what a line says, its help, and errors that are `UsageError`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from IPython.core.error import UsageError

from pi_nb.result import PiError
from pi_nb.text import plain

MAGIC_WORDS = {
    "to_dict() needs nothing": "--dict needs nothing",
    "overwrite=True replaces it": "--overwrite replaces it",
    "format= says what it is": "--format says what it is",
    "session.export(..., format='v4') makes one with lanes": "`%agent fork --whole --format v4` "
    "makes one with lanes",
    "Session.open(path, read_only=True) reads it": "`%tree FILE` reads it",
}
"""What an error says in Python's words, to what the user of a magic would type instead."""


def in_options(message: str, words: Mapping[str, str]) -> str:
    """An error's next step in the words of who asked: options, not arguments of Python."""
    for said, typed in words.items():
        message = message.replace(said, typed)
    return message


class HelpShown(Exception):
    """`-h` was given; the help is its text."""


class Parser(argparse.ArgumentParser):
    """argparse for a magic: never exits, errors are `UsageError`, `-h` ends the magic."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(
            prog=prog,
            add_help=False,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **kwargs,
        )
        self.add_argument("-h", "--help", action="store_true", help="show this help")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}. See `{self.prog} -h`.")

    def read(self, line: str) -> argparse.Namespace:
        """The options of a line.

        Raises:
            UsageError: they do not fit.
            HelpShown: help was asked for.
        """
        try:
            words = shlex.split(line)
        except ValueError as error:
            self.error(str(error).lower())
        if "-h" in words or "--help" in words:
            raise HelpShown(self.format_help())
        return self.parse_args(words)


class Command:
    """One subcommand of a line magic: its help, its options, what it does."""

    def __init__(
        self,
        about: str,
        run: Callable[[Any, argparse.Namespace], Any],
        *arguments: tuple[Sequence[str], dict[str, Any]],
        begins: Callable[[argparse.Namespace], object] = lambda _options: False,
    ) -> None:
        """
        Args:
            run: Given the magics, or the agent they use, and the options.
            arguments: Of `add_argument`, names and settings.
            begins: Whether these options make an agent where there is none: they set
                something of it. Else the user is told that there is none.
        """
        self.about = about
        self.run = run
        self.begins = begins
        self._arguments = arguments

    def options(self, parser: argparse.ArgumentParser) -> None:
        """Teach a parser its options."""
        for names, settings in self._arguments:
            parser.add_argument(*names, **settings)


def tokens(text: str) -> int:
    """A number of tokens, as people write it: `32,000`."""
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a window is a whole number of tokens, not {text!r}")
    return number


class as_usage_errors:
    """A `PiError` of ours is the user's mistake: one line, no traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: Any, error: Any, _trace: Any) -> None:
        if isinstance(error, PiError):
            raise UsageError(in_options(plain(error.message), MAGIC_WORDS)) from None
