"""Two real kernels and one session: one writes, the other may look, and may take over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel
from kernels import SETUP, LiveKernel

pytestmark = pytest.mark.slow


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], LiveKernel]]:
    """Start a kernel for a notebook of this name, in the folder of the test."""
    started: list[LiveKernel] = []

    def start_one(notebook: str) -> LiveKernel:
        env = {**os.environ, "JPY_SESSION_NAME": str(tmp_path / notebook)}
        kernel = LiveKernel(*start_new_kernel(kernel_name="python3", env=env))
        started.append(kernel)
        kernel.good(f"{SETUP}\nfrom pi_nb import Session\nos.chdir({str(tmp_path)!r})")
        return kernel

    yield start_one
    for kernel in started:
        kernel.client.stop_channels()
        kernel.manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("format", ["v4", "v3"])
def test_the_second_kernel_is_told_who_writes_may_look_and_takes_over_after_a_kill(
    format: str, start: Callable[[str], LiveKernel], tmp_path: Path
) -> None:
    """S-02, starred."""
    first, second = start("one.ipynb"), start("two.ipynb")
    pid = int(
        first.good(
            f"Session.create('s.jsonl', cwd='.', format={format!r}).close()\n"
            "agent = pi_nb.agent('s.jsonl', model=ScriptedModel(['Hello.', 'Again.']))\n"
            "await agent.prompt('hi')\nprint(os.getpid())"
        ).stdout
    )

    refused = second.run("agent = pi_nb.agent('s.jsonl', model=ScriptedModel(['Mine now.']))")
    assert (refused.ename, refused.ok) == ("PiError", False)
    assert f"in use by process {pid} (one.ipynb) since" in refused.evalue
    assert "Session.open(path, read_only=True) reads it" in refused.evalue

    look = (
        "there = Session.open('s.jsonl', read_only=True)\nprint(there.context().messages[-1].text)"
    )
    assert second.good(look).stdout == "Hello.\n"
    wrong = second.run("there.append_sync(there.entry(there.leaf()))")
    assert "open read-only" in wrong.evalue
    # What the first one writes meanwhile is there at the next look.
    first.good("await agent.prompt('and?')")
    assert second.good(f"there.close()\n{look}").stdout == "Again.\n"

    os.kill(pid, signal.SIGKILL)
    first.manager.provisioner.process.wait()
    take = "there.close()\nagent = pi_nb.agent('s.jsonl', model=ScriptedModel(['Mine now.']))"
    second.good(take)
    assert second.good("print((await agent.prompt('who?')).text)").stdout == "Mine now.\n"
    said = "print([m.text for m in agent.session.context().messages if m.role == 'assistant'])"
    assert second.good(said).stdout == "['Hello.', 'Again.', 'Mine now.']\n"
    second.good("agent.close()")
    assert [file.name for file in tmp_path.iterdir()] == ["s.jsonl"]


def test_in_one_kernel_a_session_is_one_object_and_a_file_has_one_agent(
    start: Callable[[str], LiveKernel], tmp_path: Path
) -> None:
    """Opening a file again ends the agent that had it, in the middle of its run."""
    kernel = start("one.ipynb")
    kernel.good(
        "wait = call('bash', command='echo begun; sleep 600')\n"
        "agent = pi_nb.agent('s.jsonl', approve='allow', model=ScriptedModel([reply('.', wait)]))\n"
        "assert Session.open('s.jsonl') is agent.session\n"
        "os.symlink('s.jsonl', 'link.jsonl')\n"
        "assert Session.open('link.jsonl') is agent.session"
    )
    kernel.good("former, run = agent, agent.start('go')")

    cell = kernel.good(
        "agent = pi_nb.agent('link.jsonl', model=ScriptedModel(['New.']))\n"
        "print(former.closed, former.session.closed, agent.session is former.session)\n"
        "print((await agent.prompt('and now?')).text)"
    )

    assert cell.stdout == "True True False\nNew.\n"
    assert cell.seconds < 5
    said = kernel.good("print([m.role for m in agent.session.context().messages])").stdout
    # The run that was cut off is whole: every call of it has a result.
    roles = said.strip("[]\n").replace("'", "").split(", ")
    assert roles.count("user") == 2
    assert roles[-2:] == ["user", "assistant"]
    assert "busy" not in kernel.good("%agent").result
    assert "closed" in kernel.run("await former.prompt('still there?')").evalue
