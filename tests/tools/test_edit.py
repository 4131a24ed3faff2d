"""edit on real files."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from pi_nb.env.local import LocalEnv
from pi_nb.tools import edit_tool, read_tool, write_tool

pytestmark = pytest.mark.anyio


async def test_one_word_changes_and_the_result_says_what(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_bytes(b"a\nb\nc\nd\ne\nf\ng\nh\n")

    result = await call(edit_tool(env), path="x.py", edits=[{"old": "e", "new": "E"}])

    assert not result.is_error
    assert result.text == "Changed x.py in 1 place."
    assert (tmp_path / "x.py").read_bytes() == b"a\nb\nc\nd\nE\nf\ng\nh\n"
    assert result.details["diff"].split("\n") == [
        *("@@ -2,7 +2,7 @@", " b", " c", " d", "-e", "+E", " f", " g", " h")
    ]
    assert (result.details["added"], result.details["removed"]) == (1, 1)


async def test_line_ends_and_the_mark_stay_on_disk(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    """F-01, F-02."""
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfa\r\nb\nc\r\n")

    await call(edit_tool(env), path="x", edits=[{"old": "a\nb", "new": "a\nB\nB2"}])

    assert (tmp_path / "x").read_bytes() == b"\xef\xbb\xbfa\r\nB\nB2\nc\r\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"edits": {"old": "a", "new": "b"}},
        {"edits": '[{"old": "a", "new": "b"}]'},
        {"edits": '{"oldText": "a", "newText": "b"}'},
        {"edits": [{"old_text": "a", "new_text": "b"}]},
        {"old_string": "a", "new_string": "b"},
        {"oldText": "a", "newText": "b", "edits": None},
    ],
)
async def test_the_shapes_that_models_send_are_read(
    env: LocalEnv, call: Any, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    """F-05."""
    (tmp_path / "x").write_text("a")

    result = await call(edit_tool(env), path="x", **arguments)

    assert not result.is_error, result.text
    assert (tmp_path / "x").read_text() == "b"


@pytest.mark.parametrize(
    "edits", [[], "nonsense", [{"new": "b"}], [{"old": "a"}], [{"old": {"a": 1}, "new": "b"}]]
)
async def test_edits_that_are_none_are_refused(
    env: LocalEnv, call: Any, tmp_path: Path, edits: Any
) -> None:
    (tmp_path / "x").write_text("a")

    assert (await call(edit_tool(env), path="x", edits=edits)).is_error
    assert (tmp_path / "x").read_text() == "a"


async def test_if_one_edit_fails_none_is_made(env: LocalEnv, call: Any, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a b b")
    edits = [{"old": "a", "new": "A"}, {"old": "b", "new": "B"}]

    result = await call(edit_tool(env), path="x", edits=edits)

    assert result.is_error
    assert result.text.startswith("x was not changed.\nedits[1]")
    assert "2 times" in result.text
    assert (tmp_path / "x").read_text() == "a b b"


async def test_a_file_that_is_no_text_or_not_there_is_refused(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(b"a\xff")
    edits = [{"old": "a", "new": "b"}]

    assert "Not UTF-8" in (await call(edit_tool(env), path="x", edits=edits)).text
    assert "No such file" in (await call(edit_tool(env), path="y", edits=edits)).text
    assert "Is a directory" in (await call(edit_tool(env), path=".", edits=edits)).text
    assert (tmp_path / "x").read_bytes() == b"a\xff"


async def test_a_word_in_a_line_of_megabytes_is_quick_and_its_diff_small(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    """F-15."""
    line = "lorem ipsum " * 250_000
    (tmp_path / "x").write_text(line + "needle" + line)
    started = time.perf_counter()

    result = await call(edit_tool(env), path="x", edits=[{"old": "needle", "new": "thread"}])

    assert time.perf_counter() - started < 3
    assert not result.is_error
    assert len(result.details["diff"]) < 1_000
    assert "ipsum needle" in result.details["diff"]
    assert "ipsum thread" in result.details["diff"]


async def test_changes_of_one_file_are_made_in_the_order_of_the_calls(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    """L-15, also through a link."""
    (tmp_path / "x").write_text("0")
    (tmp_path / "link").symlink_to("x")
    edit, write = edit_tool(env), write_tool(env)

    results = await asyncio.gather(
        call(write, path="x", content="a" * 1_000_000 + "1"),
        *(
            call(
                edit,
                path=("x", "link", str(tmp_path / "x"))[n % 3],
                edits=[{"old": str(n), "new": str(n + 1)}],
            )
            for n in range(1, 9)
        ),
    )

    assert [result.is_error for result in results] == [False] * 9
    assert (tmp_path / "x").read_text()[-3:] == "aa9"


@pytest.mark.parametrize(
    ("there", "sent"),
    [
        ("Shot at 9\u202fPM.txt", "Shot at 9 PM.txt"),
        ("d\u2019accord.txt", "d'accord.txt"),
        ("cafe\u0301.txt", "café.txt"),
        ("it\u2019s/cafe\u0301.txt", "it's/café.txt"),
    ],
)
async def test_a_name_that_looks_the_same_is_found(
    env: LocalEnv, call: Any, tmp_path: Path, there: str, sent: str
) -> None:
    """F-04."""
    file = tmp_path / there
    file.parent.mkdir(exist_ok=True)
    file.write_text("old")

    shown = await call(read_tool(env), path=sent)
    edited = await call(edit_tool(env), path=sent, edits=[{"old": "old", "new": "new"}])

    assert shown.text == "old"
    assert not edited.is_error
    assert file.read_text() == "new"
    assert len(os.listdir(file.parent)) == 1


async def test_the_exact_name_wins_and_of_several_alike_none(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    (tmp_path / "a b").write_text("plain")
    (tmp_path / "a\u202fb").write_text("narrow")
    (tmp_path / "a\u00a0b").write_text("hard")

    assert (await call(read_tool(env), path="a b")).text == "plain"
    (tmp_path / "a b").unlink()
    assert (await call(read_tool(env), path="a b")).is_error


async def test_a_file_of_gigabytes_is_refused_before_it_is_read(
    env: LocalEnv, call: Any, tmp_path: Path
) -> None:
    (tmp_path / "huge.bin").touch()
    os.truncate(tmp_path / "huge.bin", 3 * 1024**3)

    result = await call(edit_tool(env), path="huge.bin", edits=[{"old": "a", "new": "b"}])

    assert result.is_error
    assert "at most 20,971,520" in result.text
