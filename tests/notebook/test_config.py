"""`PiMagics` from `ipython_config.py`, in IPython itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_ipython_config_sets_what_new_agents_are_made_with(tmp_path: Path) -> None:
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_config.py").write_text(
        "c = get_config()\n"
        "c.InteractiveShellApp.extensions = ['pi_nb']\n"
        "c.PiMagics.approve = 'deny'\n"
        "c.PiMagics.retry_attempts = 2\n"
        "c.PiMagics.session_format = 'v3'\n"
        f"c.PiMagics.session_dir = {str(tmp_path / 'sessions')!r}\n"
    )
    code = (
        "get_ipython().run_line_magic('agent', 'new');"
        "first = agent.session.format;"
        "get_ipython().run_line_magic('agent', 'new --format v4');"
        "print(agent.harness.approval.approve, agent.harness.retry.attempts, first,"
        " agent.session.format)"
    )

    ran = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "IPYTHONDIR": str(tmp_path / "ipython")},
        timeout=60,
    )

    assert ran.stdout.splitlines()[-1:] == ["deny 2 v3 v4"], ran.stderr
    assert list((tmp_path / "sessions").rglob("*.jsonl"))
