"""write on real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pi_nb.env.local import LocalEnv
from pi_nb.tools import write_tool

pytestmark = pytest.mark.anyio


async def test_a_new_file_comes_with_its_folders(env: LocalEnv, call: Any, tmp_path: Path) -> None:
    result = await call(write_tool(env), path="a/b/c.txt", content="one\ntwo\r\n")

    assert result.text == "Made a/b/c.txt: 2 lines, 9 bytes."
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"one\ntwo\r\n"
    assert result.details["created"]
    assert result.details["diff"] == "@@ -0,0 +1,2 @@\n+one\n+two"


async def test_what_was_there_is_replaced_and_the_difference_told(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("one\ntwo\nthree\n")

    result = await call(write_tool(env), path="x", content="one\n2\nthree")

    assert result.text == "Replaced x: 3 lines, 11 bytes."
    assert "-two\n+2" in result.details["diff"]
    assert not result.details["created"]


async def test_the_same_again_is_said(env: LocalEnv, call: Any, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("same")

    result = await call(write_tool(env), path="x", content="same")

    assert result.text == "Replaced x: 1 line, 4 bytes. It held the same before."
    assert result.details["diff"] == ""


async def test_a_former_file_that_is_no_text_is_replaced_without_a_diff(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"\xff\x00")

    result = await call(write_tool(env), path="x", content="")

    assert result.text == "Replaced x: 0 lines, 0 bytes."
    assert result.details["diff"] == ""


@pytest.mark.parametrize("path", ["folder", "folder/", "file/x", "a\0b"])
async def test_what_cannot_be_written_is_said(
    env: LocalEnv, call: Any, tmp_path: Path, path: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")

    result = await call(write_tool(env), path=path, content="x")

    assert result.is_error
    assert result.text.startswith("Could not write: ")
    assert (tmp_path / "file").read_text() == "x"
