"""What the magics that look at an agent share: whom they look at."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from IPython.core.magic import Magics, magics_class

from .agent import Agent
from .parsing import HelpShown, Parser


@magics_class
class LookingMagics(Magics):
    """Magics of one shell that speak of the agent in use, and make none."""

    def __init__(self, shell: Any, found: Callable[[], Agent | None], none_yet: str) -> None:
        """
        Args:
            found: The agent to look at, if there is one.
            none_yet: What to say where there is none.
        """
        super().__init__(shell=shell, parent=shell)
        self._found = found
        self._none_yet = none_yet

    def _read(self, parser: Parser, line: str) -> argparse.Namespace | None:
        """What a line says; None where it asked for the help, which is then printed.

        Raises:
            UsageError: it does not fit, or `-o` names nothing that Python can bind.
        """
        try:
            options = parser.read(line)
        except HelpShown as shown:
            print(shown)
            return None
        if options.out is not None and not options.out.isidentifier():
            parser.error(f"-o wants a Python name, not {options.out!r}")
        return options

    def _bind(self, name: str | None, value: object) -> None:
        """Bind a value in the user's namespace, where a name was given."""
        if name and self.shell is not None:
            self.shell.user_ns[name] = value
