"""Cells and the tree (DESIGN 7): running again walks, an edit branches, what differs is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from kernels import LiveKernel
from nbclient import NotebookClient

import pi_nb
from pi_nb import Request, ScriptedModel, call, reply
from pi_nb.notebook.agent import Agent
from pi_nb.notebook.cells import Cell, Walked


def _counting() -> ScriptedModel:
    return ScriptedModel(lambda request: f"Answer to {request.messages[-1].content[0].text}.")


def _run(agent: Agent, text: str, id: str | None = None, **options: Any) -> str:
    """What `%%agent` does with a cell; says how it was answered."""
    cell = agent._cells.cell(text, id)
    entered = agent.enter(cell, **options)
    if isinstance(entered, Walked):
        return f"walked: {entered.result.text}"
    agent.prompt_sync(text, cell=cell)
    assert agent.last is not None
    return f"asked: {agent.last.text}"


def test_a_cell_run_again_is_walked_and_nobody_is_asked(tmp_path: Path) -> None:
    model = _counting()
    with pi_nb.agent(cwd=tmp_path, model=model) as agent:
        assert _run(agent, "one", "A") == "asked: Answer to one."
        assert _run(agent, "two", "B") == "asked: Answer to two."
        end = agent.harness.leaf

        assert _run(agent, "one", "A") == "walked: Answer to one."
        assert agent.harness.leaf != end
        assert _run(agent, "two", "B") == "walked: Answer to two."

        assert agent.harness.leaf == end
        assert len(model.requests) == 2
        assert len(agent.session) == 4


def test_an_edited_cell_is_a_sibling_of_what_it_said_before(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=_counting()) as agent:
        _run(agent, "one", "A")
        _run(agent, "two", "B")

        assert _run(agent, "zwei", "B") == "asked: Answer to zwei."

        one = agent.session.branch_ids()[1]
        assert len(agent.session.child_ids(one)) == 2


def test_fresh_asks_in_any_case_beside_the_old_answer(tmp_path: Path) -> None:
    model = _counting()
    with pi_nb.agent(cwd=tmp_path, model=model) as agent:
        _run(agent, "one", "A")

        assert _run(agent, "one", "A", fresh=True) == "asked: Answer to one."

        assert len(model.requests) == 2
        assert len(agent.session.child_ids(None)) == 2


def test_without_an_id_the_same_text_again_is_another_cell(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=_counting()) as agent:
        assert _run(agent, "go on").startswith("asked")
        assert _run(agent, "go on").startswith("asked")

        assert len(agent.session.branch_ids()) == 4


def test_the_record_survives_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with pi_nb.agent(file, cwd=tmp_path, model=_counting()) as agent:
        _run(agent, "one")
        _run(agent, "two")

    model = _counting()
    with pi_nb.agent(file, model=model) as agent:
        assert _run(agent, "one") == "walked: Answer to one."
        assert _run(agent, "two") == "walked: Answer to two."
    assert model.requests == []


def test_what_differs_is_named_and_asked_anew(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with pi_nb.agent(file, cwd=tmp_path, model=_counting()) as agent:
        _run(agent, "one", "A")

    other = ScriptedModel(["Otherwise."], id="other")
    with pi_nb.agent(file, model=other, system_prompt="Be brief.", tools=[]) as agent:
        entered = agent.enter(Cell("one", 1, "A"))

        assert isinstance(entered, str)
        assert "model, tools, system prompt" in entered
        agent.prompt_sync("one", cell=Cell("one", 1, "A"))
        assert len(agent.session.child_ids(None)) == 2
        assert isinstance(agent.enter(Cell("one", 1, "A")), Walked), "now both are there"


@pytest.mark.parametrize("bad", [reply(error="no such model"), reply("Half", stop_reason="length")])
def test_an_answer_that_did_not_end_well_is_asked_for_again(tmp_path: Path, bad: Any) -> None:
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel([bad, "Good."])) as agent:
        _run(agent, "one", "A")

        assert _run(agent, "one", "A") == "asked: Good."


def test_a_walk_repeats_no_tool_call_and_says_which(tmp_path: Path) -> None:
    answers = [
        reply(call("bash", command="echo x >> one"), call("bash", command="echo y >> two")),
        reply(call("read", path="one")),
        "Done.",
    ]
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel(answers), approve="allow") as agent:
        _run(agent, "one", "A")
        entered = agent.enter(Cell("one", 1, "A"))

    assert isinstance(entered, Walked)
    assert entered.note().endswith("Not repeated: bash ×2, read.")
    assert entered.result.text == "Done."
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["x\n", "y\n"]


def test_a_pass_from_the_root_walks_and_branches_behind_an_edit(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"

    def notebook(*texts: str) -> list[str]:
        with pi_nb.agent(file, cwd=tmp_path, model=_counting(), at="root") as agent:
            return [_run(agent, text).partition(":")[0] for text in texts]

    assert notebook("one", "two", "three") == ["asked", "asked", "asked"]
    assert notebook("one", "two", "three") == ["walked", "walked", "walked"]
    assert notebook("one", "zwei", "three") == ["walked", "asked", "asked"]
    assert notebook("one", "zwei", "three") == ["walked", "walked", "walked"]
    assert notebook("one", "two", "three") == ["walked", "walked", "walked"]


def test_in_a_pass_only_a_second_run_of_a_cell_goes_back(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=_counting(), at="root") as agent:
        _run(agent, "one", "A")
        _run(agent, "two", "B")

        assert _run(agent, "eins", "A") == "asked: Answer to eins."

        assert len(agent.session.child_ids(None)) == 2


def test_records_are_read_once_and_not_again_for_every_cell(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=_counting()) as agent:
        for number in range(3):
            before = sum(1 for _ in agent.session.records())
            _run(agent, f"question {number}", str(number))
            assert agent._cells._seen == before


@pytest.mark.slow
def test_a_walked_cell_shows_the_answer_and_says_so(kernel: LiveKernel) -> None:
    kernel.good(
        "asked = []\n"
        "def answers(request):\n    asked.append(1)\n    return reply('**Blue**.')\n"
        "agent = pi_nb.agent('s.jsonl', model=ScriptedModel(answers))"
    )
    first = kernel.good("%%agent\nWhich colour?").markdown
    kernel.good("agent = pi_nb.agent('s.jsonl', model=ScriptedModel(answers), at='root')")

    again = kernel.good("%%agent -o colour\nWhich colour?").markdown

    assert kernel.good("print(len(asked), colour.text)").stdout == "1 **Blue**.\n"
    assert again.split("\n\n")[0] == first.split("\n\n")[0] == "**Blue**."
    assert "nobody was asked" in again
    assert "nobody was asked" not in kernel.good("%%agent --fresh\nWhich colour?").markdown


@pytest.mark.slow
def test_a_walk_may_run_the_recorded_python_again_and_nothing_else(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    make = (
        "agent = pi_nb.agent('s.jsonl', at='root', approve='allow', model=ScriptedModel([\n"
        "  reply(call('python', code='answer = 6 * 7'), call('bash', command='echo x >> log')),\n"
        "  'Done.']), tools=[pi_nb.python_tool(), *pi_nb.default_tools(pi_nb.LocalEnv())])"
    )
    kernel.good(make)
    kernel.good("%%agent\ngo")
    kernel.good(f"del answer\n%config PiMagics.walk = 'kernel'\n{make}")
    try:
        again = kernel.good("%%agent\ngo").text
    finally:
        kernel.good("%config PiMagics.walk = 'show'")

    assert kernel.good("print(answer)").stdout == "42\n"
    assert "Run again in the kernel: python. Not repeated: bash." in again
    assert (tmp_path / "log").read_text() == "x\n"


CELLS = [
    "%load_ext pi_nb\nimport pi_nb\n"
    "def answers(request):\n"
    "    open('asked.log', 'a').write('x')\n"
    "    return f'Answer to {request.messages[-1].content[0].text}.'\n"
    "agent = pi_nb.agent('s.jsonl', at='root', model=pi_nb.ScriptedModel(answers))",
    "%%agent\none",
    "%%agent\ntwo",
    "%%agent\nthree",
    "agent.close()",
]


@pytest.mark.slow
def test_a_notebook_run_twice_asks_nobody_and_an_edit_is_one_new_branch(tmp_path: Path) -> None:
    def run(*cells: str) -> list[str]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        NotebookClient(
            notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        ).execute()
        shown = [c.outputs[0]["data"]["text/markdown"] for c in notebook.cells[1:4]]
        return [text.split("\n\n")[0] for text in shown]

    first = run(*CELLS)
    assert (tmp_path / "asked.log").read_text() == "xxx"
    assert run(*CELLS) == first
    assert (tmp_path / "asked.log").read_text() == "xxx", "the second time nobody is asked"

    edited = [*CELLS[:2], "%%agent\nzwei", *CELLS[3:]]
    assert run(*edited) == ["Answer to one.", "Answer to zwei.", "Answer to three."]
    lines = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    parents = [line["parentId"] for line in lines if line.get("kind") == "entry"]
    assert len([p for p in set(parents) if parents.count(p) > 1]) == 1, "one branch point"
    assert (tmp_path / "asked.log").read_text() == "xxx" + "xx"


def test_a_session_of_pi_s_form_is_walked_as_well(tmp_path: Path) -> None:
    """In v3 the records of a run stand in the tree; a cell sees past them."""
    file = tmp_path / "s.jsonl"
    with pi_nb.agent(file, cwd=tmp_path, model=_counting(), format="v3") as agent:
        _run(agent, "one", "A")
        _run(agent, "two", "B")
        end = agent.harness.leaf
        assert _run(agent, "zwei", "B") == "asked: Answer to zwei."

    model = _counting()
    with pi_nb.agent(file, model=model, at="root") as agent:
        assert agent.session.format == "v3"
        assert agent.harness.leaf is None
        assert _run(agent, "one", "A") == "walked: Answer to one."
        assert _run(agent, "two", "B") == "walked: Answer to two."
        assert agent.harness.leaf == end
        assert _run(agent, "zwei", "B") == "walked: Answer to zwei."
        assert _run(agent, "three", "C") == "asked: Answer to three."
        assert [message.content[0].text for message in model.requests[0].messages[-3:]] == [
            "zwei",
            "Answer to zwei.",
            "three",
        ]
    assert len(model.requests) == 1


def test_in_a_pass_a_compaction_is_walked_too_and_outside_of_one_it_is_made_again(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def model() -> ScriptedModel:
        def answer(request: Request) -> str:
            summary = request.system_prompt.startswith("You write summaries")
            asked.append("summary" if summary else "turn")
            return "## Goal\nGo on." if summary else "word " * 100

        return ScriptedModel(answer)

    def a_pass(file: Path | None) -> tuple[Path, list[bool]]:
        walked = []
        with pi_nb.agent(file, cwd=tmp_path, model=model(), at="root") as agent:
            for text in ("one", "two", "three"):
                cell = agent.cell(text)
                if isinstance(agent.enter(cell), str):
                    agent.prompt_sync(text, cell=cell)
            for words in ("the doors", "the windows"):
                found = agent.walk_compaction(words, keep=150)
                walked.append(found is not None)
                if found is None:
                    found = agent.compact(words, keep=150)
                assert agent.session.context().messages[0].to_wire()["summary"] == found.summary
                agent.harness.session.move_sync(found.entry.parent_id if found.entry else None)
            assert agent.session.path is not None
            return agent.session.path, walked

    file, walked = a_pass(None)
    assert walked == [False, False]
    assert asked.count("summary") >= 2
    asked.clear()

    _, walked = a_pass(file)
    assert (walked, asked) == ([True, True], [])
    with pi_nb.agent(file, cwd=tmp_path, model=model()) as agent:
        assert agent.walk_compaction("the doors", keep=150) is None
