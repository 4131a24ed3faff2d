"""What a kernel does differently: cells that wait by await, and who can answer a question.

A cell magic cannot be awaited: ipykernel decides from the source text whether a cell is
async. So a top-level `%%agent` cell is rewritten to an awaited call; called any other way
(under `%%time`, in a function, with autoawait off) the same magic blocks. Both wait for the
same run.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from pi_nb.compaction.plan import Plan
from pi_nb.harness.approval import ApprovalRequest, Decision
from pi_nb.js import dumps
from pi_nb.text import count, visible

NO = "The user said no."

MAGIC = "agent"
AWAITED = "agent_awaited"


def shell() -> Any | None:
    """The running IPython shell, or None. Loads IPython only if somebody else has."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel."""
    return getattr(shell(), "kernel", None) is not None


def cell_id() -> str | None:
    """The front end's id of the cell that runs now, where it sends one (JupyterLab does)."""
    running = shell()
    parent: dict[str, Any] = getattr(running, "get_parent", dict)() or {}
    found = parent.get("metadata", {}).get("cellId")
    return found if isinstance(found, str) and found else None


def on_main_thread() -> bool:
    """Whether this is the thread where cells run and signals arrive."""
    return threading.current_thread() is threading.main_thread()


def in_cell() -> bool:
    """Whether the present code is part of a running cell itself, awaited or called by it.

    Not so in a task of its own (`asyncio.gather`), where a KeyboardInterrupt is caught by
    nobody: it ends the kernel's loop.
    """
    frame = sys._getframe() if in_kernel() and on_main_thread() else None
    while frame is not None:
        code = frame.f_code
        if code.co_name == "run_code" and "IPython" in code.co_filename:
            return True
        frame = frame.f_back
    return False


def can_ask() -> bool:
    """Whether somebody can answer `input()`. Ask once a run: it is the run's answer.

    Under nbclient, `nbconvert --execute` and nbval nobody can; a terminal can.
    """
    running = shell()
    kernel = getattr(running, "kernel", None)
    if kernel is not None:
        # Private, but the same from ipykernel 6.29 to 7.4, and a kernel test holds it.
        return bool(getattr(kernel, "_allow_stdin", False))
    return sys.stdin is not None and sys.stdin.isatty()


def ask_by_input(request: ApprovalRequest) -> Decision:
    """Ask with `input()`, on the main thread. No answer is a no; words after `n` are the reason."""
    print(describe(request))
    name = request.tool.name
    for _ in range(3):
        try:
            given = input(f"Run it? [y]es, [n]o, [a]lways {name} in this session: ").strip()
        except EOFError:
            return Decision(False, "user", "Nobody answered the question whether this may run.")
        word, _, rest = given.partition(" ")
        match word.lower().rstrip(",.:;"):
            case "y" | "yes":
                return Decision(True, "user")
            case "a" | "always":
                return Decision(True, "user", for_session=True)
            case "n" | "no":
                return Decision(False, "user", f"The user said no: {rest}" if rest else NO)
            case "":
                return Decision(False, "user", NO)
        print("Please answer y, n or a. Words after n are passed on to the model.")
    return Decision(False, "user", NO)


def ask_to_compact(plan: Plan) -> bool:
    """Ask with `input()`, on the main thread, whether a context that fills is compacted now.
    No answer is a no."""
    low, high = plan.tokens_after
    after = f"≈{low:,}" if low == high else f"≈{low:,} to {high:,}"
    print(
        f"The context fills: ≈{plan.tokens_before:,} tokens in a window of "
        f"{plan.budget.window:,}. A compaction takes {count(len(plan.gone), 'message')} out of "
        f"it, and leaves {after} tokens. `%compact --undo` takes it back."
    )
    for _ in range(3):
        try:
            given = input("Compact it? [y]es, [n]o: ").strip().lower()
        except EOFError:
            return False
        if given in ("y", "yes"):
            return True
        if given in ("", "n", "no"):
            return False
        print("Please answer y or n.")
    return False


def describe(request: ApprovalRequest) -> str:
    """What a call would do, for the person who decides: all of it, and exactly.

    Nothing is cut, and what a terminal would obey or hide is spelled out: a decision about
    other words than those that run would be none.
    """
    arguments = request.arguments
    main = arguments.get("command") or arguments.get("path")
    lines = [f"{request.tool.name} wants to run."]
    if isinstance(main, str):
        lines = [f"{request.tool.name}: {_exactly(main)}"]
    for name, value in arguments.items():
        if value is not main:
            said = value if isinstance(value, str) else dumps(value)
            lines.append(f"  {visible(name)} = {_exactly(said)}")
    return "\n".join(lines)


def _exactly(text: str) -> str:
    """The text with its line ends, everything else that cannot be seen spelled out."""
    return "\n  ".join(map(visible, text.split("\n")))


class AwaitedCells:
    """Rewrites top-level `%%agent` cells, and only those, to an awaited call."""

    def __init__(self, ip: Any) -> None:
        self._ip = ip
        self._depth = 0

    def install(self) -> None:
        self._ip.input_transformers_post.append(self.transform)
        self._ip.events.register("pre_run_cell", self._enter)
        self._ip.events.register("post_run_cell", self._leave)

    def uninstall(self) -> None:
        if self.transform in self._ip.input_transformers_post:
            self._ip.input_transformers_post.remove(self.transform)
        for event, callback in (("pre_run_cell", self._enter), ("post_run_cell", self._leave)):
            if callback in self._ip.events.callbacks[event]:
                self._ip.events.unregister(event, callback)

    def _enter(self, _info: Any = None) -> None:
        self._depth += 1

    def _leave(self, _result: Any = None) -> None:
        # The cell that loaded the extension ends without having begun here.
        self._depth = max(self._depth - 1, 0)

    def transform(self, lines: list[str]) -> list[str]:
        """IPython has already made one canonical line of a cell magic when this is asked."""
        prefix = f"get_ipython().run_cell_magic({MAGIC!r}, "
        if not lines or not lines[0].startswith(prefix):
            return lines
        if lines[0].rstrip().endswith(", '')"):
            # IPython refuses a cell magic without a body in words of its own; `-h` has none.
            lines = [lines[0].rstrip().removesuffix("'')") + "'\\n')\n", *lines[1:]]
        if self._depth or not self._awaits():
            return lines
        return ["await " + lines[0].replace(repr(MAGIC), repr(AWAITED), 1), *lines[1:]]

    def _awaits(self) -> bool:
        from IPython.core.async_helpers import _asyncio_runner

        ip = self._ip
        runs = getattr(ip, "loop_runner", None) is _asyncio_runner
        return bool(ip.autoawait) and runs and getattr(ip, "kernel", None) is not None
