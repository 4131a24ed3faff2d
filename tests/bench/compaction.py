"""Planning a compaction, once and a thousand times, beside pi, in one run.

    python tests/bench/compaction.py                    a branch of 100,000 entries, and of 1,000
    python tests/bench/compaction.py --entries 10000    quicker: the length of the long branch
    python tests/bench/compaction.py --rounds 5         fresh processes a side and question

The branches are generated: v3, about 1.2 kB an entry, questions, answers, tool calls and their
results, usage that grows as it does. There is no compaction on them, so that every entry is in
context: with one, our part would be smaller still. Each question goes to fresh processes of
both sides in turn, so that whatever else the machine does meets both, and each asks several
times. The table has medians. What is on the clock stands in `compaction_ours.py`; both sides
have to choose the same cuts, else nothing is compared.

What is asked of ours, as a part of pi's: 0.3 of the time of `prepareCompaction` for a plan of
the long branch; 1/20 of the time of a thousand of its calls for a thousand settings over the
short one, and less than two seconds. The exit code is 1 where one of these does not hold. Two
rows have no bound, and say what the first leaves out: the files of the history, which pi lists
with every plan, and the reading of the session, which both do once.

It needs Node 22 or newer and, once, `npm ci --ignore-scripts` in `tests/interop`.

Measured on 2026-12-01, two cores that did other work too (load about 3), Python 3.11.7, Node
24.19.0, pi 1.6.0, one round:

    entries                                    pi        pi_nb    part
    100,000    a plan                      523 ms      40.9 ms    0.08
    100,000    a plan and its files        523 ms       292 ms    0.56
    100,000    the file read, a plan     4,231 ms    21,331 ms    5.04
      1,000    1,000 settings              728 ms      27.2 ms    0.04

The third row is what checking 100,000 messages field by field costs when all of them are in
context; with a compaction on the branch only what it kept is read.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # as pytest does

from interop.peer import why_no_peer  # noqa: E402

SIDES = {
    "pi": ["node", str(HERE / "compaction.mjs")],
    "pi_nb": [sys.executable, str(HERE / "compaction_ours.py")],
}
LONG, SHORT = 100_000, 1_000
SETTINGS = 1_000
KEEP = 20_000
ROUNDS = 3
TIMES = 5
"""Answers that are timed in each process."""

STAMP = "2026-11-30T12:00:00.000Z"
WORDS = ("the", "file", "holds", "nine", "words", "one", "on", "each", "line", "and", "done")


class Bound(NamedTuple):
    """A row of the table: what part of pi's time is allowed, and what time in any case."""

    name: str
    part: float | None
    ms: float | None = None


BOUNDS = {
    "plan": Bound("a plan", 0.3),
    "files": Bound("a plan and its files", None),
    "first": Bound("the file read, a plan", None),
    "sweep": Bound(f"{SETTINGS:,} settings", 1 / 20, 2_000),
}


@dataclass(frozen=True)
class Row:
    """One comparison: medians of both sides, in milliseconds."""

    entries: int
    what: str
    pi: float
    ours: float

    @property
    def part(self) -> float:
        return self.ours / self.pi

    @property
    def holds(self) -> bool:
        _, part, ms = BOUNDS[self.what]
        return (part is None or self.part <= part) and (ms is None or self.ours < ms)


def lines(entries: int) -> Iterator[str]:
    """The lines of one session of one branch: a header and so many entries."""
    chance = random.Random(0)
    yield _line(type="session", version=3, id="s", timestamp=STAMP, cwd="/home/me")
    parent: str | None = None
    for number in range(entries):
        own = f"{number:08x}"
        message = {**_message(number, chance), "timestamp": 1_796_000_000_000 + number}
        yield _line(type="message", id=own, parentId=parent, timestamp=STAMP, message=message)
        parent = own


def _message(number: int, chance: random.Random) -> dict[str, Any]:
    text = " ".join(chance.choices(WORDS, k=200))
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    match number % 4:
        case 0:
            return {"role": "user", "content": blocks}
        case 1:
            path = {"path": f"src/{chance.choice(WORDS)}_{number % 97}.py"}
            call = {"type": "toolCall", "id": f"call_{number}", "name": "read", "arguments": path}
            return _answer([*blocks, call], number, "toolUse")
        case 2:
            called = {"toolCallId": f"call_{number - 1}", "toolName": "read", "isError": False}
            return {"role": "toolResult", "content": blocks, **called}
        case _:
            return _answer(blocks, number, "stop")


def _answer(blocks: list[dict[str, Any]], number: int, stop: str) -> dict[str, Any]:
    cost = {"input": 0.0036, "output": 0.0051, "cacheRead": 0.009, "total": 0.0211}
    usage = {"input": 900, "output": 240, "cacheRead": 250 * number, "cacheWrite": 0}
    return {
        "role": "assistant",
        "content": blocks,
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {**usage, "totalTokens": 1_140 + 250 * number, "cost": cost},
        "stopReason": stop,
    }


def _line(**fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":")) + "\n"


def keeps(entries: int) -> list[int]:
    """Settings that cut all over a branch of so many entries."""
    most = entries * 200
    return [most * number // SETTINGS for number in range(1, SETTINGS + 1)]


def both(what: str, path: Path, given: str, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """The answers of both sides, asked in turn, each a fresh process."""
    answers: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, program in SIDES.items():
            command = [*program, what, str(path), str(TIMES), given]
            told = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True)
            answers[side].append(json.loads(told.stdout))
    return answers


def measure(
    folder: Path, rounds: int, long: int = LONG, short: int = SHORT, keep: int = KEEP
) -> list[Row]:
    """All comparisons.

    Raises:
        AssertionError: the two sides did not choose the same, so that nothing can be compared.
    """
    file = folder / "long.jsonl"
    file.write_text("".join(lines(long)), "utf-8")
    planned = both("plan", file, str(keep), rounds)
    file.unlink()
    _same(planned, "kept")
    _same(planned, "tokens")

    file = folder / "short.jsonl"
    file.write_text("".join(lines(short)), "utf-8")
    swept = both("sweep", file, json.dumps(keeps(short)), rounds)
    file.unlink()
    _same(swept, "kept")

    return [
        _row(long, "plan", planned, "ms"),
        _row(long, "files", planned, "files_ms"),
        _row(long, "first", planned, "first_ms"),
        _row(short, "sweep", swept, "ms"),
    ]


def _same(answers: dict[str, list[dict[str, Any]]], field: str) -> None:
    told = [answer[field] for side in answers.values() for answer in side]
    assert all(one == told[0] for one in told), f"{field} differs"


def _row(entries: int, what: str, answers: dict[str, list[dict[str, Any]]], field: str) -> Row:
    middles = {side: median(ms for a in told for ms in a[field]) for side, told in answers.items()}
    return Row(entries, what, middles["pi"], middles["pi_nb"])


def table(rows: Sequence[Row]) -> str:
    """The comparisons as Markdown."""
    text = ["| entries | | pi | pi_nb | part | bound | |", "|--:|:--|--:|--:|--:|--:|:--|"]
    for row in rows:
        name, part, ms = BOUNDS[row.what]
        bound = "" if part is None else f"{part:.2f}" + (f", {ms:,.0f} ms" if ms else "")
        verdict = "" if part is None else "holds" if row.holds else "DOES NOT HOLD"
        text.append(
            f"| {row.entries:,} | {name} | {row.pi:,.1f} ms | {row.ours:,.1f} ms "
            f"| {row.part:.3f} | {bound} | {verdict} |"
        )
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Plans of compactions: ours beside pi.")
    parser.add_argument("--entries", type=int, default=LONG, help="of the long branch")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="fresh processes")
    given = parser.parse_args(arguments)
    if missing := why_no_peer():
        print(f"Nothing to compare with: {missing}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), given.rounds, given.entries)
    print(table(rows))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
