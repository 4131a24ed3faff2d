"""Files of this machine: what is refused comes back as a value, what is written is whole."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_nb.env.ignore import Walk
from pi_nb.env.local import LocalEnv
from pi_nb.env.types import FileError, FileInfo
from pi_nb.result import Err, Ok, PiError, Result

pytestmark = pytest.mark.anyio
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")
as_user = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="root may do everything"
)


@pytest.fixture
def env(tmp_path: Path) -> LocalEnv:
    return LocalEnv(tmp_path)


def code(result: Result[Any, FileError]) -> str:
    assert isinstance(result, Err), result
    return result.error.code


async def test_a_missing_file_is_an_answer_not_an_exception(env: LocalEnv, tmp_path: Path) -> None:
    result = await env.read_text("notes.md")

    assert result == Err(
        FileError("not_found", "No such file or directory", str(tmp_path / "notes.md"))
    )


async def test_newlines_and_a_byte_order_mark_come_back_as_stored(env: LocalEnv) -> None:
    text = "\ufeffa\r\nb\rc\n\u2028"

    assert await env.write_text("x/y/z.txt", text) == Ok(None)
    assert await env.read_text("x/y/z.txt") == Ok(text)


async def test_what_is_not_utf8_says_where(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"ab\xff")

    result = await env.read_text("x")

    assert result == Err(FileError("invalid", "Not UTF-8 at byte 2", str(tmp_path / "x")))


async def test_a_part_of_a_file_can_be_read(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")

    assert await env.read_bytes("x", offset=3, limit=4) == Ok(b"3456")
    assert await env.read_bytes("x", offset=8, limit=4) == Ok(b"89")
    assert await env.read_bytes("x", offset=20, limit=4) == Ok(b"")
    assert await env.read_bytes("x", offset=8) == Ok(b"89")
    assert code(await env.read_bytes("x", offset=-1)) == "invalid"


async def test_tilde_is_the_home(env: LocalEnv, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert await env.write_text("~/x", "mine") == Ok(None)
    assert (tmp_path / "home" / "x").read_text() == "mine"
    assert env.resolve("~/x") == os.path.realpath(tmp_path / "home" / "x")


async def test_two_names_of_one_file_resolve_to_one(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert env.resolve("link/new.txt") == env.resolve("./real/../real/new.txt")


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", "x" * 300])
async def test_a_path_that_cannot_be_is_invalid_for_everything(env: LocalEnv, path: str) -> None:
    assert env.resolve(path)
    assert code(await env.read_bytes(path)) == "invalid"
    assert code(await env.write_text(path, "x")) == "invalid"
    assert code(await env.info(path)) == "invalid"
    assert code(await env.list_dir(path)) == "invalid"
    assert code(await env.make_dir(path)) == "invalid"
    assert code(await env.remove(path, recursive=True)) == "invalid"


async def test_a_folder_for_a_file_and_a_file_for_a_folder(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")

    assert code(await env.read_text("folder")) == "is_directory"
    assert code(await env.write_text("folder", "x")) == "is_directory"
    assert code(await env.write_text("new/", "x")) == "is_directory"
    assert code(await env.remove("folder")) == "is_directory"
    assert code(await env.read_text("file/x")) == "not_directory"
    assert code(await env.write_text("file/x", "x")) == "not_directory"
    assert code(await env.list_dir("file")) == "not_directory"
    assert code(await env.make_dir("file")) == "not_directory"


@as_user
async def test_what_may_not_be_written_stays(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("former")
    (tmp_path / "x").chmod(0o444)

    assert code(await env.write_text("x", "new")) == "permission_denied"
    assert (tmp_path / "x").read_text() == "former"


@posix
async def test_a_pipe_or_a_device_is_neither_read_nor_replaced(
    env: LocalEnv, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert code(await env.read_bytes("pipe")) == "not_supported"
    assert code(await env.write_text("pipe", "x")) == "not_supported"
    assert code(await env.read_bytes("/dev/zero")) == "not_supported"


@posix
async def test_a_write_keeps_the_mode_and_follows_the_link(env: LocalEnv, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    (tmp_path / "link").symlink_to("run.sh")

    assert await env.write_text("link", "new") == Ok(None)

    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert (tmp_path / "link").is_symlink()


@posix
async def test_a_new_file_has_the_mode_that_the_user_chose(env: LocalEnv, tmp_path: Path) -> None:
    former = os.umask(0o027)
    try:
        await env.write_text("x", "")
    finally:
        os.umask(former)

    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


@posix
async def test_a_disk_that_is_full_leaves_what_was_there(
    env: LocalEnv, tmp_path: Path, full_disk: None
) -> None:
    (tmp_path / "x").write_text("former")

    result = await env.write_bytes("x", b"n" * 100_000)

    assert code(result) == "unknown"
    assert isinstance(result, Err)
    assert result.error.message == "File too large"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "former"


@pytest.fixture
def full_disk() -> Any:
    """A limit on the size of files: the one full disk that needs no root."""
    import resource
    import signal

    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, former[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, former)
    signal.signal(signal.SIGXFSZ, ignored)


@posix
async def test_a_circle_of_links_is_invalid_and_stays(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    assert code(await env.read_text("a")) == "invalid"
    assert code(await env.write_text("a", "x")) == "invalid"
    assert (tmp_path / "a").is_symlink()


async def test_text_that_utf8_cannot_hold_is_not_written(env: LocalEnv, tmp_path: Path) -> None:
    assert code(await env.write_text("x", "a\ud800")) == "invalid"
    assert not (tmp_path / "x").exists()


async def test_children_are_listed_by_name_with_what_they_are(
    env: LocalEnv, tmp_path: Path
) -> None:
    (tmp_path / "b.txt").write_text("four")
    (tmp_path / "a").mkdir()
    (tmp_path / "c").symlink_to("nowhere")
    (tmp_path / "d").symlink_to("b.txt")

    result = await env.list_dir(".")

    assert isinstance(result, Ok)
    assert [(info.name, info.kind) for info in result.value] == [
        ("a", "directory"),
        ("b.txt", "file"),
        ("c", "symlink"),
        ("d", "file"),
    ]
    modified = (tmp_path / "b.txt").stat().st_mtime_ns // 1_000_000
    assert result.value[1] == FileInfo("b.txt", str(tmp_path / "b.txt"), "file", 4, modified)


async def test_removing_a_link_leaves_its_target(env: LocalEnv, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_text("x")
    (tmp_path / "link").symlink_to("folder")

    assert await env.remove("link", recursive=True) == Ok(None)
    assert (tmp_path / "folder" / "x").exists()
    assert await env.remove("folder", recursive=True) == Ok(None)
    assert code(await env.remove("folder")) == "not_found"


def test_a_working_directory_that_is_gone_is_the_callers_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(PiError):
        LocalEnv()


@given(st.text(max_size=12), st.text(max_size=12))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_path_and_no_text_makes_it_raise(tmp_path: Path, path: str, text: str) -> None:
    env = LocalEnv(tmp_path)
    inside = os.path.join("deep", path.replace("..", "").lstrip("/~"))

    written = await env.write_text(inside, text)
    read = await env.read_text(inside)

    assert read == Ok(text) if isinstance(written, Ok) else isinstance(read, Err)


@pytest.fixture
def nobody() -> Iterator[None]:
    """For the length of a test somebody who may not do everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


@posix
async def test_what_the_user_may_not_touch_is_permission_denied(request: Any) -> None:
    # Below a test's own folder nobody but its owner gets at all.
    with tempfile.TemporaryDirectory() as folder:
        shut = Path(folder, "shut")
        shut.mkdir()
        (shut / "x").write_text("secret")
        Path(folder, "y").write_text("secret")
        os.chmod(folder, 0o555)
        os.chmod(Path(folder, "y"), 0)
        os.chmod(shut, 0)
        request.getfixturevalue("nobody")
        env = LocalEnv(folder)

        results = [
            await env.read_text("shut/x"),
            await env.read_bytes("y"),
            await env.info("shut/x"),
            await env.list_dir("shut"),
            await env.write_text("y", "new"),
            await env.write_text("new", "new"),
            await env.make_dir("new"),
            await env.remove("y"),
        ]
        walk = Walk(env, env.resolve("."))
        names = [info.name async for info in walk]
        if os.getuid() == 0:
            os.seteuid(0)
        os.chmod(shut, 0o700)
        os.chmod(folder, 0o700)

    assert [code(result) for result in results] == ["permission_denied"] * len(results)
    assert names == ["shut", "y"]
    assert [error.code for error in walk.unreadable] == ["permission_denied"]
