"""What can be asked of a session. Nothing here writes, and any thread may ask.

Bodies are parsed from the log when they are asked for; what a lane shows a model is kept
and grows with the lane, so that a turn does not cost the length of its branch.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType

from pi_nb.result import PiError

from .codec import Codec, Format, Stored
from .context import ContextFold, SessionContext, Step, project
from .declared import Declared, declared
from .entries import Entry, why
from .filters import checked
from .finding import Needle
from .index import Diagnostic, Index, Place
from .jsonl import Log
from .outline import LIMIT, Outline
from .outlining import Wish, make_outline, shape_of
from .records import Header, LaneMove, Record

_NUMBER = re.compile(r"#?[1-9]\d{0,8}")
SHORTEST_PART = 4
"""Characters of an id that name an entry, where they are its beginning or its end alone."""


class SessionReader:
    """The reading half of a `Session`."""

    def __init__(self, index: Index, log: Log, codec: Codec, path: Path | None) -> None:
        self._version = index.header.version
        self._index = index
        self._log = log
        self._codec = codec
        self._path = path
        self._diagnostics: tuple[Diagnostic, ...] = ()
        self.missing: tuple[str, ...] = ()
        """Tools that the log has as active and that its harness does not offer any more."""
        # Held while the index changes and while it is looked at; never during a write.
        self._mutex = threading.RLock()
        self._folds: dict[str, ContextFold] = {}

    @property
    def path(self) -> Path | None:
        """The resolved path; None for a session in memory."""
        return self._path

    @property
    def format(self) -> Format:
        """`v4`, our own; `v3`, what pi writes, and what its v1 and v2 become."""
        return self._codec.format

    @property
    def version(self) -> int:
        """The version that the file has now, 1 to 4. A v1 or v2 file becomes v3 when something
        is appended; the old one is kept beside it."""
        return self._version

    @property
    def header(self) -> Header:
        return self._index.header

    @property
    def id(self) -> str:
        return self._index.header.id

    @property
    def cwd(self) -> str:
        """Where the agent works, as the header says; the folder may be gone."""
        return self._index.header.cwd

    @property
    def created_at(self) -> int:
        """Milliseconds since 1970."""
        return self._index.header.created_at

    @property
    def name(self) -> str | None:
        return self._index.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Entry id to label, as it is now. A v3 file may label what it does not hold."""
        with self._mutex:
            return MappingProxyType(dict(self._index.labels))

    @property
    def lanes(self) -> Mapping[str, str | None]:
        """Lane to leaf, as it is now; None stands before every root. `main` is always there."""
        with self._mutex:
            return MappingProxyType(dict(self._index.lanes))

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was odd about the file when it was opened, and what was done about it: a repair
        (`torn_tail`, `missing_newline`), or v3 made of v1 and v2 (`upgraded`)."""
        return self._diagnostics

    def __len__(self) -> int:
        """Entries in the whole tree."""
        return len(self._index.tree)

    def __bool__(self) -> bool:
        return True  # a session without entries is a session

    def __contains__(self, entry_id: object) -> bool:
        return entry_id in self._index.tree

    def leaf(self, lane: str = "main") -> str | None:
        """The entry that the lane's next one will follow; None: it will be a root.

        In v3 that may be an entry of our own bookkeeping; `anchor` gives what it stands under.

        Raises:
            PiError: `invalid_argument`: no such lane.
        """
        try:
            return self._index.lanes[lane]
        except KeyError:
            raise PiError("invalid_argument", f"there is no lane {lane!r}") from None

    def newest_leaf(self) -> str | None:
        """The newest message, which may lie on another branch than the leaf; None: no message.

        In v3 whatever comes last is the leaf, as pi has it: a stray entry of another program
        can put it onto an old branch (known fault S-07).
        """
        with self._mutex:
            return self._index.newest("message")

    def is_own(self, entry_id: str) -> bool:
        """Whether this is bookkeeping of ours that v3 holds in its tree; in v4 never."""
        return entry_id in self._index.own

    def anchor(self, entry_id: str | None) -> str | None:
        """The nearest entry, this one or above it, that is no bookkeeping of ours."""
        with self._mutex:
            while entry_id is not None and entry_id in self._index.own:
                entry_id = self._index.tree.parent(entry_id)
            return entry_id

    def tip(self, lane: str = "main") -> str | None:
        """The entry that the lane stands at: its leaf, or what that stands under where it is
        bookkeeping of ours."""
        with self._mutex:
            return self.anchor(self.leaf(lane))

    def declared(self, lane: str = "main") -> Declared:
        """Prompt and tools as the system messages of the lane's branch declare them."""
        with self._mutex:
            index = self._index
            steps = [Step(i, index.type_of(i), index.role_of(i)) for i in self.branch_ids(lane)]
        return declared(steps, self.entry)

    def entry(self, entry_id: str | int) -> Entry:
        """One entry with its body, by its id or by its number in the outline, from 1.

        Raises:
            PiError: `invalid_argument`: no such entry; `session`: its line does not fit.
        """
        if isinstance(entry_id, int):
            entry_id = self._numbered(entry_id)
        line = self.line(entry_id)
        try:
            return self._codec.entry(line, entry_id, self._index)
        except (ValueError, RecursionError) as error:
            raise self._misfit(f"line {self._index.line_of(entry_id)}", error) from None

    def line(self, entry_id: str) -> bytes:
        """An entry's line as the file holds it, newline included.

        Raises:
            PiError: `invalid_argument`: no such entry.
        """
        with self._mutex:
            self._known(entry_id)
            return self._log.read(self._index.place_of(entry_id))

    def entry_ids(self) -> list[str]:
        """The ids of all entries, in file order: the n-th has the number n."""
        with self._mutex:
            return list(self._index.tree)

    def entries(self) -> Iterator[Entry]:
        """Every entry that is there now, in file order, read one by one."""
        return map(self.entry, self.entry_ids())

    def in_file_order(self) -> Iterator[str | Record]:
        """The ids of the entries and the records that are there now, as their lines follow one
        another. In v3, where records stand in the tree, they come as entries."""
        with self._mutex:
            index = self._index
            lines: dict[int, str | Place] = {index.place_of(i).offset: i for i in index.tree}
            for place in index.records:
                lines.setdefault(place.offset, place)
        for offset in sorted(lines):
            line = lines[offset]
            yield from [line] if isinstance(line, str) else self._records([line])

    def records(self, since: int = 0) -> Iterator[Record]:
        """The records that are there now, in file order, read one by one.

        Args:
            since: Leave out so many of the first ones.
        """
        with self._mutex:
            places = list(self._index.records[since:])
        return self._records(places)

    def open_operations(self) -> list[Record]:
        """Operations that were started and not finished: a crash leaves them behind."""
        with self._mutex:
            places = list(self._index.open_operations.values())
        return list(self._records(places))

    def find(self, text: str | int) -> Entry:
        """The entry with this id, label or number, or whose id alone begins or ends so.

        A number (`3` or `#3`) is the entry's place in the file, as the outline shows it. Ids
        begin with the time, so those of one minute begin alike; their ends differ. Four
        characters of an id are needed.

        Raises:
            PiError: `invalid_argument`: none, or several.
        """
        text = str(text)
        with self._mutex:
            tree, labels = self._index.tree, self._index.labels
            found = [text] if text in tree else [id for id, said in labels.items() if said == text]
            if not found and _NUMBER.fullmatch(text):
                row = int(text.lstrip("#"))
                found = [id for id in [tree.id_at(row)] if id] if row <= len(tree) else []
            # Something short that is none of these is a mistake: some id always ends so.
            if not found and len(text) >= SHORTEST_PART:
                found = [id for id in tree if id.startswith(text) or id.endswith(text)]
        if len(found) == 1:
            return self.entry(found[0])
        what = f"{len(found)} entries fit" if found else "no entry has the id or label"
        raise PiError("invalid_argument", f"{what} {text!r}")

    def type_of(self, entry_id: str) -> str:
        """An entry's type, without reading its body."""
        with self._mutex:
            self._known(entry_id)
            return self._index.type_of(entry_id)

    def parent_id(self, entry_id: str) -> str | None:
        with self._mutex:
            self._known(entry_id)
            return self._index.tree.parent(entry_id)

    def child_ids(self, entry_id: str | None) -> list[str]:
        """What follows an entry, oldest first; the roots for None."""
        with self._mutex:
            return self._index.tree.children(self._known(entry_id))

    def children(self, entry_id: str | None) -> list[Entry]:
        """As `child_ids`, with bodies."""
        return [self.entry(child) for child in self.child_ids(entry_id)]

    def branch_ids(self, at: str | None = "main") -> list[str]:
        """The ids from the root to the leaf of a lane, or to an entry; none for None.

        Raises:
            PiError: `invalid_argument`: neither a lane nor an entry.
        """
        with self._mutex:
            leaf = self._index.lanes[at] if at in self._index.lanes else self._known(at)
            return self._index.tree.branch(leaf)

    def branch(self, at: str | None = "main") -> list[Entry]:
        """As `branch_ids`, with bodies; its cost is the length of the branch."""
        return [self.entry(entry_id) for entry_id in self.branch_ids(at)]

    def common_ancestor(self, one: str | None, other: str | None) -> str | None:
        """The deepest entry that both branches share; None where they share none."""
        with self._mutex:
            return self._index.tree.common_ancestor(self._known(one), self._known(other))

    def context(self, lane: str = "main") -> SessionContext:
        """What a model sees at the lane's leaf.

        It is built once, and again after the leaf moved or the past was compacted or edited;
        an ordinary append only adds to it.

        Raises:
            PiError: `invalid_argument`: no such lane; `session`: a body does not fit.
        """
        with self._mutex:
            self.leaf(lane)
            if lane not in self._folds:
                index = self._index
                steps = [Step(i, index.type_of(i), index.role_of(i)) for i in self.branch_ids(lane)]
                self._folds[lane] = project(steps, self.entry)
            return self._folds[lane].snapshot()

    def outline(
        self,
        lane: str = "main",
        *,
        filter: str = "default",
        find: str | None = None,
        ids: bool = False,
        fold: bool = False,
        limit: int | None = LIMIT,
    ) -> Outline:
        """The tree as text and as HTML: what the lane's branch is, what of it a model is sent.

        Args:
            filter: `default`, `no-tools`, `user-only`, `labelled` or `all`; what is below an
                entry that is left out attaches to the nearest one above.
            find: Only entries that hold this text, whatever its case, in anything they say,
                summaries and calls included, or in their label; and the branch points above.
            ids: Put the last eight digits of the id before each text; the first ones are the
                time, and alike.
            fold: Of branches that the lane is not on, the first row only.
            limit: Rows to draw at most, those that matter most; None draws all. The others
                are counted where they are left out.

        Raises:
            PiError: `invalid_argument`: no such lane or filter, nothing to look for, a limit
                below 1.
        """
        if limit is not None and limit < 1:
            raise PiError("invalid_argument", f"a limit is 1 or more, or None, not {limit}")
        needle = None if find is None else Needle(find)
        wish = Wish(lane, checked(filter), needle, ids, fold, limit)
        with self._mutex:
            self.leaf(lane)
            shape = shape_of(self._index)
        return make_outline(shape, wish, self.entry, self.line)

    def number(self, entry_id: str) -> int:
        """The place of an entry in the file, from 1: what an outline shows and `find` takes.

        Raises:
            PiError: `invalid_argument`: no such entry.
        """
        with self._mutex:
            return self._index.tree.row(self._known(entry_id))

    def _numbered(self, number: int) -> str:
        with self._mutex:
            tree = self._index.tree
            found = tree.id_at(number) if 0 < number <= len(tree) else None
        if found is None:
            there = f"they go from 1 to {len(tree):,}" if len(tree) else "there are none yet"
            raise PiError("invalid_argument", f"no entry has the number {number}; {there}")
        return found

    def _take(self, change: object, stored: Stored, place: Place) -> None:
        """Bring memory to where the log is, after a line was written."""
        with self._mutex:
            lane = stored.lane if isinstance(stored, LaneMove) else None
            before = self._index.lanes.get(lane) if lane else None
            self._codec.apply(change, place, self._index)
            if lane is not None:
                self._move_fold(lane, before)
            elif isinstance(stored, Entry) and (lane := self._codec.lane_of(stored)) is not None:
                fold = self._folds.get(lane)
                if fold is not None and not fold.add(stored):
                    del self._folds[lane]

    def _move_fold(self, lane: str, before: str | None) -> None:
        """Bring what a lane shows from one leaf to another; where that is not possible, it is
        projected when it is asked for."""
        fold = self._folds.pop(lane, None)
        if fold is None:
            return
        tree = self._index.tree
        after = self._index.lanes[lane]
        shared = tree.common_ancestor(before, after)
        left = list(takewhile(lambda step: step.id != shared, self._upwards(before)))
        reached = list(takewhile(lambda step: step.id != shared, self._upwards(after)))[::-1]
        moved = fold.moved(left, reached, self._upwards(after), self.entry)
        if moved is not None:
            self._folds[lane] = moved

    def _upwards(self, leaf: str | None) -> Iterator[Step]:
        """A branch from its leaf to its root."""
        index = self._index
        while leaf is not None:
            yield Step(leaf, index.type_of(leaf), index.role_of(leaf))
            leaf = index.tree.parent(leaf)

    def _known(self, entry_id: str | None) -> str | None:
        if entry_id is not None and entry_id not in self._index.tree:
            raise PiError("invalid_argument", f"there is no entry {entry_id!r}")
        return entry_id

    def _records(self, places: list[Place]) -> Iterator[Record]:
        for place in places:
            record = self._stored(place)
            assert isinstance(record, Record)
            yield record

    def _stored(self, place: Place) -> Stored:
        with self._mutex:  # `close` takes the file away under it
            line = self._log.read(place)
        try:
            return self._codec.read(line)
        except (ValueError, RecursionError) as error:
            raise self._misfit(f"byte {place.offset}", error) from None

    def _misfit(self, where: str, error: Exception) -> PiError:
        return PiError("session", f"{self._path}: {where}: {why(error)}")
