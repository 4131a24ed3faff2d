"""What a session is and what it cost, at the head of its page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from pi_nb.html import Html, element
from pi_nb.session.reader import SessionReader
from pi_nb.session.statistics import Statistics, Total, statistics
from pi_nb.text import count, plain, straight

_COLUMNS = ("requests", "input", "output", "cache read", "cache write", "tokens", "cost, $")


def heading(session: SessionReader) -> Html:
    """The session's name, or what there is instead of one."""
    return element("h1", _clean(session.name or "Session"))


def facts(session: SessionReader) -> Html:
    """Header, numbers, totals and diagnostics."""
    numbers = statistics(session)
    parts = [
        element("h2", "Session", id="about"),
        _list(_about(session, numbers)),
        _usage("What it cost, by model", "model", numbers.by_model, numbers.total),
        _usage("What it cost, by purpose", "purpose", numbers.by_cause, numbers.total),
    ]
    if session.diagnostics:
        odd = [element("li", _clean(str(diagnostic))) for diagnostic in session.diagnostics]
        parts += [element("h3", "What is odd about the file"), element("ul", *odd)]
    return element("section", *parts, aria_labelledby="about")


def _about(session: SessionReader, numbers: Statistics) -> Iterable[tuple[str, object]]:
    yield "id", element("code", _clean(session.id))
    yield "folder", element("code", _clean(session.cwd))
    yield "begun", moment(session.created_at)
    if numbers.last is not None:
        yield "last message", moment(numbers.last)
    yield "form", f"v{session.version}"
    branches = f"{count(numbers.roots, 'root')}, {count(numbers.branches, 'branch', 'branches')}"
    yield "entries", f"{count(numbers.entries, 'entry', 'entries')}, {branches}"
    if len(session.lanes) > 1:
        yield "lanes", ", ".join(_clean(lane) for lane in session.lanes)
    if numbers.tools:
        called = (f"{_clean(name)} {times:,}" for name, times in numbers.tools.most_common())
        yield "tool calls", ", ".join(called)
    if numbers.failed:
        failed = (f"{_clean(name)} {times:,}" for name, times in numbers.failed.most_common())
        yield "failed", ", ".join(failed)
    if numbers.unreadable:
        yield "not readable", count(numbers.unreadable, "line")


def moment(milliseconds: int) -> Html | str:
    """A time in UTC, or the number where it names none."""
    try:
        when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds}"
    return element("time", f"{when:%Y-%m-%d %H:%M} UTC", datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}")


def _list(pairs: Iterable[tuple[str, object]]) -> Html:
    rows = [element("div", element("dt", name), element("dd", value)) for name, value in pairs]
    return element("dl", *rows)


def _usage(caption: str, head: str, totals: Mapping[str, Total], total: Total) -> Html:
    """A table of sums; nothing where nothing was paid for."""
    if not totals:
        return Html("")
    rows = [_row(_clean(name) or "(not said)", totals[name]) for name in sorted(totals)]
    last = element("tfoot", _row("all", total)) if len(rows) > 1 else Html("")
    return element(
        "table",
        element("caption", caption),
        element(
            "thead", element("tr", *(element("th", c, scope="col") for c in (head, *_COLUMNS)))
        ),
        element("tbody", *rows),
        last,
    )


def _row(name: str, total: Total) -> Html:
    usage = total.usage
    numbers: Sequence[str] = (
        f"{total.requests:,}",
        f"{usage.input:,}",
        f"{usage.output:,}",
        f"{usage.cache_read:,}",
        f"{usage.cache_write:,}",
        f"{usage.total:,}",
        f"{usage.cost.total:.4f}",
    )
    cells = [element("td", number, class_="number") for number in numbers]
    return element("tr", element("th", name, scope="row"), *cells)


def _clean(text: str) -> str:
    return straight(plain(text))
