"""A real ipykernel, driven over its sockets as a front end drives it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

SETUP = """
%load_ext pi_nb
%colors NoColor
import os, sys, pi_nb
from pi_nb import ScriptedModel, call, reply
"""


@dataclass
class Cell:
    """What one execution sent: outputs with their updates applied, and how it ended."""

    status: str = ""
    ename: str = ""
    evalue: str = ""
    traceback: list[str] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    displays: dict[str, dict[str, str]] = field(default_factory=dict)
    result: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def markdown(self) -> str:
        return "\n".join(data.get("text/markdown", "") for data in self.displays.values())

    @property
    def text(self) -> str:
        return "\n".join(data.get("text/plain", "") for data in self.displays.values())


class LiveKernel:
    """A running kernel and one cell at a time in it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client
        self._message = ""
        self._began = 0.0
        self.cell = Cell()

    def start(self, code: str, *, allow_stdin: bool = False) -> None:
        self.cell = Cell()
        self._began = time.monotonic()
        self._message = self.client.execute(code, allow_stdin=allow_stdin)

    def until(self, seen: Callable[[Cell], bool], seconds: float = 20) -> Cell:
        """Read messages until the cell shows something."""
        deadline = time.monotonic() + seconds
        while not seen(self.cell):
            self._read(deadline)
            if self.cell.status and not seen(self.cell):
                raise AssertionError(f"the cell ended without it: {self.cell}")
        return self.cell

    def finish(self, seconds: float = 20) -> Cell:
        """Read messages until the kernel is idle again."""
        deadline = time.monotonic() + seconds
        while not self._read(deadline):
            pass
        reply = self.client.get_shell_msg(timeout=max(deadline - time.monotonic(), 0.1))
        while reply["parent_header"].get("msg_id") != self._message:
            reply = self.client.get_shell_msg(timeout=max(deadline - time.monotonic(), 0.1))
        content = reply["content"]
        self.cell.status = content["status"]
        self.cell.ename = content.get("ename", "")
        self.cell.evalue = content.get("evalue", "")
        self.cell.traceback = content.get("traceback", [])
        self.cell.seconds = time.monotonic() - self._began
        return self.cell

    def run(self, code: str, *, seconds: float = 20, allow_stdin: bool = False) -> Cell:
        self.start(code, allow_stdin=allow_stdin)
        return self.finish(seconds)

    def good(self, code: str) -> Cell:
        """Run a cell that must succeed."""
        cell = self.run(code)
        assert cell.ok, (cell.ename, cell.evalue, cell.traceback, cell.stderr)
        return cell

    def interrupt(self) -> float:
        """Press the stop button; returns when."""
        self.manager.interrupt_kernel()
        return time.monotonic()

    def answer(self, text: str, seconds: float = 10) -> str:
        """Wait for `input()` and answer it; returns its prompt."""
        request = self.client.get_stdin_msg(timeout=seconds)
        self.client.input(text)
        return str(request["content"]["prompt"])

    def _read(self, deadline: float) -> bool:
        """One message; True when it says that the cell is over."""
        left = deadline - time.monotonic()
        try:
            message = self.client.get_iopub_msg(timeout=max(left, 0.01))
        except Empty:
            raise AssertionError(f"nothing more came in time: {self.cell}") from None
        if message["parent_header"].get("msg_id") != self._message:
            return False
        content, cell = message["content"], self.cell
        match message["msg_type"]:
            case "stream":
                if content["name"] == "stdout":
                    cell.stdout += content["text"]
                else:
                    cell.stderr += content["text"]
            case "display_data" | "update_display_data":
                key = content.get("transient", {}).get("display_id") or str(len(cell.displays))
                cell.displays[key] = content["data"]
            case "execute_result":
                cell.result = content["data"].get("text/plain", "")
            case "status":
                return bool(content["execution_state"] == "idle")
        return False


@pytest.fixture(scope="module")
def kernel_process() -> Iterator[LiveKernel]:
    manager, client = start_new_kernel(kernel_name="python3")
    kernel = LiveKernel(manager, client)
    yield kernel
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(kernel_process: LiveKernel, tmp_path: Path) -> LiveKernel:
    """The module's kernel in an empty folder, the extension loaded, no agent yet."""
    kernel_process.good(
        SETUP + f"\nos.chdir({str(tmp_path)!r})\nos.environ['PI_NB_SESSION_DIR'] = "
        f"{str(tmp_path / 'sessions')!r}\nfrom pi_nb.notebook import current as _c\n"
        "while _c.current(): _c.current().close()\nglobals().pop('agent', None);"
    )
    return kernel_process


def messages(folder: Path) -> list[dict[str, Any]]:
    """The messages of the one session below a folder, as they are on the disk."""
    import json

    (file,) = folder.rglob("*.jsonl")
    lines = [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
    return [line["message"] for line in lines if line.get("type") == "message"]
