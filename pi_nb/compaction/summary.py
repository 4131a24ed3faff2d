"""What a summariser is given, and what it gives: the same for a model, a rule and a hand.

A summariser writes one text for one piece of history. What is put around it (the summary of
a split turn's beginning, pinned words, the lists of files) is `assemble`'s, so that no
summariser can forget it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pi_nb.messages import AgentMessage, Usage

from .files import Files

Kind = Literal["history", "turn_prefix", "branch"]
"""`history`: what a compaction stands for. `turn_prefix`: the beginning of a turn whose rest
is kept. `branch`: a branch that was left."""
Writer = Literal["model", "hook", "hand", "extractive", "function"]
"""Who wrote a summary."""


@dataclass(frozen=True, slots=True)
class Material:
    """One piece of history to be summarised."""

    kind: Kind
    messages: Sequence[AgentMessage]
    """As they are shown in context, oldest first; never empty."""
    previous: str | None = None
    """The summary that came before, to be carried on: for `history`, and for what is read in
    pieces. Without the pinned words and the lists of files."""
    instructions: str | None = None
    """What the user asked the summary to look at."""
    files: Files = field(default_factory=Files)


@dataclass(frozen=True, slots=True)
class Written:
    """A summary of one piece."""

    text: str
    by: Writer
    model: str | None = None
    """Who was asked, where a model wrote it."""
    usage: Usage = field(default_factory=Usage)


Summariser = Callable[[Material], Written | str | Awaitable[Written | str]]
"""Whatever writes a summary. Plain text counts as written by a `function`."""
