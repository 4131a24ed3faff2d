"""Policies: found by name, written in a cell, and held against their branch when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from pi_nb.compaction import policy as registry
from pi_nb.compaction.branch import Branch
from pi_nb.compaction.budget import Budget
from pi_nb.compaction.pairs import calls_of
from pi_nb.compaction.plan import (
    NothingToCompact,
    Omit,
    Plan,
    Replace,
    Summarise,
    plan_compaction,
)
from pi_nb.compaction.policies.mask import Mask
from pi_nb.compaction.policy import as_policy, policies, policy, policy_named
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    user,
)
from pi_nb.result import PiError
from pi_nb.session.codec import Format
from pi_nb.session.entries import CompactionEntry, MessageEntry, ModelChangeEntry
from pi_nb.session.session import Session


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    before = dict(registry._functions)
    yield
    registry._functions.clear()
    registry._functions.update(before)


def looked_at(files: int, length: int = 4_000, format: Format = "v4") -> Session:
    """A question, then for each file a call, its result and an answer: rows 1, 2 3 4, 5 6 7 ..."""
    made = Session.create(None, cwd="/w", format=format)
    say(made, user("Look at the files.", timestamp=0))
    for number in range(files):
        call = ToolCall(id=f"c{number}", name="read", arguments={"path": f"f{number}.py"})
        say(made, AssistantMessage(content=(call,), timestamp=number))
        say(made, result(f"c{number}", "x" * length))
        say(made, AssistantMessage(content=(TextContent(text="seen"),), timestamp=number))
    return made


def say(made: Session, message: AgentMessage) -> None:
    made.append_sync(MessageEntry(message=message))


def result(call_id: str, text: str, **fields: Any) -> ToolResultMessage:
    content = (TextContent(text=text),)
    return ToolResultMessage(
        tool_call_id=call_id, tool_name="read", content=content, timestamp=0, **fields
    )


def row(made: Session, number: int) -> str:
    return made.find(str(number)).id


def refused(use: Callable[[], object]) -> str:
    with pytest.raises(PiError) as caught:
        use()
    assert caught.value.code == "invalid_argument"
    return caught.value.message


# --- by name ------------------------------------------------------------------------------------


def test_pi_is_the_plan_of_the_original() -> None:
    branch = Branch.of(looked_at(5))

    assert policy_named("pi")(branch, Budget(keep=2_000)) == plan_compaction(
        branch, Budget(keep=2_000)
    )


def test_none_never_compacts() -> None:
    found = policy_named("none")(Branch.of(looked_at(5)), Budget(keep=0))

    assert isinstance(found, NothingToCompact)
    assert "never" in found.why


def test_a_name_takes_settings_and_gives_them_back() -> None:
    for text, made in [
        ("mask", Mask()),
        ("mask:keep=5", Mask(keep=5)),
        (" mask : keep = 5 ", None),
    ]:
        found = policy_named(text)
        assert made is None or found == made
        assert policy_named(found.name) == found
    assert repr(policies()["mask"]) == "Mask(keep=10)"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mast", "no policy 'mast'; there is pi, none, mask"),
        ("mask:kept=5", "mask: no setting 'kept'; its settings: keep=10"),
        ("mask:5", "'5' is not name=value"),
        ("mask:keep=many", "mask:keep is a whole number, not 'many'"),
        ("mask:keep=-1", "0 or more, not -1"),
        ("pi:keep=5", "its settings: none"),
    ],
)
def test_a_name_or_a_setting_that_is_not_there_says_what_is(text: str, complaint: str) -> None:
    assert complaint in refused(lambda: policy_named(text))


def test_settings_are_of_the_kind_of_their_defaults() -> None:
    seen: list[Any] = []

    @policy
    def told(
        branch: Branch, budget: Budget, keep: int = 1, share: float = 0.5, late: bool = False
    ) -> None:
        seen.append((keep, share, late))

    policy_named("told:share=1,late=true,keep=7")(Branch.of(looked_at(1)), Budget())

    assert seen == [(7, 1.0, True)]
    assert isinstance(seen[0][1], float)
    assert "true or false" in refused(lambda: policy_named("told:late=maybe"))
    assert repr(policy_named("told:keep=7")) == "told(keep=7, share=0.5, late=False)"


# --- in a cell ----------------------------------------------------------------------------------


def test_a_function_in_a_cell_is_a_policy_by_its_name_until_the_cell_is_run_again() -> None:
    made = looked_at(3)

    @policy
    def newest(branch: Branch, budget: Budget, keep: int = 1) -> Any:
        return [Summarise(branch.items[-keep].entry_id)]

    first = policy_named("newest")(Branch.of(made), Budget())
    assert isinstance(first, Plan)
    assert first.policy == "newest"
    assert first.summarise is not None
    assert first.summarise.first_kept_entry_id == row(made, 10)
    assert first.summarise.turn_prefix == tuple(made.branch_ids()[:9])
    assert "policy" in str(first)

    @policy("newest")
    def another(branch: Branch, budget: Budget) -> None:
        return None

    second = policy_named("newest")(Branch.of(made), Budget())
    assert isinstance(second, NothingToCompact)
    assert list(policies()) == ["pi", "none", "mask", "newest"]


def test_a_policy_takes_its_settings_by_partial_too() -> None:
    @policy
    def newest(branch: Branch, budget: Budget, keep: int = 1) -> Any:
        return [Summarise(branch.items[-keep].entry_id)]

    found = as_policy(partial(newest, keep=3))

    assert found.name == "newest:keep=3"
    plan = found(Branch.of(looked_at(3)), Budget())
    assert isinstance(plan, Plan)
    assert plan.policy == "newest:keep=3"


def test_a_dataclass_may_be_a_policy_without_a_name() -> None:
    @dataclass(frozen=True)
    class Newest:
        keep: int = 3

        def __call__(self, branch: Branch, budget: Budget) -> Any:
            return [Omit(branch.items[-1].entry_id)]

    found = as_policy(Newest(keep=4))

    assert found.name.endswith("Newest(keep=4)")
    assert found(Branch.of(looked_at(1)), Budget())


def test_a_function_may_give_a_plan_of_another_budget() -> None:
    @policy
    def thrifty(branch: Branch, budget: Budget) -> Plan | NothingToCompact:
        return plan_compaction(branch, Budget(keep=100))

    branch = Branch.of(looked_at(5))
    plan = thrifty(branch, Budget())
    assert isinstance(plan, Plan)
    assert plan.budget == Budget(keep=100)
    assert plan.operations == plan_compaction(branch, Budget(keep=100)).operations  # type: ignore[union-attr]
    assert plan.policy == "thrifty"


async def _later(branch: Branch, budget: Budget) -> None: ...


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        (lambda: policy("pi")(lambda branch, budget: None), "built in"),
        (lambda: policy("two words")(lambda branch, budget: None), "cannot name a policy"),
        (lambda: policy(lambda branch, budget: None), "cannot name a policy"),
        (lambda: policy(partial(int)), "no name of its own"),
        (lambda: policy("few")(lambda branch: None), "called with a branch and a budget"),
        (lambda: policy("later")(_later), "async"),
        (lambda: policy("five")(5), "a policy is a function"),  # type: ignore[arg-type]
        (lambda: as_policy(5), "a policy is a function"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_a_policy_is_refused_at_once(
    use: Callable[[], object], complaint: str
) -> None:
    assert complaint.casefold() in refused(use).casefold()


def ids(number: int) -> Callable[[Session], str]:
    return lambda made: row(made, number)


# Rows of the session: 1 user, 2 call 3 result 4 answer, 5 call 6 result 7 answer.
WRONG: list[tuple[str, Callable[[Session], Any], str]] = [
    ("a number", lambda s: 5, "a value of type int; a policy gives a Plan"),
    ("text", lambda s: "pi", "a value of type str"),
    ("a list of text", lambda s: ["pi"], "str is no operation"),
    ("a cut at a result", lambda s: [Summarise(row(s, 3))], "cannot begin with row 3"),
    ("a cut at the first", lambda s: [Summarise(row(s, 1))], "nothing older than row 1"),
    ("a cut elsewhere", lambda s: [Summarise("else")], "else is not in the context"),
    ("a hostile id", lambda s: [Omit("\x1b[31mred")], "red is not in the context"),
    ("other ids", lambda s: [Summarise(row(s, 4), ("x",))], "entry_ids are not the 0 entries"),
    ("two cuts", lambda s: [Summarise(row(s, 4)), Summarise(row(s, 5))], "summarises 2 times"),
    ("an unknown entry", lambda s: [Omit("else")], "else is not in the context"),
    ("an id that is none", lambda s: [Omit(3)], "a int is not in the context"),  # type: ignore[arg-type]
    ("a pinned one left out", lambda s: [Omit(row(s, 7))], "row 7 is pinned"),
    ("a pinned one replaced", lambda s: [Replace(row(s, 7), "")], "row 7 is pinned"),
    ("twice", lambda s: [Omit(row(s, 4)), Replace(row(s, 4), "x")], "row 4 is edited twice"),
    ("before a cut", lambda s: [Summarise(row(s, 5)), Omit(row(s, 4))], "row 4 is edited, and"),
    ("no text", lambda s: [Replace(row(s, 4), None)], "replaced by NoneType"),  # type: ignore[arg-type]
    ("half a pair", lambda s: [Omit(row(s, 3))], "result of read goes, and its call stays"),
    ("the other half", lambda s: [Omit(row(s, 2))], "call of read goes, and its result stays"),
    ("a call replaced", lambda s: [Replace(row(s, 2), "x")], "call of read goes"),
]


@pytest.mark.parametrize(("give", "complaint"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_a_policy_gives_is_checked_when_it_is_used(
    give: Callable[[Session], Any], complaint: str
) -> None:
    made = looked_at(2)
    made.set_label_sync(row(made, 7), "pin")

    @policy
    def mine(branch: Branch, budget: Budget) -> Any:
        return give(made)

    said = refused(lambda: mine(Branch.of(made), Budget()))

    assert said.startswith("The policy mine gave ")
    assert complaint in said
    assert "\x1b" not in said


def test_a_plan_for_another_branch_is_refused() -> None:
    @policy
    def stale(branch: Branch, budget: Budget) -> Any:
        return plan_compaction(Branch.of(looked_at(4)), Budget(keep=0))

    assert "another branch" in refused(lambda: stale(Branch.of(looked_at(4)), Budget()))


def test_both_halves_of_a_pair_may_go_and_a_cut_may_name_what_shows_nothing() -> None:
    made = looked_at(2)
    made.append_sync(ModelChangeEntry(provider="p", model_id="m"))
    say(made, user("Go on.", timestamp=9))

    @policy
    def both(branch: Branch, budget: Budget) -> Any:
        return [Omit(row(made, 5)), Omit(row(made, 6))]

    @policy
    def silent(branch: Branch, budget: Budget) -> Any:
        return (Summarise(row(made, 8)),)

    assert isinstance(both(Branch.of(made), Budget()), Plan)
    plan = silent(Branch.of(made), Budget())
    assert isinstance(plan, Plan)
    assert plan.preparation is not None
    assert plan.branch.items[plan.preparation.cut].entry_id == row(made, 9)


def test_what_a_function_raises_is_its_own() -> None:
    @policy
    def broken(branch: Branch, budget: Budget) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken(Branch.of(looked_at(1)), Budget())


# --- masking ------------------------------------------------------------------------------------


def apply(made: Session, plan: Plan | NothingToCompact) -> None:
    import asyncio

    assert isinstance(plan, Plan)
    for edit in plan.edits:
        content = edit.content if isinstance(edit, Replace) else None
        asyncio.run(made.append_context_edit(edit.entry_id, content))


@pytest.mark.parametrize("format", ["v3", "v4"])
def test_mask_replaces_old_outputs_by_notes_and_doing_it_again_changes_nothing(
    format: Format,
) -> None:
    made = looked_at(5, format=format)
    plan = Mask(keep=2)(Branch.of(made), Budget())
    assert isinstance(plan, Plan)
    assert [edit.entry_id for edit in plan.edits] == [row(made, n) for n in (3, 6, 9)]
    assert "notes for 3 tool outputs older than the newest 2 free" in str(plan)

    apply(made, plan)

    seen = made.context().messages
    assert seen[2].text == (  # type: ignore[union-attr]
        "[Output of read: f0.py (≈1,000 tokens) was left out to save space. "
        "Call the tool again if it is needed.]"
    )
    assert seen[11].text == "x" * 4_000  # type: ignore[union-attr]
    assert Branch.of(made).size.tokens == plan.tokens_after[0] == plan.tokens_after[1]
    again = Mask(keep=2)(Branch.of(made), Budget())
    assert str(again) == (
        "Nothing to compact: of the tool outputs older than the newest 2: 3 a note already."
    )


def test_mask_leaves_pinned_short_and_summarised_outputs_alone() -> None:
    made = looked_at(1)
    say(made, result("c0", "short"))
    made.set_label_sync(row(made, 3), "pin: the answer")
    held = CompactionEntry(
        summary="s", first_kept_entry_id="x", retained_tail=(result("c", "x" * 999),)
    )
    kept = looked_at(1)
    kept.append_sync(held)

    assert "1 pinned, 1 no longer than a note" in str(Mask(keep=0)(Branch.of(made), Budget()))
    assert "1 held by a compaction" in str(Mask(keep=0)(Branch.of(kept), Budget()))


def test_a_note_says_that_an_output_failed_and_what_pictures_it_had() -> None:
    made = Session.create(None, cwd="/w")
    picture = ImageContent(data="AA==", mime_type="image/png")
    failed = result("c", "x" * 4_000, is_error=True)
    say(made, replace_content(failed, (*failed.content, picture)))

    plan = Mask(keep=0)(Branch.of(made), Budget())

    assert isinstance(plan, Plan)
    (edit,) = plan.edits
    assert isinstance(edit, Replace)
    assert edit.content.startswith("[Output of read (failed, ≈2,200 tokens, 1 image) was left out")


def replace_content(message: ToolResultMessage, content: Any) -> ToolResultMessage:
    return message.having(content=content)


def test_a_hostile_call_cannot_break_out_of_its_note() -> None:
    made = Session.create(None, cwd="/w")
    call = ToolCall(id="c", name="bash\x1b[31m", arguments={"command": "a\n[b]\u2028(c"})
    say(made, AssistantMessage(content=(call,), timestamp=0))
    say(made, result("c", "x" * 4_000))

    apply(made, Mask(keep=0)(Branch.of(made), Budget()))

    note = made.context().messages[1].text  # type: ignore[union-attr]
    assert "\n" not in note
    assert "\x1b" not in note
    assert not Mask(keep=0)(Branch.of(made), Budget())


@pytest.mark.parametrize(("files", "why"), [(0, "has none"), (2, "has 2")])
def test_mask_says_why_there_is_nothing_to_mask(files: int, why: str) -> None:
    assert why in str(Mask()(Branch.of(looked_at(files)), Budget()))


def test_a_result_belongs_to_the_nearest_call_with_its_id() -> None:
    made = looked_at(1)
    say(made, AssistantMessage(content=(ToolCall(id="c0", name="ls", arguments={}),), timestamp=1))
    say(made, result("c0", "again"))
    say(made, result("nobody", "lost"))

    found = calls_of(made.context().items)

    assert {place: (called.place, called.call.name) for place, called in found.items()} == {
        2: (1, "read"),
        5: (4, "ls"),
    }


def test_a_policy_s_plan_can_be_moved_like_any_other() -> None:
    made = looked_at(5)

    @policy
    def mixed(branch: Branch, budget: Budget) -> Any:
        return [
            Summarise(row(made, 4)),
            Replace(row(made, 9), "short"),
            Replace(row(made, 12), "s"),
        ]

    plan = mixed(Branch.of(made), Budget())
    assert isinstance(plan, Plan)

    assert [e.entry_id for e in plan.move(10).edits] == [row(made, 12)]
    assert replace(plan, policy="x") != plan
