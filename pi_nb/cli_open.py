"""`pi-nb open`: a notebook that goes on with a session, and JupyterLab on it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pi_nb.cli_sessions import found
from pi_nb.html import inert
from pi_nb.result import PiError
from pi_nb.session.session import Session
from pi_nb.text import count, safe_line

_ODD = re.compile(r"[^A-Za-z0-9-]+")


def open_session(target: str, *, only_print: bool, notebook: str | None) -> int:
    """Say what a session is, write a notebook that loads it, and start JupyterLab on that.

    A notebook that is there already is used as it is. Without JupyterLab the command to run
    is said instead.

    Raises:
        PiError: `session`: it cannot be opened, or the notebook cannot be written.
    """
    path = found(target).expanduser().resolve()
    was_open = Session.opened(path)
    session = was_open or Session.open(path, read_only=True)
    try:
        about = safe_line(session.name or session.id)
        held = count(len(session), "entry", "entries")
        print(f"{about}: {held}, v{session.version}, works in {safe_line(session.cwd, 200)}")
        cells = _cells(session, path)
        file = Path(notebook or f"{_file_name(session)}.ipynb")
    finally:
        if was_open is None:
            session.close()
    if only_print:
        print("\n".join(source for kind, source in cells if kind == "code"))
        return 0
    _write(file, cells)
    return _start(file)


def _cells(session: Session, path: Path) -> list[tuple[str, str]]:
    # Where the session's folder is gone, the present one goes on (known fault S-20).
    where = "" if Path(session.cwd).is_dir() else ', cwd="."'
    title = inert(session.name or f"Session {session.id[-8:]}")
    return [
        ("markdown", f"# {title}"),
        ("code", "%load_ext pi_nb"),
        ("code", f"import pi_nb\n\nagent = pi_nb.agent({str(path)!r}{where})"),
        ("code", "%tree"),
    ]


def _file_name(session: Session) -> str:
    """The session's name as far as every file system takes it, else the end of its id."""
    named = _ODD.sub("-", session.name or "").strip("-")[:60]
    return named or f"session-{_ODD.sub('-', session.id[-8:])}"


def _write(file: Path, cells: list[tuple[str, str]]) -> None:
    try:
        with file.open("x", encoding="utf-8") as out:
            json.dump(_notebook(cells), out, indent=1, ensure_ascii=False)
            out.write("\n")
    except FileExistsError:
        print(f"{file} is there already and is used as it is.")
    except OSError as error:
        raise PiError("session", f"{file}: {error.strerror}") from None


def _notebook(cells: list[tuple[str, str]]) -> Mapping[str, Any]:
    """A notebook in format 4.5, for the kernel that a plain installation has."""
    code: dict[str, Any] = {"execution_count": None, "outputs": []}
    return {
        "cells": [
            {
                "cell_type": kind,
                "id": f"pi-nb-{number}",
                "metadata": {},
                "source": source,
                **(code if kind == "code" else {}),
            }
            for number, (kind, source) in enumerate(cells, 1)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _start(file: Path) -> int:
    if find_spec("jupyterlab") is None:
        print(f"JupyterLab is not installed here. Open {file} where it is, or:")
        print(f"pip install 'pi-nb[notebook]' && jupyter lab '{file}'")
        return 0
    print(f"Opening {file} in JupyterLab; Ctrl-C here ends it.", flush=True)
    return subprocess.run([sys.executable, "-m", "jupyterlab", str(file)], check=False).returncode
