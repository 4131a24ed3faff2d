"""What somebody meets who types `%agent` and `%tree` for the first time: magics in a real
shell, without a kernel around it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import pi_nb
from pi_nb import cli
from pi_nb.messages import user
from pi_nb.notebook.agent import Agent
from pi_nb.notebook.current import agents
from pi_nb.notebook.magics import load, unload
from pi_nb.notebook.parsing import MAGIC_WORDS
from pi_nb.notebook.status import Rows
from pi_nb.session.entries import MessageEntry
from pi_nb.session.repo import SessionRepo
from pi_nb.session.session import Session


class Shell:
    """An IPython with the magics loaded, in a folder of its own."""

    def __init__(self, ip: InteractiveShell) -> None:
        self.ip = ip

    def run(self, line: str) -> Any:
        name, _, rest = line.removeprefix("%").partition(" ")
        return self.ip.run_line_magic(name, rest)

    def refused(self, line: str) -> str:
        """What the user is told; always one line."""
        with pytest.raises(UsageError) as told:
            self.run(line)
        assert "\n" not in str(told.value)
        return str(told.value)

    def begun(self, *prompts: str, **settings: Any) -> Agent:
        """An agent named by `agent` that was asked these."""
        made = pi_nb.agent(model=pi_nb.ScriptedModel(lambda _request: "Yes."), **settings)
        self.ip.user_ns["agent"] = made
        for prompt in prompts:
            made.prompt_sync(prompt)
        return made


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("PI_NB_MODEL", raising=False)
    former = {*agents()}
    ip = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    load(ip)
    yield Shell(ip)
    for made in agents():
        if made not in former:
            made.close()
    unload(ip)


def sessions(folder: Path) -> list[Path]:
    """Session files in a folder, and where new ones go."""
    found = [*folder.rglob("*"), *SessionRepo().root.rglob("*")]
    return [path for path in found if ".jsonl" in path.name]


def v1(path: Path, cwd: Path) -> Path:
    """A file as the first versions of pi wrote it."""
    said = {"role": "user", "content": "which tests?", "timestamp": 1}
    lines = [
        {"type": "session", "id": "old", "timestamp": "2026-01-01T00:00:00Z", "cwd": str(cwd)},
        {"type": "message", "timestamp": "2026-01-01T00:00:01Z", "message": said},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


# --- without an agent -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        *("goto 1", "export out.md", "fork", "fork --whole", "label", "label start"),
        *("label start 1", "lane", "lane side --new", "thinking", "tools"),
    ],
)
def test_what_needs_an_agent_says_that_there_is_none_and_makes_no_file(
    shell: Shell, tmp_path: Path, line: str
) -> None:
    assert shell.refused(f"%agent {line}").startswith("No agent yet.")
    assert sessions(tmp_path) == []
    assert "agent" not in shell.ip.user_ns


@pytest.mark.parametrize("line", ["", "status", "model", "doctor"])
def test_to_look_without_an_agent_makes_none(shell: Shell, tmp_path: Path, line: str) -> None:
    assert "No agent yet" in str(shell.run(f"%agent {line}"))
    assert sessions(tmp_path) == []


@pytest.mark.parametrize("line", ["thinking high", "tools --on python", "tools --off bash"])
def test_a_setting_makes_the_agent_that_it_is_of(shell: Shell, tmp_path: Path, line: str) -> None:
    shell.run(f"%agent {line}")

    assert isinstance(shell.ip.user_ns["agent"], Agent)
    assert sessions(tmp_path), "what no test would find cannot be missing either"


def test_that_there_is_no_model_is_said_once(shell: Shell, tmp_path: Path) -> None:
    shell.begun("tea").close()
    shell.ip.user_ns.clear()
    shell.run("%agent resume --here")

    with pytest.raises(UsageError) as told:
        shell.ip.run_cell_magic("agent", "", "hello")

    assert str(told.value).lower().count("no model") == 1
    assert "the session used scripted of scripted" in str(told.value)


# --- a file that is only read ---------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False], ids=["its folder is there", "its folder is gone"])
def test_the_line_that_a_refusal_names_can_be_typed_as_it_is(
    shell: Shell, tmp_path: Path, there: bool
) -> None:
    v1(tmp_path / "of pi.jsonl", tmp_path if there else tmp_path / "gone")

    told = shell.refused("%tree 'of pi.jsonl' --goto 1")
    (line,) = re.findall(r"`(%agent open .*?)`", told)
    shell.run(line)
    shell.run("%tree --label 1 start")
    shell.run("%tree --goto 1")

    assert ("--here" in line) is not there
    agent = shell.ip.user_ns["agent"]
    assert (agent.session.id, agent.harness.leaf) == ("old", None)
    assert agent.env.cwd == str(tmp_path)


def test_open_goes_on_here_where_that_is_wanted(shell: Shell, tmp_path: Path) -> None:
    v1(tmp_path / "s.jsonl", tmp_path / "gone")

    assert "`%agent open FILE --here`" in shell.refused("%agent open s.jsonl")
    assert str(shell.run("%agent open s.jsonl --here")).count(str(tmp_path)) == 2


def test_an_upgrade_is_told_once_where_it_happens(
    shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    v1(tmp_path / "s.jsonl", tmp_path)
    shell.run("%agent open s.jsonl")
    before = capsys.readouterr().out

    shell.run("%agent label start 1")
    told = capsys.readouterr().out
    shell.run("%agent label other 1")
    again = capsys.readouterr().out

    assert "s.jsonl.v1" not in before + again
    assert told.startswith("The file was of version 1")
    assert "s.jsonl.v1" in told
    assert (tmp_path / "s.jsonl.v1").exists()


def test_a_rename_that_upgrades_the_file_says_so(shell: Shell, tmp_path: Path) -> None:
    v1(tmp_path / "s.jsonl", tmp_path)

    note = shell.run("%agent rename s.jsonl Kitchen").note

    assert "is now named Kitchen. The file was of version 1" in note
    assert note.endswith("s.jsonl.v1.")


def test_a_prompt_that_upgrades_the_file_says_so_below_its_answer(
    shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = shell.begun(file=v1(tmp_path / "s.jsonl", tmp_path))

    shell.ip.run_cell_magic("agent", "", "hello")
    told = capsys.readouterr().out
    shell.ip.run_cell_magic("agent", "", "more")

    assert told.rstrip().endswith("s.jsonl.v1.")
    assert "s.jsonl.v1" not in capsys.readouterr().out
    assert [odd.code for odd in agent.session.diagnostics] == ["upgraded"]


# --- its own words --------------------------------------------------------------------------


def test_a_magic_speaks_of_options_and_not_of_arguments(shell: Shell, tmp_path: Path) -> None:
    shell.begun("tea", format="v3")
    (tmp_path / "out.md").write_text("mine")
    with Session.create(tmp_path / "long.jsonl", cwd=tmp_path) as session:
        for _ in range(250):
            session.append_sync(MessageEntry(message=user("u")), None)

    assert "--overwrite replaces it" in shell.refused("%agent export out.md")
    assert "--format says what it is" in shell.refused("%agent export out.txt")
    assert "`%agent fork --whole --format v4`" in shell.refused("%agent lane side --new")
    assert "rows drawn, --all draws all" in str(shell.run("%tree long.jsonl"))
    assert "--all without --fold draws all" in str(shell.run("%tree long.jsonl --fold"))
    assert "rows drawn" not in str(shell.run("%tree long.jsonl --all"))
    assert (tmp_path / "out.md").read_text() == "mine"


def test_a_session_that_somebody_else_has_can_be_read_by_a_magic(
    shell: Shell, tmp_path: Path
) -> None:
    Session.create(tmp_path / "s.jsonl", cwd=tmp_path).close()
    code = (
        "import sys; from pi_nb.session.session import Session;"
        "s = Session.open('s.jsonl'); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        told = shell.refused("%agent open s.jsonl")
        shown = str(shell.run("%tree s.jsonl"))
        other.stdin.close()

    assert f"process {other.pid}" in told
    assert told.endswith("`%tree FILE` reads it")
    assert "(no entries)" in shown


@pytest.mark.parametrize("words", [MAGIC_WORDS, cli.WORDS], ids=["magics", "command line"])
def test_every_phrase_that_is_put_in_other_words_is_still_said(words: dict[str, str]) -> None:
    package = Path(pi_nb.__file__).parent
    files = [*package.glob("session/**/*.py"), *package.glob("compaction/**/*.py")]
    sources = [path.read_text("utf-8") for path in files]

    for phrase in words:
        assert any(phrase in source for source in sources), phrase


# --- labels, numbers, names -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("%agent label 3 'good start'", "`%agent label 'good start' 3`"),
        ("%agent label 3", "`%agent label TEXT 3`"),
        ("%agent label 3 unknown", "`%agent label unknown 3`"),
        ("%tree --label good 3", "`%tree --label 3 good`"),
        ("%tree --label good start 3", "`%tree --label 3 'good start'`"),
    ],
)
def test_entry_and_label_the_wrong_way_round_is_answered_with_the_right_line(
    shell: Shell, line: str, right: str
) -> None:
    agent = shell.begun("one", "two")

    assert right in shell.refused(line)
    assert agent.session.labels == {}


def test_what_names_no_entry_either_way_is_named_as_it_is(shell: Shell) -> None:
    shell.begun("one")

    assert "no entry has the id or label 'b'" in shell.refused("%agent label a b")


def test_labels_and_lanes_are_shown_by_the_numbers_of_the_outline(shell: Shell) -> None:
    shell.begun("one", "two")

    assert str(shell.run("%agent label start 3")) == "3 is labelled 'start'."
    assert [*shell.run("%agent label")] == [("start", "3", "user: two")]
    assert [*shell.run("%agent lane side --new")] == [
        ("main", "4, assistant: Yes.", ""),
        ("side", "4, assistant: Yes.", "here"),
    ]
    assert str(shell.run("%agent label '' start")) == "3 is no longer labelled."


def test_goto_names_a_row_that_the_tree_shows(shell: Shell) -> None:
    agent = shell.begun("one")
    agent.use_thinking("high")
    agent.prompt_sync("two")
    second = [row.number for row in agent.outline(filter="user-only").rows][1]

    told = shell.run(f"%agent goto {second}").note

    number = int(re.findall(r"now (\d+), assistant: Yes\.", told)[0])
    (row,) = [row for row in agent.outline().rows if row.number == number]
    assert row.lanes == ("main",)


def test_an_open_agent_is_used_by_a_part_of_its_name(shell: Shell) -> None:
    first = shell.begun(name="Kitchen")
    shell.begun(name="Pantry")

    shell.run("%agent use kit")

    assert shell.ip.user_ns["agent"] is first
    assert "no open agent 'Bath'" in shell.refused("%agent use Bath")


def test_a_session_that_is_open_here_is_not_deleted_and_that_is_said(shell: Shell) -> None:
    agent = shell.begun("one", name="Kitchen")

    assert shell.refused("%agent delete kitchen").startswith(
        "Kitchen is open here. `agent.close()`"
    )
    assert agent.session.path is not None
    assert agent.session.path.exists()


def test_filters_are_found_in_either_spelling(shell: Shell) -> None:
    agent = shell.begun("one", "two")
    agent.label("start", 3)

    assert [row.number for row in shell.run("%tree --filter labeled").rows] == [3]
    assert "choose from" in shell.refused("%tree --filter label")


def test_an_export_leaves_out_names_and_patterns(shell: Shell, tmp_path: Path) -> None:
    shell.begun("ask Ada about T-1234")

    done = shell.run("%agent export out.md --name Ada --pattern T-[0-9]+").note

    text = (tmp_path / "out.md").read_text("utf-8")
    assert "Ada" not in text
    assert "T-1234" not in text
    assert "1 name" in done
    assert "1 pattern" in done
    assert "pattern" in shell.refused("%agent export other.md --pattern [")


# --- tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("`%agent <x>` goes on.", "<code>%agent &lt;x&gt;</code> goes on."),
        ("`a`, `b`", "<code>a</code>, <code>b</code>"),
        ("`a` and 5` more", "<code>a</code> and 5` more"),
        ("5` more", "5` more"),
        ("plain", "plain"),
    ],
)
def test_a_note_shows_what_to_type_as_code(note: str, shown: str) -> None:
    rows = Rows(("a",), [("1",)], note)

    assert f"<p>{shown}</p>" in rows._repr_html_().replace("<p></p>", "")
    assert str(rows).endswith(note)


def test_a_table_without_rows_has_no_head() -> None:
    assert str(Rows(("a", "b"), [], "Nothing.")) == "Nothing."
