"""One suite for every environment: each does what it declares, and says no to the rest.

A third backend lives here, as short as one can be: a shelf of files that nobody can change.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_nb.abort import AbortSignal
from pi_nb.env.local import LocalEnv
from pi_nb.env.memory import MemoryEnv
from pi_nb.env.types import (
    Capability,
    ExecErrorCode,
    ExecutionEnv,
    FileError,
    FileErrorCode,
    FileInfo,
    Output,
)
from pi_nb.result import Err, Ok, Result

pytestmark = pytest.mark.anyio


class ShelfEnv(ExecutionEnv):
    """Files to read and nothing else: no link, no write, no shell."""

    cwd = "/"
    capabilities = frozenset[Capability]({"read"})

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def resolve(self, path: str) -> str:
        path = "/home" + path[1:] if path == "~" or path.startswith("~/") else path
        return posixpath.normpath(posixpath.join("/", path)).replace("//", "/")

    async def info(self, path: str) -> Result[FileInfo, FileError]:
        real = self.resolve(path)
        name = posixpath.basename(real)
        if (data := self._files.get(real)) is not None:
            return Ok(FileInfo(name, real, "file", len(data), 0))
        if any(file.startswith(real.rstrip("/") + "/") for file in self._files):
            return Ok(FileInfo(name, real, "directory", 0, 0))
        if any(real.startswith(file + "/") for file in self._files):
            return Err(FileError("not_directory", "Below a file", real))
        odd = not real.isprintable() or len(name) > 255
        return Err(FileError("invalid" if odd else "not_found", "Nothing here", real))

    async def read_bytes(self, path, *, offset=0, limit=None, signal=None):  # type: ignore[no-untyped-def]
        found = await self.info(path)
        if signal is not None and signal.aborted:
            return Err(FileError("aborted", signal.reason, path))
        if offset < 0 or (limit or 0) < 0:
            return Err(FileError("invalid", "No such part", path))
        if isinstance(found, Ok) and found.value.kind == "directory":
            return Err(FileError("is_directory", "Is a directory", path))
        return (
            found if isinstance(found, Err) else Ok(self._files[found.value.path][offset:][:limit])
        )

    async def list_dir(self, path, *, signal=None):  # type: ignore[no-untyped-def]
        found, below = await self.info(path), self.resolve(path).rstrip("/") + "/"
        if signal is not None and signal.aborted:
            return Err(FileError("aborted", signal.reason, path))
        if isinstance(found, Ok) and found.value.kind == "file":
            return Err(FileError("not_directory", "Is a file", path))
        names = {file[len(below) :].split("/")[0] for file in self._files if file.startswith(below)}
        children = [await self.info(below + name) for name in sorted(names)]
        return found if isinstance(found, Err) else Ok([child.value for child in children])


FILES = {"a.txt": b"one\ntwo\n", "deep/b.txt": b"0123456789", "deep/er/c.bin": b"\xff\x00"}
LINKS = {"link": "a.txt", "way": "deep", "broken": "nowhere", "round": "round"}

Make = Callable[[Path], ExecutionEnv]


def local(folder: Path) -> ExecutionEnv:
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    for name, target in LINKS.items():
        (folder / name).symlink_to(target)
    return LocalEnv(folder)


def memory(_: Path) -> ExecutionEnv:
    return MemoryEnv(FILES, "/here", links=LINKS, shell=lambda command: (0, command + "\n"))


def silent_memory(_: Path) -> ExecutionEnv:
    return MemoryEnv(FILES, links=LINKS)


def shelf(_: Path) -> ExecutionEnv:
    return ShelfEnv({"/" + name: data for name, data in FILES.items()})


@pytest.fixture(params=[local, memory, silent_memory, shelf], ids=lambda make: make.__name__)
def env(request: pytest.FixtureRequest, tmp_path: Path) -> ExecutionEnv:
    made: ExecutionEnv = request.param(tmp_path)
    return made


def needs(env: ExecutionEnv, *wanted: Capability) -> None:
    if missing := set(wanted) - env.capabilities:
        pytest.skip(f"it does not declare {', '.join(sorted(missing))}")


def code(result: Result[Any, Any]) -> str:
    assert isinstance(result, Err), result
    return str(result.error.code)


# --- what everybody can ---------------------------------------------------------------------


async def test_it_declares_only_what_the_contract_knows(env: ExecutionEnv) -> None:
    assert env.capabilities <= set(get_args(Capability))
    assert "read" in env.capabilities


async def test_a_file_is_read_whole_and_in_parts(env: ExecutionEnv) -> None:
    assert await env.read_text("a.txt") == Ok("one\ntwo\n")
    assert await env.read_bytes("deep/b.txt") == Ok(b"0123456789")
    assert await env.read_bytes("deep/b.txt", offset=3, limit=4) == Ok(b"3456")
    assert await env.read_bytes("deep/b.txt", offset=8, limit=4) == Ok(b"89")
    assert await env.read_bytes("deep/b.txt", offset=99) == Ok(b"")
    assert await env.read_bytes("deep/b.txt", limit=0) == Ok(b"")


async def test_paths_start_at_cwd_and_may_be_absolute(env: ExecutionEnv) -> None:
    absolute = env.resolve("deep/../a.txt")

    assert posixpath.isabs(absolute)
    assert env.resolve(".") == env.resolve(env.cwd)
    assert await env.read_text(absolute) == Ok("one\ntwo\n")
    assert await env.read_text("./deep/.././a.txt") == Ok("one\ntwo\n")


async def test_the_tilde_is_a_home_and_no_name(env: ExecutionEnv) -> None:
    assert env.resolve("~") == posixpath.dirname(env.resolve("~/notes"))
    assert not env.resolve("~/notes").startswith(env.resolve("~notes"))


async def test_a_folder_is_listed_by_name(env: ExecutionEnv) -> None:
    listed = await env.list_dir("deep")

    assert isinstance(listed, Ok)
    assert [(info.name, info.kind, info.link) for info in listed.value] == [
        ("b.txt", "file", False),
        ("er", "directory", False),
    ]
    assert listed.value[0].size == 10
    assert await env.info(listed.value[0].path) == Ok(listed.value[0])


async def test_each_refusal_has_its_code(env: ExecutionEnv) -> None:
    assert code(await env.read_text("nowhere")) == "not_found"
    assert code(await env.info("nowhere/x")) == "not_found"
    assert code(await env.list_dir("nowhere")) == "not_found"
    assert code(await env.read_bytes("deep")) == "is_directory"
    assert code(await env.read_bytes("a.txt/x")) == "not_directory"
    assert code(await env.list_dir("a.txt")) == "not_directory"
    assert code(await env.read_text("deep/er/c.bin")) == "invalid"
    assert code(await env.read_bytes("a.txt", offset=-1)) == "invalid"
    assert code(await env.read_bytes("a.txt", limit=-1)) == "invalid"
    assert code(await env.read_bytes("x" * 300)) == "invalid"
    assert code(await env.info("a\0b")) == "invalid"


async def test_a_signal_that_is_set_reads_and_lists_nothing(env: ExecutionEnv) -> None:
    signal = AbortSignal()
    assert await env.read_bytes("a.txt", limit=3, signal=signal) == Ok(b"one")
    signal.abort()

    assert code(await env.read_bytes("a.txt", signal=signal)) == "aborted"
    assert code(await env.read_text("a.txt", signal=signal)) == "aborted"
    assert code(await env.list_dir("deep", signal=signal)) == "aborted"


async def test_what_is_not_declared_is_not_supported(env: ExecutionEnv) -> None:
    if "write" not in env.capabilities:
        assert code(await env.write_text("a.txt", "x")) == "not_supported"
        assert code(await env.write_bytes("new", b"x")) == "not_supported"
        assert code(await env.make_dir("new")) == "not_supported"
        assert code(await env.remove("a.txt")) == "not_supported"
        assert await env.read_text("a.txt") == Ok("one\ntwo\n")
    if "exec" not in env.capabilities:
        assert code(await env.exec("true")) == "shell_unavailable"


odd = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    [
        *("", ".", "..", "/", "//", "~", "~/", "~\0", "~\ud800", "a.txt/", "a.txt/..", "//a"),
        *("\ud800", "a\0", "x" * 256, "é" * 200, "/" * 300, "d/" * 3000, "-", "*", "a\nb"),
    ]
)


@pytest.mark.parametrize("make", [local, memory, silent_memory, shelf], ids=lambda m: m.__name__)
@given(odd, st.integers(-(10**20), 10**20), st.none() | st.integers(-5, 10**20))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
async def test_no_path_and_no_number_makes_it_raise(
    tmp_path_factory: pytest.TempPathFactory, make: Make, path: str, offset: int, limit: int | None
) -> None:
    env = make(tmp_path_factory.mktemp("odd"))

    results = [
        await env.read_bytes(path, offset=offset, limit=limit),
        await env.info(path),
        await env.list_dir(path) if path.strip("./~") else Ok([]),
        await env.read_text(path),
    ]

    assert isinstance(env.resolve(path), str)
    for result in results:
        assert isinstance(result, Ok) or result.error.code in get_args(FileErrorCode)


# --- write ----------------------------------------------------------------------------------


async def test_what_is_written_is_there_with_the_folders_above_it(env: ExecutionEnv) -> None:
    needs(env, "write")
    text = "\ufeffa\r\nb\rc\u2028"

    assert await env.write_text("x/y/z.txt", text) == Ok(None)
    assert await env.read_text("x/y/z.txt") == Ok(text)
    assert await env.write_bytes("x/y/z.txt", b"") == Ok(None)
    assert await env.read_bytes("x/y/z.txt") == Ok(b"")


async def test_what_cannot_be_written_leaves_everything_as_it_was(env: ExecutionEnv) -> None:
    needs(env, "write")
    before = await env.list_dir(".")

    assert code(await env.write_text("deep", "x")) == "is_directory"
    assert code(await env.write_text("new/", "x")) == "is_directory"
    assert code(await env.write_text("a.txt/below", "x")) == "not_directory"
    assert code(await env.write_text("new", "half \ud800")) == "invalid"
    assert code(await env.write_text("x" * 300, "x")) == "invalid"
    assert code(await env.make_dir("a.txt")) == "not_directory"
    assert code(await env.make_dir("a.txt/below")) == "not_directory"
    assert await env.list_dir(".") == before


async def test_folders_are_made_once_and_removed_only_when_told_so(env: ExecutionEnv) -> None:
    needs(env, "write")

    assert await env.make_dir("p/q") == Ok(None)
    assert await env.make_dir("p/q") == Ok(None)
    assert code(await env.remove("p")) == "is_directory"
    assert await env.remove("p", recursive=True) == Ok(None)
    assert code(await env.info("p")) == "not_found"
    assert code(await env.remove("p")) == "not_found"
    assert await env.remove("a.txt") == Ok(None)
    assert code(await env.read_bytes("a.txt")) == "not_found"


@given(odd, st.binary(max_size=20), st.text(st.characters(codec=None), max_size=8))
@pytest.mark.parametrize("make", [local, memory], ids=lambda make: make.__name__)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
async def test_no_content_makes_it_raise_and_what_it_took_it_gives_back(
    tmp_path_factory: pytest.TempPathFactory, make: Make, path: str, data: bytes, text: str
) -> None:
    env = make(tmp_path_factory.mktemp("odd"))
    inside = "deep/" + path.replace("..", "").lstrip("/~")

    written = await env.write_bytes(inside, data)
    if isinstance(written, Ok):
        assert await env.read_bytes(inside) == Ok(data)
    spoken = await env.write_text(inside, text)
    if isinstance(spoken, Ok):
        assert await env.read_text(inside) == Ok(text)
    for result in (written, spoken, await env.make_dir(inside), await env.remove(inside + "x")):
        assert isinstance(result, Ok) or result.error.code in get_args(FileErrorCode)


# --- links ----------------------------------------------------------------------------------


async def test_a_link_is_followed_and_known_as_one(env: ExecutionEnv) -> None:
    needs(env, "links")
    info = await env.info("link")

    assert isinstance(info, Ok)
    assert (info.value.name, info.value.kind, info.value.size) == ("link", "file", 8)
    assert info.value.link
    assert await env.read_text("link") == Ok("one\ntwo\n")
    assert env.resolve("link") == env.resolve("a.txt")
    assert env.resolve("way/new") == env.resolve("deep/new")
    assert await env.read_bytes("way/b.txt", limit=1) == Ok(b"0")


async def test_a_link_that_leads_nowhere_is_one_and_holds_nothing(env: ExecutionEnv) -> None:
    needs(env, "links")
    for name, why in (("broken", "not_found"), ("round", "invalid")):
        info = await env.info(name)

        assert isinstance(info, Ok)
        assert (info.value.kind, info.value.link) == ("symlink", True)
        assert code(await env.read_bytes(name)) == why


async def test_writing_goes_through_a_link_and_removing_does_not(env: ExecutionEnv) -> None:
    needs(env, "links", "write")

    assert await env.write_text("link", "new") == Ok(None)
    assert await env.write_text("broken", "made") == Ok(None)
    assert code(await env.write_text("round", "x")) == "invalid"
    assert await env.read_text("a.txt") == Ok("new")
    assert await env.read_text("nowhere") == Ok("made")
    assert await env.remove("link") == Ok(None)
    assert await env.remove("way") == Ok(None)
    assert await env.read_text("a.txt") == Ok("new")
    assert await env.read_bytes("deep/b.txt", limit=1) == Ok(b"0")


# --- modes ----------------------------------------------------------------------------------


async def test_a_file_written_again_keeps_its_mode(env: ExecutionEnv) -> None:
    needs(env, "modes")
    path = env.resolve("a.txt")
    os.chmod(path, 0o751)

    await env.write_text("a.txt", "x")

    assert os.stat(path).st_mode & 0o777 == 0o751


# --- exec -----------------------------------------------------------------------------------


async def test_a_command_answers_with_its_code_and_its_output(env: ExecutionEnv) -> None:
    needs(env, "exec")
    seen: list[Output] = []

    result = await env.exec("echo hi", on_output=seen.append)

    assert isinstance(result, Ok)
    assert result.value.exit_code == 0
    assert result.value.output.text.endswith("hi\n")
    assert seen[-1] == result.value.output


async def test_a_command_is_refused_with_its_code(env: ExecutionEnv) -> None:
    needs(env, "exec")
    signal = AbortSignal()
    signal.abort()

    def broken(_: Output) -> None:
        raise KeyError("mine")

    assert code(await env.exec("echo hi", signal=signal)) == "aborted"
    assert code(await env.exec("echo hi; sleep 0.3", on_output=broken)) == "callback_error"
    assert code(await env.exec("echo hi", timeout=0)) == "unknown"
    assert code(await env.exec("echo hi", timeout=float("nan"))) == "unknown"


@pytest.mark.parametrize("make", [local, memory, silent_memory, shelf], ids=lambda m: m.__name__)
@pytest.mark.parametrize("command", ["", "\0", "\ud800", "-", "(", "'"])
async def test_no_command_makes_it_raise(tmp_path: Path, make: Make, command: str) -> None:
    result = await make(tmp_path).exec(command)

    assert isinstance(result, Ok) or result.error.code in get_args(ExecErrorCode)
