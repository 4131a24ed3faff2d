"""The `python` tool without IPython: in the namespace of `__main__`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import asyncio, os, pi_nb
from pi_nb import ScriptedModel, call, reply
secret = 20
def run(code):
    agent = pi_nb.agent(
        model=ScriptedModel([reply(call("python", code=code)), "Done."]),
        tools=[pi_nb.python_tool()], approve="allow",
    )
    with agent:
        how(agent)
        print(repr(agent.last.messages[2].text))
def how(agent):
    agent.prompt_sync("go")
run("made = secret + 1\\nprint('hello')\\nmade * 2")
run("made")
run("def f():\\n    raise ValueError('no')\\nf()")
run("1 +")
run("await asyncio.sleep(0)")
def how(agent):
    asyncio.run(agent.prompt("go"))
run("await asyncio.sleep(0, 'awaited')")
run("await asyncio.sleep(0)\\n1 / 0")
"""


def test_in_a_script_code_runs_in_its_own_namespace(tmp_path: Path) -> None:
    environment = {"PI_NB_SESSION_DIR": str(tmp_path / "sessions"), "PATH": ""}

    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60,
    )  # fmt: skip

    assert ran.stderr == ""
    printed, kept, failed, wrong, refused, awaited, divided = ran.stdout.splitlines()
    assert printed == "'hello\\n42'"
    assert kept == "'21'"
    assert "line 2, in f" in failed
    assert "raise ValueError(" in failed
    assert "kernel_tools" not in failed
    assert "SyntaxError" in wrong
    assert "asyncio.run" in refused
    assert awaited == "\"'awaited'\""
    assert "ZeroDivisionError" in divided
