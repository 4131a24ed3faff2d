"""A session in a new file, in its own format or in the other one.

What the formats keep in different places changes its place, and nothing is lost on the way
there and back but the names of lanes: v3 has one, and there the others become branches.

    v4                               v3
    label and name lines             entries, after the last one
    records                          our `custom` entries, which pi passes over
    lane moves                       one leaf move, where the last entry is not the leaf
    usage record without an entry    `usage` entry
    custom `pi.<type>`               an entry of a type that v4 does not have
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import EllipsisType

from .codec import Format, Stored
from .entries import Entry
from .jsonl import write_whole
from .reader import SessionReader
from .records import Header, LabelFact, LaneMove, NameFact, Record
from .to_v3 import ToV3
from .to_v4 import ToV4
from .translate import AsItStands

Item = Stored | AsItStands


def copy_session(
    session: SessionReader,
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    leaf_id: str | EllipsisType | None = ...,
    header: Header | None = None,
    name: str | None = None,
    as_it_stands: bool = False,
) -> Path:
    """Write a session, as it is now, to a new file; it may be open read-only.

    The whole tree comes along with its records, or the branch up to `leaf_id` without them;
    labels, name and leaf either way. Entries keep their ids and times.

    Args:
        format: None is the session's own.
        leaf_id: The last entry of the branch; None is an empty one.
        header: For the copy; None is the session's own, so that it is the same session.
        name: Instead of the session's.
        as_it_stands: Lines that can stay as they are need not be read, which is much quicker.
            Not for a reader that shows something else than its file holds.

    Returns:
        The file's resolved path.

    Raises:
        PiError: `invalid_argument`: no such entry; `session`: something is there already,
            the disk refused, or an entry does not fit the format. Nothing is left behind.
    """
    file = Path(path).expanduser().resolve()
    form = format or session.format
    # What v1 and v2 hold is v3 only after it was read.
    same = as_it_stands and form == session.format and session.version >= 3
    write_copy(
        file,
        header or session.header,
        stored_items(session, leaf_id, name=name, as_it_stands=same),
        format=form,
        records=isinstance(leaf_id, EllipsisType),
    )
    return file


def stored_items(
    session: SessionReader,
    leaf_id: str | EllipsisType | None = ...,
    *,
    name: str | None = None,
    as_it_stands: bool = False,
) -> Iterator[Item]:
    """What a copy of a session holds, one by one: every parent before its children, records
    between the entries as they were written, then name, labels and leaves as they are now.

    Arguments are those of `copy_session`; `as_it_stands` is for the session's own format.
    """
    lanes, labels = session.lanes, session.labels
    lane: str | None = "main"
    ids: Iterable[str | Record]
    if isinstance(leaf_id, EllipsisType):
        ids, taken = _parents_first(session), None
        if session.format == "v4":
            lane = None
    else:
        # Whatever lane an entry was written in, the copy has one branch and one lane.
        ids = session.branch_ids(leaf_id)
        lanes, taken = {"main": leaf_id}, frozenset(ids)
    for item in ids:
        if isinstance(item, Record):
            yield item
        elif as_it_stands:
            read = partial(_entry, session, item, lane)
            yield AsItStands(session.line(item), lane, read)
        else:
            yield _entry(session, item, lane)
    if (now := name or session.name) is not None:
        yield NameFact(name=now)
    for target, label in labels.items():
        if taken is None or target in taken:
            yield LabelFact(target_id=target, label=label)
    for one, leaf in lanes.items():
        yield LaneMove(lane=one, leaf_id=leaf)


def write_copy(
    path: Path,
    header: Header,
    items: Iterable[Item],
    *,
    format: Format,
    records: bool = True,
) -> None:
    """Write a session file from what its lines say: whole and synced once, or not at all.

    Args:
        items: In file order, each parent before its children; an entry without a lane is
            detached. It does not matter what they are of: v3's own entries may come for a
            v4 file; facts, records and lane moves for a v3 one.
        records: Take what stands in for records in a v3 tree along.

    Raises:
        PiError: `session`: something is there already, the disk refused, or an item does
            not fit the format. Nothing is left behind.
    """
    copy = (ToV3 if format == "v3" else ToV4)(header, records=records)
    write_whole(path, copy.lines(items))


def _parents_first(session: SessionReader) -> Iterator[str | Record]:
    """Entries and records in file order, but an entry that stands before its parent after it."""
    written: set[str | None] = {None}
    waiting: dict[str | None, list[str]] = {}
    for item in session.in_file_order():
        if isinstance(item, Record):
            yield item
            continue
        parent = session.parent_id(item)
        if parent not in written:
            waiting.setdefault(parent, []).append(item)
            continue
        ready = [item]
        while ready:
            entry_id = ready.pop()
            yield entry_id
            written.add(entry_id)
            ready += reversed(waiting.pop(entry_id, ()))


def _entry(session: SessionReader, entry_id: str, lane: str | None) -> Entry:
    """An entry in its lane here (None: its own), and under the parent that its session counts
    with: a file may name one that is not there."""
    entry = session.entry(entry_id)
    parent, lane = session.parent_id(entry_id), lane or entry.lane
    if (parent, lane) == (entry.parent_id, entry.lane):
        return entry
    return entry.having(parent_id=parent, lane=lane)
