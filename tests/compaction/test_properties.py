"""Promises of every plan, whatever was said, compacted, edited and left before it.

A session grows at random: turns with calls, settings that show nothing, moves to other
branches, compactions and masks. After each step the promises are looked at again.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import event, given
from hypothesis import strategies as st

from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.plan import SUMMARY_LEAST, SUMMARY_MOST, Plan, Replace, plan_compaction
from pi_nb.compaction.policies.mask import Mask
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    BashExecutionMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    convert_to_llm,
    user,
)
from pi_nb.models.pairing import pair
from pi_nb.session.codec import Format
from pi_nb.session.context import SessionContext
from pi_nb.session.entries import MessageEntry, ModelChangeEntry
from pi_nb.session.session import Session
from pi_nb.tokens import estimate_text

SIZES = st.sampled_from([1, 8, 40, 300])
"""Tokens of one message."""


@dataclass(frozen=True)
class Say:
    """A turn: a question, then rounds of so many calls and their results, then an answer."""

    size: int
    rounds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ran:
    """A command of the user's own."""

    size: int


@dataclass(frozen=True)
class Settle:
    """A change of model, which shows nothing."""


@dataclass(frozen=True)
class Move:
    """The leaf goes to some entry that ends a turn."""

    which: int


@dataclass(frozen=True)
class Compact:
    """The plan of this moment is applied, with a summary of so many tokens."""

    keep: int
    size: int


@dataclass(frozen=True)
class Masked:
    """Old tool outputs are replaced by notes."""

    keep: int


Step = Say | Ran | Settle | Move | Compact | Masked
_said: st.SearchStrategy[Step] = st.one_of(
    st.builds(Say, SIZES, st.lists(st.integers(1, 3), max_size=2).map(tuple)),
    st.builds(Ran, SIZES),
    st.builds(Settle),
)
_done: st.SearchStrategy[Step] = st.one_of(
    st.builds(Compact, st.sampled_from([0, 5, 60, 400]), st.sampled_from([1, 200, 2_000])),
    st.builds(Masked, st.integers(0, 3)),
    st.builds(Move, st.integers(0, 9)),
)
_chapters = st.tuples(st.lists(_said, min_size=1, max_size=3), st.lists(_done, max_size=2))
HISTORIES: st.SearchStrategy[list[Step]] = st.lists(_chapters, max_size=5).map(
    lambda chapters: [step for said, done in chapters for step in (*said, *done)]
)
"""Chapters, each said first and then compacted, masked or left; not lone steps, of which few
would have anything to work on."""
FORMATS: st.SearchStrategy[Format] = st.sampled_from(["v3", "v4"])


@dataclass
class World:
    """A session that is grown, and where its branch may be gone on from."""

    session: Session
    ends: list[str] = field(default_factory=list)
    """Entries that end a turn: a branch begins where no call is open."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def do(self, step: Step) -> None:
        match step:
            case Say(size, rounds):
                await self._say(user(_words(size), timestamp=1))
                for calls in rounds:
                    await self._call(calls, size)
                await self._say(_answer(_words(size)))
                self._ends()
            case Ran(size):
                await self._say(
                    BashExecutionMessage(command="ls", output=_words(size), timestamp=1)
                )
                self._ends()
            case Settle():
                await self.session.append(ModelChangeEntry(provider="p", model_id="m"))
                self._ends()
            case Move(which) if self.ends:
                await self.session.move(self.ends[which % len(self.ends)])
            case Compact(keep, size):
                if plan := plan_compaction(Branch.of(self.session), Budget(keep=keep)):
                    await self.compact(plan, size)
            case Masked(keep):
                if plan := Mask(keep)(Branch.of(self.session), Budget()):
                    await self.mask(plan)

    async def compact(self, plan: Plan, size: int) -> None:
        assert plan.summarise is not None
        first = plan.summarise.first_kept_entry_id
        await self.session.append_compaction(_words(size), first, plan.tokens_before)
        self._ends()

    async def mask(self, plan: Plan) -> None:
        for edit in plan.edits:
            assert isinstance(edit, Replace)
            await self.session.append_context_edit(edit.entry_id, edit.content)
        self._ends()

    async def _call(self, calls: int, size: int) -> None:
        ids = [f"call_{next(self.numbers)}" for _ in range(calls)]
        asked = [ToolCall(id=call, name="read", arguments={"path": "a.py"}) for call in ids]
        await self._say(AssistantMessage(content=tuple(asked), timestamp=1, stop_reason="toolUse"))
        for call in ids:
            content = (TextContent(text=_words(size)),)
            await self._say(
                ToolResultMessage(tool_call_id=call, tool_name="read", content=content, timestamp=1)
            )

    async def _say(self, message: AgentMessage) -> None:
        await self.session.append(MessageEntry(message=message))

    def _ends(self) -> None:
        leaf = self.session.leaf()
        assert leaf is not None
        self.ends.append(leaf)


def _words(size: int) -> str:
    return "word" * size


def _answer(text: str) -> AssistantMessage:
    return AssistantMessage(content=(TextContent(text=text),), timestamp=1)


def grown(steps: list[Step], format: Format) -> World:
    """A session in memory after these steps."""
    world = World(Session.create(None, cwd="/w", format=format))

    async def grow() -> None:
        for step in steps:
            await world.do(step)

    asyncio.run(grow())
    return world


def paired(context: SessionContext) -> bool:
    return pair(convert_to_llm(context.messages)).changes == ()


@given(HISTORIES, FORMATS, st.sampled_from([0, 5, 60, 400]))
def test_what_is_summarised_and_what_is_kept_are_all_that_is_visible_since_the_last_boundary(
    steps: list[Step], format: Format, keep: int
) -> None:
    """No gap and no overlap, across any number of compactions and on whatever branch."""
    session = grown(steps, format).session
    branch = Branch.of(session)
    visible = [item.entry_id for item in session.context().items]
    if branch.compaction is not None:
        assert visible.pop(0) == branch.compaction.id

    plan = plan_compaction(branch, Budget(keep=keep))

    made = [entry.type for entry in session.branch()].count("compaction")
    event(f"{type(plan).__name__} after {made} compactions")
    if not isinstance(plan, Plan):
        return
    assert plan.summarise is not None
    gone = [*plan.summarise.entry_ids, *plan.summarise.turn_prefix]
    asyncio.run(World(session).compact(plan, 1))
    after = [item.entry_id for item in session.context().items]
    assert after[0] == session.leaf()
    assert [*gone, *after[1:]] == visible
    assert [row.entry_id for row in plan.gone] == gone


@given(
    st.lists(st.tuples(SIZES, st.sampled_from([0, 5, 60, 400])), min_size=2, max_size=6), FORMATS
)
def test_across_any_number_of_compactions_each_message_is_summarised_once_or_still_kept(
    chapters: list[tuple[int, int]], format: Format
) -> None:
    world = grown([], format)
    gone: list[str] = []
    made = 0

    async def live() -> None:
        nonlocal made
        for size, keep in chapters:
            await world.do(Settle())
            await world.do(Say(size, (2, 1)))
            if plan := plan_compaction(Branch.of(world.session), Budget(keep=keep)):
                assert plan.summarise is not None
                gone.extend([*plan.summarise.entry_ids, *plan.summarise.turn_prefix])
                await world.compact(plan, 1)
                made += 1

    asyncio.run(live())

    event(f"{made} compactions")
    session = world.session
    kept = [i.entry_id for i in session.context().items if session.type_of(i.entry_id) == "message"]
    said = [entry.id for entry in session.branch() if entry.type == "message"]
    assert [*gone, *kept] == said


@given(HISTORIES, FORMATS)
def test_pairs_are_whole_in_every_request_and_a_reopened_file_gives_the_same(
    steps: list[Step], format: Format
) -> None:
    """After each step: nothing to mend in what is sent, live and read again from the disk."""

    async def grow(path: Path) -> None:
        with Session.create(path, cwd="/w", format=format, durability="flush") as session:
            world = World(session)
            for number, step in enumerate(steps):
                await world.do(step)
                live = session.context()
                assert paired(live)
                # A file is one object in a process, so a copy is what another one would read.
                copy = path.with_name(f"{number}.jsonl")
                copy.write_bytes(path.read_bytes())
                with Session.open(copy, read_only=True) as again:
                    assert again.context() == live
                copy.unlink()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(grow(Path(folder) / "s.jsonl"))


@given(HISTORIES, FORMATS, st.sampled_from([0, 5, 60, 400]))
def test_planning_twice_gives_the_same_and_writes_nothing(
    steps: list[Step], format: Format, keep: int
) -> None:
    session = grown(steps, format).session
    before = session.entry_ids()

    for policy in (plan_compaction, Mask(keep % 7)):
        first = policy(Branch.of(session), Budget(keep=keep))
        second = policy(Branch.of(session), Budget(keep=keep))
        assert first == second
        assert str(first) == str(second)
    assert session.entry_ids() == before


@given(
    HISTORIES,
    st.sampled_from([0, 5, 60, 400]),
    st.integers(SUMMARY_LEAST, SUMMARY_MOST),
)
def test_a_plan_says_so_where_the_next_request_gets_larger(
    steps: list[Step], keep: int, size: int
) -> None:
    """And its prediction holds for every summary of the size that it counts with."""
    world = grown(steps, "v4")
    plan = plan_compaction(Branch.of(world.session), Budget(keep=keep))
    if not isinstance(plan, Plan):
        return
    assert estimate_text(_words(size)) == size

    asyncio.run(world.compact(plan, size))

    after = Branch.of(world.session).size.tokens
    least, most = plan.tokens_after
    assert least <= after <= most
    if after > plan.tokens_before:
        event("larger")
        assert plan.grows
        assert "caution" in str(plan)


@given(HISTORIES, FORMATS, st.integers(0, 3))
def test_masking_is_idempotent_and_frees_what_it_says(
    steps: list[Step], format: Format, keep: int
) -> None:
    world = grown(steps, format)
    plan = Mask(keep)(Branch.of(world.session), Budget())
    if not isinstance(plan, Plan):
        return
    event("masked")
    assert not plan.grows

    asyncio.run(world.mask(plan))

    after = Branch.of(world.session).size.tokens
    assert (after, after) == plan.tokens_after
    assert after == plan.tokens_before - plan.freed < plan.tokens_before
    assert not Mask(keep)(Branch.of(world.session), Budget())
    assert paired(world.session.context())
