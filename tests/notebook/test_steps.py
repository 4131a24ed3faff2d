"""`agent.step()`: from plain Python and from a cell, with jobs for the main thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kernels import LiveKernel

import pi_nb
from pi_nb import PiError, ScriptedModel, call, reply


def test_a_stepped_run_goes_on_from_call_to_call_and_ends_as_any_other(tmp_path: Path) -> None:
    threads: list[Any] = []

    @pi_nb.tool(main_thread=True)
    def where() -> str:
        """Where it runs."""
        threads.append(threading.current_thread())
        return "here"

    model = ScriptedModel([reply("I look.", call("where")), "Here."])
    with pi_nb.agent(cwd=tmp_path, model=model, tools=[where]) as agent:
        kinds = [agent.step("Where?").kind]
        while (step := agent.step()).next is not None:
            kinds.append(step.kind)

        assert kinds == ["write", "request", "write", "call", "write", "request"]
        assert threads == [threading.main_thread()]
        assert agent.last is not None
        assert agent.last.text == "Here."
        with pytest.raises(PiError) as over:
            agent.step()
        assert over.value.code == "invalid_state"


def test_while_a_run_is_paused_the_agent_is_busy_and_says_what_goes_on(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel(["One.", "Two."])) as agent:
        agent.step("go")

        for operation in (
            lambda: agent.prompt_sync("x"),
            lambda: agent.step("x"),
            lambda: agent.goto(1),
        ):
            with pytest.raises(PiError) as busy:
                operation()
            assert busy.value.code == "busy"

        assert agent.finish().text == "One."
        assert agent.prompt_sync("x").text == "Two."


def test_an_abort_ends_a_paused_run_and_closing_does_too(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with pi_nb.agent(file, cwd=tmp_path, model=ScriptedModel(["One.", "Two."])) as agent:
        agent.step("go")
        agent.abort()
        assert agent.last is not None
        assert agent.last.reason == "aborted"
        assert agent.step("again").kind == "write"

    with pi_nb.agent(file, model=ScriptedModel(["Two."])) as agent:
        assert not agent.recovered, "closing has written how it ended"
        assert agent.prompt_sync("x").text == "Two."


def test_without_a_paused_run_a_step_needs_a_prompt(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel([])) as agent:
        for operation in (agent.step, agent.finish):
            with pytest.raises(PiError, match="No run is paused") as refused:
                operation()
            assert refused.value.code == "invalid_state"
        with pytest.raises(PiError, match="A prompt is a text"):
            agent.step("  ")


@pytest.mark.slow
def test_an_interrupted_step_ends_the_run_and_the_next_cell_works(kernel: LiveKernel) -> None:
    kernel.good(
        "import asyncio, threading; begun = threading.Event()\n"
        "@pi_nb.tool\n"
        "async def rest() -> str:\n    begun.set()\n    await asyncio.Event().wait()\n"
        "agent = pi_nb.agent(tools=[rest], model=ScriptedModel([reply(call('rest')), 'Fine.']))\n"
        "agent.step('go'); agent.step(); agent.step()"
    )
    kernel.start(
        "threading.Thread(target=lambda: print(begun.wait(), flush=True)).start()\nagent.step()"
    )
    kernel.until(lambda cell: "True" in cell.stdout)
    kernel.interrupt()

    stopped = kernel.finish()

    assert (stopped.status, stopped.evalue) == ("error", "Aborted.")
    assert kernel.good("print(agent.last.reason, agent.prompt_sync('on').text)").stdout == (
        "aborted Fine.\n"
    )
