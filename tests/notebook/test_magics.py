"""`%%agent` and `%agent` in a real kernel: what they do, say, leave, and refuse."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from kernels import LiveKernel, messages

pytestmark = pytest.mark.slow

TOUCHES = 'ScriptedModel([reply(call("bash", command="touch made")), "Well."])'


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def test_loading_prints_nothing_and_binds_nothing(kernel: LiveKernel) -> None:
    cell = kernel.good(
        "%unload_ext pi_nb\nbefore = set(globals())\n%load_ext pi_nb\n"
        "print(sorted(set(globals()) - before - {'before'}))"
    )

    assert cell.stdout == "[]\n"
    assert cell.stderr == ""


def test_unloading_takes_everything_back(kernel: LiveKernel) -> None:
    cell = kernel.good(
        "ip = get_ipython()\n%unload_ext pi_nb\n"
        "print(*('agent' in ip.magics_manager.magics[kind] for kind in ('cell', 'line')),"
        "[t for t in ip.input_transformers_post if 'pi_nb' in getattr(t, '__module__', '')])\n"
        "%load_ext pi_nb"
    )

    assert cell.stdout == "False False []\n"


def test_a_cell_leaves_markdown_and_text_and_no_widget(kernel: LiveKernel) -> None:
    kernel.good('agent = pi_nb.agent(model=ScriptedModel(["It is **fine**."]))')

    cell = kernel.good("%%agent\nHow is it?")

    (shown,) = cell.displays.values()
    assert set(shown) == {"text/markdown", "text/plain"}
    assert shown["text/markdown"].startswith("It is **fine**.")
    assert "context" in shown["text/plain"].splitlines()[-1]
    assert cell.result == ""


def test_the_answer_can_be_bound_and_the_last_one_is_kept(kernel: LiveKernel) -> None:
    kernel.good('agent = pi_nb.agent(model=ScriptedModel(["Blue."]))')

    kernel.good("%%agent -o colour -q\nWhich?")

    assert kernel.good("print(colour.text, colour is agent.last, colour.ok)").stdout == (
        "Blue. True True\n"
    )


def test_the_agent_works_on_real_files_from_a_cell(kernel: LiveKernel, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("tea\nrice\n")
    kernel.good(
        'agent = pi_nb.agent(approve="allow", model=ScriptedModel(['
        'reply(call("read", path="notes.md"), call("bash", command="wc -l < notes.md")),'
        'reply(call("edit", path="notes.md", edits=[{"old": "tea", "new": "salt"}])), "Done."]))'
    )

    cell = kernel.good("%%agent\nReplace tea by salt.")

    assert (tmp_path / "notes.md").read_text() == "salt\nrice\n"
    assert "read: notes.md" in cell.text
    assert "-tea" in cell.markdown
    assert "+salt" in cell.markdown


def test_a_line_is_not_expanded(kernel: LiveKernel) -> None:
    """J-07: `$x` and `{x}` of a line magic stay as they are written."""
    kernel.good("agent = pi_nb.agent(model=ScriptedModel(['ok'])); a = 1")

    cell = kernel.run("%agent cost is ${5} and {a} and {1+1}")
    assert "'cost'" in cell.evalue

    kernel.good("%agent new --name {a}$HOME${5}")
    assert kernel.good("print(agent.session.name)").stdout == "{a}$HOME${5}\n"


def test_the_body_goes_to_the_model_word_for_word(kernel: LiveKernel, tmp_path: Path) -> None:
    """J-08, P-09: no expansion, no options, no magics inside the body."""
    body = "---\n-x {a} $HOME ${5} {1+1}\n%ls\n!ls\n?help\n\\frac{a}{b}"
    kernel.good('agent = pi_nb.agent(model=ScriptedModel(["ok"])); a = 1')

    kernel.good(f"%%agent\n{body}")

    assert messages(tmp_path)[0]["content"] == [{"type": "text", "text": body}]


def test_hostile_text_is_shown_as_text(kernel: LiveKernel) -> None:
    kernel.good(
        "agent = pi_nb.agent(model=ScriptedModel(['<img src=x onerror=alert(1)>"
        " [x](javascript:alert(1))']))"
    )

    cell = kernel.good("%%agent\nx")

    assert "<img" not in cell.markdown
    assert "](javascript" not in cell.markdown


def test_a_cut_off_answer_says_so(kernel: LiveKernel) -> None:
    """L-21."""
    kernel.good('agent = pi_nb.agent(model=ScriptedModel([reply("Half", stop_reason="length")]))')

    cell = kernel.good("%%agent\nx")

    assert "not complete" in cell.markdown
    assert kernel.good("print(agent.last.ok)").stdout == "False\n"


def test_a_model_that_fails_fails_the_cell_in_one_line_and_keeps_the_prompt(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good('agent = pi_nb.agent(model=ScriptedModel([reply("Par", error="no such model")]))')

    cell = kernel.run("%%agent\nx")

    assert cell.ename == "ModelFailed"
    assert "no such model" in cell.evalue
    assert len(cell.traceback) == 1
    assert "Par" in cell.markdown
    assert [m["role"] for m in messages(tmp_path)] == ["user", "assistant"]


def test_without_a_model_the_cell_says_what_to_do_and_asks_nobody(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    cell = kernel.run("%%agent\nhello")

    assert cell.ename == "UsageError"
    assert "%agent model http" in cell.evalue
    assert messages(tmp_path) == []


def test_to_look_makes_no_agent_and_no_session(kernel: LiveKernel, tmp_path: Path) -> None:
    shown = kernel.good("%agent").result

    assert "No agent yet" in shown
    assert not (tmp_path / "sessions").exists()
    assert kernel.good("print('agent' in globals())").stdout == "False\n"


def test_the_first_cell_binds_agent_unless_the_name_is_taken(kernel: LiveKernel) -> None:
    kernel.run("%%agent\nhello")
    assert kernel.good("print(type(agent).__name__)").stdout == "Agent\n"
    kernel.good("agent.close(); agent = 'mine'")
    kernel.run("%%agent\nhello")
    assert kernel.good("print(agent)").stdout == "mine\n"


def test_the_variable_agent_says_whom_the_magics_talk_to(kernel: LiveKernel) -> None:
    kernel.good(
        "agent = one = pi_nb.agent('1.jsonl', model=ScriptedModel(lambda r: 'I am one.'))\n"
        "two = pi_nb.agent('2.jsonl', model=ScriptedModel(lambda r: 'I am two.'))"
    )

    assert "I am one." in kernel.good("%%agent\nwho?").markdown
    kernel.good("%agent")
    assert kernel.good("print(agent is one)").stdout == "True\n"
    assert (
        "I am two."
        in kernel.good("agent = two\nget_ipython().run_cell_magic('agent', '', 'x')").markdown
    )


def test_a_closed_agent_is_named_and_kept(kernel: LiveKernel) -> None:
    kernel.good(
        "agent = pi_nb.agent('1.jsonl', model=ScriptedModel(['Yes.'])); agent.prompt_sync('x')"
    )
    kernel.good("agent.close()")

    cell = kernel.run("%%agent\nhello")

    assert cell.ename == "UsageError"
    assert "closed" in cell.evalue
    assert "%agent resume" in cell.evalue
    assert kernel.good("print(agent.last.text)").stdout == "Yes.\n"


def test_resume_goes_on_with_what_was_said_and_not_with_an_empty_session(
    kernel: LiveKernel,
) -> None:
    kernel.good("agent = pi_nb.agent(model=ScriptedModel(lambda r: 'Yes.'), name='work')")
    kernel.good("%%agent\nhello")
    kernel.good("agent.close(); del agent; other = pi_nb.agent(); other.close()")

    shown = kernel.good("%agent resume").result

    assert "work" in shown
    assert "2 messages" in shown
    assert "the session used" in shown


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%agent nonsense", "see `%agent -h`"),
        ("%agent explain {8}", "A prompt goes into a %%agent cell"),
        ("%agent opne x", "Did you mean 'open'?"),
        ("%agent new --nme x", "unrecognized arguments: --nme"),
        ("%agent open", "the following arguments are required: FILE"),
        ("%agent open no_such_file.jsonl", "no file no_such_file.jsonl"),
        ("%agent open .", "is a folder"),
        ("%agent open foreign.txt", "not a session"),
        ("%agent goto zzz", "'zzz'"),
        ("%agent model nonsense", "http://"),
        ("%agent model http://127.0.0.1:9", "127.0.0.1:9"),
        ("%agent model http://127.0.0.1:8080 --window many", "a whole number of tokens"),
        ("%agent model http://127.0.0.1:8080 --window=-3", "a whole number of tokens"),
        ("%agent resume no-such", "'no-such'"),
        ("%%agent --nonsense\nhi", "unrecognized arguments: --nonsense"),
        ("%%agent -o 1x\nhi", "'1x'"),
        ("%%agent\n   ", "the cell is empty"),
        ("%%agent", "the cell is empty"),
        ("%%time\n%%agent", "the cell is empty"),
        ("%agent new 'x", "quotation"),
    ],
)
def test_a_mistake_is_one_line_with_the_next_step_and_changes_nothing(
    kernel: LiveKernel, tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "foreign.txt").write_text("Dear diary\n")
    kernel.good('agent = pi_nb.agent(model=ScriptedModel(["ok"]))')
    before = _digest(tmp_path)

    cell = kernel.run(line)

    assert (cell.status, cell.ename) == ("error", "UsageError")
    assert said in cell.evalue
    assert "\n" not in cell.evalue.strip()
    assert _digest(tmp_path) == before
    assert "ok" in kernel.good("%%agent\nstill there?").markdown


@pytest.mark.parametrize(
    "line", ["%agent -h", "%agent new -h", "%agent goto --help", "%%agent -h\nx", "%%agent -h"]
)
def test_help_is_shown_in_the_cell(kernel: LiveKernel, line: str) -> None:
    cell = kernel.good(line)

    assert "%agent" in cell.stdout
    assert cell.displays == {}


def test_new_open_resume_list_and_goto_move_between_sessions_and_entries(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good('agent = pi_nb.agent(model=ScriptedModel(lambda request: "Yes."), name="first")')
    kernel.good("%%agent\none")
    kernel.good("first = str(agent.session.path)")
    kernel.good("%agent new --name second")
    kernel.good("%%agent\ntwo")

    listed = kernel.good("%agent list").result
    assert "first" in listed
    assert "second" in listed

    kernel.good("get_ipython().run_line_magic('agent', 'open ' + first); print(agent.session.name)")
    assert kernel.good("print(agent.session.name)").stdout == "first\n"
    kernel.good("%agent resume second")
    assert kernel.good("print(agent.session.name)").stdout == "second\n"

    cell = kernel.good("%agent goto 1")
    assert "two" in cell.result
    kernel.good("%%agent\ntwo again")
    assert "├" in kernel.good("print(agent.outline())").stdout


def test_making_an_agent_on_an_open_file_closes_the_former_one(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good('a = pi_nb.agent("s.jsonl", model=ScriptedModel(["ok"]))')
    kernel.good('b = pi_nb.agent("s.jsonl", model=ScriptedModel(["ok"]))')

    assert kernel.good("print(a.closed, b.closed)").stdout == "True False\n"
    assert "closed" in kernel.run("a.prompt_sync('x')").evalue


@pytest.mark.parametrize("way", ["%%agent\ngo", "%%time\n%%agent\ngo"])
def test_where_nobody_can_answer_an_approval_is_denied_at_once(
    kernel: LiveKernel, tmp_path: Path, way: str
) -> None:
    kernel.good(f"agent = pi_nb.agent(model={TOUCHES})")

    cell = kernel.run(way)

    assert cell.ok
    assert cell.seconds < 1
    assert not (tmp_path / "made").exists()
    result = messages(tmp_path)[2]
    assert result["isError"] is True
    assert "nobody can be asked" in result["content"][0]["text"]
    assert _approvals(tmp_path) == [("denied", "policy")]


@pytest.mark.parametrize(
    ("answer", "made", "record"),
    [("y", True, "allowed"), ("n", False, "denied"), ("", False, "denied")],
)
def test_an_approval_is_asked_for_by_input(
    kernel: LiveKernel, tmp_path: Path, answer: str, made: bool, record: str
) -> None:
    kernel.good(f"agent = pi_nb.agent(model={TOUCHES})")

    kernel.start("%%agent\ngo", allow_stdin=True)
    kernel.answer(answer)
    cell = kernel.finish()

    assert cell.ok
    assert "touch made" in cell.stdout
    assert (tmp_path / "made").exists() is made
    assert _approvals(tmp_path) == [(record, "user")]


def test_nonsense_is_asked_again_and_the_reason_of_a_no_reaches_the_model(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good(f"agent = pi_nb.agent(model={TOUCHES})")

    kernel.start("%%agent\ngo", allow_stdin=True)
    kernel.answer("banana")
    kernel.answer("no, write it to the log instead")
    cell = kernel.finish()

    assert "answer y, n or a" in cell.stdout
    assert messages(tmp_path)[2]["content"][0]["text"].endswith("write it to the log instead")


@pytest.mark.parametrize(
    "command",
    [
        "touch PWNED #\rls -la",
        "touch PWNED #" + "\b" * 15 + "ls",
        "touch PWNED; : \x1b]0;x",
        "echo hi" + " " * 990 + "; touch PWNED",
        "ls \x9dx;touch PWNED\x9c",
        "touch PWNED\u202e #sl",
    ],
)
def test_what_is_asked_for_is_exactly_what_would_run(
    kernel: LiveKernel, tmp_path: Path, command: str
) -> None:
    calls = f"reply(call('bash', command={command!r}))"
    kernel.good(f"agent = pi_nb.agent(model=ScriptedModel([{calls}, 'Well.']))")

    kernel.start("%%agent\ngo", allow_stdin=True)
    kernel.answer("n")
    cell = kernel.finish()

    assert "touch PWNED" in cell.stdout
    assert not set("\r\b\x1b\x9d\x9c\u202e") & set(cell.stdout)
    assert not (tmp_path / "PWNED").exists()


def test_always_is_asked_once_a_session(kernel: LiveKernel, tmp_path: Path) -> None:
    kernel.good(
        "agent = pi_nb.agent(model=ScriptedModel([reply(call('bash', command='touch one')),"
        "reply(call('bash', command='touch two')), 'Well.']))"
    )

    kernel.start("%%agent\ngo", allow_stdin=True)
    kernel.answer("a")
    kernel.finish()

    assert (tmp_path / "one").exists()
    assert (tmp_path / "two").exists()


def _approvals(folder: Path) -> list[tuple[str, str]]:
    (file,) = folder.rglob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [(line["decision"], line["by"]) for line in lines if line.get("type") == "approval"]


def test_prompt_and_prompt_sync_return_the_result(kernel: LiveKernel) -> None:
    """J-01: in a plain cell, in an async one, and from a thread."""
    kernel.good('agent = pi_nb.agent(model=ScriptedModel(lambda request: "Here."))')

    assert kernel.good("(await agent.prompt('a')).text").result == "'Here.'"
    assert kernel.good("agent.prompt_sync('b').text").result == "'Here.'"
    assert (
        kernel.good("import asyncio\nawait asyncio.sleep(0)\nagent.prompt_sync('c').text").result
        == "'Here.'"
    )
    threaded = (
        "import threading\nfound = []\n"
        "t = threading.Thread(target=lambda: found.append(agent.prompt_sync('d').text))\n"
        "t.start(); t.join(); found"
    )
    assert kernel.good(threaded).result == "['Here.']"


def test_a_second_prompt_at_once_is_told_that_the_agent_is_busy(kernel: LiveKernel) -> None:
    kernel.good('agent = pi_nb.agent(model=ScriptedModel([reply("slow", delay=0.5), "x"]))')

    cell = kernel.run("import asyncio\nawait asyncio.gather(agent.prompt('a'), agent.prompt('b'))")

    assert cell.ename == "PiError"
    assert "at work" in cell.evalue
    kernel.good("agent.abort()")


def test_output_of_a_run_lands_in_its_own_cell(kernel: LiveKernel) -> None:
    """J-04: what a tool prints belongs to the cell that asked."""
    kernel.good(
        "@pi_nb.tool\ndef hello() -> str:\n    'Say hello.'\n"
        "    print('from the tool')\n    return 'ok'\n"
        "agent = pi_nb.agent(tools=[hello], model=ScriptedModel([reply(call('hello')), 'Said.']))"
    )

    cell = kernel.good("%%agent\ngo")

    assert "from the tool" in cell.stdout
    assert "Said." in cell.markdown


HOLDER = """
import sys
from pi_nb.session.session import Session
session = Session.create(sys.argv[1], cwd=".")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_session_that_another_process_holds_is_refused_by_name(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    path = tmp_path / "held.jsonl"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = path.read_bytes()

        cell = kernel.run("%agent open held.jsonl")

        assert cell.ename == "UsageError"
        assert str(holder.pid) in cell.evalue
        assert "read" in cell.evalue, "the next step: open it read-only"
        assert path.read_bytes() == before
    finally:
        holder.kill()
        holder.communicate()
    assert kernel.good("%agent open held.jsonl").ok, "a dead owner is replaced"


def test_a_full_disk_is_one_line_and_loses_nothing_that_was_written(
    kernel: LiveKernel, tmp_path: Path
) -> None:
    kernel.good('agent = pi_nb.agent("s.jsonl", model=ScriptedModel(lambda r: "x" * 500))')
    kernel.good("%%agent\nbefore")
    whole = (tmp_path / "s.jsonl").read_bytes()
    kernel.good(
        "import resource\nlimits = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(whole) + 350}, limits[1]))"
    )
    try:
        cell = kernel.run("%%agent\nfull")
    finally:
        kernel.good("resource.setrlimit(resource.RLIMIT_FSIZE, limits)")

    assert cell.ename == "UsageError"
    assert "s.jsonl" in cell.evalue
    assert (tmp_path / "s.jsonl").read_bytes().startswith(whole)
    assert "xxx" in kernel.good("%%agent\nafter").markdown
    stored = [m["role"] for m in messages(tmp_path)]
    assert stored[:2] == ["user", "assistant"]
    assert stored[-2:] == ["user", "assistant"]
