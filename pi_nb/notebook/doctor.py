"""`agent.doctor()`: what an agent stands on, looked at, each with what is wrong with it.

No key is read and none is sent: of the model's server only its list is asked for.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from pi_nb import background
from pi_nb.harness.harness import AgentHarness
from pi_nb.models.registry import list_models
from pi_nb.result import Err
from pi_nb.session.session import Session
from pi_nb.text import count, safe_line

from .kernel import can_ask, shell
from .model_choice import NoModel
from .status import Rows

PACKAGES = ("ipykernel", "ipython", "ipywidgets", "anywidget")


def examine(harness: AgentHarness | None) -> Rows:
    """Look at kernel, versions, session file and model server. Blocks while the server is asked.

    Args:
        harness: None where there is no agent yet: then only the ground is looked at.
    """
    rows = [
        ("kernel", _kernel()),
        ("versions", ", ".join([f"Python {platform.python_version()}", *map(_version, PACKAGES)])),
    ]
    if harness is None:
        return Rows(("what", "found"), rows, "No agent yet: no session and no model to look at.")
    rows += [
        ("session", _session(harness.session)),
        ("writer", _writer(harness.session)),
        ("open operations", _operations(harness)),
        ("model", _model(harness)),
    ]
    return Rows(("what", "found"), rows)


def _kernel() -> str:
    ip = shell()
    if ip is None:
        return "none: plain Python"
    if getattr(ip, "kernel", None) is None:
        return "none: IPython in a terminal"
    asks = "input() works" if can_ask() else "nobody can be asked here: approvals by policy"
    return f"Jupyter, {asks}, autoawait {'on' if ip.autoawait else 'off'}"


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} is not installed"


def _session(session: Session) -> str:
    entries = count(len(session), "entry", "entries")
    odd = "; ".join(f"line {d.line}: {safe_line(d.message, 120)}" for d in session.diagnostics)
    return f"{entries}, {odd}" if odd else f"{entries}, nothing odd"


def _writer(session: Session) -> str:
    if session.path is None:
        return "in memory: nothing is kept"
    if session.closed:
        return "closed"
    return "read-only" if session.read_only else "this process"


def _operations(harness: AgentHarness) -> str:
    open_ = harness.session.open_operations()
    if not open_:
        return "none"
    kinds = ", ".join(sorted({str(getattr(o, "intent", {}).get("kind", "?")) for o in open_}))
    now = "" if harness.phase == "idle" else ", at work now"
    return f"{len(open_)} ({safe_line(kinds)}){now}"


def _model(harness: AgentHarness) -> str:
    model = harness.model.model
    if isinstance(harness.model, NoModel):
        return "none yet: `%agent model http://127.0.0.1:8080`"
    if not model.base_url:
        return f"{safe_line(str(model))}: in this process, no server"
    found = background.call(list_models(model.base_url))
    if isinstance(found, Err):
        return f"{safe_line(str(model))}: {safe_line(str(found.error), 300)}"
    if all(model.id != other.id for other in found.value):
        return f"{safe_line(str(model))}: the server answers, but its list has no such model"
    return f"{safe_line(str(model))}: the server answers and has it"
