"""`%compact` and `%%compact` in a real shell: what they do, say, leave, and refuse; in a real
kernel what streams, what an interrupt leaves, and what a restart takes up again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from kernels import LiveKernel
from traitlets.config import Config

import pi_nb
from pi_nb.compaction.plan import NothingToCompact, Plan
from pi_nb.compaction.proposal import Proposal
from pi_nb.harness.turn import CompactResult, UndoResult
from pi_nb.messages import BranchSummaryMessage, CompactionSummaryMessage
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import Request
from pi_nb.notebook.agent import Agent
from pi_nb.notebook.compact_options import ACTIONS, COMPACT_OPTIONS, CompactParser, how_many
from pi_nb.notebook.completion import compact_candidates
from pi_nb.notebook.current import agents
from pi_nb.notebook.magics import load, unload
from pi_nb.session.entries import CompactionEntry
from pi_nb.session.records import ProposalRecord, UsageRecord
from pi_nb.session.session import Session

SUMMARY = "## Goal\nCount to ten.\n\n## Next Steps\n- go on"
TURN = "word " * 80


def answers(request: Request) -> Any:
    """A turn is a call and an answer of 100 tokens; a summary is `SUMMARY`."""
    if request.system_prompt.startswith("You write summaries"):
        return SUMMARY
    if getattr(request.messages[-1], "role", "") == "user":
        return reply("I look.", call("bash", command="echo hi"))
    return TURN


class Shell:
    """An IPython with the magics loaded, in a folder of its own."""

    def __init__(self, ip: InteractiveShell) -> None:
        self.ip = ip

    def run(self, line: str, cell: str | None = None) -> Any:
        name, _, rest = line.lstrip("%").partition(" ")
        if cell is None:
            return self.ip.run_line_magic(name, rest)
        return self.ip.run_cell_magic(name, rest, cell)

    def refused(self, line: str, cell: str | None = None) -> str:
        """What the user is told; always one line."""
        with pytest.raises(UsageError) as told:
            self.run(line, cell)
        assert "\n" not in str(told.value)
        return str(told.value)

    def grown(self, turns: int = 4, model: Any = None, **settings: Any) -> Agent:
        """An agent named by `agent` with so many turns of four entries; the last turn is kept."""
        made = pi_nb.agent(model=model or ScriptedModel(answers), approve="allow", **settings)
        made.compaction.keep = 110
        made.compaction.estimator = "pi"
        self.ip.user_ns["agent"] = made
        for number in range(turns):
            made.prompt_sync(f"question {number}?")
        return made


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("PI_NB_MODEL", raising=False)
    former = {*agents()}
    ip = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    load(ip)
    yield Shell(ip)
    for made in agents():
        if made not in former:
            made.close()
    unload(ip)


def log(agent: Agent) -> bytes:
    path = agent.session.path
    assert path is not None
    return path.read_bytes()


def summary_in_force(agent: Agent) -> str:
    first = agent.session.context(agent.harness.lane).items[0].message
    return first.summary if isinstance(first, CompactionSummaryMessage) else ""


# --- plan -----------------------------------------------------------------------------------


def test_a_plan_is_free_says_why_and_lists_the_cuts_near_its_own(shell: Shell) -> None:
    agent = shell.grown()
    before, asked = log(agent), len(agent.requests)

    plan = shell.run("%compact --plan")

    assert isinstance(plan, Plan)
    text = str(plan)
    assert "because" in text
    assert "▸  13   user: question 3?" in text
    assert text.count("splits a turn") == 4
    assert "`--cut ROW`" in text
    assert "<table>" in plan._repr_html_()
    assert (log(agent), len(agent.requests)) == (before, asked)


def test_a_cut_is_moved_by_its_row_and_beyond_what_the_budget_would_keep(shell: Shell) -> None:
    agent = shell.grown()
    agent.compaction.keep = 100_000

    plan = shell.run("%compact --plan --cut 9 -o p")

    assert plan is shell.ip.user_ns["p"]
    assert plan.summarise.first_kept_entry_id == agent.find(9).id
    assert "moved by hand to row 9" in str(plan)


def test_every_cut_that_a_plan_lists_can_be_moved_to(shell: Shell) -> None:
    agent = shell.grown()
    shell.run("%compact --cut 9 -q")
    agent.prompt_sync("one more?")

    plan = shell.run("%compact --plan")

    cuts = plan.cuts_near(100)
    assert [cut.place for cut in cuts] == plan.places
    assert [plan.move(cut.number).cuts_near(1)[0].number for cut in cuts] == [
        cut.number for cut in cuts
    ]


def test_what_was_planned_by_the_magic_can_be_moved_and_proposed_in_python(shell: Shell) -> None:
    agent = shell.grown()

    plan = shell.run("%compact --plan").move(5)
    proposal = agent.propose(plan)

    assert proposal.plan.summarise is not None
    assert proposal.plan.summarise.first_kept_entry_id == agent.find(5).id


def test_a_cut_at_a_tool_result_names_the_legal_ones_near_it(shell: Shell) -> None:
    agent = shell.grown()
    before = log(agent)

    for line in ("--plan --cut 3", "--propose --cut 3", "--cut 3"):
        assert "legal near it: row 2 and row 4" in shell.refused(f"%compact {line}")
    assert log(agent) == before


def test_nothing_to_compact_says_why_and_what_keeps_less(shell: Shell) -> None:
    shell.grown(1)
    shell.ip.user_ns["agent"].compaction.keep = 100_000

    found = shell.run("%compact --plan")
    told = shell.refused("%compact")

    assert isinstance(found, NothingToCompact)
    assert told.startswith("Nothing to compact: all of it")
    assert "`--keep N`" in told


# --- compact, undo --------------------------------------------------------------------------


def test_compact_says_what_it_came_to_and_undo_takes_it_back(shell: Shell) -> None:
    agent = shell.grown()
    before = agent.session.context().messages

    done = shell.run("%compact")
    undone = shell.run("%compact --undo")

    assert isinstance(done, CompactResult)
    text = repr(done)
    assert text.startswith("Compacted: ")
    assert "written by  model scripted/scripted" in text
    assert "4 messages word for word, from row 13, user: question 3?" in text
    assert "`%compact --undo` takes it back." in text
    assert "<details><summary>summary</summary>" in done._repr_html_()
    assert isinstance(undone, UndoResult)
    assert agent.session.context().messages == before


def test_instructions_are_passed_on_as_they_were_typed(shell: Shell) -> None:
    agent = shell.grown()

    shell.run("""%compact don't forget the user's "very own" words --keep 110 -q""")

    asked = str(agent.requests[-1].request.messages[-1].content)
    assert """don\\'t forget the user\\'s "very own" words""" in asked


def test_the_body_of_a_cell_is_the_instructions(shell: Shell) -> None:
    agent = shell.grown()

    shell.run("%%compact --propose", "Keep the numbers.\nAnd the names.\n")

    (content,) = agent.requests[-1].request.messages[-1].content
    assert "Keep the numbers.\nAnd the names." in getattr(content, "text", "")


def test_quiet_shows_nothing_and_binds_all_the_same(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.grown()
    capsys.readouterr()

    assert shell.run("%compact -q -o done") is None

    assert capsys.readouterr().out == ""
    assert isinstance(shell.ip.user_ns["done"], CompactResult)


def test_a_policy_that_only_masks_asks_nobody(shell: Shell) -> None:
    long = reply("I look.", call("bash", command="seq 1 900"))
    agent = shell.grown(1, ScriptedModel([long, TURN, long, TURN]))
    agent.prompt_sync("again?")
    asked = len(agent.requests)

    done = shell.run("%compact --policy mask:keep=1")

    assert "1 entry left out or replaced" in repr(done)
    assert len(agent.requests) == asked
    assert done.entry is None


# --- a proposal -----------------------------------------------------------------------------


def test_a_proposal_is_edited_and_applied_to_the_letter(shell: Shell) -> None:
    agent = shell.grown()

    proposal = shell.run("%compact --propose")
    edited = shell.run("%%compact --edit next steps", "- stop\n")
    done = shell.run("%compact --apply")

    assert isinstance(proposal, Proposal)
    assert "`%compact --apply` puts it in force" in str(proposal)
    assert edited.text == SUMMARY.replace("- go on", "- stop")
    assert summary_in_force(agent) == edited.text
    assert done.written_by == "model, edited by hand"
    assert "written by  model scripted/scripted, edited by hand" in repr(done)
    assert shell.refused("%compact --apply").startswith("No proposal waits: ")


def test_the_whole_text_of_a_proposal_can_be_written_by_hand(shell: Shell) -> None:
    agent = shell.grown()
    shell.run("%compact --propose -q")

    shell.run("%%compact --text", "## Goal\nMy own words.\n")
    shell.run("%compact --apply")

    assert summary_in_force(agent) == "## Goal\nMy own words."


def test_what_was_changed_and_paid_is_on_record_once(shell: Shell) -> None:
    agent = shell.grown()
    shell.run("%compact --propose -q")
    shell.run("%%compact --edit Goal", "Otherwise.")
    shell.run("%%compact --edit Goal", "Otherwise again.")

    records = list(agent.session.records())

    states = [record.state for record in records if isinstance(record, ProposalRecord)]
    paid = [r for r in records if isinstance(r, UsageRecord) and r.cause == "compaction"]
    assert states == ["open", "open", "open"]
    assert len(paid) == 1


def test_a_discarded_proposal_waits_no_more(shell: Shell) -> None:
    agent = shell.grown()
    shell.run("%compact --propose -q")

    shell.run("%compact --discard")

    assert agent.proposal is None
    assert "`%compact --propose`" in shell.refused("%%compact --edit Goal", "x")


def test_a_proposal_is_stale_once_the_branch_moved_on_and_fresh_when_it_is_back(
    shell: Shell,
) -> None:
    agent = shell.grown()
    leaf = agent.harness.leaf
    assert leaf is not None
    shell.run("%compact --propose -q")
    agent.prompt_sync("one more?")
    before = log(agent)

    told = shell.refused("%compact --apply")

    assert "the branch moved on" in told
    assert log(agent) == before
    agent.goto(leaf)
    assert shell.run("%compact --apply").entry is not None


@pytest.mark.parametrize("format", ["v4", "v3"])
def test_a_proposal_waits_in_the_file_with_its_edits(shell: Shell, format: Any) -> None:
    agent = shell.grown(format=format)
    row = next(row.number for row in agent.outline().rows if "question 2?" in row.text)
    shell.run(f"%compact --propose --cut {row} -q")
    edited = shell.run("%%compact --edit Goal", "Otherwise.")
    path = agent.session.path
    agent.close()

    with pi_nb.agent(path, model=ScriptedModel([])) as again:
        again.compaction.estimator = "pi"
        found = again.pending()
        assert isinstance(found, Proposal)
        assert (found.text, found.id, found.edited) == (edited.text, edited.id, True)
        assert found.usage == edited.usage
        assert found.plan.operations == edited.plan.operations
        shell.ip.user_ns["agent"] = again
        shell.run("%compact --apply")
        assert summary_in_force(again) == edited.text
        assert again.pending() or "none was made" in str(again.pending())


@pytest.mark.parametrize(
    ("plan", "summary", "why"),
    [
        (None, "text", "another branch"),
        ({"leafId": "nowhere"}, "text", "another branch"),
        ({"leafId": None}, "text", "another branch"),
        ({}, 7, "no text"),
        ({"firstKeptEntryId": "nowhere"}, "text", "does not fit"),
        ({"edits": [7]}, "text", "does not fit"),
        ({"edits": [{"entryId": "nowhere", "replacement": None}]}, "text", "does not fit"),
        ({"usage": "much"}, "text", "cannot be read"),
    ],
)
def test_a_record_that_is_no_proposal_is_named_and_not_taken_up(
    shell: Shell, plan: Any, summary: Any, why: str
) -> None:
    from pi_nb import background

    agent = shell.grown(1)
    kept = {"leafId": agent.harness.leaf, **plan} if isinstance(plan, dict) else plan
    background.call(
        agent.session.record(
            "proposal", lane="main", proposalId="p", plan=kept, summary=summary, state="open"
        )
    )

    assert not agent.pending()
    assert why in str(agent.pending())


# --- by hand --------------------------------------------------------------------------------


def test_entries_are_left_out_replaced_and_shown_again_by_their_rows(shell: Shell) -> None:
    agent = shell.grown(2)

    omitted = shell.run("%compact --omit 4")
    replaced = shell.run("%%compact --replace 3", "short\n")
    restored = shell.run("%compact --restore 4")

    assert "Row 4 is left out." in str(omitted)
    assert "Row 3 is replaced." in str(replaced)
    assert "Row 4 is shown as it was written." in str(restored)
    assert "short" in str([m.to_wire() for m in agent.session.context().messages])


def test_several_rows_are_looked_up_before_the_first_is_left_out(shell: Shell) -> None:
    agent = shell.grown(2)
    before = log(agent)

    shell.refused("%compact --omit 4 99")

    assert log(agent) == before


def test_a_pin_stays_word_for_word_in_every_summary(shell: Shell) -> None:
    agent = shell.grown()

    pinned = shell.run("%compact --pin 1")
    shell.run("%compact -q")

    assert "question 0?" in str(pinned)
    assert "question 0?" in summary_in_force(agent)
    shell.run("%compact --unpin 1")
    assert agent.session.labels == {}


@pytest.mark.parametrize(("line", "said"), [("on", "by itself"), ("off", "stays"), ("ask", "asks")])
def test_auto_is_set_and_said(shell: Shell, line: str, said: str) -> None:
    agent = shell.grown(0)

    shown = shell.run(f"%compact --auto {line}")

    assert said in str(shown)
    assert agent.compaction.auto == line
    assert str(shell.run("%compact --auto")) == str(shown)


# --- who writes -----------------------------------------------------------------------------


def test_extractive_writes_without_a_model(shell: Shell) -> None:
    agent = shell.grown()
    asked = len(agent.requests)

    done = shell.run("%compact --model extractive")

    assert done.written_by == "extractive"
    assert "## Goal" in done.summary
    assert len(agent.requests) == asked


def test_without_a_model_the_next_step_is_extractive(shell: Shell, tmp_path: Path) -> None:
    path = shell.grown().session.path
    agents_before = shell.ip.user_ns["agent"]
    agents_before.close()
    agent = pi_nb.agent(path)
    agent.compaction.keep = 110
    shell.ip.user_ns["agent"] = agent
    before = log(agent)

    told = shell.refused("%compact")

    assert "`%compact --model extractive`" in told
    assert log(agent) == before
    assert shell.run("%compact --model extractive").entry is not None


def test_a_summary_that_fails_says_why_and_what_needs_no_model(shell: Shell) -> None:
    def no_key(request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            return reply(error="401: no key\nwas given")
        return answers(request)

    agent = shell.grown(model=ScriptedModel(no_key))
    entries = len(agent.session)

    told = shell.refused("%compact")

    assert told.startswith("No summary: 401: no key was given.")
    assert "`%compact --model extractive`" in told
    assert len(agent.session) == entries


# --- what does not go -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "cell", "said"),
    [
        ("--plan --apply", None, "--plan and --apply do not go together"),
        ("--undo --pin 3", None, "--undo and --pin do not go together"),
        ("--apply --keep 4k", None, "--keep does not go with --apply; it goes with"),
        ("--plan --model x", None, "--model does not go with --plan"),
        ("--undo this", None, "--undo takes no instructions"),
        ("--plan", "words", "--plan takes no instructions"),
        ("--edit Goal", None, "`%%compact --edit Goal`, and the text below it"),
        ("--replace 4", None, "`%%compact --replace 4`, and the text below it"),
        ("--text", None, "`%%compact --text`, and the text below it"),
        ("one", "two", "not in both"),
        ("--keep many", None, "a number of tokens, such as 4k"),
        ("--keep -5", None, "a number of tokens"),
        ("--auto maybe", None, "on, off, ask"),
        ("--nonsense", None, "See `%compact -h`"),
        ("--plan -o 1x", None, "-o wants a Python name"),
        ("--plan --reserve 900k", None, "leaves nothing of 200,000"),
        ("--plan --policy bogus", None, "There is no policy 'bogus'; there is pi"),
        ("--plan --policy mask:keep=x", None, "a whole number"),
        ("--model http://127.0.0.1:9", None, "127.0.0.1:9"),
        ("--cut 99", None, "'99'"),
        ("--restore 4", None, "is not edited"),
        ("--undo", None, "Nothing to undo"),
        ("--apply", None, "No proposal waits"),
        ("--replace 4", " ", "--omit leaves it out"),
    ],
)
def test_what_does_not_fit_is_one_line_and_the_log_is_as_it_was(
    shell: Shell, line: str, cell: str | None, said: str
) -> None:
    agent = shell.grown()
    before = log(agent)

    assert said in shell.refused(f"%compact {line}", cell)

    assert log(agent) == before


def test_an_unknown_estimator_is_named(shell: Shell) -> None:
    agent = shell.grown(1)
    agent.compaction.estimator = "piece/nobody"

    assert "nobody" in shell.refused("%compact --plan")


@pytest.mark.parametrize("action", ["", *(f"--{name}" for name in ("plan", "undo", "auto"))])
def test_without_an_agent_it_says_so(shell: Shell, action: str) -> None:
    assert shell.refused(f"%compact {action}").startswith("No agent yet.")


def test_an_unknown_section_lists_those_that_there_are(shell: Shell) -> None:
    shell.grown()
    shell.run("%compact --propose -q")

    assert "Key Decisions" in shell.refused("%%compact --edit Nope", "x")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("4k", 4_000), ("20_000", 20_000), ("1.5K", 1_500), ("4,096", 4_096), ("0", 0)],
)
def test_numbers_of_tokens_are_read_as_people_write_them(text: str, tokens: int) -> None:
    assert how_many(text) == tokens


def test_help_names_every_option_and_nothing_is_run(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run("%compact -h") is None

    shown = capsys.readouterr().out
    for option in COMPACT_OPTIONS:
        assert option in shown
    assert "%%compact" in shown


def test_the_options_that_are_offered_are_those_that_are_understood() -> None:
    known = {
        name for action in CompactParser("%compact")._actions for name in action.option_strings
    }

    assert {*COMPACT_OPTIONS} <= known
    assert {f"--{name}" for name in ACTIONS} <= known


# --- completion -----------------------------------------------------------------------------


def test_tab_offers_options_policies_rows_and_words(shell: Shell) -> None:
    agent = shell.grown()
    agent.label("start", 5)

    def offered(line: str) -> list[str]:
        return compact_candidates(line, agent)

    assert "--propose" in offered("%compact ")
    assert "mask" in offered("%compact --policy ")
    assert offered("%compact --auto ") == ["on", "off", "ask"]
    assert "extractive" in offered("%compact --model ")
    assert "Goal" in offered("%%compact --edit ")
    assert {"start", "13", "5"} <= {*offered("%compact --plan --cut ")}
    assert "3" not in offered("%compact --cut "), "a tool result is no place to cut"
    assert {"start", "3"} <= {*offered("%compact --pin 4 ")}
    assert "--keep" in offered("%compact --plan ")
    assert "--plan" not in offered("%compact --plan ")


# --- a branch that is left ------------------------------------------------------------------


def test_goto_can_leave_a_summary_of_what_is_left(shell: Shell) -> None:
    agent = shell.grown()

    moved = agent.goto(9, summarize=True, instructions="Only the numbers.")

    assert moved.summary_entry_id == agent.harness.leaf
    last = agent.session.context().messages[-1]
    assert isinstance(last, BranchSummaryMessage)
    assert "Only the numbers." in str(agent.requests[-1].request.messages[-1].content)


@pytest.mark.parametrize("line", ["%agent goto 9 --summarize", "%tree --goto 9 --summarize names"])
def test_the_magics_that_go_elsewhere_say_that_a_summary_stands_there(
    shell: Shell, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.grown()
    capsys.readouterr()

    shown = shell.run(line)

    assert "A summary of the branch that was left stands there." in f"{shown}{capsys.readouterr()}"


def test_instructions_without_a_summary_are_refused_and_nothing_moves(shell: Shell) -> None:
    agent = shell.grown(2)
    leaf = agent.harness.leaf

    with pytest.raises(pi_nb.PiError, match="summarize=True"):
        agent.goto(1, instructions="Only the numbers.")
    assert "--summarize goes with --goto" in shell.refused("%tree --summarize")
    assert agent.harness.leaf == leaf


# --- in a kernel --------------------------------------------------------------------------

GROWN = """
def answers(request):
    if not request.system_prompt.startswith("You write summaries"):
        return "word " * 80
    if "wait for me" in str(request.messages[-1].content):
        print("asked")
        return reply("never", delay=60)
    return SUMMARY
SUMMARY = "## Goal\\nCount to **ten**.\\n" + "- and on\\n" * 20
agent = pi_nb.agent(model=ScriptedModel(answers))
agent.compaction.keep = 110
for n in range(4):
    agent.prompt_sync(f"question {n}?")
agent.harness.model.pace = 0.01
"""


@pytest.mark.slow
def test_the_summary_streams_in_place_and_one_block_stays(kernel: LiveKernel) -> None:
    kernel.good(GROWN)

    kernel.start("%compact")
    streamed = kernel.until(lambda cell: "**ten**" in cell.markdown).text
    cell = kernel.finish()

    assert streamed.startswith("writing the summary…\n## Goal")
    assert cell.ok
    assert len(cell.displays) == 1
    assert cell.text == "Summary written."
    assert cell.result.startswith("Compacted: ≈")
    assert cell.stdout == cell.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["%compact wait for me", "%compact --propose wait for me", "%%compact\nwait for me"]
)
def test_an_interrupt_ends_the_cell_in_time_and_nothing_is_in_force(
    kernel: LiveKernel, line: str
) -> None:
    kernel.good(GROWN)
    kernel.good("before = agent.session.context().messages, len(agent.session)")

    kernel.start(line)
    kernel.until(lambda cell: "asked" in cell.stdout)
    pressed = kernel.interrupt()
    cell = kernel.finish()
    took = time.monotonic() - pressed

    assert took < 2
    assert (cell.status, cell.ename) == ("error", "RunAborted")
    assert cell.traceback == ["Interrupted: nothing was applied, nothing moved."]
    assert cell.text == "Interrupted: no summary."
    after = "agent.session.context().messages, len(agent.session)"
    assert kernel.good(f"print(before == ({after}), agent.proposal)").stdout == "True None\n"
    assert kernel.good("%compact").result.startswith("Compacted: ≈")


@pytest.mark.slow
def test_an_interrupt_of_a_summary_of_what_is_left_moves_nothing(kernel: LiveKernel) -> None:
    kernel.good(GROWN)
    kernel.good("leaf = agent.harness.leaf")

    kernel.start("%agent goto 3 --summarize wait for me")
    kernel.until(lambda cell: "asked" in cell.stdout)
    pressed = kernel.interrupt()
    cell = kernel.finish()

    assert time.monotonic() - pressed < 2
    assert cell.traceback == ["Interrupted: nothing was applied, nothing moved."]
    assert kernel.good("print(agent.harness.leaf == leaf)").stdout == "True\n"


@pytest.mark.slow
def test_a_restarted_kernel_takes_up_the_proposal_that_waits(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    """Another process stands for the restart: the log is all that it knows."""
    kernel.good(GROWN)
    kernel.good("%compact --propose -q")
    path = kernel.good("print(agent.session.path); agent.close()").stdout.strip()

    session = Session.open(Path(path), read_only=True)
    entries = len(session)
    session.close()
    with pi_nb.agent(path, model=ScriptedModel([])) as again:
        found = again.pending()
        assert isinstance(found, Proposal)
        done = again.apply(found)
        assert isinstance(done.entry, CompactionEntry)
        assert done.entry.summary == found.text
        assert found.text.startswith("## Goal\nCount to **ten**.")
        assert len(again.session) == entries + 1


@pytest.mark.slow
def test_unloading_takes_the_magic_back(kernel: LiveKernel) -> None:
    cell = kernel.good(
        "ip = get_ipython()\n%unload_ext pi_nb\n"
        "print(*('compact' in ip.magics_manager.magics[kind] for kind in ('cell', 'line')))\n"
        "%load_ext pi_nb"
    )

    assert cell.stdout == "False False\n"
