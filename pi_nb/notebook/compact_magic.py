"""`%compact`: make room in the context, by hand and step by step.

%compact keep the numbers       plan, summarise, apply; words are instructions
%compact --plan                 what would be done and why: free, nothing is asked
%compact --propose              have the summary written, to be read first
%%compact --edit Goal           change a section of it
%compact --apply                put it in force, to the letter
%compact --undo                 take it back
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import line_cell_magic, magics_class, no_var_expand

from pi_nb.background import RunAborted
from pi_nb.compaction.plan import NothingToCompact, Plan
from pi_nb.compaction.proposal import Proposal
from pi_nb.compaction.summarize import SummaryFailed
from pi_nb.harness.turn import UndoResult
from pi_nb.result import PiError
from pi_nb.session.entries import Entry
from pi_nb.text import one_line, plain

from .agent import Agent
from .compact_options import COMPACT, CompactParser
from .compact_progress import SummaryProgress
from .compact_shown import ShownPlan, ShownProposal, ShownResult
from .compacting import EXTRACTIVE
from .looking import LookingMagics
from .parsing import HelpShown
from .status import Rows, numbered

AUTO_SAID = {
    "on": "on: a context that fills is compacted by itself, and the cell says so.",
    "off": "off: a context that fills stays as it is; `%compact` makes room.",
    "ask": "ask: the cell asks before it compacts; where nobody can answer, it does not.",
}
WITHOUT_MODEL = f"`%compact --model {EXTRACTIVE}` writes one without a model."


@magics_class
class CompactMagics(LookingMagics):
    """`%compact` and `%%compact` in one shell."""

    @line_cell_magic(COMPACT)  # type: ignore[arg-type]
    @no_var_expand
    def compact(self, line: str, cell: str | None = None) -> Any:
        """Make room in the context. `%compact -h` says how."""
        parser = CompactParser(f"%{COMPACT}" if cell is None else f"%%{COMPACT}")
        try:
            options = parser.read(line, cell)
        except HelpShown as shown:
            print(shown)
            return None
        with _refusals():
            if (asked := self._found()) is None:
                raise UsageError(self._none_yet)
            value = _DO[options.action](asked, options)
        self._bind(options.out, value)
        return None if options.quiet else value


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What cannot be done is one line with the reason and the next step."""
    try:
        yield
    except PiError as error:
        said = one_line(plain(error.message), 600)
        said = said.replace(f'Without one: model="{EXTRACTIVE}".', WITHOUT_MODEL)
        if said.endswith("is within what is kept."):
            said += " `--keep N` keeps less, `--cut ROW` cuts where you say."
        answer = error.said if isinstance(error, SummaryFailed) else None
        if answer is not None and answer.stop_reason == "error":
            said = f"{said.rstrip('. ')}. {WITHOUT_MODEL}"
        raise UsageError(said) from None


# --- a summary --------------------------------------------------------------------------------


def _planning(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("policy", "keep", "reserve", "cut")}


def _plan(asked: Agent, options: argparse.Namespace) -> Any:
    found = asked.plan(**_planning(options))
    return ShownPlan.of(found) if isinstance(found, Plan) else found


def _written(asked: Agent, options: argparse.Namespace, work: Callable[..., Any]) -> Any:
    """What has a summary written, with its text in the cell while it arrives."""
    if isinstance(nothing := asked.plan(**_planning(options)), NothingToCompact):
        raise PiError("compaction", str(nothing))  # before anything is shown
    rules = asked.compaction.summariser is not None and options.model is None
    progress = SummaryProgress(quiet=options.quiet or rules or options.model == EXTRACTIVE)
    progress.begin()
    words = "No summary."
    try:
        done = work(
            instructions=options.instructions,
            model=options.model,
            on_text=progress.text,
            on_piece=progress.piece,
            **_planning(options),
        )
        asks = done.written_by.startswith("model")
        words = "Summary written." if asks else "No model was asked."
    except RunAborted:
        words = "Interrupted: no summary."
        raise
    finally:
        progress.leave(words)
    return done


def _propose(asked: Agent, options: argparse.Namespace) -> Proposal:
    return ShownProposal.of(_written(asked, options, asked.propose))


def _compact(asked: Agent, options: argparse.Namespace) -> ShownResult:
    wish = {"model": options.model, **_planning(options)}
    if (walked := asked.walk_compaction(options.instructions, **wish)) is not None:
        print("Walked: this was compacted here before, so nobody was asked.")
        return ShownResult.of(walked, asked.session, asked.harness.lane)
    done = _written(asked, options, asked.compact)
    return ShownResult.of(done, asked.session, asked.harness.lane)


# --- a proposal -------------------------------------------------------------------------------


def _waiting(asked: Agent) -> Proposal:
    """Raises:
    UsageError: no proposal waits, and why.
    """
    found = asked.pending()
    if isinstance(found, Proposal):
        return found
    raise UsageError(f"{found} `%compact --propose` has one written.")


def _edit(asked: Agent, options: argparse.Namespace) -> Proposal:
    changed = _waiting(asked).edit(" ".join(options.edit), options.body.strip("\n"))
    return ShownProposal.of(asked.revise(changed))


def _text(asked: Agent, options: argparse.Namespace) -> Proposal:
    changed = _waiting(asked).rewrite(options.body.strip("\n"))
    return ShownProposal.of(asked.revise(changed))


def _apply(asked: Agent, _options: argparse.Namespace) -> ShownResult:
    done = asked.apply(_waiting(asked))
    return ShownResult.of(done, asked.session, asked.harness.lane)


def _discard(asked: Agent, _options: argparse.Namespace) -> Rows:
    asked.discard(_waiting(asked))
    return _said("The proposal is dropped. The log keeps it as discarded.")


def _undo(asked: Agent, _options: argparse.Namespace) -> UndoResult:
    return asked.undo()


# --- by hand ----------------------------------------------------------------------------------


def _omit(asked: Agent, options: argparse.Namespace) -> Rows:
    return _edited(asked, options.omit, asked.omit, "left out")


def _replace(asked: Agent, options: argparse.Namespace) -> Rows:
    text = options.body.strip("\n")
    if not text.strip():
        raise UsageError("--replace shows a text instead of the entry; --omit leaves it out.")
    return _edited(asked, [options.replace], lambda entry: asked.replace(entry, text), "replaced")


def _restore(asked: Agent, options: argparse.Namespace) -> Rows:
    return _edited(asked, [options.restore], asked.restore, "shown as it was written")


def _edited(asked: Agent, rows: Sequence[str], edit: Callable[[Entry], object], done: str) -> Rows:
    """Edit entries one by one, and say what it came to."""
    entries = list({found.id: found for found in map(asked.find, rows)}.values())
    names: list[str] = []
    for entry in entries:
        try:
            edit(entry)
        except PiError as error:
            if not names:
                raise
            text = f"{error.message.rstrip('.')}. Before it, {_rows(names)} {done}."
            raise PiError(error.code, text) from None
        names.append(str(asked.session.number(entry.id)))
    size = f"Context now: {asked.harness.size}."
    return _said(f"{_rows(names)} {done}. {size} `%compact --undo` takes the last edit back.")


def _pin(asked: Agent, options: argparse.Namespace) -> Rows:
    pinned = asked.pin(*map(asked.find, options.pin))
    return _each(asked, pinned, "pinned: no compaction takes these words away, on any path.")


def _unpin(asked: Agent, options: argparse.Namespace) -> Rows:
    return _each(asked, asked.unpin(*map(asked.find, options.unpin)), "no longer pinned.")


def _each(asked: Agent, entries: Sequence[Entry], done: str) -> Rows:
    rows = [tuple(numbered(asked.session, entry.id).split(", ", 1)) for entry in entries]
    return Rows(("row", "entry"), rows, f"{_rows([row[0] for row in rows])} {done}")


def _rows(names: Sequence[str]) -> str:
    """`Row 3 is`, `Rows 3, 5 and 8 are`."""
    if len(names) == 1:
        return f"Row {names[0]} is"
    return f"Rows {', '.join(names[:-1])} and {names[-1]} are"


def _auto(asked: Agent, options: argparse.Namespace) -> Rows:
    settings = asked.compaction
    if options.auto is not True:  # alone it only asks
        settings.auto = options.auto
    return _said(f"Automatic compaction is {AUTO_SAID[settings.auto]}")


def _said(words: str) -> Rows:
    return Rows(("", ""), [], words)


_DO: dict[str, Callable[[Agent, argparse.Namespace], Any]] = {
    "": _compact,
    "plan": _plan,
    "propose": _propose,
    "edit": _edit,
    "text": _text,
    "apply": _apply,
    "discard": _discard,
    "undo": _undo,
    "omit": _omit,
    "replace": _replace,
    "restore": _restore,
    "pin": _pin,
    "unpin": _unpin,
    "auto": _auto,
}
