"""What the magics that look at an agent share: whom they look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.magic import Magics, magics_class

from .agent import Agent


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
