"""`pi-nb list`, `inspect`, `export`, `open`: what they say, and what a wrong word gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pi_nb.cli import main
from pi_nb.messages import AssistantMessage, TextContent, Usage, UserMessage
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def pi_nb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Said:
    """Run a command in `tmp_path`: its exit code, and what stdout and stderr held."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as ended:  # argparse leaves so
            code = int(str(ended.code))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A session of two branches and one answer that cost something, named Tests."""
    file = tmp_path / "s.jsonl"
    with Session.create(file, cwd=tmp_path, id="0123-abcd", durability="flush") as session:
        first = await session.append_message(UserMessage(content="why \x1b[31mslow\x07?"))
        await session.append_message(
            AssistantMessage(
                content=(TextContent(text="see /home/ada/x"),),
                provider="p",
                model="m",
                usage=Usage(input=5, output=7, total_tokens=12),
            )
        )
        await session.move(first.id)
        await session.append_message(UserMessage(content="again"))
        await session.set_name("Tests")
    return file


def _broken(path: Path) -> Path:
    """The same file with garbage in the place of its last line."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + b"garbage\n")
    return path


async def test_inspect_shows_what_a_session_is(pi_nb: Said, path: Path) -> None:
    code, out, err = pi_nb("inspect", "s.jsonl")

    assert (code, err) == (0, "")
    for part in ("Tests", "0123-abcd", "3 entries, 2 branches, v4", "p/m: 1 request, 12 tokens"):
        assert part in out
    assert "user: again" in out
    assert "\x1b" not in out
    assert "\x07" not in out


async def test_inspect_gives_programs_the_same_as_json(pi_nb: Said, path: Path) -> None:
    _, out, _ = pi_nb("inspect", "s.jsonl", "--json")

    told = json.loads(out)
    assert (told["name"], told["version"], told["statistics"]["branches"]) == ("Tests", 4, 2)
    assert told["statistics"]["byModel"]["p/m"]["totalTokens"] == 12
    assert [row["parentId"] for row in told["tree"][1:]] == [told["tree"][0]["id"]] * 2
    assert told["context"]["messages"] == 2


async def test_a_broken_file_shows_and_saves_its_valid_part(
    pi_nb: Said, path: Path, tmp_path: Path
) -> None:
    before = _broken(path).read_bytes()

    code, out, _ = pi_nb("inspect", "s.jsonl")
    saved, _, warned = pi_nb("export", "s.jsonl", "saved.jsonl")

    assert code == saved == 0
    assert "line 6: left_out" in out
    assert "only the valid part" in warned
    with Session.open(tmp_path / "saved.jsonl", read_only=True) as session:
        assert len(session) == 3
    assert path.read_bytes() == before


async def test_export_says_what_it_left_out(pi_nb: Said, path: Path, tmp_path: Path) -> None:
    code, out, _ = pi_nb("export", "s.jsonl", "o.html", "--name", "again", "--pattern", "sl.w")

    page = (tmp_path / "o.html").read_text("utf-8")
    assert (code, out) == (
        0,
        "o.html: 3 entries. Left out: 1 home folder, 1 name, 1 pattern.\n",
    )
    assert "/home/ada" not in page
    assert "again" not in page.split("<script>")[0]


async def test_a_session_is_found_by_its_name_or_a_part_of_its_id(
    pi_nb: Said, tmp_path: Path
) -> None:
    with SessionRepo().create(tmp_path, "My session", id="4567-beef") as session:
        await session.append_message(UserMessage(content="hello"))

    for target in ("My session", "4567", "beef"):
        assert pi_nb("inspect", target)[0] == 0
    code, out, _ = pi_nb("list")
    assert code == 0
    assert "My session" in out
    assert json.loads(pi_nb("list", "--json")[1])[0]["id"] == "4567-beef"


async def test_open_writes_a_notebook_that_goes_on(
    pi_nb: Said, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pi_nb.cli_open.find_spec", lambda _name: None)  # no JupyterLab here

    code, out, _ = pi_nb("open", "s.jsonl")

    notebook = json.loads((tmp_path / "Tests.ipynb").read_text("utf-8"))
    sources = [cell["source"] for cell in notebook["cells"]]
    assert sources[1:] == [
        "%load_ext pi_nb",
        f"import pi_nb\n\nagent = pi_nb.agent({str(path)!r})",
        "%tree",
    ]
    assert code == 0
    assert "jupyter lab 'Tests.ipynb'" in out


async def test_open_says_where_to_go_on_when_the_folder_is_gone(
    pi_nb: Said, tmp_path: Path
) -> None:
    """S-20."""
    Session.create(tmp_path / "s.jsonl", cwd=tmp_path / "gone").close()

    _, out, _ = pi_nb("open", "s.jsonl", "--print")

    assert out.strip().endswith(f'pi_nb.agent({str(tmp_path / "s.jsonl")!r}, cwd=".")\n%tree')
    assert [file.name for file in tmp_path.iterdir()] == ["s.jsonl"]


async def test_a_notebook_that_is_there_is_not_written_over(
    pi_nb: Said, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pi_nb.cli_open.find_spec", lambda _name: None)
    (tmp_path / "Tests.ipynb").write_text("mine")

    _, out, _ = pi_nb("open", "s.jsonl")

    assert "there already" in out
    assert (tmp_path / "Tests.ipynb").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["inspect"], "SESSION", 2),
        (["inspect", "nothing"], "no session", 1),
        (["inspect", "nothing.jsonl"], "No such file", 1),
        (["inspect", "."], "a folder", 1),
        (["inspect", "notes.txt"], "not a session", 1),
        (["inspect", "s.jsonl", "--lane", "no"], "no lane 'no'", 2),
        (["export", "s.jsonl"], "OUT", 2),
        (["export", "s.jsonl", "o.txt"], ".html", 2),
        (["export", "s.jsonl", "o.md", "--format", "v5"], "v5", 2),
        (["export", "s.jsonl", "o.md", "--pattern", "["], "pattern", 2),
        (["export", "s.jsonl", "notes.txt"], "--overwrite", 1),
        (["export", "s.jsonl", "no/such/o.md"], "no folder", 1),
        (["open", "notes.txt"], "not a session", 1),
        (["open", "s.jsonl", "--notebook", "no/such.ipynb"], "No such file", 1),
    ],
)
async def test_a_wrong_word_is_one_line_and_changes_nothing(
    pi_nb: Said, path: Path, tmp_path: Path, arguments: list[str], said: str, code: int
) -> None:
    (tmp_path / "notes.txt").write_text("notes\n")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    ended, _, err = pi_nb(*arguments)

    assert ended == code
    assert said in err
    assert err.count("\n") == 1
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("arguments", [["inspect"], ["inspect", "--json"], ["open", "--print"]])
async def test_an_empty_file_is_called_that_and_no_session_is_made_up(
    pi_nb: Said, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "s.jsonl").touch()

    code, out, err = pi_nb(arguments[0], "s.jsonl", *arguments[1:])

    assert (code, out) == (1, "")
    assert err.startswith(f"pi-nb {arguments[0]}: s.jsonl is an empty file")
    assert pi_nb("export", "s.jsonl", "o.md")[0] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["s.jsonl"]


async def test_all_rows_of_a_long_tree_are_drawn_on_demand(pi_nb: Said, tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path, durability="flush") as session:
        for number in range(300):
            await session.append_message(UserMessage(content=f"row {number}."))

    _, some, _ = pi_nb("inspect", "s.jsonl")
    _, every, _ = pi_nb("inspect", "s.jsonl", "--all")

    assert "of 300 rows drawn, --all draws all" in some
    assert "limit=" not in some
    assert all(f"row {number}." in every for number in range(300))


async def test_a_list_has_the_columns_that_the_magic_has(pi_nb: Said, tmp_path: Path) -> None:
    with SessionRepo().create(tmp_path, "My\x1b[31m session", id="0000-4567-beef") as session:
        await session.append_message(UserMessage(content="hello"))
    SessionRepo().create(tmp_path, "Nothing said").close()

    _, here, _ = pi_nb("list")
    _, everywhere, _ = pi_nb("list", "--all")

    assert here.splitlines()[0].split() == ["id", "name", "last", "message", "format"]
    assert here.splitlines()[1].startswith("567-beef  My session  20")
    assert "Nothing said" not in here
    assert everywhere.splitlines()[0].endswith("folder")
    assert str(tmp_path) in everywhere


async def test_the_command_line_speaks_of_options(pi_nb: Said, path: Path, tmp_path: Path) -> None:
    assert "--format says what it is" in pi_nb("export", "s.jsonl", "o.txt")[2]
    help_ = " ".join(pi_nb("inspect", "-h")[1].split())
    assert "the beginning or the end of it" in help_
    assert "a part of" not in help_


async def test_a_file_of_a_version_to_come_is_read_and_said_to_be_one(
    pi_nb: Said, tmp_path: Path
) -> None:
    header = {"type": "session", "version": 99, "id": "s", "timestamp": "2026-01-01T00:00:00Z"}
    (tmp_path / "s.jsonl").write_text(json.dumps({**header, "cwd": "/w"}) + "\n")

    code, out, _ = pi_nb("inspect", "s.jsonl")

    assert code == 0
    assert "of version 99, newer than what this program knows" in out
