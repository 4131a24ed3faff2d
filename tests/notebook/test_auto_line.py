"""What a cell says of a context that is compacted by itself: one line, which stays."""

from __future__ import annotations

from typing import Any

import pytest
from kernels import LiveKernel

import pi_nb
from pi_nb import ScriptedModel
from pi_nb.harness.events import AutoCompaction, SessionCompact, SummaryUpdate
from pi_nb.models.types import Request
from pi_nb.notebook.display import LiveCell, Record

SUMMARY = "## Goal\nGo on."
TURN = "word " * 400


def answers(request: Request) -> Any:
    return SUMMARY if request.system_prompt.startswith("You write summaries") else TURN


def decided(decision: Any, why: str, tokens: int = 6_210) -> AutoCompaction:
    return AutoCompaction(
        trigger="threshold", decision=decision, why=why, tokens=tokens, limit=6_144
    )


def read(piece: int, pieces: int = 5) -> SummaryUpdate:
    return SummaryUpdate(delta="x", piece=piece, pieces=pieces)


def of(*events: Any) -> Record:
    record = Record()
    for event in events:
        record.add(event)
    return record


BEGINS = decided("begins", "≈6,210 tokens are more than 6,144")
MADE = SessionCompact(entry_id="e", trigger="threshold", written_by="model", before=1, after=2)


def test_while_it_works_the_line_says_which_piece_is_read() -> None:
    assert of(BEGINS, read(2)).plain() == (
        "(compacting by itself (threshold): ≈6,210 tokens are more than 6,144; "
        "reading piece 2 of 5)"
    )


def test_what_it_came_to_stands_in_the_place_of_what_it_did() -> None:
    done = of(BEGINS, read(1), read(2), MADE, decided("done", "whatever", 3_900))

    assert done.plain() == (
        "(compacted by itself (threshold): ≈6,210 → ≈3,900 tokens; summary by model)"
    )
    assert "reading" not in done.markdown()


@pytest.mark.parametrize("decision", ["declined", "nothing", "failed", "stopped"])
def test_what_was_not_done_says_why(decision: str) -> None:
    said = of(BEGINS, decided(decision, "for <b>this</b> reason.\x1b[2J"))

    assert said.plain() == "(not compacted by itself (threshold): for <b>this</b> reason)"
    assert "<b>" not in said.markdown()


def test_off_says_what_makes_room() -> None:
    said = of(decided("off", "automatic compaction is off"))

    assert "off; `%compact` makes room" in said.plain()


def test_a_compaction_that_was_not_enough_says_both() -> None:
    said = of(BEGINS, MADE, decided("stopped", "It does not get smaller.", 6_200))

    assert "≈6,210 → ≈6,200 tokens" in said.plain()
    assert "stopped: It does not get smaller" in said.plain()


def test_two_compactions_of_one_run_are_two_lines() -> None:
    done = decided("done", "whatever", 3_900)

    record = of(BEGINS, MADE, done, BEGINS, MADE, done)

    assert record.plain().count("compacted by itself") == 2


def test_another_piece_is_shown_at_once_and_more_text_of_it_is_not() -> None:
    record = of(BEGINS)

    assert [record.add(read(n)) for n in (1, 1, 2, 2)] == [True, False, True, False]


def test_a_compaction_that_was_asked_for_is_not_said_to_come_by_itself() -> None:
    assert of(MADE).blocks == []


def test_the_line_stays_in_the_record_of_a_run(tmp_path: Any) -> None:
    agent = pi_nb.agent(model=ScriptedModel(answers, context_window=4_000))
    agent.compaction.estimator, agent.compaction.reserve = "pi", 2_000
    shown = ""
    for number in range(6):
        live = LiveCell()
        agent.prompt_sync(f"{number}", show=live)
        shown += live.record.plain()
    agent.close()

    assert "compacted by itself (threshold): ≈" in shown
    assert "summary by model" in shown


def test_ask_where_nobody_can_be_asked_is_a_no() -> None:
    agent = pi_nb.agent(model=ScriptedModel(answers, context_window=4_000))
    agent.compaction.estimator, agent.compaction.reserve = "pi", 2_000
    agent.compaction.auto = "ask"
    live = LiveCell()
    for number in range(4):
        agent.start(f"{number}", show=live).result()  # in the background nobody is asked
    agent.close()

    assert "not compacted by itself (threshold): nobody allowed it" in live.record.plain()


def test_the_footer_counts_the_prompt_and_the_tools_right_after_a_compaction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = pi_nb.agent(model=ScriptedModel(answers))
    agent.compaction.keep = 300
    for number in range(4):
        agent.prompt_sync(f"{number}")
    agent.compact()

    assert agent.status().context == agent.harness.size
    assert agent.harness.size.tokens > agent.session.context().size.tokens
    agent.close()


# --- in a kernel --------------------------------------------------------------------------

FILLING = """
def answers(request):
    if request.system_prompt.startswith("You write summaries"):
        return "## Goal\\nGo on."
    return "word " * 400
agent = pi_nb.agent(model=ScriptedModel(answers, context_window=4_000))
agent.compaction.estimator, agent.compaction.reserve = "pi", 2_000
"""


@pytest.mark.slow
def test_the_line_stays_in_the_cell(kernel: LiveKernel) -> None:
    kernel.good(FILLING)

    shown = "".join(kernel.good(f"%%agent\nquestion {n}").text for n in range(5))

    assert "(compacted by itself (threshold): ≈" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "said"), [("y", "(compacted by itself"), ("n", "(not compacted by itself")]
)
def test_ask_asks_in_the_cell_with_what_the_plan_would_do(
    kernel: LiveKernel, answer: str, said: str
) -> None:
    kernel.good(FILLING + "%compact --auto ask\nagent.prompt_sync('a'); agent.prompt_sync('b');")

    kernel.start("%%agent\nand now?", allow_stdin=True)
    prompt = kernel.answer(answer)
    cell = kernel.finish()

    assert cell.ok
    assert prompt == "Compact it? [y]es, [n]o: "
    assert "The context fills: ≈" in cell.stdout
    assert said in cell.text
