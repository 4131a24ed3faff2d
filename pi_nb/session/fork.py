"""A session made from one branch of another: the same entries in a file of their own."""

from __future__ import annotations

from .repo import SessionRepo
from .session import Session


async def fork_session(
    session: Session,
    leaf_id: str | None,
    *,
    repo: SessionRepo | None = None,
    name: str | None = None,
) -> Session:
    """Write the branch up to an entry into a new session of the same folder.

    Entries keep their ids and times, so that what refers to another entry of the branch
    still finds it; labels come along, records and other branches do not. The new session
    names the old one as its parent. A crash on the way leaves a session of fewer entries.

    Args:
        leaf_id: The last entry taken over; None takes none.
        name: For the new session; None takes the old one's.

    Raises:
        PiError: `invalid_argument`, there is no such entry; `session`, the disk refused.
    """
    branch = session.branch(leaf_id)
    labels = session.labels
    made = (repo or SessionRepo()).create(
        session.cwd, name or session.name, parent_session_id=session.id
    )
    try:
        for entry in branch:
            await made.append(entry)
            if label := labels.get(entry.id):
                await made.set_label(entry.id, label)
    except BaseException:
        made.close()
        raise
    return made
