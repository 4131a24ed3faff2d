"""What one turn of the harness costs, from a short session to a long one, beside pi's.

    python tests/bench/turns.py                     ours and, where it is installed, pi's
    python tests/bench/turns.py --prompts 400       quicker; the default is 4,000
    python tests/bench/turns.py --no-peer           ours alone

A prompt is one question and one short answer of a scripted model, two entries in a session
file. No time of a model is in it: what is measured is the harness, the session and the disk
(`durability="flush"`). Both sides take turns, a chunk of prompts each, so that whatever else
the machine does meets both. The first chunk is not counted. Nothing is left behind.

The peer is the pi harness, `@earendil-works/pi-agent-core` 0.83.0, with its faux provider and
its JSONL repo. It needs Node (made for 22.19; 20 runs it) and, once, `npm ci --ignore-scripts`
in `tests/bench/peer`. Its faux provider counts the tokens of the whole prompt again for every
request; what that alone comes to at the end is shown under the table. The two do not write
the same: ours puts the beginning and the end of each run on record too, four lines a prompt
to pi's two.

What is asked of ours: the last quarter costs less than 1.5 times the first, and a turn less
than 2 ms.

Measured on 2026-11-30, two cores of an AMD EPYC that did other work too (load about 4), Python
3.11.7, Node 20.20.2, 4,000 prompts; milliseconds a prompt:

    entries             pi_nb   median      CPU       pi   median      CPU
    100 to 2,100         1.90     1.38     1.58     1.97     1.39     1.74
    2,100 to 4,100       2.12     1.49     1.66     8.01     5.72     5.06
    4,100 to 6,100       3.43     1.46     1.89    13.94    11.08    10.34
    6,100 to 8,100       1.68     1.35     1.52    24.06    17.63    14.27
    last / first         0.88     0.98     0.96    12.20    12.67     8.19
    pi's faux provider alone, at the end: 4.56 ms a request

Means swing with what else runs; the median and the CPU's time are the ones to compare. Before
all requests shared one list of messages, 3,000 prompts went from 1.2 ms in the first quarter
to 4.4 ms in the last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import IO, Any, NamedTuple

from pi_nb import AgentHarness, ScriptedModel
from pi_nb.session.session import Session

PEER = Path(__file__).with_name("peer")
QUESTION = "What is in the file that I gave you?"
ANSWER = "A list of nine words, one on each line."
PROMPTS = 4_000
CHUNK = 50


class Cost(NamedTuple):
    """Of one prompt, in milliseconds."""

    wall: float
    """What a user waits; on a busy machine mostly for others."""
    cpu: float
    """What the process computes, all its threads."""


@dataclass
class Measured:
    """The cost of every prompt, the first chunk left out."""

    ours: list[Cost] = field(default_factory=list)
    peer: list[Cost] = field(default_factory=list)
    """Empty where there is no peer."""
    provider: float | None = None
    """Of the peer: one request with the whole history, without its harness."""


class Peer:
    """The pi harness in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._asks: IO[str] = process.stdin
        self._tells: IO[str] = process.stdout

    def prompts(self, count: int) -> list[Cost]:
        """Ask so many; the cost of each."""
        return [Cost(*pair) for pair in self._ask(str(count))]

    def provider(self) -> float:
        """The milliseconds of one request with the whole history, without the harness."""
        share: float = self._ask("")
        return share

    def _ask(self, line: str) -> Any:
        print(line, file=self._asks, flush=True)
        answer = self._tells.readline()
        if not answer:
            raise SystemExit("The peer ended early; its words are above.")
        return json.loads(answer)


def why_no_peer() -> str:
    """What is missing for the peer, or nothing."""
    if shutil.which("node") is None:
        return "there is no Node"
    if not (PEER / "node_modules").is_dir():
        return "`npm ci --ignore-scripts` in tests/bench/peer installs it"
    return ""


@contextmanager
def peer_in(folder: Path) -> Iterator[Peer]:
    """The peer with its sessions in a folder, until its input ends."""
    folder.mkdir()
    command = ["node", str(PEER / "turns.mjs"), str(folder), QUESTION, ANSWER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Peer(process)


async def prompts(harness: AgentHarness, count: int) -> list[Cost]:
    """Ask so many; the cost of each."""
    costs = []
    for _ in range(count):
        start = time.perf_counter(), time.process_time()
        result = await harness.prompt(QUESTION)
        end = time.perf_counter(), time.process_time()
        costs.append(Cost(*(1_000 * (b - a) for a, b in zip(start, end, strict=True))))
        assert result.ok, result.ending
    return costs


async def measure(count: int, peer: Peer | None, folder: Path) -> Measured:
    """Ask `count` prompts of each, a chunk at a time in turn, and a first chunk before them."""
    measured = Measured()
    model = ScriptedModel(lambda _request: ANSWER)
    with Session.create(folder / "ours.jsonl", cwd=folder, durability="flush") as session:
        harness = AgentHarness(model, session=session)
        for start in range(-CHUNK, count, CHUNK):
            ours = await prompts(harness, min(CHUNK, count - start))
            theirs = peer.prompts(len(ours)) if peer else []
            if start >= 0:
                measured.ours += ours
                measured.peer += theirs
    measured.provider = peer.provider() if peer else None
    return measured


def table(measured: Measured) -> str:
    """A row a quarter, and how the last compares with the first. In milliseconds."""
    sides = {"pi_nb": measured.ours} | ({"pi": measured.peer} if measured.peer else {})
    lines = [_row("entries", [part for name in sides for part in (name, "median", "CPU")])]
    quarters = [[_figures(_quarter(costs, n)) for costs in sides.values()] for n in range(4)]
    for number, figures in enumerate(quarters):
        edges = [2 * (CHUNK + n * len(measured.ours) // 4) for n in (number, number + 1)]
        lines.append(_row(f"{edges[0]:,} to {edges[1]:,}", _written(figures)))
    ratios = [
        [last / first for first, last in zip(*both, strict=True)]
        for both in zip(quarters[0], quarters[3], strict=True)
    ]
    lines.append(_row("last / first", _written(ratios)))
    if measured.provider is not None:
        lines.append(f"pi's faux provider alone, at the end: {measured.provider:.2f} ms a request")
    return "\n".join(lines)


def _figures(costs: Sequence[Cost]) -> list[float]:
    walls, cpus = zip(*costs, strict=True)
    return [fmean(walls), median(walls), fmean(cpus)]


def _quarter(costs: Sequence[Cost], number: int) -> Sequence[Cost]:
    return costs[number * len(costs) // 4 : (number + 1) * len(costs) // 4]


def _written(sides: Iterable[Iterable[float]]) -> list[str]:
    return [f"{figure:.2f}" for figures in sides for figure in figures]


def _row(name: str, cells: Iterable[str]) -> str:
    return f"{name:<16}" + "".join(f"{cell:>9}" for cell in cells)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The cost of a turn, in milliseconds.")
    parser.add_argument("--prompts", type=int, default=PROMPTS, help="counted, at least 4")
    parser.add_argument("--no-peer", action="store_true", help="ours alone")
    given = parser.parse_args(arguments)
    if given.prompts < 4:
        parser.error("a quarter needs a prompt: at least 4")
    missing = "not asked for" if given.no_peer else why_no_peer()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if missing:
            print(f"Without the peer: {missing}.", file=sys.stderr)
            print(table(asyncio.run(measure(given.prompts, None, folder))))
        else:
            with peer_in(folder / "peer") as peer:
                print(table(asyncio.run(measure(given.prompts, peer, folder))))


if __name__ == "__main__":
    main()
