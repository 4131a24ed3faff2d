"""What tools did to files, branch by branch, and bringing files back when the leaf moves.

Files do not branch with the tree. A result of `write` or `edit` says which file it changed;
with checkpoints the harness also keeps the file's content before and after, by its hash, in
a folder beside the session. Moving the leaf can then undo what was done on the branch that
is left and do again what was done on the other.

    a ── e1(x: 1→2) ── e2(x: 2→3)       leaf at e2, x is 3
     └── f1(x: 1→9)                     to f1: x goes 3→2→1→9
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.types import AgentTool, ToolResult
from pi_nb.messages import ToolCall, ToolResultMessage
from pi_nb.result import Err, Ok
from pi_nb.session.entries import MessageEntry
from pi_nb.session.session import Session

LARGEST = 20 * 1024 * 1024
"""Bytes of a file of which a copy is kept at most."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One file that a call changed. `before` and `after` are hashes where copies were kept;
    `before` None: it was not there."""

    path: str
    before: str | None = None
    after: str | None = None
    kept: bool = False


class Checkpoints:
    """The kept copies of one session's files, in `<session file>.files`, or in memory."""

    def __init__(self, session: Session, env: ExecutionEnv) -> None:
        self._env = env
        self._folder = None if session.path is None else Path(f"{session.path}.files")
        self._memory: dict[str, bytes] = {}
        self._before: dict[str, tuple[str, str | None] | None] = {}

    async def before(self, call: ToolCall, tool: AgentTool, arguments: Mapping[str, Any]) -> None:
        """A call is about to run: keep the file that it names, where it changes one."""
        path = arguments.get("path")
        if not tool.changes or not isinstance(path, str):
            return
        self._before[call.id] = await self._kept(path)

    async def after(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """It ran: keep what the file is now, and note both on the result."""
        before = self._before.pop(call.id, None)
        if before is None or result.is_error:
            return result
        path, old = before
        now = await self._kept(path)
        if now is None:
            return result
        details = result.details if isinstance(result.details, dict) else {}
        noted = {"path": path, "before": old, "after": now[1]}
        return result.having(details={**details, "checkpoint": noted})

    async def put(self, path: str, digest: str | None) -> str | None:
        """Make a file what it was; None as digest removes it. Returns why not, or None."""
        if digest is None:
            removed = await self._env.remove(path)
            gone = isinstance(removed, Ok) or removed.error.code == "not_found"
            return None if gone else str(removed.error)  # type: ignore[union-attr]
        data = self._load(digest)
        if data is None:
            return f"the kept copy of {path} is gone"
        written = await self._env.write_bytes(path, data)
        return str(written.error) if isinstance(written, Err) else None

    async def _kept(self, path: str) -> tuple[str, str | None] | None:
        """The file's full path and the hash of its kept copy; None: no copy can be kept."""
        full = self._env.resolve(path)
        info = await self._env.info(full)
        if isinstance(info, Err):
            return (full, None) if info.error.code == "not_found" else None
        if info.value.kind != "file" or info.value.size > LARGEST:
            return None
        data = await self._env.read_bytes(full)
        return None if isinstance(data, Err) else (full, self._save(data.value))

    def _save(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        if self._folder is None:
            self._memory[digest] = data
            return digest
        self._folder.mkdir(mode=0o700, exist_ok=True)
        target = self._folder / digest
        if not target.exists():
            part = self._folder / f"{digest}.{os.getpid()}.part"
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
                f.write(data)
            part.replace(target)
        return digest

    def _load(self, digest: str) -> bytes | None:
        if self._folder is None:
            return self._memory.get(digest)
        try:
            data = (self._folder / digest).read_bytes()
        except (OSError, ValueError):
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None


def changes(session: Session, entry_id: str | None, until: str | None) -> Iterator[Changed]:
    """What calls changed from an entry back to an ancestor of it, the newest first."""
    while entry_id is not None and entry_id != until:
        entry = session.entry(entry_id)
        message = entry.message if isinstance(entry, MessageEntry) else None
        if isinstance(message, ToolResultMessage) and isinstance(message.details, dict):
            noted = message.details.get("checkpoint")
            path = message.details.get("path")
            if isinstance(noted, dict) and isinstance(noted.get("path"), str):
                yield Changed(noted["path"], noted.get("before"), noted.get("after"), kept=True)
            elif isinstance(path, str) and not message.is_error:
                yield Changed(path)
        entry_id = session.parent_id(entry_id)


async def bring_back(
    session: Session, checkpoints: Checkpoints, left: str | None, reached: str | None
) -> list[str]:
    """Make the files what they were where the leaf now is; returns what could not be done.

    Only what was kept is touched: what a shell command or somebody else did to a file since
    is overwritten where a kept copy says what the file was, and else not seen.
    """
    common = None if left is None or reached is None else session.common_ancestor(left, reached)
    target: dict[str, str | None] = {}
    for change in changes(session, left, common):
        if change.kept:
            target[change.path] = change.before
    for change in reversed(list(changes(session, reached, common))):
        if change.kept:
            target[change.path] = change.after
    failures = []
    for path, digest in target.items():
        if (why := await checkpoints.put(path, digest)) is not None:
            failures.append(f"{path}: {why}")
    return failures
