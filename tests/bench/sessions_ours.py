"""Our side of `sessions.py`: one question to a fresh process, one line of JSON back.

    python sessions_ours.py open FILE TIMES        {"ms": [...], "mb": ..., "entries": ...}
    python sessions_ours.py context FILE TIMES     {"context_ms": [...], ..., "messages": ...}
    python sessions_ours.py list FOLDER TIMES      {"ms": [...], "found": ...}

Of each question the first answer is not timed: Node compiles while it gives it. `mb` is what
that first opening adds, at its highest, to the resident memory of a process that has the
library imported; the kernel's own high-water mark is set back before it (so: Linux). Of a
context after an append, `context_ms` is the context alone, `copied_ms` that and a list of its
messages, `turn_ms` the append and the context.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from pi_nb.messages import UserMessage
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session


def memory(field: str) -> float:
    """Megabytes, from a line of the process's status."""
    status = Path("/proc/self/status").read_text("utf-8")
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    assert found, field
    return int(found[1]) / 1024


def opening(path: Path, times: int) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text("5")
    bare = memory("VmRSS")
    with Session.open(path) as session:
        mb = memory("VmHWM") - bare
        entries = len(session)
    # One object a file in a process: only after a close is it opened again.
    del session
    ms = []
    for _ in range(times):
        start = time.perf_counter()
        session = Session.open(path)
        ms.append(1_000 * (time.perf_counter() - start))
        session.close()
        del session
    return {"ms": ms, "mb": mb, "entries": entries}


async def context(path: Path, times: int) -> dict[str, Any]:
    context_ms, copied_ms, turn_ms = [], [], []
    with Session.open(path, durability="flush") as session:
        session.context()
        for number in range(times):
            start = time.perf_counter()
            await session.append_message(UserMessage(content="And then?", timestamp=number))
            appended = time.perf_counter()
            found = session.context()
            there = time.perf_counter()
            messages = found.messages
            copied = time.perf_counter()
            context_ms.append(1_000 * (there - appended))
            copied_ms.append(1_000 * (copied - appended))
            turn_ms.append(1_000 * (there - start))
    times_of = {"context_ms": context_ms, "copied_ms": copied_ms, "turn_ms": turn_ms}
    return {**times_of, "messages": len(messages)}


def listing(folder: Path, times: int) -> dict[str, Any]:
    repo = SessionRepo(folder.parent)
    ms = []
    for number in range(times + 1):
        start = time.perf_counter()
        found = repo.list()
        if number:
            ms.append(1_000 * (time.perf_counter() - start))
    return {"ms": ms, "found": len(found)}


def main(what: str, path: str, times: str) -> None:
    match what:
        case "open":
            answer = opening(Path(path), int(times))
        case "context":
            answer = asyncio.run(context(Path(path), int(times)))
        case "list":
            answer = listing(Path(path), int(times))
        case _:
            raise SystemExit(f"what is {what}?")
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
