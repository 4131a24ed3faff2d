"""`%context` in a real kernel, `agent.context()`, and what Tab offers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernels import LiveKernel

import pi_nb
from pi_nb.estimators import estimator_names
from pi_nb.notebook.agent import Agent
from pi_nb.notebook.context_magic import OPTIONS, context_candidates
from pi_nb.notebook.context_view import context_of_file
from pi_nb.result import PiError

ONE = (
    'agent = pi_nb.agent(model=ScriptedModel(["One.", "Two."]))\n'
    "agent.prompt_sync('which tests?');"
)


@pytest.fixture
def asked(tmp_path: Path) -> Agent:
    made: Agent = pi_nb.agent(model=pi_nb.ScriptedModel(["One."]), cwd=tmp_path)
    made.prompt_sync("which tests?")
    return made


def session_file(folder: Path) -> Path:
    """As pi writes one; its answer reported 900 tokens."""
    said = {"role": "assistant", "content": [{"type": "text", "text": "these"}],
            "provider": "anthropic", "model": "claude-opus-4-5", "stopReason": "stop",
            "usage": {"input": 890, "output": 10}, "timestamp": 2}  # fmt: skip
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z",
         "cwd": str(folder)},
        {"type": "message", "id": "aaaaaaaa", "parentId": None,
         "timestamp": "2026-01-01T00:00:00.000Z",
         "message": {"role": "user", "content": "which tests?", "timestamp": 1}},
        {"type": "message", "id": "bbbbbbbb", "parentId": "aaaaaaaa",
         "timestamp": "2026-01-01T00:00:00.000Z", "message": said},
    ]  # fmt: skip
    file = folder / "of pi.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


# --- the functions ------------------------------------------------------------------------


def test_an_agent_s_context_holds_its_prompt_its_tools_and_what_was_said(asked: Agent) -> None:
    found = asked.context()

    items = {part.kind: part.items for part in found.parts}
    assert items["system prompt"] == items["user"] == items["assistant"] == 1
    assert items["tool schemas"] == len(asked.harness.active_tools)
    assert found.total == asked.harness.size
    assert found.budget.window == asked.model.context_window


def test_a_system_prompt_that_is_a_function_is_counted_before_the_first_turn(
    tmp_path: Path,
) -> None:
    made = pi_nb.agent(
        model=pi_nb.ScriptedModel([]), cwd=tmp_path, system_prompt=lambda _: "four" * 50
    )

    found = made.context("pi")

    assert found.parts[0].tokens == 50
    assert found.total.source == "pi"


def test_an_estimator_is_chosen_by_name_or_given(asked: Agent) -> None:
    assert asked.context("piece/qwen3").parts[0].source == "piece/qwen3"
    assert asked.context("piece").parts[0].source == "piece/o200k"
    assert asked.context(pi_nb.estimator("pi")).parts[0].source == "pi"
    with pytest.raises(PiError, match="There is no estimator 'nobody'"):
        asked.context("nobody")


@pytest.mark.parametrize("largest", [-1, True, "five", 1.5])
def test_an_absurd_number_of_items_is_refused(asked: Agent, largest: int) -> None:
    with pytest.raises(PiError, match="largest is a number of items"):
        asked.context(largest=largest)


def test_a_file_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    file = session_file(tmp_path)
    before = file.read_bytes()

    found = context_of_file(file)

    assert found.total.tokens == found.total.reported == 900
    assert found.parts[5].source == "piece/claude_v3"
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_the_file_of_an_open_session_stays_open(asked: Agent) -> None:
    assert asked.session.path is not None

    found = context_of_file(asked.session.path)

    assert found.total.tokens == asked.harness.size.tokens
    asked.label("still open")


def test_tab_offers_options_and_estimators() -> None:
    assert context_candidates("%context ") == [*OPTIONS]
    assert "--dict" not in context_candidates("%context --dict -")
    offered = context_candidates("%context --estimator pi")
    assert offered == ["calibrated", "piece", *estimator_names()]
    assert context_candidates("%context --largest ") == []


# --- in a kernel --------------------------------------------------------------------------


@pytest.mark.slow
def test_the_context_is_the_value_of_the_cell_and_can_be_bound(kernel: LiveKernel) -> None:
    kernel.good(ONE)

    cell = kernel.good("%context --largest 2 -o c")
    data = kernel.good("%context --dict -o d")

    assert "Trigger line: 183,616" in cell.result
    assert "system prompt" in cell.result
    assert cell.stdout == cell.stderr == ""
    assert kernel.good("print(len(c.largest))").stdout == "2\n"
    assert "'window': 200000" in data.result
    assert kernel.good("print(d['tokens'] == agent.context().total.tokens)").stdout == "True\n"


@pytest.mark.slow
def test_a_file_needs_no_agent(kernel: LiveKernel, tmp_path: Path) -> None:
    session_file(tmp_path)

    cell = kernel.good("%context 'of pi.jsonl' --window 8,000")

    assert "Context: 900 (provider) of 8,000 tokens" in cell.result
    assert kernel.good("print('agent' in globals())").stdout == "False\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%context", "`%context FILE` reads a session's file"),
        ("%context nowhere.jsonl", "There is no file nowhere.jsonl"),
        ("%context --largest many", "a whole number of items"),
        ("%context --dict --frame", "not allowed with"),
        ("%context --window 9,000", "an agent's window is its model's"),
        ("%context -o 1x", "-o wants a Python name"),
    ],
)
def test_a_mistake_is_one_line_with_the_next_step(kernel: LiveKernel, line: str, said: str) -> None:
    cell = kernel.run(line)

    assert said in cell.stderr
    assert "Traceback" not in cell.stderr


@pytest.mark.slow
def test_an_unknown_estimator_is_answered_with_those_that_there_are(kernel: LiveKernel) -> None:
    kernel.good(ONE)

    assert "After piece/: o200k" in kernel.run("%context --estimator piece/gpt").stderr
    assert "usage: %context" in kernel.good("%context -h").stdout
