"""Pictures on their way in: what no provider would take is made smaller, or is a note."""

from __future__ import annotations

import base64
import io
import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.env.local import LocalEnv
from pi_nb.messages import ImageContent
from pi_nb.tools import read_tool
from pi_nb.tools.images import MAX_BASE64, MAX_BYTES, MAX_SIDE, intake

try:
    from PIL import Image
except ImportError:
    Image = None  # type: ignore[assignment]

needs_pillow = pytest.mark.skipif(Image is None, reason="Pillow (the extra `images`) is missing")


def picture(form: str, size: tuple[int, int], *, noise: bool = False, mode: str = "RGB") -> bytes:
    pixels = size[0] * size[1] * len(mode)
    made = (
        Image.frombytes(mode, size, os.urandom(pixels))
        if noise
        else Image.new(mode, size, tuple(range(40, 40 + 10 * len(mode), 10)))
    )
    out = io.BytesIO()
    made.save(out, form, compress_level=1)
    return out.getvalue()


def opened(block: ImageContent | str) -> Any:
    assert isinstance(block, ImageContent), block
    assert len(block.data) <= MAX_BASE64
    image = Image.open(io.BytesIO(base64.b64decode(block.data)))
    image.load()
    assert Image.MIME[image.format] == block.mime_type
    return image


@needs_pillow
@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_small_picture_goes_byte_for_byte_as_what_it_is(form: str) -> None:
    """F-09: whatever it is said to be."""
    data = picture(form, (30, 20))

    block = intake(base64.b64encode(data).decode(), "image/bmp")

    assert opened(block).format == form
    assert isinstance(block, ImageContent)
    assert base64.b64decode(block.data) == data
    assert intake(data) == block


@needs_pillow
@pytest.mark.parametrize(
    ("form", "size", "becomes"),
    [
        ("PNG", (4_000, 1_000), (1_568, 392)),
        ("JPEG", (1_000, 4_000), (392, 1_568)),
        ("WEBP", (2_000, 2_000), (1_568, 1_568)),
        ("GIF", (1_569, 3), (1_568, 3)),
    ],
)
def test_a_large_picture_is_made_smaller(
    form: str, size: tuple[int, int], becomes: tuple[int, int]
) -> None:
    """F-11, and S-12: what a session holds of it stays small."""
    image = opened(intake(picture(form, size)))

    assert image.size == becomes
    assert image.format == ("JPEG" if form == "JPEG" else "PNG")


@needs_pillow
@pytest.mark.parametrize(
    ("form", "mode", "size"),
    [
        ("PNG", "RGB", (1_200, 1_000)),
        ("PNG", "RGBA", (1_000, 1_000)),
        ("JPEG", "RGB", (3_200, 2_400)),
    ],
)
def test_a_picture_of_many_bytes_fits_in_the_end(
    form: str, mode: str, size: tuple[int, int]
) -> None:
    """F-11: a photograph of megabytes, and one with as many bytes but few pixels."""
    data = picture(form, size, noise=True, mode=mode)
    assert len(data) > MAX_BASE64 / 4 * 3

    image = opened(intake(data))

    assert max(image.size) <= MAX_SIDE


@needs_pillow
def test_a_photograph_stands_upright() -> None:
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.new("RGB", (3_000, 1_000)).save(out, "JPEG", exif=exif)

    assert opened(intake(out.getvalue())).size == (523, 1_568)


def bomb() -> bytes:
    """A PNG of a few hundred bytes that claims ten billion pixels."""
    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 0, 0, 0, 0)
    made = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 9_999)), (b"IEND", b"")):
        crc = zlib.crc32(name + data)
        made += struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc)
    return made


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("no base64!", "it is not base64"),
        ("abc", "it is not base64"),
        ("é", "it is not base64"),
        ("", "it is empty"),
        (b"", "it is empty"),
        ("data:image/png;base64,", "it is empty"),
        (b"GIF files are old.", "it is no PNG, JPEG, GIF or WebP"),
        (b"<svg/>", "it is no PNG, JPEG, GIF or WebP"),
        (b"\xff\xd8\xff\xe0" + b"\0" * MAX_BYTES, "more than 50,000,000"),
        pytest.param(bomb(), "pixels, more than|cannot be opened", marks=needs_pillow),
        pytest.param(bomb()[:40], "it cannot be opened", marks=needs_pillow),
        pytest.param(b"\xff\xd8\xff\xe0" + b"\0" * 99, "it cannot be opened", marks=needs_pillow),
    ],
)
def test_what_is_no_picture_is_a_note(data: str | bytes, why: str) -> None:
    """S-30."""
    note = intake(data, "image/\x1b[31mpng\n" + "x" * 99)

    assert isinstance(note, str)
    assert any(one in note for one in why.split("|"))
    assert note.startswith("[An image (image/png x")
    assert note.isprintable()
    assert len(note) < 300


@needs_pillow
@given(st.integers(1, 400), st.binary(max_size=30), st.sampled_from(["PNG", "JPEG", "GIF", "WEBP"]))
def test_no_bytes_make_it_raise(at: int, noise: bytes, form: str) -> None:
    data = bytearray(picture(form, (20, 20)))
    data[at : at + len(noise)] = noise

    result = intake(bytes(data))

    assert isinstance(result, str) or opened(result)


def test_without_pillow_small_ones_go_and_large_ones_are_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F-11: with the way out in words."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    head = b"\xff\xd8\xff\xe0"

    assert isinstance(intake(head + b"\0" * 100), ImageContent)
    note = intake(head + b"\0" * 3_400_000)
    assert isinstance(note, str)
    assert "pi-nb[images]" in note


@needs_pillow
@pytest.mark.anyio
async def test_read_makes_a_large_picture_smaller_and_says_so(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    """F-11."""
    (tmp_path / "x.png").write_bytes(picture("PNG", (3_136, 1_568)))

    result = await call(read_tool(env), path="x.png")

    assert result.text.startswith(
        "x.png: image/png, made smaller: 1,568 x 784 pixels, it has 3,136 x 1,568 pixels, "
    )
    assert opened(result.content[1]).size == (1_568, 784)
