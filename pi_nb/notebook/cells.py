"""Running a cell again walks the tree instead of paying again.

A run is on record with the leaf it began at, the cell that asked, and what its answer
depended on. Running the cell again goes back to where it began. Where the same was asked
there under the same settings, the stored answer is shown and nobody is asked.

    1 user: one        cell A
    2 assistant
    3 user: two        cell B      B edited and run: a sibling of 3
    4 assistant                    B run again as it was: 4 is shown, no request

In a pass over a notebook a compaction is walked too: where the same plan was compacted here
with the same instructions by the same writer, the leaf goes to after it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from pi_nb.compaction.plan import Plan
from pi_nb.harness.harness import AgentHarness
from pi_nb.harness.turn import TurnResult
from pi_nb.messages import AgentMessage, AssistantMessage, ToolCall, Usage
from pi_nb.session.entries import CompactionEntry, MessageEntry
from pi_nb.session.records import OperationFinished, OperationStarted
from pi_nb.text import scrub

Key = tuple[str, int]

_NAMES = {
    "model": "model",
    "thinkingLevel": "thinking level",
    "tools": "tools",
    "systemPrompt": "system prompt",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """The cell that asks: the front end's id for it, or the n-th of its text."""

    text: str
    number: int
    id: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """The form that a record keeps."""
        digest = hashlib.sha256(scrub(self.text).encode()).hexdigest()[:16]
        wire: dict[str, Any] = {"text": digest, "number": self.number}
        return wire if self.id is None else {**wire, "id": self.id}

    @property
    def key(self) -> Key:
        """By what it is found again: its id where the front end gives one, else its text."""
        return stored_keys(self.to_wire())[0]


@dataclass(frozen=True, slots=True)
class Walked:
    """A cell that was answered from the session."""

    result: TurnResult

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that were made when it was asked, in order."""
        answers = (m for m in self.result.messages if isinstance(m, AssistantMessage))
        return [call for answer in answers for call in answer.tool_calls]

    def note(self, repeated: Sequence[ToolCall] = ()) -> str:
        """What did not happen: no request, and which calls were not made again."""
        note = "Walked: this was asked here before, so nobody was asked."
        done = {call.id for call in repeated}
        if repeated:
            note += f" Run again in the kernel: {_counted(repeated)}."
        if left := [call for call in self.calls if call.id not in done]:
            note += f" Not repeated: {_counted(left)}."
        return note


@dataclass(slots=True)
class _Run:
    """One run as its records have it."""

    start: str | None
    prompt: str
    cell: Mapping[str, Any]
    settings: Mapping[str, Any]
    end: str | None = None
    completed: bool = False


class Cells:
    """Where the cells of one agent began, and what was answered there.

    Belongs to the loop thread, but for `cell`, which counts on the thread that runs cells.
    """

    def __init__(self, harness: AgentHarness, *, from_root: bool = False) -> None:
        """
        Args:
            from_root: A pass over a notebook begins: the first run of each cell starts at
                the present leaf, only a second one goes back to where the first began.
        """
        self._harness = harness
        self._counts: Counter[str] = Counter()
        self._seen = 0
        self._runs: dict[str, _Run] = {}
        self._from: dict[str | None, list[_Run]] = {}
        self._newest: dict[Key, _Run] = {}
        self._pass: set[Key] | None = set() if from_root else None
        self._begun: dict[str, OperationStarted] = {}
        self._compacted: dict[str | None, list[tuple[str, str | None]]] = {}
        """Where compactions began, where they ended, and their instructions."""

    def cell(self, text: str, id: str | None) -> Cell:
        """The cell that runs now. Without an id the same text again is another cell."""
        if id is None:
            self._counts[text] += 1
        return Cell(text, self._counts[text] or 1, id)

    async def enter(self, cell: Cell, *, fresh: bool = False) -> Walked | str:
        """Go to where the cell begins, and walk if its answer is there.

        Args:
            fresh: Ask in any case, as a sibling of what was asked there before.

        Returns:
            What was walked; or, where somebody has to be asked, what differs from a run
            that asked the same here, in words, or an empty text.
        """
        self._read()
        start = self._start(cell)
        if start != self._harness.leaf:
            await self._harness.move(start)
        if fresh:
            return ""
        now = await self._harness.run_settings()
        differs = ""
        for run in reversed(self._from.get(start, [])):
            if run.prompt != cell.text or not run.completed:
                continue
            differs = _differences(run.settings, now)
            result = None if differs else self._result(run)
            if result is not None and result.ok:
                await self._harness.move(run.end)
                return Walked(result)
        return (
            f"Asked anew: the {differs} differs from when this was asked here." if differs else ""
        )

    async def compacted(
        self, plan: Plan, instructions: str | None, writer: str
    ) -> CompactionEntry | None:
        """In a pass: go to after the compaction that was made here before of the same plan.

        Args:
            writer: The model that would be asked, else who would write.

        Returns:
            It; None where none was made, or no pass is under way.
        """
        if self._pass is None or plan.summarise is None:
            return None
        self._read()
        for end, said in reversed(self._compacted.get(self._harness.leaf, [])):
            entry = self._harness.session.entry(end)
            if said != instructions or not isinstance(entry, CompactionEntry):
                continue
            details = entry.details if isinstance(entry.details, dict) else {}
            model = "/".join(str(details[key]) for key in ("provider", "model") if key in details)
            same = entry.first_kept_entry_id == plan.summarise.first_kept_entry_id
            if same and (model or details.get("writtenBy")) == writer:
                await self._harness.move(end)
                return entry
        return None

    def _start(self, cell: Cell) -> str | None:
        """Where the cell begins: where its newest run began, else at the present leaf."""
        if self._pass is not None:
            first = cell.key not in self._pass
            self._pass.add(cell.key)
            if first:
                return self._harness.leaf
        began = self._newest.get(cell.key)
        return self._harness.leaf if began is None else began.start

    def _read(self) -> None:
        """Take in what was recorded since the last look."""
        for record in self._harness.session.records(self._seen):
            self._seen += 1
            if isinstance(record, OperationStarted) and record.lane == self._harness.lane:
                if record.intent.get("kind") == "compaction":
                    self._begun[record.id] = record
                if "cell" not in record.intent:
                    continue
                self._runs[record.id] = run = _begun(record)
                self._from.setdefault(run.start, []).append(run)
                for key in stored_keys(run.cell):
                    self._newest[key] = run
            elif isinstance(record, OperationFinished) and record.run_id in self._runs:
                run = self._runs.pop(record.run_id)
                run.end = record.leaf_id
                run.completed = record.outcome == "completed" and record.leaf_id is not None
            elif isinstance(record, OperationFinished) and record.run_id in self._begun:
                begun = self._begun.pop(record.run_id)
                if record.outcome == "completed" and record.leaf_id is not None:
                    said = begun.intent.get("customInstructions")
                    made = (record.leaf_id, said)
                    self._compacted.setdefault(begun.source_leaf_id, []).append(made)

    def _result(self, run: _Run) -> TurnResult | None:
        """The stored run as the value that it gave when it was asked."""
        session = self._harness.session
        branch = session.branch_ids(run.end)
        added = branch[branch.index(run.start) + 1 :] if run.start else branch
        entries = map(session.entry, added)
        messages: tuple[AgentMessage, ...] = tuple(
            entry.message for entry in entries if isinstance(entry, MessageEntry)
        )
        answers = [m for m in messages if isinstance(m, AssistantMessage)]
        if not answers:
            return None
        return TurnResult(
            message=answers[-1],
            messages=messages,
            reason="done",
            usage=reduce(add, (answer.usage for answer in answers), Usage()),
            leaf_id=run.end,
            model=self._harness.model.model,
        )


def _counted(calls: Sequence[ToolCall]) -> str:
    names = Counter(call.name for call in calls)
    return ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in names.items())


def stored_keys(cell: Mapping[str, Any]) -> list[Key]:
    """By what a stored cell is found again: its id, and the n-th of its text."""
    keys: list[Key] = [(str(cell.get("text")), int(cell.get("number") or 1))]
    return [(str(cell["id"]), 0), *keys] if "id" in cell else keys


def _begun(record: OperationStarted) -> _Run:
    return _Run(
        start=record.source_leaf_id,
        prompt=str(record.intent.get("originalPrompt", "")),
        cell=record.intent.get("cell") or {},
        settings=record.intent.get("settings") or {},
    )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return ", ".join(words for key, words in _NAMES.items() if before.get(key) != now.get(key))
