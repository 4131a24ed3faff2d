"""Finding a file whose name a model cannot type.

Systems write names with a narrow no-break space before "PM", with a curly apostrophe or
with accents as characters of their own. A model reads such a name in a listing and sends
back the plain form (known fault F-04).
"""

from __future__ import annotations

import os
import unicodedata

from pi_nb.env.types import FileError, FileInfo, FileSystem
from pi_nb.result import Err, Ok, Result

_PLAIN = str.maketrans(
    {"\u00a0": " ", "\u202f": " ", "\u2007": " ", "\u2018": "'", "\u2019": "'", "\u02bc": "'"}
)


def plain_name(name: str) -> str:
    """The form in which names that look the same are the same."""
    return unicodedata.normalize("NFC", name).translate(_PLAIN)


async def find(env: FileSystem, path: str) -> Result[FileInfo, FileError]:
    """What the path is; where there is nothing, what bears a name that looks like it.

    An exact name always wins. Of several names that look like it none is taken.
    """
    exact = await env.info(path)
    if isinstance(exact, Ok) or exact.error.code != "not_found":
        return exact
    folder, name = os.path.split(exact.error.path or env.resolve(path))
    if not name:
        return exact
    listed = await env.list_dir(folder)
    if isinstance(listed, Err):
        above = await find(env, folder)
        if isinstance(above, Err) or above.value.path == folder:
            return exact
        listed = await env.list_dir(above.value.path)
        if isinstance(listed, Err):
            return exact
    alike = [info for info in listed.value if plain_name(info.name) == plain_name(name)]
    return Ok(alike[0]) if len(alike) == 1 else exact


def as_shown(env: FileSystem, path: str) -> str:
    """A path as a person would write it: relative where it lies below the working folder."""
    return path.removeprefix(env.cwd.rstrip(os.sep) + os.sep)
