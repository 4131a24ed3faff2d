"""A kernel that is killed in the middle of a tool call: the next one goes on from the file."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel
from kernels import SETUP, LiveKernel

pytestmark = pytest.mark.slow


def _kernel(folder: Path) -> LiveKernel:
    manager, client = start_new_kernel(kernel_name="python3")
    kernel = LiveKernel(manager, client)
    kernel.good(f"{SETUP}\nos.chdir({str(folder)!r})")
    return kernel


def _stop(kernel: LiveKernel) -> None:
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


def test_a_new_kernel_resumes_what_a_killed_one_left(tmp_path: Path) -> None:
    killed = _kernel(tmp_path)
    try:
        killed.good(
            "calls = reply('I wait.', call('bash', command='echo begun; sleep 600'))\n"
            "agent = pi_nb.agent('s.jsonl', approve='allow', model=ScriptedModel([calls]))\n"
            "pid = os.getpid()"
        )
        pid = int(killed.good("print(pid)").stdout)
        killed.start("%%agent\ngo")
        killed.until(lambda cell: "begun" in cell.text)
        os.kill(pid, signal.SIGKILL)
    finally:
        _stop(killed)

    kernel = _kernel(tmp_path)
    try:
        kernel.good(
            "model = ScriptedModel(['I see.'])\n"
            "agent = pi_nb.agent('s.jsonl', approve='allow', model=model)"
        )
        assert "bash: no result was recorded" in kernel.good("%agent").result
        assert "I see." in kernel.good("%%agent\nwhat now?").markdown
        sent = kernel.good("print([m.role for m in model.requests[0].messages])").stdout
        assert sent == "['user', 'assistant', 'toolResult', 'user']\n"
        said = kernel.good("print(model.requests[0].messages[2].text)").stdout
        assert said.startswith("Interrupted: the process ended while this call ran.")
    finally:
        _stop(kernel)
