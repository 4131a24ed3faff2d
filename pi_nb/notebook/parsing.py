"""argparse for magics: what a line says, its help, and errors that are `UsageError`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from IPython.core.error import UsageError

from pi_nb.result import PiError
from pi_nb.text import plain


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
    ) -> None:
        """
        Args:
            run: Given the magics, or the agent they use, and the options.
            arguments: Of `add_argument`, names and settings.
        """
        self.about = about
        self.run = run
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
            raise UsageError(plain(error.message)) from None
