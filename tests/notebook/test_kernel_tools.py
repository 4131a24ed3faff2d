"""The `python` tool in a real kernel: whose variables it sees, what it gives back, what it
leaves alone. Interrupts are in `test_interrupts`."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernels import LiveKernel, messages

pytestmark = pytest.mark.slow


def _agent(*codes: str) -> str:
    """A cell that makes an agent whose model runs these, call after call."""
    calls = "".join(f'reply(call("python", code={code!r})), ' for code in codes)
    return (
        f"agent = pi_nb.agent(model=ScriptedModel([{calls}'Done.']), approve='allow', "
        "tools=[pi_nb.python_tool()])"
    )


def _results(folder: Path) -> list[str]:
    found = [m for m in messages(folder) if m["role"] == "toolResult"]
    return [message["content"][0]["text"] for message in found]


def test_code_sees_the_users_variables_and_what_it_defines_stays(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(_agent("made = given + 1\nprint('given', given)\nmade * 2"))
    kernel.good("given = 20")

    cell = kernel.good("%%agent\ngo")

    assert _results(tmp_path) == ["given 20\n42"]
    assert kernel.good("print(made)").stdout == "21\n"
    assert cell.stdout == "", "what it prints is shown in the call, once"
    assert "given 20" in cell.markdown
    assert cell.result == ""


def test_an_exception_is_a_result_and_the_run_goes_on(kernel: LiveKernel, tmp_path: Path) -> None:
    kernel.good(_agent("print('before')\n1 / 0", "1 +", "raise SystemExit"))

    cell = kernel.good("%%agent\ngo")

    divided, wrong, ended = _results(tmp_path)
    assert divided.startswith("before\n")
    assert "ZeroDivisionError: division by zero" in divided
    assert "SyntaxError" in wrong
    assert "It ended with SystemExit" in ended
    assert [m["isError"] for m in messages(tmp_path) if m["role"] == "toolResult"] == [True] * 3
    assert cell.traceback == []
    assert "Done." in cell.markdown


@pytest.mark.parametrize("way", ["%%agent\ngo", "await agent.prompt('go', show=True);"])
def test_top_level_await_works_where_the_cell_is_awaited(
    kernel: LiveKernel, tmp_path: Path, way: str
) -> None:
    kernel.good(_agent("import asyncio\nawait asyncio.sleep(0)\nprint('slept')\n6 * 7"))

    kernel.good(way)

    assert _results(tmp_path) == ["slept\n42"]


def test_where_the_cell_blocks_top_level_await_says_what_to_do(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(_agent("import asyncio\nawait asyncio.sleep(0)", "print('plain code')"))

    kernel.good("agent.prompt_sync('go');")

    refused, plain = _results(tmp_path)
    assert "asyncio.run" in refused
    assert plain == "plain code"


def test_what_other_threads_print_meanwhile_goes_where_it_went(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    """`kernel.md` 2: a capture of the whole process swallows what others print."""
    kernel.good(
        "import threading\nasked, said = threading.Event(), threading.Event()\n"
        "def other():\n    asked.wait(10)\n    print('from another thread')\n    said.set()\n"
        "threading.Thread(target=other).start()"
    )
    kernel.good(_agent("asked.set(); said.wait(10); print('from the code')"))

    kernel.good("%%agent\ngo")

    assert _results(tmp_path) == ["from the code"]
    streams = kernel.good("import sys; print(type(sys.stdout).__module__, asked.is_set())").stdout
    assert streams.startswith("ipykernel")


def test_the_users_history_and_last_values_stay_as_they_are(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(_agent("'the model was here'"))
    kernel.good("'mine'")
    before = kernel.good("print(len(In), sorted(Out)[-1])").stdout.split()

    kernel.good("%%agent\ngo")

    after = kernel.good("print(len(In), sorted(Out)[-1], _)")
    assert after.stdout.split() == [str(int(before[0]) + 2), before[1], "mine"]


def test_what_is_displayed_is_shown_in_the_cell(kernel: LiveKernel, tmp_path: Path) -> None:
    kernel.good(_agent("from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))"))

    cell = kernel.good("%%agent\ngo")

    assert any(data.get("text/html") == "<b>x</b>" for data in cell.displays.values())


def test_long_output_is_cut_at_the_front_and_kept_whole_in_a_file(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(_agent("for i in range(20_000): print('line', i)"))

    kernel.good("%%agent\ngo")

    (result,) = _results(tmp_path)
    assert len(result) < 52_000
    assert "line 19999" in result
    details = next(m["details"] for m in messages(tmp_path) if m["role"] == "toolResult")
    assert details["totalLines"] == 20_000
    assert Path(details["fullOutputPath"]).read_text().startswith("line 0\n")


def test_it_is_asked_for_like_everything_that_changes_things(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(_agent("touched = True").replace("allow", "deny"))

    kernel.good("%%agent\ngo")

    assert "not allowed" in _results(tmp_path)[0]
    assert kernel.good("print('touched' in globals())").stdout == "False\n"
