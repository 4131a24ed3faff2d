"""The repository as a stranger meets it: nothing of one machine in it, and two commands to start.

`.ci/run` reads its commands out of the README, so this file holds their form.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
COMMANDS = ["pip install -e . && pi-nb demo", 'pip install -e ".[test]" && pytest']

# Spelled so that this file does not hold what it forbids.
OF_ONE_MACHINE = re.compile(r"(?<![\w.-])/(?:wor[k]|roo[t]|opt/(?:pyp[i]|de[v]|wheel[s]))/")
OF_ONE_REGISTRY = re.compile(
    r"https?://[^\s\"'<>]*(?:registr[y]|artifactor[y]|nexu[s]|devp[i]|mirro[r])"
    r"|--(?:extra-)?index-ur[l]|--find-link[s]",
    re.IGNORECASE,
)
ABSOLUTE = re.compile(
    r"(?<![\w.:/~-])/(?:home|root|Users|tmp|private|var|opt|usr|mnt|work)/|[A-Z]:\\\\"
)


def tracked() -> list[str]:
    """What git holds or would hold: everything that is not ignored."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git checkout")
    return [name for name in listed.stdout.decode().split("\0") if name]


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for name in tracked():
        path = ROOT / name
        if not path.is_file() or path.suffix in (".png", ".woff2"):
            continue
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if hit := pattern.search(line):
                found.append(f"{name}:{number}: {hit[0]}")
    return found


def test_no_file_names_a_path_of_one_machine() -> None:
    assert lines_with(OF_ONE_MACHINE) == []


def test_no_file_names_a_registry() -> None:
    assert lines_with(OF_ONE_REGISTRY) == []


def test_a_lock_file_of_npm_says_what_is_installed_and_not_from_where() -> None:
    """And `.npmrc` keeps it so: npm reads the one beside a package.json, no other."""
    packages = [ROOT / name for name in tracked() if Path(name).name == "package.json"]
    assert ROOT / "tests" / "interop" / "package.json" in packages

    for package in packages:
        settings = package.with_name(".npmrc").read_text("utf-8").split()
        locked = json.loads(package.with_name("package-lock.json").read_text("utf-8"))
        installed = [entry for at, entry in locked["packages"].items() if at]

        assert "omit-lockfile-registry-resolved=true" in settings
        assert all("integrity" in entry for entry in installed)
        assert not any("resolved" in entry for entry in installed)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (OF_ONE_MACHINE, "cd /wor" + "k/main"),
        (OF_ONE_MACHINE, '"/roo' + 't/.config"'),
        (OF_ONE_REGISTRY, "https://pypi-mirro" + "r.example.org/simple"),
        (OF_ONE_REGISTRY, "pip install --index-ur" + "l x"),
        (ABSOLUTE, "'/tmp/abc/calc.py'"),
    ],
)
def test_what_must_not_be_there_would_be_found(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)


def test_the_readme_sets_everything_up_with_two_commands() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    assert re.findall(r"^\s*(pip install .*?)\s*$", readme, re.MULTILINE) == COMMANDS


def test_what_the_readme_points_to_is_there() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", readme)

    missing = [to for to in targets if "://" not in to and not (ROOT / to).exists()]

    assert missing == []


def test_ci_is_one_executable_file_that_takes_its_commands_from_the_readme() -> None:
    run = ROOT / ".ci" / "run"

    assert os.access(run, os.X_OK)
    script = run.read_text("utf-8")
    assert script.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script
    assert "README.md" in script
    assert not any(command in script for command in COMMANDS)


def test_there_is_a_notebook_to_start_with() -> None:
    assert "00_first_prompt.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_saved_as_it_ran_from_the_top(path: Path) -> None:
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]

    counts = [cell["execution_count"] for cell in code if "".join(cell["source"]).strip()]
    errors = [o for cell in code for o in cell["outputs"] if o["output_type"] == "error"]

    assert counts == list(range(1, len(counts) + 1))
    assert errors == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_holds_no_widget_state_and_no_path_of_one_machine(path: Path) -> None:
    saved = path.read_text("utf-8")

    assert "widgets" not in json.loads(saved)["metadata"]
    assert "application/vnd.jupyter.widget" not in saved
    assert ABSOLUTE.findall(saved) == []


def wheel(folder: Path) -> Path:
    """A wheel of this tree, by hatchling where it is installed, else by pip and a registry."""
    if importlib.util.find_spec("hatchling"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    else:
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--retries", "1"]
        command += ["--wheel-dir", str(folder), str(ROOT)]
    # pip finds its settings at home, where the tests do not live.
    env = {**os.environ, "HOME": pwd.getpwuid(os.getuid()).pw_dir}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if built.returncode and "hatchling" in built.stderr:
        pytest.skip(f"hatchling cannot be installed here: {built.stderr.strip()[-200:]}")
    assert built.returncode == 0, built.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.slow
def test_a_wheel_carries_the_notebooks_the_port_and_the_types(tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel(tmp_path)) as archive:
        names = set(archive.namelist())
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        scripts = archive.read(entry_points).decode()

    assert {"pi_nb/__init__.py", "pi_nb/port.yaml", "pi_nb/py.typed"} <= names
    assert {f"pi_nb/_notebooks/{path.name}" for path in NOTEBOOKS} <= names
    assert "pi-nb = pi_nb.cli:main" in scripts
    assert not any(name.startswith(("tests/", "notebooks/")) for name in names)
