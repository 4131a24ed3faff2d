"""How far estimators are off, held against the usage that recorded sessions report.

Between two answers of one model the request grew by what was added, and the provider said by
how much (`calibration`). `calibrated` is judged as it would have been at work: for each
interval it knows only what came before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from pi_nb.calibration import Calibration, calibrated
from pi_nb.estimators import estimator, family_of
from pi_nb.html import Html, element, table
from pi_nb.messages import AgentMessage, AssistantMessage
from pi_nb.session.context import shown
from pi_nb.session.entries import CompactionEntry, ContextEditEntry, MessageEntry
from pi_nb.session.session import Session
from pi_nb.text import unquoted
from pi_nb.tokens import Estimator

from .frames import as_frame


class ErrorRow(NamedTuple):
    """One estimator on one session. Ratios are of estimated to reported tokens, 1.0 being
    right; None where there was no interval."""

    session: str
    estimator: str
    bias: float | None
    """All that was estimated over all that was reported."""
    median: float | None
    error: float | None
    """Mean of the absolute errors of the intervals, as a share: 0.1 is 10 %."""
    intervals: int
    left_out: int
    """Intervals that were too small, or where something else than the log was sent."""


@dataclass(frozen=True, slots=True, repr=False)
class ErrorTable:
    """A row for each session and estimator. Print it, or take the rows."""

    rows: tuple[ErrorRow, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ErrorRow]:
        return iter(self.rows)

    def to_dict(self) -> list[dict[str, Any]]:
        """A dictionary for each row."""
        return [row._asdict() for row in self.rows]

    def to_frame(self) -> Any:
        """The rows as a pandas `DataFrame`.

        Raises:
            PiError: `invalid_state`: pandas is not installed.
        """
        return as_frame(self.to_dict())

    def __str__(self) -> str:
        lines = [_HEAD, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ("  ".join(_padded(line, widths)).rstrip() for line in lines)
        return "\n".join([*texts, _NOTE])

    __repr__ = __str__

    def _repr_html_(self) -> Html:
        rows = table(_HEAD, map(_cells, self.rows), texts=range(_TEXTS))
        return Html(rows + element("p", _NOTE))


_HEAD = ("session", "estimator", "bias", "median", "mean error", "intervals", "left out")
_TEXTS = 2
"""Columns that are texts, at the left."""
_NOTE = (
    "Estimated over reported tokens of what was added between two requests; "
    "calibrated knows only the intervals before each."
)


def _cells(row: ErrorRow) -> tuple[str, ...]:
    ratios = ("-" if value is None else f"{value:.2f}" for value in (row.bias, row.median))
    error = "-" if row.error is None else f"{row.error:.1%}"
    return (row.session, row.estimator, *ratios, error, f"{row.intervals:,}", f"{row.left_out:,}")


def _padded(line: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for place, (cell, width) in enumerate(zip(line, widths, strict=True)):
        yield cell.ljust(width) if place < _TEXTS else cell.rjust(width)


def calibration(session: Session, base: Estimator, lane: str = "main") -> Calibration:
    """The calibration of a lane's branch from its root, over every compaction.

    Reads every body of the branch.
    """
    found = Calibration(base)
    for message in _lived(session, lane):
        if message is None:
            found.restart()
        else:
            found.add(message)
    return found


def session_estimator(session: Session, lane: str = "main", name: str = "calibrated") -> Estimator:
    """An estimator that suits a session as it is at a lane's leaf.

    Args:
        name: `calibrated`: by the usage in its context, the pieces of its model's family where
            that holds too little; `piece`: those; or what `estimator` takes.

    Raises:
        PiError: `invalid_argument`: no such estimator; `invalid_state`: its package is not
            installed.
    """
    if name not in ("calibrated", "piece"):
        return estimator(name)
    context = session.context(lane)
    base = estimator(f"piece/{family_of(*(context.model or ('', '')))}")
    if name == "piece":
        return base
    return calibrated(context.messages, base, (context.believed_from,))


def estimator_errors(
    sessions: Session | Iterable[Session],
    estimators: Iterable[str | Estimator] = ("pi", "piece", "calibrated"),
    lane: str = "main",
) -> ErrorTable:
    """How far estimators are off on the branch of each session.

    Args:
        estimators: Estimators, or their names. `piece` is that of the family of the model that
            answered last, `calibrated` is that put right, `calibrated/<name>` another one.

    Returns:
        The rows session by session, a row for each estimator.

    Raises:
        PiError: `invalid_argument`: no such estimator; `invalid_state`: its package is not
            installed.
    """
    chosen = list(estimators)
    rows: list[ErrorRow] = []
    for session in [sessions] if isinstance(sessions, Session) else sessions:
        lived = list(_lived(session, lane))
        named = session.name or (session.path.stem if session.path else session.id)
        family = _family(lived)
        rows += (_row(unquoted(named), given, family, lived) for given in chosen)
    return ErrorTable(tuple(rows))


def _row(
    session: str, given: str | Estimator, family: str, lived: Sequence[AgentMessage | None]
) -> ErrorRow:
    name, base, learns = _meant(given, family)
    found = Calibration(base)
    ratios: list[float] = []
    reported = estimated = 0.0
    for message in lived:
        if message is None:
            found.restart()
            continue
        factor, around, learned = found.factor, found.around, found.intervals
        interval = found.add(message)
        if interval is None or not interval.fits:
            continue
        tokens: float = interval.estimated
        if learns and learned:
            tokens = interval.content * factor + around * interval.messages
        ratios.append(tokens / interval.reported)
        reported += interval.reported
        estimated += tokens
    if not ratios:
        return ErrorRow(session, name, None, None, None, 0, found.left_out)
    error = fmean(abs(ratio - 1) for ratio in ratios)
    bias = estimated / reported
    return ErrorRow(session, name, bias, median(ratios), error, len(ratios), found.left_out)


def _meant(given: str | Estimator, family: str) -> tuple[str, Estimator, bool]:
    """An estimator's name in the table, its base, and whether it learns."""
    if isinstance(given, Estimator):
        return given.source, given, False
    kind, _, base = given.partition("/")
    if given in ("piece", "calibrated"):
        base = f"piece/{family}"
    elif kind != "calibrated":
        found = estimator(given)
        return found.source, found, False
    found = estimator(base)
    learns = kind == "calibrated"
    return f"calibrated {found.source}" if learns else found.source, found, learns


def _family(lived: Iterable[AgentMessage | None]) -> str:
    named = [m for m in lived if isinstance(m, AssistantMessage) and m.model]
    return family_of(named[-1].provider, named[-1].model) if named else family_of("", "")


def _lived(session: Session, lane: str) -> Iterator[AgentMessage | None]:
    """The messages of a branch as they were sent at the time, its edits not applied; None
    where the context changed otherwise than by growing."""
    for entry_id in session.branch_ids(lane):
        entry = session.entry(entry_id)
        if isinstance(entry, CompactionEntry | ContextEditEntry):
            yield None
        elif isinstance(entry, MessageEntry):
            if entry.message.role != "system":
                yield entry.message
        else:
            yield from (item.message for item in shown([entry]))
