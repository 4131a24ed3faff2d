"""What a file system says when it refuses, in the contract's words.

One table for every backend that speaks in `errno`, so that a model and a test read the same
refusal whether the file is on a disk or in memory.
"""

from __future__ import annotations

import errno

from .types import FileError, FileErrorCode

_CODES: dict[int, tuple[FileErrorCode, str]] = {
    errno.ENOENT: ("not_found", "No such file or directory"),
    errno.EACCES: ("permission_denied", "Permission denied"),
    errno.EPERM: ("permission_denied", "Operation not permitted"),
    errno.EROFS: ("permission_denied", "The file system is read-only"),
    errno.ENOTDIR: ("not_directory", "A part of the path is a file, not a directory"),
    errno.EEXIST: ("not_directory", "Is a file, not a directory"),
    errno.EISDIR: ("is_directory", "Is a directory"),
    errno.ENAMETOOLONG: ("invalid", "The name is too long"),
    errno.ELOOP: ("invalid", "Too many symbolic links, perhaps in a circle"),
    errno.EINVAL: ("invalid", "The system does not take this path"),
    errno.ENOTSUP: ("not_supported", "Not a regular file"),
    errno.ECANCELED: ("aborted", "Aborted"),
}


def refusal(error: Exception, path: str) -> FileError:
    """What went wrong with the file at the absolute `path`, as a value."""
    if isinstance(error, OSError):
        fallback: tuple[FileErrorCode, str] = ("unknown", error.strerror or str(error))
        code, message = _CODES.get(error.errno or 0, fallback)
        return FileError(code, message, path)
    if isinstance(error, OverflowError):
        return FileError("invalid", "offset and limit must be 0 or more, and not too large", path)
    if isinstance(error, ValueError):
        return FileError("invalid", "A path cannot hold NUL or half a character", path)
    # Out of memory, of threads or of stack: nothing is wrong with the path.
    return FileError("unknown", f"The system could not do it: {error!r}", path)
