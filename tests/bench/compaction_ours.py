"""Our side of `compaction.py`: one question to a fresh process, one line of JSON back.

    python compaction_ours.py plan FILE TIMES KEEP       {"ms": [...], ..., "kept", "tokens"}
    python compaction_ours.py sweep FILE TIMES KEEPS     {"ms": [...], "kept": [...]}

Of each question the first answer is not timed: Node compiles while it gives it. Before the
clock starts, both sides have opened the session and hold its messages: pi reads every entry
when it opens a file, ours when its context is first asked for. On the clock is

    plan     `Branch.of` and `plan_compaction`, each time with a new branch, so that nothing is
             weighed yet, and the tokens before; with pi `prepareCompaction`
    files    the same, and the list of the files read and changed, which pi makes for every
             plan and ours when a summary is asked for
    first    all that a fresh process does for its first plan: the file opened, its messages
             read, the plan
    sweep    `Branch.of` and `sweep`; with pi as many calls of `prepareCompaction`
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.plan import Plan, plan_compaction
from pi_nb.compaction.sweep import SweepTable, sweep
from pi_nb.session.session import Session

T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    value = action()
    return 1_000 * (time.perf_counter() - start), value


def plans(path: Path, times: int, keep: int) -> dict[str, Any]:
    budget = Budget(keep=keep)

    def plan() -> tuple[Plan, int]:
        found = plan_compaction(Branch.of(session), budget)
        assert isinstance(found, Plan)
        return found, found.tokens_before

    def with_files() -> tuple[Plan, int]:
        found, tokens = plan()
        assert found.preparation is not None
        assert found.preparation.files.read
        return found, tokens

    opening, session = timed(lambda: Session.open(path, read_only=True))
    first, _ = timed(plan)
    with session:
        with_files()
        ms = [timed(plan)[0] for _ in range(times)]
        files_ms = [timed(with_files)[0] for _ in range(times)]
        found, tokens = plan()
    assert found.summarise is not None
    return {
        "ms": ms,
        "files_ms": files_ms,
        "first_ms": [opening + first],
        "kept": found.summarise.first_kept_entry_id,
        "tokens": tokens,
    }


def sweeps(path: Path, times: int, keeps: list[int]) -> dict[str, Any]:
    def swept() -> SweepTable:
        return sweep(Branch.of(session), keeps=keeps)

    with Session.open(path, read_only=True) as session:
        found = swept()
        ms = [timed(swept)[0] for _ in range(times)]
    return {"ms": ms, "kept": [row.first_kept_entry_id for row in found]}


def main(what: str, path: str, times: str, given: str) -> None:
    match what:
        case "plan":
            answer = plans(Path(path), int(times), int(given))
        case "sweep":
            answer = sweeps(Path(path), int(times), json.loads(given))
        case _:
            raise SystemExit(f"what is {what}?")
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
