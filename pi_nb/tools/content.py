"""What a file holds, told by its first bytes and never by its name."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["text", "utf-16", "binary", "image/png", "image/jpeg", "image/gif", "image/webp"]

HEAD = 8_192
"""Bytes that `kind_of` wants to see."""

# Control characters that no text has; tab, line ends, form feed, backspace, escape it may.
_STRANGE = re.compile(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f\ufffd]")


def kind_of(head: bytes) -> Kind:
    """What the file is. An image only by its whole magic: a text may begin with "GIF".

    UTF-16 is known by its byte order mark; without one it counts as binary.
    """
    if image := _image(head):
        return image
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and not head.startswith(b"\xff\xfe\0\0"):
        return "utf-16"
    if b"\0" in head:
        return "binary"
    text = head.decode(errors="replace")
    # A tenth: an old text in Latin-1 has some bytes that are not UTF-8, a program has many.
    return "binary" if len(_STRANGE.findall(text)) * 10 > len(text) else "text"


def _image(head: bytes) -> Kind | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return "image/png"
    if head.startswith(b"\xff\xd8\xff") and head[3:4] >= b"\xc0":
        return "image/jpeg"
    # "GIF89a" is also how a text about it may begin; sizes and ratio hold a zero byte.
    if head.startswith((b"GIF87a", b"GIF89a")) and b"\0" in head[6:13]:
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:15] == b"WEBPVP8":
        return "image/webp"
    return None
