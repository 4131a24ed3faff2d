"""What a session holds and what it cost, counted over all its branches.

Every request that was paid for counts once: answers, failed ones too, summaries, tools that
asked a model themselves, and what a usage entry or record says beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pi_nb.messages import AssistantMessage, ToolResultMessage, Usage
from pi_nb.result import PiError

from .entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry, UsageEntry
from .reader import SessionReader
from .records import Record, UsageRecord

NO_MODEL = ""
"""Where the session does not say which model was paid, as for most summaries."""

_CAUSES = {
    "assistant": "answers",
    "compaction": "compactions",
    "branch_summary": "branch summaries",
}


class Paid(NamedTuple):
    """One request that was paid for."""

    cause: str
    """`answers`, `compactions`, `branch summaries`, `tools`, or what a usage entry calls it."""
    model: str
    """`provider/model`, or `NO_MODEL`."""
    usage: Usage


@dataclass(slots=True)
class Total:
    """Requests, and the sum of what they used. Costs are US dollars, as the log says them."""

    requests: int = 0
    usage: Usage = field(default_factory=Usage)

    def add(self, usage: Usage) -> None:
        """Count one more request."""
        self.requests += 1
        self.usage += usage


@dataclass(slots=True)
class Statistics:
    """Numbers of a whole session. Times are milliseconds since 1970; None: nothing was said."""

    entries: int = 0
    types: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    """How answers ended."""
    tools: Counter[str] = field(default_factory=Counter)
    """Calls by the tool's name."""
    failed: Counter[str] = field(default_factory=Counter)
    """Results that were errors, by the tool's name."""
    roots: int = 0
    branches: int = 0
    """Ends of the tree."""
    first: int | None = None
    last: int | None = None
    unreadable: int = 0
    """Entries and records whose body does not fit its type."""
    total: Total = field(default_factory=Total)
    by_model: dict[str, Total] = field(default_factory=dict)
    by_cause: dict[str, Total] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON, with the names of session files."""
        return {
            "entries": self.entries,
            "types": dict(sorted(self.types.items())),
            "roles": dict(sorted(self.roles.items())),
            "stopReasons": dict(sorted(self.stops.items())),
            "toolCalls": dict(sorted(self.tools.items())),
            "toolErrors": dict(sorted(self.failed.items())),
            "roots": self.roots,
            "branches": self.branches,
            "first": self.first,
            "last": self.last,
            "unreadable": self.unreadable,
            "usage": _total(self.total),
            "byModel": {name: _total(total) for name, total in sorted(self.by_model.items())},
            "byCause": {name: _total(total) for name, total in sorted(self.by_cause.items())},
        }


def statistics(session: SessionReader) -> Statistics:
    """Count a session; reads every body once. What cannot be read is counted as such."""
    found = Statistics()
    carried: set[str] = set()  # entries that say themselves what they cost
    for entry_id in session.entry_ids():
        found.entries += 1
        found.branches += not session.child_ids(entry_id)
        try:
            entry = session.entry(entry_id)
        except PiError:
            found.unreadable += 1
            continue
        _count(found, entry)
        for paid in _paid(entry):
            _add(found, paid)
            carried.add(entry.id)
    found.roots = len(session.child_ids(None))
    for record in _records(session, found):
        if isinstance(record, UsageRecord) and record.usage and record.entry_id not in carried:
            cause = record.cause or "other"
            _add(found, Paid(_CAUSES.get(cause, cause), _model_of(record.details), record.usage))
    return found


def _count(found: Statistics, entry: Entry) -> None:
    found.types[entry.type] += 1
    if not isinstance(entry, MessageEntry):
        return
    message = entry.message
    found.roles[message.role] += 1
    found.first = entry.timestamp if found.first is None else min(found.first, entry.timestamp)
    found.last = entry.timestamp if found.last is None else max(found.last, entry.timestamp)
    if isinstance(message, AssistantMessage):
        found.stops[message.stop_reason] += 1
        found.tools.update(call.name for call in message.tool_calls)
    elif isinstance(message, ToolResultMessage) and message.is_error:
        found.failed[message.tool_name] += 1


def _paid(entry: Entry) -> Iterator[Paid]:
    match entry:
        case MessageEntry(message=AssistantMessage() as said):
            if _is_something(said.usage):
                yield Paid("answers", _model(said.provider, said.model), said.usage)
        case MessageEntry(message=ToolResultMessage(usage=Usage() as usage)):
            yield Paid("tools", NO_MODEL, usage)
        case CompactionEntry(usage=Usage() as usage):
            yield Paid("compactions", _model_of(entry.details), usage)
        case BranchSummaryEntry(usage=Usage() as usage):
            yield Paid("branch summaries", _model_of(entry.details), usage)
        case UsageEntry(usage=Usage() as usage):
            yield Paid(entry.kind or "other", _model(entry.provider, entry.model), usage)


def _is_something(usage: Usage) -> bool:
    """Whether a request got as far as being paid for."""
    return usage.total > 0


def _model(provider: str, model: str) -> str:
    return "/".join(filter(None, (provider, model)))


def _model_of(details: Any) -> str:
    """The model that a summary's or record's details name, if they do."""
    if not isinstance(details, dict):
        return NO_MODEL
    provider, model = details.get("provider"), details.get("model")
    return _model(
        provider if isinstance(provider, str) else "", model if isinstance(model, str) else ""
    )


def _add(found: Statistics, paid: Paid) -> None:
    found.total.add(paid.usage)
    found.by_model.setdefault(paid.model, Total()).add(paid.usage)
    found.by_cause.setdefault(paid.cause, Total()).add(paid.usage)


def _records(session: SessionReader, found: Statistics) -> Iterator[Record]:
    records = session.records()
    while True:
        try:
            yield next(records)
        except StopIteration:
            return
        except PiError:
            # A generator that raised is over; what it held after that is not counted.
            found.unreadable += 1
            return


def _total(total: Total) -> dict[str, Any]:
    usage = total.usage
    return {
        "requests": total.requests,
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.total,
        "cost": usage.cost.total,
    }
