"""A session made of another one: a branch of it, or all of it, in a file of its own."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType

from pi_nb.ids import now_ms, uuid7
from pi_nb.messages import UserMessage, text_of
from pi_nb.result import PiError

from .codec import Format
from .convert import copy_session
from .entries import MessageEntry
from .records import Header
from .repo import SessionRepo
from .session import Session


@dataclass(frozen=True, slots=True)
class Fork:
    """A new session, open. `text` is the user message it stops before, to be edited."""

    session: Session
    text: str = ""


async def fork_session(
    session: Session,
    leaf_id: str | None,
    *,
    before: bool = False,
    format: Format | None = None,
    cwd: str | os.PathLike[str] | None = None,
    repo: SessionRepo | None = None,
    name: str | None = None,
) -> Fork:
    """Write the branch up to an entry into a new session of the same folder.

    Entries keep their ids and times, so that what refers to another entry of the branch
    still finds it; labels come along, records and other branches do not. The new session
    names the old one as its parent. Its file is there whole or not at all.

    Args:
        leaf_id: The last entry taken over; None takes none.
        before: Stop before that entry instead; the text of a user message comes back.
        format: None is that of the session.
        cwd: Where its agent works, and among whose sessions it is; None is the session's.
        name: For the new session; None takes the old one's.

    Raises:
        PiError: `invalid_argument`, there is no such entry; `session`, the disk refused.
    """
    text = ""
    if before:
        if leaf_id is None:
            raise PiError("invalid_argument", "there is nothing before the first entry")
        entry = session.entry(leaf_id)
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
            text = text_of(entry.message.content)
        leaf_id = session.parent_id(leaf_id)
    made = await asyncio.to_thread(_copied, session, leaf_id, format, cwd, repo, name)
    return Fork(made, text)


async def clone_session(
    session: Session,
    *,
    format: Format | None = None,
    cwd: str | os.PathLike[str] | None = None,
    repo: SessionRepo | None = None,
    name: str | None = None,
) -> Session:
    """Write the whole tree, with its records, into a new session of the same folder.

    As `fork_session` otherwise; in another format lanes become branches.
    """
    return await asyncio.to_thread(_copied, session, ..., format, cwd, repo, name)


def _copied(
    session: Session,
    leaf_id: str | EllipsisType | None,
    format: Format | None,
    cwd: str | os.PathLike[str] | None,
    repo: SessionRepo | None,
    name: str | None,
) -> Session:
    folder = session.cwd if cwd is None else str(Path(cwd).expanduser().resolve())
    header = Header(id=uuid7(), created_at=now_ms(), cwd=folder)
    # v4 names where it came from by id, v3 by path, which a session in memory has not.
    if (format or session.format) == "v4":
        header = header.having(parent_session_id=session.id)
    elif session.path is not None:
        header = header.having(legacy_parent_session_path=str(session.path))
    path = (repo or SessionRepo()).place(folder, header.id, header.created_at)
    copy_session(
        session,
        path,
        format=format,
        leaf_id=leaf_id,
        header=header,
        name=name,
        as_it_stands=True,
    )
    return Session.open(path)
