"""Pictures on their way in: the one path for those of tools, prompts and steering.

A picture that a provider refuses would make every later request of the session fail (known
faults F-11, S-30), so nothing is stored before it was looked at:

1. It is base64 of a PNG, JPEG, GIF or WebP; the bytes say which, whatever was claimed.
2. It can be opened, its longer side has at most `MAX_SIDE` pixels and its base64 at most
   `MAX_BASE64` characters. A larger one is made smaller, then saved as JPEG if it still has
   too many bytes; of a moving one the first frame is left.

The second step needs Pillow (the extra `images`). Without it what has few enough bytes goes
as it is, and what has too many is a note. Whether the model can see pictures is no matter
here: the session keeps them, and each request decides (F-10).
"""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from dataclasses import dataclass

from pi_nb.messages import ImageContent
from pi_nb.result import Err, Ok, Result
from pi_nb.text import count, safe_line

from .content import kind_of

MAX_SIDE = 1_568
"""Pixels. Providers make larger ones smaller themselves, after they were sent and paid for."""
MAX_BASE64 = 4_500_000
"""Characters: providers refuse more than 5 MB, and count it so."""
MAX_BYTES = 50_000_000
"""Bytes of a file that is looked at."""
MAX_PIXELS = 100_000_000
"""A small file may unpack to gigabytes."""

_TYPES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_QUALITIES = (85, 70, 50)


@dataclass(frozen=True, slots=True)
class Picture:
    """What can be sent: `data` of type `mime`, and in words what was done to it, if anything."""

    data: bytes
    mime: str
    change: str = ""

    def block(self) -> ImageContent:
        return ImageContent(data=base64.b64encode(self.data).decode(), mime_type=self.mime)


def intake(data: str | bytes, mime: str = "") -> ImageContent | str:
    """The picture as it may be stored and sent, or a note to put in its place.

    Takes some tenths of a second for a large one: on an event loop, use a thread.

    Args:
        data: Base64, also as a `data:` URL, or the bytes themselves.
        mime: What it is said to be; only the note tells of it.
    """
    raw = _decoded(data)
    fitted = fit(raw) if raw is not None else Err("it is not base64")
    if isinstance(fitted, Ok):
        return fitted.value.block()
    kind = f" ({safe_line(mime, 40)})" if mime else ""
    return f"[An image{kind} was left out: {fitted.error}.]"


def fit(data: bytes) -> Result[Picture, str]:
    """A picture that providers take, made from these bytes; or why there is none."""
    if not data:
        return Err("it is empty")
    kind = kind_of(data)
    if kind not in _TYPES:
        return Err("it is no PNG, JPEG, GIF or WebP")
    if len(data) > MAX_BYTES:
        return Err(f"it has {count(len(data), 'byte')}, more than {MAX_BYTES:,}")
    try:
        from PIL import Image
    except ImportError:
        return _as_it_is(data, kind)
    try:
        with warnings.catch_warnings():
            # Our own limit is below the one that Pillow warns of.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            return _fitted(data, kind)
    except Exception as error:
        # Its decoders raise whatever the bytes make them stumble over.
        return Err(f"it cannot be opened: {safe_line(str(error), 100)}")


def _decoded(data: str | bytes) -> bytes | None:
    if isinstance(data, bytes):
        return data
    text = data.partition(",")[2] if data.startswith("data:") else data
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def _fits(data: bytes) -> bool:
    return (len(data) + 2) // 3 * 4 <= MAX_BASE64


def _as_it_is(data: bytes, kind: str) -> Result[Picture, str]:
    if _fits(data):
        return Ok(Picture(data, kind))
    return Err(
        f"it has {count(len(data), 'byte')}, and at most {MAX_BASE64 // 4 * 3:,} can be sent; with "
        "Pillow installed (pip install 'pi-nb[images]') it would be made smaller"
    )


def _fitted(data: bytes, kind: str) -> Result[Picture, str]:
    from PIL import Image, ImageOps

    # The four formats alone: each decoder more is one more for hostile bytes.
    with Image.open(io.BytesIO(data), formats=list(_TYPES.values())) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            return Err(f"it has {width:,} x {height:,} pixels, more than {MAX_PIXELS:,}")
        if max(width, height) > MAX_SIDE:
            image.draft("RGB", (MAX_SIDE, MAX_SIDE))  # a JPEG is decoded at a smaller size
        image.load()
        if max(width, height) <= MAX_SIDE and _fits(data):
            return Ok(Picture(data, kind))
        upright = ImageOps.exif_transpose(image)
        plain = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    plain.thumbnail((MAX_SIDE, MAX_SIDE))
    was = f"{width:,} x {height:,} pixels, {count(len(data), 'byte')}"
    # Without loss first, for screenshots and drawings; a photograph would only grow.
    if kind != "image/jpeg" and _fits(png := _saved(plain, "PNG")):
        return Ok(_smaller(png, "image/png", was, plain.size))
    flat = Image.new("RGB", plain.size, "white")
    flat.paste(plain, mask=plain.getchannel("A") if plain.mode == "RGBA" else None)
    for quality in _QUALITIES:
        if _fits(jpeg := _saved(flat, "JPEG", quality=quality)):
            return Ok(_smaller(jpeg, "image/jpeg", was, plain.size))
    return Err("it could not be made small enough")


def _saved(image: object, form: str, **options: int) -> bytes:
    from PIL import Image

    assert isinstance(image, Image.Image)
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def _smaller(data: bytes, mime: str, was: str, size: tuple[int, int]) -> Picture:
    return Picture(data, mime, f"made smaller: {size[0]:,} x {size[1]:,} pixels, it has {was}")
