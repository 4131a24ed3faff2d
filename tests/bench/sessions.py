"""Opening, continuing and listing pi's own session files, beside pi, in one run.

    python tests/bench/sessions.py                    1,000, 10,000 and 100,000 entries
    python tests/bench/sessions.py --entries 1000     quicker; may be given several times
    python tests/bench/sessions.py --rounds 5         fresh processes a side and question

The files are generated: v3, about 1.2 kB an entry, questions, answers, tool calls and their
results, a side branch every fifty entries, a compaction every four hundred (without any, pi's
context would be the whole file, and our part of it even smaller). For lists the same number
of entries lies in 1,000 sessions. Each question goes to fresh processes of both sides in turn,
so that whatever else the machine does meets both, and each asks several times
(`sessions_ours.py`). The table has medians. Everything lies in the system's cache of files.

What is asked of ours, as a part of pi's: 0.6 of the time and of the memory of opening a file
for writing with every line checked; 1/20 of the time of the context after one more append;
0.5 of the time of a list. The exit code is 1 where one of these does not hold. Two rows have
no bound and say what the third leaves out: our context is a view of a list that grows with
the branch, which is all that the harness takes, and pi's is a list of its own; and before it
there is an append, which in our case waits for a thread that writes (`durability="flush"`; pi
does not sync either).

It needs Linux, Node 22 or newer and, once, `npm ci --ignore-scripts` in `tests/interop`.

Measured on 2026-11-30, two cores of an AMD EPYC that did some other work too, Python 3.11.7,
Node 24.19.0, pi 1.6.0:

    entries                                  pi       pi_nb    part
      1,000    open                     7.35 ms     3.40 ms    0.46
      1,000    memory of that           3.23 MB     1.48 MB    0.46
      1,000    context                  0.27 ms    0.003 ms    0.01
      1,000    list                      283 ms       49 ms    0.17
     10,000    open                     79.2 ms     25.7 ms    0.32
     10,000    memory of that           33.3 MB     3.16 MB    0.10
     10,000    context                  2.80 ms    0.003 ms    0.00
     10,000    list                      282 ms       43 ms    0.15
    100,000    open                      637 ms      210 ms    0.33
    100,000    memory of that            274 MB     22.4 MB    0.08
    100,000    context                  32.5 ms    0.004 ms    0.00
    100,000    list                      619 ms      109 ms    0.18
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # as pytest does

from interop.peer import why_no_peer  # noqa: E402

SIDES = {
    "pi": ["node", str(HERE / "sessions.mjs")],
    "pi_nb": [sys.executable, str(HERE / "sessions_ours.py")],
}
ENTRIES = (1_000, 10_000, 100_000)
SESSIONS = 1_000
ROUNDS = 3
TIMES = 3
"""Answers that are timed in each process."""
APPENDS = 20

STAMP = "2026-11-30T12:00:00.000Z"
WORDS = ("the", "file", "holds", "nine", "words", "one", "on", "each", "line", "and", "done")


class Bound(NamedTuple):
    """A row of the table: what it compares, and what part of pi's is allowed."""

    name: str
    unit: str
    most: float | None


BOUNDS = {
    "open": Bound("open, every line checked", "ms", 0.6),
    "memory": Bound("memory of that", "MB", 0.6),
    "context": Bound("context after an append", "ms", 1 / 20),
    "copied": Bound("that, as a list of its own", "ms", None),
    "turn": Bound("append, then context", "ms", None),
    "list": Bound("list 1,000 sessions", "ms", 0.5),
}


@dataclass(frozen=True)
class Row:
    """One comparison: medians of both sides."""

    entries: int
    what: str
    pi: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.pi

    @property
    def holds(self) -> bool:
        most = BOUNDS[self.what].most
        return most is None or self.ratio <= most


def lines(entries: int, seed: int = 0) -> Iterator[str]:
    """The lines of one session: a header and so many entries."""
    chance = random.Random(seed)
    yield _line(type="session", version=3, id=f"s{seed}", timestamp=STAMP, cwd="/home/me")
    parent: str | None = None
    for number in range(entries):
        own = f"{number:08x}"
        yield _line(**_body(number, chance), id=own, parentId=parent, timestamp=STAMP)
        # A side branch: the next entry follows one of some entries ago.
        parent = f"{number - 3:08x}" if number % 50 == 24 else own


def _body(number: int, chance: random.Random) -> dict[str, Any]:
    text = " ".join(chance.choices(WORDS, k=200))
    if number % 400 == 399:
        kept = f"{number - 20:08x}"
        return {
            "type": "compaction",
            "summary": text,
            "firstKeptEntryId": kept,
            "tokensBefore": 90_000,
        }
    match number % 4:
        case 0:
            message = {"role": "user", "content": [{"type": "text", "text": text}]}
        case 1:
            message = _answer(text[:500], {"path": text[:80]}, number)
        case 2:
            message = {
                "role": "toolResult",
                "toolCallId": f"call_{number - 1}",
                "toolName": "read",
                "content": [{"type": "text", "text": text}],
                "isError": False,
            }
        case _:
            message = _answer(text, None, number)
    return {"type": "message", "message": {**message, "timestamp": 1_796_000_000_000 + number}}


def _answer(text: str, call: dict[str, str] | None, number: int) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if call:
        blocks.append(
            {"type": "toolCall", "id": f"call_{number}", "name": "read", "arguments": call}
        )
    return {
        "role": "assistant",
        "content": blocks,
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {
            "input": 1_200,
            "output": 340,
            "cacheRead": 30_000,
            "cacheWrite": 900,
            "totalTokens": 32_440,
            "cost": {"input": 0.0036, "output": 0.0051, "cacheRead": 0.009, "total": 0.0211},
        },
        "stopReason": "toolUse" if call else "stop",
    }


def _line(**fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":")) + "\n"


def write(path: Path, entries: int, seed: int = 0) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines(entries, seed))


def ask(side: str, what: str, path: Path, times: int) -> dict[str, Any]:
    """One question to a fresh process of one side."""
    command = [*SIDES[side], what, str(path), str(times)]
    told = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    answer: dict[str, Any] = json.loads(told)
    return answer


def both(what: str, path: Path, times: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """The answers of both sides, asked in turn; a file that grows is its asker's own copy."""
    answers: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side in SIDES:
            asked = path
            if what == "context":
                asked = Path(shutil.copyfile(path, path.with_name(f"{side}.jsonl")))
            answers[side].append(ask(side, what, asked, times))
            if asked != path:
                asked.unlink()
    return answers


def measure(entries: int, folder: Path, rounds: int, sessions: int = SESSIONS) -> list[Row]:
    """All comparisons for files of so many entries.

    Raises:
        AssertionError: the two sides did not see the same, so that nothing can be compared.
    """
    file = folder / "session.jsonl"
    write(file, entries)
    opened = both("open", file, TIMES, rounds)
    _same(opened, "entries", entries)
    grown = both("context", file, APPENDS, rounds)
    _same(grown, "messages", grown["pi"][0]["messages"])
    file.unlink()

    listed = folder / "--home-me--"
    listed.mkdir()
    for number in range(sessions):
        write(listed / f"{number}.jsonl", max(1, entries // sessions), number)
    found = both("list", listed, TIMES, rounds)
    _same(found, "found", sessions)
    shutil.rmtree(listed)

    return [
        _row(entries, "open", opened, "ms"),
        _row(entries, "memory", opened, "mb"),
        _row(entries, "context", grown, "context_ms"),
        _row(entries, "copied", grown, "copied_ms"),
        _row(entries, "turn", grown, "turn_ms"),
        _row(entries, "list", found, "ms"),
    ]


def _same(answers: dict[str, list[dict[str, Any]]], field: str, expected: int) -> None:
    for side, told in answers.items():
        assert {answer[field] for answer in told} == {expected}, f"{side}: {field} of {told}"


def _row(entries: int, what: str, answers: dict[str, list[dict[str, Any]]], field: str) -> Row:
    middles = {side: median(_flat(a[field] for a in told)) for side, told in answers.items()}
    return Row(entries, what, middles["pi"], middles["pi_nb"])


def _flat(figures: Iterable[Any]) -> list[float]:
    return [x for part in figures for x in (part if isinstance(part, list) else [part])]


def table(rows: Sequence[Row]) -> str:
    """The comparisons as Markdown."""
    text = ["| entries | | pi | pi_nb | part | bound | |", "|--:|:--|--:|--:|--:|--:|:--|"]
    for row in rows:
        name, unit, most = BOUNDS[row.what]
        bound, verdict = ("", "") if most is None else (f"{most:.2f}", _verdict(row))
        text.append(
            f"| {row.entries:,} | {name} | {row.pi:,.3f} {unit} | {row.ours:,.3f} {unit} "
            f"| {row.ratio:.3f} | {bound} | {verdict} |"
        )
    return "\n".join(text)


def _verdict(row: Row) -> str:
    return "holds" if row.holds else "DOES NOT HOLD"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="pi's session files: ours beside pi.")
    parser.add_argument("--entries", type=int, action="append", help="of the file; repeatable")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="fresh processes")
    given = parser.parse_args(arguments)
    if missing := why_no_peer():
        print(f"Nothing to compare with: {missing}.", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for entries in given.entries or ENTRIES:
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(entries, Path(folder), given.rounds)
    print(table(rows))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
