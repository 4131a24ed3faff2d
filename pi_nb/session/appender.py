"""What can be added to a session. Everything is appended, nothing is edited.

An append is acknowledged after its line is on the disk, and only then does memory know of
it. What the caller gets back is what the log says, not what was handed in.

    append --> writer thread: parent, seq, id -> line -> checked -> written, synced
                              -> memory -> watchers -> the caller's await
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from pi_nb.ids import now_ms, uuid7
from pi_nb.js import trim
from pi_nb.messages import AgentMessage, Content, SystemMessage, Usage
from pi_nb.result import Err, PiError

from .codec import Codec, Stored
from .entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
    ThinkingLevelChangeEntry,
    why,
)
from .index import Index
from .jsonl import Log
from .reader import SessionReader
from .records import RECORD_TYPES, LabelFact, LaneMove, NameFact, Record
from .writer import Writer

S = TypeVar("S", bound=Stored | None)
E = TypeVar("E", bound=Entry)
Watcher = Callable[[Stored], None]

_log = logging.getLogger(__name__)


class SessionAppender(SessionReader):
    """The writing half of a `Session`.

    Writes are coroutines and may be awaited on any asyncio loop. A waiter that is cancelled
    leaves; the write is done all the same. Every write raises `PiError`:

    - `session`: the disk refused, or somebody else changed the file; nothing was written;
    - `invalid_argument`: an unknown entry or lane, an id that is taken, a body without a
      JSON form; nothing was written;
    - `invalid_state`: the session is closed or read-only.
    """

    def __init__(
        self, index: Index, log: Log, codec: Codec, path: Path | None, *, read_only: bool
    ) -> None:
        super().__init__(index, log, codec, path)
        self._read_only = read_only
        self._why_read_only = ""
        self._writer = Writer()
        self._watchers: dict[int, Watcher] = {}
        self.runs: dict[str, object] = {}
        """Lane to who runs on it now. Who begins a run looks here first: two at once would
        each go on from what the other is in the middle of."""

    @property
    def read_only(self) -> bool:
        return self._read_only

    def new_id(self) -> str:
        """An id that no entry has, in the form of the session's format."""
        with self._mutex:
            return self._codec.new_id(self._index)

    async def append(self, body: E, lane: str | None = "main") -> E:
        """Add an entry after the lane's leaf and make it the leaf; returns it as written.

        `body` needs no id, parent or timestamp: an id or a timestamp that it has is kept,
        its parent is the lane's leaf at the moment of writing. With `lane=None` the entry is
        detached: it follows its own `parent_id` and moves no leaf.
        """
        return await self._write(partial(self._entry, body, lane))

    def append_sync(self, body: E, lane: str | None = "main") -> E:
        """As `append`, blocking; for code without a loop. Not from a watcher."""
        return self._write_sync(partial(self._entry, body, lane))

    async def append_message(
        self,
        message: AgentMessage,
        *,
        lane: str = "main",
        terminate: bool | None = None,
        id: str = "",
    ) -> MessageEntry:
        given = _given({"terminate": terminate})
        return await self.append(MessageEntry(message=message, id=id, **given), lane)

    async def append_model_change(
        self, provider: str, model_id: str, *, lane: str = "main"
    ) -> ModelChangeEntry:
        return await self.append(ModelChangeEntry(provider=provider, model_id=model_id), lane)

    async def append_thinking_level_change(
        self, level: str, *, lane: str = "main"
    ) -> ThinkingLevelChangeEntry:
        return await self.append(ThinkingLevelChangeEntry(thinking_level=level), lane)

    async def append_active_tools_change(
        self, names: Sequence[str], *, lane: str = "main"
    ) -> ActiveToolsChangeEntry:
        return await self.append(ActiveToolsChangeEntry(active_tool_names=tuple(names)), lane)

    async def append_custom(
        self, custom_type: str, data: Any = None, *, lane: str = "main"
    ) -> CustomEntry:
        """Data for an extension; the model never sees it."""
        given = _given({"data": data})
        return await self.append(CustomEntry(custom_type=custom_type, **given), lane)

    async def append_custom_message(
        self,
        custom_type: str,
        content: Content,
        *,
        display: bool = True,
        details: Any = None,
        lane: str = "main",
    ) -> CustomMessageEntry:
        """Something an extension says to the model."""
        given = _given({"details": details})
        entry = CustomMessageEntry(
            custom_type=custom_type, content=content, display=display, **given
        )
        return await self.append(entry, lane)

    async def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str | None,
        tokens_before: int,
        *,
        details: Any = None,
        usage: Usage | None = None,
        from_hook: bool | None = None,
        id: str = "",
        lane: str = "main",
    ) -> CompactionEntry:
        """A summary in the place of what lies before the kept entry; None keeps nothing."""
        own = id or self._codec.new_id(self._index)
        given = _given({"details": details, "usage": usage, "from_hook": from_hook})
        entry = CompactionEntry(
            id=own,
            summary=summary,
            first_kept_entry_id=own if first_kept_entry_id is None else first_kept_entry_id,
            tokens_before=tokens_before,
            **given,
        )
        return await self.append(entry, lane)

    async def append_branch_summary(
        self,
        summary: str,
        from_id: str | None,
        *,
        details: Any = None,
        usage: Usage | None = None,
        from_hook: bool | None = None,
        id: str = "",
        lane: str = "main",
    ) -> BranchSummaryEntry:
        """What happened on the branch whose leaf was `from_id`."""
        given = _given({"details": details, "usage": usage, "from_hook": from_hook})
        entry = BranchSummaryEntry(id=id, summary=summary, from_id=from_id, **given)
        return await self.append(entry, lane)

    async def append_context_edit(
        self, target_id: str, content: Content | Sequence[Any] | None, *, lane: str = "main"
    ) -> ContextEditEntry:
        """Show the model other content for an entry, or None of it; the log keeps the old.

        In a v3 session commands and summaries cannot be given other content: pi would not
        show it.
        """
        self._known(target_id)
        if content is not None:
            self.check_replaceable(target_id)
        replacement = None if content is None else Replacement(content=content)
        return await self.append(
            ContextEditEntry(target_id=target_id, replacement=replacement), lane
        )

    def check_replaceable(self, target_id: str) -> None:
        """Raises:
        PiError: `invalid_argument`, the session's format cannot show other content for it.
        """
        self._known(target_id)
        if self._codec.one_lane and not self._editable(target_id):
            text = "pi shows no other content for a command or a summary; leave it out instead"
            raise PiError("invalid_argument", text)

    async def move(self, leaf_id: str | None, lane: str = "main") -> None:
        """Set a lane's leaf; the next entry follows it. To where it is: writes nothing."""
        await self._write(partial(self._move, leaf_id, lane))

    def move_sync(self, leaf_id: str | None, lane: str = "main") -> None:
        """As `move`, blocking."""
        self._write_sync(partial(self._move, leaf_id, lane))

    async def add_lane(self, name: str, leaf_id: str | None) -> None:
        """Begin a lane at an entry, or before every root."""
        await self._write(partial(self._new_lane, name, leaf_id))

    async def set_name(self, name: str | None) -> None:
        """Name the session; None or blank takes the name away."""
        await self._write(partial(_name, name))

    def set_name_sync(self, name: str | None) -> None:
        """As `set_name`, blocking."""
        self._write_sync(partial(_name, name))

    async def set_label(self, target_id: str, label: str | None) -> None:
        """Label an entry; None or blank takes the label away."""
        self._known(target_id)
        await self._write(partial(_label, target_id, label))

    def set_label_sync(self, target_id: str, label: str | None) -> None:
        """As `set_label`, blocking."""
        self._known(target_id)
        self._write_sync(partial(_label, target_id, label))

    async def record(self, type: str, *, lane: str = "main", **fields: Any) -> Record:
        """Write down how the harness got where it is; `fields` are those of the record's class.

        The record has an id of its own, unless `id` is given.
        """
        if type not in RECORD_TYPES:
            raise PiError("invalid_argument", f"there is no record of type {type!r}")
        try:
            body = RECORD_TYPES[type].model_validate({**fields, "lane": lane})
        except ValidationError as error:
            raise PiError("invalid_argument", f"record {type}: {why(error)}") from None
        return await self._write(
            lambda: body.having(id=body.id or uuid7(), timestamp=body.timestamp or now_ms())
        )

    def watch(self, callback: Watcher) -> Callable[[], None]:
        """Be told of each line after it is on the disk and memory knows it.

        The callback runs on the writer thread and holds up the next write: hand over and
        return. What it raises is logged.

        Returns:
            A function that takes the callback back.
        """
        with self._mutex:
            key = max(self._watchers, default=0) + 1
            self._watchers[key] = callback
        return lambda: self._unwatch(key, callback)

    def _unwatch(self, key: int, callback: Watcher) -> None:
        with self._mutex:
            if self._watchers.get(key) is callback:
                del self._watchers[key]

    # --- on the writer thread ---------------------------------------------------------------

    def _entry(self, body: E, lane: str | None) -> E:
        if lane is None and self._codec.one_lane:
            raise PiError("invalid_argument", "a v3 session has one lane; nothing is detached")
        parent = body.parent_id if lane is None else self.leaf(lane)
        return body.having(
            **self._restated(body, lane),
            id=body.id or self._codec.new_id(self._index),
            parent_id=parent,
            timestamp=body.timestamp or now_ms(),
            lane=lane,
        )

    def _restated(self, body: Entry, lane: str | None) -> dict[str, SystemMessage]:
        """What a compaction in a file of pi's has to say of prompt and tools: pi looks no
        further back for them, and would go on without any."""
        if self.format != "v3" or lane is None or not isinstance(body, CompactionEntry):
            return {}
        if body.system_message is not None:
            return {}
        state = self.declared(lane)
        return {"system_message": state.as_message(now_ms())} if state else {}

    def _editable(self, target_id: str) -> bool:
        role = self._index.role_of(target_id)
        shown = self._index.type_of(target_id) == "custom_message"
        return shown or role in ("user", "assistant", "toolResult")

    def _move(self, leaf_id: str | None, lane: str) -> LaneMove | None:
        if self.anchor(self.leaf(lane)) == self.anchor(self._known(leaf_id)):
            return None
        return LaneMove(lane=lane, leaf_id=leaf_id)

    def _new_lane(self, name: str, leaf_id: str | None) -> LaneMove:
        if self._codec.one_lane:
            text = (
                "a v3 session has one lane; session.export(..., format='v4') makes one with lanes"
            )
            raise PiError("invalid_argument", text)
        if not name or name in self.lanes:
            raise PiError("invalid_argument", f"the lane {name!r} is there already")
        return LaneMove(lane=name, leaf_id=self._known(leaf_id))

    def _commit(self, make: Callable[[], S]) -> S:
        """Write what `make` gives under the state of this moment; None: nothing to write."""
        value = make()
        if value is None:
            return value
        try:
            line = self._codec.encode(value, self._index)
            stored = self._codec.read(line)
        except (TypeError, ValueError, RecursionError) as error:
            raise PiError("invalid_argument", f"cannot be written: {why(error)}") from None
        checked = self._codec.check(line, self._index)
        if isinstance(checked, Err):
            raise PiError("invalid_argument", f"cannot be written: {checked.error}")
        self._ready()
        place = self._log.append(line)
        self._take(checked.value, stored, place)
        self._tell(stored)
        return stored  # type: ignore[return-value]  # a line is read as the class it was made of

    def _ready(self) -> None:
        """Make the log fit for an append, before the first one."""

    def _tell(self, stored: Stored) -> None:
        with self._mutex:
            watchers = list(self._watchers.values())
        for watcher in watchers:
            try:
                watcher(stored)
            except Exception:
                _log.exception("a watcher of session %s failed", self.id)

    async def _write(self, make: Callable[[], S]) -> S:
        self._writable()
        return await self._writer.do(lambda: self._commit(make))

    def _write_sync(self, make: Callable[[], S]) -> S:
        self._writable()
        return self._writer.run(lambda: self._commit(make))

    def _writable(self) -> None:
        if self._read_only:
            because = f": {self._why_read_only}" if self._why_read_only else ""
            raise PiError("invalid_state", f"{self.path} is open read-only{because}")


def _name(name: str | None) -> NameFact:
    return NameFact(**_given({"name": trim(name or "") or None}))


def _label(target_id: str, label: str | None) -> LabelFact:
    return LabelFact(target_id=target_id, **_given({"label": (label or "").strip() or None}))


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that were given, so that those that were not are not written."""
    return {name: value for name, value in fields.items() if value is not None}
