"""`%tree` in a real kernel, and what Tab offers after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import LiveKernel

import pi_nb
from pi_nb.notebook.agent import Agent
from pi_nb.notebook.completion import tree_candidates
from pi_nb.session.filters import FILTERS

TWO = (
    'agent = pi_nb.agent(model=ScriptedModel(["One.", "Two.", "Three."]))\n'
    "agent.prompt_sync('first'); agent.prompt_sync('second');"
)


# --- in a kernel --------------------------------------------------------------------------


@pytest.mark.slow
def test_the_tree_is_the_value_of_the_cell_and_can_be_bound(kernel: LiveKernel) -> None:
    kernel.good(TWO)

    cell = kernel.good("%tree -o t")

    assert "● user: first" in cell.result
    assert "← main" in cell.result
    assert cell.stdout == cell.stderr == ""
    assert kernel.good("print(str(t) == str(agent.outline()))").stdout == "True\n"


@pytest.mark.slow
def test_rows_are_gone_to_and_labelled_by_their_numbers(kernel: LiveKernel) -> None:
    kernel.good(TWO)
    number = kernel.good(
        "print([r.number for r in agent.outline(filter='user-only').rows][1])"
    ).stdout.strip()

    labelled = kernel.good(f"%tree --label {number} the second one")
    gone = kernel.good(f"%tree --goto {number}")
    kernel.good("agent.prompt_sync('other');")
    branches = kernel.good("%tree --find second")
    unlabelled = kernel.good(f"%tree --label {number} ''")

    assert labelled.stdout == f"{number} is labelled 'the second one'.\n"
    assert "[label: the second one]" in labelled.result
    assert gone.stdout.startswith("The leaf is now ")
    assert "Text to edit: second" in gone.stdout
    assert "(2 branches)" in branches.result
    assert "1 entry holds 'second'" in branches.result
    assert "[label" not in unlabelled.result


@pytest.mark.slow
def test_a_file_is_read_and_left_as_it_is(kernel: LiveKernel, tmp_path: Path) -> None:
    """A session as pi writes it: no agent is made, no byte is written, and it can be opened."""
    lines = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z",
         "cwd": str(tmp_path)},
        {"type": "message", "id": "aaaaaaaa", "parentId": None,
         "timestamp": "2026-01-01T00:00:00.000Z",
         "message": {"role": "user", "content": "which tests?", "timestamp": 1}},
    ]  # fmt: skip
    file = tmp_path / "of pi.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    before = file.read_bytes()

    cell = kernel.good("%tree 'of pi.jsonl' --filter all")

    assert "1       3  ● user: which tests? ← main" in cell.result
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["of pi.jsonl"]
    assert kernel.good("print('agent' in globals())").stdout == "False\n"
    kernel.good("%agent open 'of pi.jsonl'")
    assert "which tests?" in kernel.good("%tree 'of pi.jsonl'").result
    assert kernel.good("%tree --label 1 start").stdout == "1 is labelled 'start'.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%tree", "`%agent resume`"),
        ("%tree nowhere.jsonl", "There is no file nowhere.jsonl"),
        ("%tree --filter tools", "choose from"),
        ("%tree --label 1", "--label wants an entry and a text"),
        ("%tree x.jsonl --goto 1", "There is no file x.jsonl"),
        ("%tree -o 1x", "-o wants a Python name"),
        ("%tree --nonsense", "See `%tree -h`"),
    ],
)
def test_bad_usage_is_one_line_with_the_next_step(kernel: LiveKernel, line: str, said: str) -> None:
    cell = kernel.run(line)

    assert cell.ename == "UsageError"
    assert said in cell.evalue
    assert "\n" not in cell.evalue


@pytest.mark.slow
def test_what_is_not_in_the_tree_is_one_line_too(kernel: LiveKernel) -> None:
    kernel.good(TWO)

    for line in ("%tree --goto 99", "%tree --lane other", "%tree --find ' '", "%tree --label 99 x"):
        cell = kernel.run(line)
        assert (cell.ename, "\n" in cell.evalue) == ("UsageError", False), line


@pytest.mark.slow
def test_help_is_printed_and_unloading_takes_the_magic_back(kernel: LiveKernel) -> None:
    shown = kernel.good("%tree -h")
    kernel.good("%unload_ext pi_nb")

    assert "--filter F" in shown.stdout
    assert "user-only" in shown.stdout
    gone = kernel.good("print('tree' in get_ipython().magics_manager.magics['line'])")
    assert gone.stdout == "False\n"


@pytest.mark.slow
def test_tab_offers_filters_after_their_option(kernel: LiveKernel) -> None:
    kernel.good(TWO)

    reply = kernel.client.complete("%tree --filter us", reply=True, timeout=10)

    assert "user-only" in reply["content"]["matches"]


# --- completion ---------------------------------------------------------------------------


@pytest.fixture
def agent() -> Iterator[Agent]:
    model = pi_nb.ScriptedModel(["One."])
    with pi_nb.agent(model=model) as made:
        made.prompt_sync("first")
        made.label("start", 1)
        yield made


def test_what_an_option_takes_is_offered_after_it(agent: Agent) -> None:
    entries = len(agent.session)

    assert tree_candidates("%tree --filter ", agent) == [*FILTERS]
    assert tree_candidates("%tree --filter us", agent) == [*FILTERS]
    assert tree_candidates("%tree --lane ", agent) == ["main"]
    for option in ("--goto", "--label"):
        offered = tree_candidates(f"%tree {option} ", agent)
        assert offered == ["start", *(str(n) for n in range(entries, 0, -1))]


def test_else_options_that_are_not_there_yet_are_offered(agent: Agent) -> None:
    assert "--filter" in tree_candidates("%tree ", agent)
    assert "--ids" not in tree_candidates("%tree --ids ", agent)
    assert tree_candidates("%tree --goto ", None) == []
