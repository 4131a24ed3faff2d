"""read on real files, small, huge and odd."""

from __future__ import annotations

import base64
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.abort import Aborted, AbortSignal
from pi_nb.env.local import LocalEnv
from pi_nb.messages import ImageContent
from pi_nb.tools import read_tool
from pi_nb.tools.content import kind_of
from pi_nb.tools.window import Window

pytestmark = pytest.mark.anyio


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0\0"))
    + chunk(b"IEND", b"")
)
GIF = b"GIF89a\x01\x00\x01\x00\x80\x00\x00"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\ntwo", "one\ntwo"),
        (b"\xef\xbb\xbfone\n", "one"),
        (b"a\n\n\nb\n", "a\n\n\nb"),
        (b"", "[x is empty.]"),
        (b"\xef\xbb\xbf", "[x is empty.]"),
        (b"\n", ""),
        ("中文 \u2028 ok\n".encode(), "中文 \u2028 ok"),
        (
            b"caf\xe9 au lait\n",
            "caf\ufffd au lait\n\n[Some bytes are not UTF-8 and are shown as \ufffd.]",
        ),
        (b"lone\rreturn\n", "lone\rreturn"),
    ],
)
async def test_a_small_file_is_shown_whole(
    env: LocalEnv, call: Any, tmp_path: Path, data: bytes, text: str
) -> None:
    (tmp_path / "x").write_bytes(data)

    result = await call(read_tool(env), path="x")

    assert (result.text, result.is_error) == (text, False)


async def test_lines_are_counted_from_one_and_the_way_on_is_told(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("".join(f"{n}\n" for n in range(1, 11)))
    read = read_tool(env)

    assert (await call(read, path="x", offset=4, limit=2)).text == (
        "4\n5\n\n[Lines 4 to 5. Go on with offset=6.]"
    )
    assert (await call(read, path="x", offset="9", limit="2")).text == "9\n10"
    beyond = await call(read, path="x", offset=11)
    assert beyond.is_error
    assert beyond.text == "x has 10 lines; offset 11 is beyond its end."
    assert (await call(read, path="x", offset=0)).is_error


async def test_a_long_file_ends_at_the_limits(env: LocalEnv, call: Any, tmp_path: Path) -> None:
    (tmp_path / "many").write_text("x\n" * 5_000)
    (tmp_path / "wide").write_text(("y" * 999 + "\n") * 100)
    read = read_tool(env)

    assert (await call(read, path="many")).text.endswith(
        "[Lines 1 to 2000. Go on with offset=2001.]"
    )
    assert (await call(read, path="wide")).text.endswith("[Lines 1 to 50. Go on with offset=51.]")


async def test_of_a_huge_file_little_is_read(env: LocalEnv, call: Any, tmp_path: Path) -> None:
    """F-08: two gigabytes, of which the most is a hole."""
    with (tmp_path / "x").open("wb") as file:
        file.write(b"".join(b"line %d\n" % n for n in range(1, 20_000)))
        file.truncate(2 * 1024**3)
    started = time.perf_counter()

    result = await call(read_tool(env), path="x", offset=10, limit=20)

    assert time.perf_counter() - started < 1
    assert result.text.startswith("line 10\n")
    assert result.text.endswith("line 29\n\n[Lines 10 to 29. Go on with offset=30.]")


async def test_a_line_of_megabytes_is_cut_and_what_follows_is_shown(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    """F-08."""
    (tmp_path / "x").write_bytes(b"before\n" + "é".encode() * 25_000_000 + b"\nafter\n")

    result = await call(read_tool(env), path="x")

    assert result.text.startswith("before\n" + "é" * 5_000 + "\nafter\n\n[Line 2 is cut")
    assert "50,000,000 bytes" in result.text
    assert len(result.text) < 11_000


async def test_a_picture_is_shown_as_one_whatever_its_name(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    """F-09."""
    (tmp_path / "x.jpg").write_bytes(PNG)

    result = await call(read_tool(env), path="x.jpg")

    assert result.content[1] == ImageContent(
        data=base64.b64encode(PNG).decode(), mime_type="image/png"
    )


async def test_a_broken_picture_is_refused_in_words(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    """S-30: stored once, it would make every later request fail."""
    pytest.importorskip("PIL", reason="without Pillow nobody looks inside")
    (tmp_path / "x.png").write_bytes(PNG[:40])

    result = await call(read_tool(env), path="x.png")

    assert result.is_error
    assert "x.png is a picture that cannot be shown: it cannot be opened" in result.text
    assert len(result.content) == 1


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"GIF files are old.\n", "text"),
        (b"GIF89a is how they begin.\n", "text"),
        (GIF, "image/gif"),
        (PNG, "image/png"),
        (b"\x89PNG\r\n\x1a\n and then text", "text"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
        (b"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", "binary"),
        (b"\x7fELF\x02\x01\x01\x00", "binary"),
        (bytes(range(128, 256)), "binary"),
        (b"\x1b[31mred\x1b[0m\n", "text"),
        ("中".encode() * 100 + b"\xe4", "text"),
        (b"\xff\xfea\0", "utf-16"),
        (b"\xff\xfe\0\0a\0\0\0", "binary"),
        (b"", "text"),
    ],
)
def test_the_content_says_what_a_file_is(head: bytes, kind: str) -> None:
    """F-09."""
    assert kind_of(head) == kind


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
async def test_utf16_is_shown_as_text_with_a_note(
    env: LocalEnv, call: Any, tmp_path: Path, encoding: str
) -> None:
    text = "one 中\r\n" + "two 😀\r\n" * 30_000
    (tmp_path / "x").write_bytes(("\ufeff" + text).encode(encoding))

    result = await call(read_tool(env), path="x", limit=2)

    assert result.text.startswith(
        "one 中\ntwo 😀\n\n[Lines 1 to 2. Go on with offset=3. The file is UTF-16"
    )
    last = await call(read_tool(env), path="x", offset=30_001)
    assert last.text.startswith("two 😀\n\n[The file is UTF-16")


async def test_what_cannot_be_shown_says_what_to_do(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"\x7fELF\x00" * 10)
    read = read_tool(env)

    results = [await call(read, path=path) for path in ("x", ".", "nowhere", "x/y", "a\0b")]

    assert all(result.is_error for result in results)
    assert "binary file of 50 bytes" in results[0].text
    assert "List it with ls" in results[1].text
    assert "No such file" in results[2].text


async def test_an_abort_stops_reading(env: LocalEnv, call: Any, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x\n")
    signal = AbortSignal()
    signal.abort()

    with pytest.raises(Aborted):
        await call(read_tool(env), signal, path="x")


@given(
    st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r\n", b"\r", "é".encode()]), max_size=40),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 5),
)
def test_however_the_bytes_come_the_same_lines_are_shown(
    pieces: list[bytes], first: int, lines: int, size: int
) -> None:
    data = b"".join(pieces)
    every = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    if data.endswith(b"\n") or not data:
        every.pop()

    window = Window(first, lines)
    for at in range(0, len(data), size):
        window.feed(data[at : at + size])
    window.end()

    assert window.lines == every[first - 1 : first - 1 + lines]
    assert window.full == (len(window.lines) == lines)
    if not window.full:
        assert window.seen == len(every)
