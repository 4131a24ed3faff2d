"""Which format a file has, from its first line; the rest of the file is not looked at."""

from __future__ import annotations

import json
from typing import Literal

Format = Literal["v4", "v3", "empty", "foreign"]

LIMIT = 1 << 16
"""Bytes that a first line may have. A header is a few hundred."""


def sniff(first_line: bytes) -> Format:
    """The format whose header this is; `foreign` is anything that is no header.

    `v3` stands for pi's own files, versions 1 to 3. A byte order mark is passed over.
    """
    line = first_line.removeprefix(b"\xef\xbb\xbf").strip()
    if not line:
        return "foreign" if first_line else "empty"
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return "foreign"
    if not isinstance(header, dict):
        return "foreign"
    if header.get("kind") == "header":
        return "v4"
    return "v3" if header.get("type") == "session" else "foreign"
