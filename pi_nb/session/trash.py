"""Where a deleted session goes: to the system's trash, else to a folder of the repo.

What is moved is the session file and what a repair once set aside from it. A lock file
and an owner's name say nothing any more, and simply go.
"""

from __future__ import annotations

import os
from pathlib import Path

from pi_nb.result import PiError

from .lock import SessionLock

FOLDER = ".trash"
"""Below the repo's root, where the system has no trash or refuses."""


def discard(path: Path, root: Path) -> None:
    """Delete a session file that nobody has open.

    Args:
        root: The repo's folder, for `FOLDER`.

    Raises:
        PiError: `session`: it is open (its owner is named), or the disk refused.
    """
    lock = SessionLock(path)
    try:
        for file in [path, *_set_aside(path)]:
            _to_trash(file, root)
    finally:
        lock.release()
    for suffix in (".lock", ".owner.json"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _set_aside(path: Path) -> list[Path]:
    """The files beside a session that hold bytes of its past: torn ends, older versions."""
    before = (f"{path.name}.torn-", f"{path.name}.v")
    return sorted(file for file in path.parent.iterdir() if file.name.startswith(before))


def _to_trash(file: Path, root: Path) -> None:
    # On a desktop this loads the desktop's own library, which takes its time.
    from send2trash import send2trash  # type: ignore[import-untyped]

    try:
        send2trash(file)
        return
    except OSError:
        pass  # no trash on this disk, or none that we may use
    try:
        folder = root / FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.rename(file, _free(folder / file.name))
    except OSError as error:
        raise PiError("session", f"{file} cannot be deleted: {error.strerror}") from None


def _free(path: Path) -> Path:
    """The path, or the first one with a number behind it that is not taken."""
    number = 1
    free = path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.stem} {number}{path.suffix}")
    return free
