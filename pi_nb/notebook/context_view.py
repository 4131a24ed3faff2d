"""What an agent's context holds now, by kind; see `%context`."""

from __future__ import annotations

from pathlib import Path

from pi_nb import background
from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.composition import LARGEST, Composition
from pi_nb.compaction.estimating import session_estimator
from pi_nb.harness.harness import AgentHarness
from pi_nb.result import PiError
from pi_nb.session.session import Session
from pi_nb.tokens import Estimator


class ContextView:
    """The part of an `Agent` that looks at its context. It asks nobody and writes nothing."""

    harness: AgentHarness

    def context(
        self, estimator: str | Estimator | None = None, *, largest: int = LARGEST
    ) -> Composition:
        """What the next request holds, by kind, and what is left of the window.

        Args:
            estimator: Or its name: `calibrated`, `piece`, `pi`, `piece/<family>`,
                `exact/<family>`; None: the one that plans of this agent use.
            largest: How many of the largest items are named.

        Raises:
            PiError: `invalid_argument`: no such estimator, or `largest` is below 0;
                `invalid_state`: a tokenizer's package is not installed.
        """
        _check(largest)
        harness = self.harness
        if isinstance(estimator, str):
            estimator = session_estimator(harness.session, harness.lane, estimator)
        prompt = background.call(harness.prompt_text())
        return harness.composition(prompt, estimator=estimator, largest=largest)


def context_of_file(
    path: str | Path,
    estimator: str = "calibrated",
    *,
    largest: int = LARGEST,
    budget: Budget | None = None,
) -> Composition:
    """The same of a session file, which is read and not written. The system prompt and the
    tools are not in the file: they are unaccounted where usage was reported.

    Args:
        budget: None: a window of 200,000 tokens, since a file names none.

    Raises:
        PiError: `session`: it is no session, or cannot be read; else as `Agent.context`.
    """
    _check(largest)
    file = Path(path).expanduser()
    open_here = Session.opened(file)
    session = open_here or Session.open(file, read_only=True)
    try:
        branch = Branch.of(session, estimator=session_estimator(session, name=estimator))
        return Composition.of(branch, budget or Budget(), largest=largest)
    finally:
        if open_here is None:
            session.close()


def _check(largest: object) -> None:
    if isinstance(largest, bool) or not isinstance(largest, int) or largest < 0:
        raise PiError("invalid_argument", f"largest is a number of items, not {largest!r}.")
