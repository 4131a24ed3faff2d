"""`pi-nb list`, `inspect` and `export`: sessions from a terminal, without a kernel.

Nothing here writes to a session. What files say is shown with nothing in it that a terminal
would obey.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pi_nb.notebook.status import Rows
from pi_nb.result import PiError
from pi_nb.session.exporting import ExportFormat
from pi_nb.session.listing import list_table
from pi_nb.session.outline import LIMIT
from pi_nb.session.redact import Redaction
from pi_nb.session.repo import SessionRepo
from pi_nb.session.salvage import reading
from pi_nb.session.session import Session
from pi_nb.session.statistics import Statistics, Total, statistics
from pi_nb.text import count, safe_line
from pi_nb.tokens import Estimate
from pi_nb.views.export import export as export_session


def found(target: str) -> Path:
    """The file of a session that is named by its path, its id or name, or a part of one of them
    as `SessionRepo.find` takes it.

    Raises:
        PiError: `session`: there is none, or several, or nothing is in the file.
    """
    path = Path(target).expanduser()
    if path.is_file() and not path.stat().st_size:
        raise PiError("session", f"{path} is an empty file: no session was begun in it")
    if path.exists() or os.sep in target or target.endswith(".jsonl"):
        return path  # whoever opens it says what is wrong with it
    try:
        return SessionRepo().find(target).path
    except PiError as error:
        text = f"{error.message}; `pi-nb list --all` shows what there is"
        raise PiError("session", text) from None


# --- list ---------------------------------------------------------------------------------


def list_sessions(*, everywhere: bool, as_json: bool) -> int:
    """Print the sessions of this folder, or all; the one with the newest message first."""
    infos = SessionRepo().list(None if everywhere else Path.cwd())
    if as_json:
        told = [
            {
                "path": str(info.path),
                "id": info.id,
                "name": info.name,
                "cwd": info.cwd,
                "created": info.created,
                "modified": info.modified,
                "version": info.version,
                "empty": info.empty,
            }
            for info in infos
        ]
        print(json.dumps(told, indent=2))
        return 0
    head, rows = list_table(infos, everywhere=everywhere)
    if rows:
        print(Rows(head, rows, "`pi-nb open ID` goes on with one, `pi-nb inspect ID` shows it."))
    else:
        where = "anywhere" if everywhere else "of this folder; `pi-nb list --all` shows all"
        print(f"No sessions {where}.")
    return 0


# --- inspect ------------------------------------------------------------------------------


def inspect(target: str, *, lane: str, every_row: bool = False, as_json: bool = False) -> int:
    """Print what a session is, its tree, numbers, context and what is odd about it."""
    with reading(found(target)) as session:
        if as_json:
            print(json.dumps(_data(session, lane), indent=2))
        else:
            # All of it or none: a lane that is not there is found in the middle.
            print("\n".join(list(_lines(session, lane, every_row))))
    return 0


def _lines(session: Session, lane: str, every_row: bool) -> Iterator[str]:
    numbers = statistics(session)
    branches = count(numbers.branches, "branch", "branches")
    yield safe_line(session.name or "A session without a name")
    yield f"  file     {session.path}"
    yield f"  id       {safe_line(session.id)}"
    yield f"  folder   {safe_line(session.cwd, 200)}"
    yield f"  begun    {_when(session.created_at)}"
    if numbers.last is not None:
        yield f"  last     {_when(numbers.last)}"
    yield f"  holds    {count(numbers.entries, 'entry', 'entries')}, {branches}, v{session.version}"
    yield from _context_lines(session, lane)
    yield ""
    yield "Tree"
    outline = session.outline(lane, limit=None if every_row else LIMIT)
    yield from str(replace(outline, more="--all")).split("\n")
    yield ""
    yield "Numbers"
    yield from _number_lines(numbers)
    if session.diagnostics:
        yield ""
        yield "Odd about the file"
        yield from (f"  {safe_line(str(odd), 200)}" for odd in session.diagnostics)


def _context_lines(session: Session, lane: str) -> Iterator[str]:
    context, size = _context(session, lane)
    model = "/".join(context["model"] or ("no model",))
    yield f"  context  {count(context['messages'], 'message')}, tokens {size}"
    yield f"  model    {safe_line(model)}, thinking {safe_line(context['thinkingLevel'])}"
    if context["activeTools"] is not None:
        yield f"  tools    {safe_line(', '.join(context['activeTools']), 200) or 'none'}"


def _number_lines(numbers: Statistics) -> Iterator[str]:
    kinds = numbers.types.items()
    yield f"  {'entries':10}{', '.join(f'{safe_line(kind, 40)} {n:,}' for kind, n in kinds)}"
    if numbers.tools:
        calls = (f"{safe_line(name, 40)} {n:,}" for name, n in numbers.tools.most_common())
        yield f"  {'calls':10}{', '.join(calls)}"
    if numbers.failed:
        failed = (f"{safe_line(name, 40)} {n:,}" for name, n in numbers.failed.most_common())
        yield f"  {'failed':10}{', '.join(failed)}"
    for name, total in sorted(numbers.by_model.items()):
        yield f"  {_paid(safe_line(name) or 'model not said', total)}"
    for name, total in sorted(numbers.by_cause.items()):
        yield f"  {_paid(safe_line(name), total)}"
    if numbers.unreadable:
        yield f"  {count(numbers.unreadable, 'line')} cannot be read"


def _paid(name: str, total: Total) -> str:
    requests = count(total.requests, "request")
    tokens = count(total.usage.total, "token")
    return f"{name}: {requests}, {tokens}, ${total.usage.cost.total:.4f}"


def _data(session: Session, lane: str) -> dict[str, Any]:
    context, size = _context(session, lane)
    return {
        "path": str(session.path),
        "id": session.id,
        "name": session.name,
        "cwd": session.cwd,
        "version": session.version,
        "createdAt": session.created_at,
        "lanes": dict(session.lanes),
        "labels": dict(session.labels),
        "statistics": statistics(session).to_data(),
        "context": {**context, "tokens": size.tokens, "source": size.source},
        "diagnostics": [
            {"line": odd.line, "code": odd.code, "message": odd.message}
            for odd in session.diagnostics
        ],
        "tree": list(_tree(session)),
    }


def _tree(session: Session) -> Iterator[dict[str, Any]]:
    for number, entry_id in enumerate(session.entry_ids(), 1):
        row = {"number": number, "id": entry_id, "parentId": session.parent_id(entry_id)}
        try:
            entry = session.entry(entry_id)
        except PiError as error:
            yield {**row, "unreadable": error.message}
        else:
            yield {**row, "type": entry.type, "says": entry.gist()}


def _context(session: Session, lane: str) -> tuple[dict[str, Any], Estimate]:
    context = session.context(lane)
    messages = context.messages
    about = {
        "lane": lane,
        "messages": len(messages),
        "model": context.model,
        "thinkingLevel": context.thinking_level,
        "activeTools": context.active_tools,
    }
    return about, context.size


def _when(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms after 1970"


# --- export -------------------------------------------------------------------------------


def export(
    target: str,
    out: str,
    *,
    format: ExportFormat | None,
    redact: Redaction | None,
    overwrite: bool,
    lane: str,
    whole: bool,
) -> int:
    """Write a session to a file; of a broken v4 file the valid part, which stderr says."""
    if os.path.lexists(out) and not overwrite:
        raise PiError("session", f"{out} is there already; --overwrite replaces it")
    with reading(found(target)) as session:
        lost = [odd for odd in session.diagnostics if odd.code == "left_out"]
        done = export_session(
            session,
            out,
            format=format,
            redact=redact,
            overwrite=overwrite,
            lane=lane,
            whole=whole,
        )
    if lost:
        print(f"pi-nb export: only the valid part was written: {lost[0]}", file=sys.stderr)
    print(done)
    return 0
