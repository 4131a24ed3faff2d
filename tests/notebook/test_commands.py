"""`%agent` beyond status and model, and runs in the background, in a real kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kernels import LiveKernel, messages
from loopback import Loopback

pytestmark = pytest.mark.slow

TWO = 'agent = pi_nb.agent(model=ScriptedModel(["One.", "Two.", "Three."]), name="first")'
HELD = """
import threading
gate, asked = threading.Event(), threading.Event()
async def held(request):
    import asyncio
    asked.set()
    while not gate.is_set(): await asyncio.sleep(0.01)
    return "Came late."
"""


def _shown(kernel: LiveKernel, seen: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first display, of whatever cell, in which something is seen."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            message = kernel.client.get_iopub_msg(timeout=1)
        except Empty:
            continue
        content: dict[str, Any] = message["content"]
        if message["msg_type"] == "update_display_data" and seen(content):
            return content
    raise AssertionError("it was not shown")


# --- in the background ----------------------------------------------------------------------


def test_a_run_in_the_background_lets_cells_run_and_shows_itself_where_it_began(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    """J-04."""
    kernel.good(HELD + "agent = pi_nb.agent(model=ScriptedModel([held]))")

    started = kernel.good("%%agent --background -o run\nx")
    other = kernel.good("asked.wait(10); print(run.done, run)\ngate.set()")

    assert other.stdout == "False BackgroundRun(turn)\n"
    (place,) = started.displays
    shown = _shown(kernel, lambda c: "Came late." in c["data"]["text/plain"])
    assert shown["transient"]["display_id"] == place
    assert kernel.good("print((await run).text, agent.last is run.result(), run.done)").stdout == (
        "Came late. True True\n"
    )


def test_a_second_run_at_once_is_busy_and_the_first_is_steered_and_followed(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(HELD + "agent = pi_nb.agent(model=ScriptedModel([held, 'Then.', 'Last.']))")
    kernel.good("run = agent.start('x', show=False)\nasked.wait(10)")

    busy = kernel.run("%%agent\nmore")
    kernel.good("agent.follow_up('and last')\nrun.steer('rather so')\ngate.set()\nrun.result();")

    assert busy.ename == "UsageError"
    assert "at work" in busy.evalue
    said = [m["content"][0]["text"] for m in messages(tmp_path)]
    assert said == ["x", "Came late.", "rather so", "Then.", "and last", "Last."]


def test_a_run_in_the_background_is_aborted_from_another_cell(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(HELD + "agent = pi_nb.agent(model=ScriptedModel([held, 'Fresh.']))")
    kernel.good("run = agent.start('x')\nasked.wait(10)")

    kernel.good("agent.abort()\nassert run.done")

    assert messages(tmp_path)[-1]["stopReason"] == "aborted"
    assert "Fresh." in kernel.good("%%agent\nand now?").markdown


def test_in_the_background_what_has_to_be_asked_for_is_denied(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    touches = 'reply(call("bash", command="touch made"))'
    kernel.good(f"agent = pi_nb.agent(model=ScriptedModel([{touches}, 'Well.']))")

    kernel.run("agent.start('x').result()", allow_stdin=True)

    assert not (tmp_path / "made").exists()
    assert "nobody can be asked" in messages(tmp_path)[2]["content"][0]["text"]


def test_user_code_of_a_run_in_the_background_waits_for_the_cell_that_waits_for_it(
    kernel: LiveKernel,
) -> None:
    code = 'reply(call("python", code="made = True"))'
    kernel.good(
        f"agent = pi_nb.agent(model=ScriptedModel([{code}, 'Done.']), approve='allow', "
        "tools=[pi_nb.python_tool()])\nrun = agent.start('x')"
    )

    before = kernel.good("import time; time.sleep(0.3)\nprint('made' in globals(), run.done)")
    after = kernel.good("await run\nprint('made' in globals(), run.done)")

    assert (before.stdout, after.stdout) == ("False False\n", "True True\n")


# --- %agent ---------------------------------------------------------------------------------


def test_a_fork_holds_the_branch_and_leaves_the_old_session_alone(kernel: LiveKernel) -> None:
    kernel.good(TWO)
    kernel.good("%%agent\none")
    kernel.good("%%agent\ntwo")
    kernel.good("old = agent")

    kernel.good("%agent fork 2 --name second")
    kernel.good("%%agent\nrather three")

    told = kernel.good(
        "print([e.message.role for e in agent.session.branch()], len(old.session),"
        " agent.session.header.parent_session_id == old.session.id, agent.session.name)"
    )
    assert told.stdout == "['user', 'assistant', 'user', 'assistant'] 4 True second\n"
    assert "old" in kernel.good("%agent use old\nprint('old' if agent is old else 'new')").stdout
    kernel.good("import gc; gc.collect();")  # no variable names the other one any more
    assert kernel.good("%agent use second\nprint(agent is old)").stdout == "False\n"
    assert "no open agent" in kernel.run("%agent use nobody").evalue


def test_labels_thinking_and_tools_are_changed_and_shown(kernel: LiveKernel) -> None:
    kernel.good(TWO)
    kernel.good("%%agent\none")

    kernel.good("%agent label start 1")
    assert "start" in kernel.good("%agent label").result
    kernel.good("%agent thinking high")
    assert "thinking high" in kernel.good("%agent").result
    tools = kernel.good("%agent tools --on python --off bash").result
    assert "python  on" in tools
    assert "bash    off" in tools
    assert "no tool" in kernel.run("%agent tools --on nothing").evalue.lower()
    assert kernel.good("print(agent.find('start').message.role)").stdout == "user\n"


def test_each_lane_goes_on_where_it_is(kernel: LiveKernel) -> None:
    kernel.good(TWO)
    kernel.good("%%agent\none")

    lanes = kernel.good("%agent lane side --new").result
    kernel.good("%agent thinking low")
    kernel.good("%%agent\ntwo")
    kernel.good("%agent lane main")
    kernel.good("%%agent\nthree")

    assert "side" in lanes
    told = kernel.good(
        "print(agent.harness.thinking_level,"
        " *(len(agent.session.context(lane).messages) for lane in agent.lanes),"
        " {r.lane for r in agent.session.records()} == {'main', 'side'})"
    )
    assert told.stdout == "off 4 4 True\n"
    assert "no lane" in kernel.run("%agent lane other").evalue
    assert "already" in kernel.run("%agent lane side --new").evalue


def test_the_doctor_looks_and_says_what_it_found(kernel: LiveKernel) -> None:
    kernel.good(TWO)

    found = kernel.good("%agent doctor").result

    assert "Jupyter" in found
    assert "ipykernel" in found
    assert "nothing odd" in found
    assert "in this process" in found


def test_a_branch_is_exported_as_markdown_and_no_file_is_written_over(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(TWO)
    kernel.good("%%agent\nHow <b>many</b>?")

    shown = kernel.good("%agent export out.md --redact").result

    text = (tmp_path / "out.md").read_text()
    assert "How &lt;b>many&lt;/b>?" in text
    assert "<b>" not in text
    assert "One.\n" in text
    assert "Nothing was found to leave out" in shown
    assert "already" in kernel.run("%agent export out.md").evalue
    kernel.good("%agent export out.html")
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    "command", ["use", "fork", "label", "lane", "thinking", "tools", "doctor", "export"]
)
def test_each_command_has_help_and_makes_nothing_for_it(kernel: LiveKernel, command: str) -> None:
    shown = kernel.good(f"%agent {command} -h").stdout

    assert f"usage: %agent {command}" in shown
    assert kernel.good("print('agent' in globals())").stdout == "False\n"


def test_config_sets_what_new_agents_are_made_with(kernel: LiveKernel, tmp_path: Path) -> None:
    kernel.good(f"%config PiMagics.session_dir = {str(tmp_path / 'mine')!r}")
    kernel.good("%config PiMagics.retry_attempts = 1")
    try:
        kernel.good("%agent new --name here")
        assert list((tmp_path / "mine").rglob("*.jsonl"))
        assert kernel.good("print(agent.harness.retry.attempts)").stdout == "1\n"
        assert "retry_attempts" in kernel.good("%config PiMagics").stdout
    finally:
        kernel.good("%config PiMagics.session_dir = ''\n%config PiMagics.retry_attempts = 4")


def _offered(kernel: LiveKernel, line: str) -> set[str]:
    return {
        str(match).strip()
        for match in kernel.client.complete(line, reply=True, timeout=10)["content"]["matches"]
    }


def test_tab_offers_commands_levels_tools_labels_ids_and_agents(kernel: LiveKernel) -> None:
    kernel.good(TWO)
    kernel.good("%%agent\none")
    kernel.good("%agent label start 1")
    leaf = kernel.good("print(agent.session.number(agent.harness.leaf))").stdout.strip()

    assert {"fork", "goto", "doctor", "use"} <= _offered(kernel, "%agent ")
    assert {"thinking"} <= _offered(kernel, "%agent thi")
    assert {"high"} <= _offered(kernel, "%agent thinking hi")
    assert {"bash", "python"} <= _offered(kernel, "%agent tools --on ")
    assert {"start", leaf} <= _offered(kernel, "%agent goto ")
    assert {"first"} <= _offered(kernel, "%agent use fi")


def test_tab_offers_the_models_that_the_present_server_listed(
    kernel: LiveKernel, loopback: Loopback
) -> None:
    loopback.always("/v1/models", {"data": [{"id": "tiny"}, {"id": "big"}]})
    kernel.good(f"agent = pi_nb.agent(model={loopback.url!r})")
    asked = len(loopback.requests)

    assert {"tiny", "big"} <= _offered(kernel, "%agent model ")
    assert len(loopback.requests) == asked, "nobody is asked for it"


def test_the_doctor_asks_the_server_for_its_list_and_sends_no_key(
    kernel: LiveKernel, loopback: Loopback
) -> None:
    loopback.always("/v1/models", {"data": [{"id": "tiny"}]})
    kernel.good(
        "from pi_nb import OpenAICompletions, resolve\n"
        f"found = (await resolve({loopback.url!r})).value.model\n"
        "agent = pi_nb.agent(model=OpenAICompletions(found, api_key='sk-secret'))"
    )

    cell = kernel.good("%agent doctor")

    assert "the server answers and has it" in cell.result
    assert "sk-secret" not in cell.result
    assert all("authorization" not in map(str.lower, r.headers) for r in loopback.requests)


def test_display_quiet_shows_nothing(kernel: LiveKernel) -> None:
    kernel.good(TWO + "\n%config PiMagics.display = 'quiet'")
    try:
        cell = kernel.good("%%agent\none")
        assert cell.displays == {}
        assert kernel.good("print(agent.last.text)").stdout == "One.\n"
    finally:
        kernel.good("%config PiMagics.display = 'stream'")


def test_tab_offers_nothing_of_it_after_the_extension_went(kernel: LiveKernel) -> None:
    kernel.good("%unload_ext pi_nb")
    try:
        assert "doctor" not in _offered(kernel, "%agent do")
    finally:
        kernel.good("%load_ext pi_nb")
