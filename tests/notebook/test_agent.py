"""`pi_nb.agent(...)` in plain Python: sessions, models, and a real conversation over a socket."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from kernels import LiveKernel
from loopback import Loopback, sse

import pi_nb
from pi_nb import PiError, ScriptedModel, call, reply
from pi_nb.notebook.current import current
from pi_nb.session.session import Session


def _models(loopback: Loopback, *names: str, **extra: Any) -> None:
    loopback.always("/v1/models", {"data": [{"id": name, **extra} for name in names]})


def _call_chunks(call_id: str, name: str, arguments: dict[str, Any]) -> bytes:
    text = json.dumps(arguments)
    half = len(text) // 2
    delta = {"index": 0, "id": call_id, "function": {"name": name, "arguments": text[:half]}}
    return sse(
        _delta({"content": "I look. "}),
        _delta({"tool_calls": [delta]}),
        _delta({"tool_calls": [{"index": 0, "function": {"arguments": text[half:]}}]}),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 9}},
        "[DONE]",
    )


def _text_chunks(text: str) -> bytes:
    return sse(
        *(_delta({"content": word}) for word in text.split(" ")),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        "[DONE]",
    )


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


@pytest.mark.parametrize("cut", [1, 7, None])
def test_an_agent_on_a_local_server_works_on_real_files(
    loopback: Loopback, tmp_path: Path, cut: int | None
) -> None:
    (tmp_path / "notes.md").write_text("tea\nnaïve 中 😀\n", "utf-8")
    _models(loopback, "tiny", "big")
    edits = [{"old": "tea", "new": "salt"}]
    with pi_nb.agent(cwd=tmp_path, model=loopback.url, approve="allow") as agent:
        loopback.answer(_call_chunks("c1", "read", {"path": "notes.md"}), cut=cut)
        loopback.answer(_call_chunks("c2", "edit", {"path": "notes.md", "edits": edits}), cut=cut)
        loopback.answer(_text_chunks("Tea is salt now. 中😀"), cut=cut)
        result = agent.prompt_sync("Replace tea by salt.")

    assert (tmp_path / "notes.md").read_text("utf-8") == "salt\nnaïve 中 😀\n"
    assert result.ok
    assert result.text == "Tea" + "".join(["is", "salt", "now.", "中😀"])
    assert (agent.model.id, agent.model.context_window) == ("tiny", 8_192)
    bodies = [r.json for r in loopback.requests if r.path.endswith("/chat/completions")]
    assert [m["role"] for m in bodies[-1]["messages"]] == [
        "system", "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip
    assert "naïve 中 😀" in bodies[1]["messages"][-1]["content"]
    assert {tool["function"]["name"] for tool in bodies[0]["tools"]} == {
        "read", "write", "edit", "bash",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "window", "expected"),
    [
        ("{url}", None, ("tiny", 32_000)),
        ("{url}/v1", None, ("tiny", 32_000)),
        ("{url}/v1/#big", 9_000, ("big", 9_000)),
    ],
)
def test_a_server_is_named_by_its_address_and_a_model_of_its_list(
    loopback: Loopback, tmp_path: Path, spec: str, window: int | None, expected: tuple[str, int]
) -> None:
    _models(loopback, "tiny", "big", max_model_len=32_000)
    with pi_nb.agent(cwd=tmp_path, model=spec.format(url=loopback.url), window=window) as agent:
        assert (agent.model.id, agent.model.context_window) == expected


def test_a_server_that_is_not_there_makes_no_session(tmp_path: Path, unused_port: int) -> None:
    with pytest.raises(PiError, match=f"127.0.0.1:{unused_port}") as raised:
        pi_nb.agent(tmp_path / "s.jsonl", model=f"http://127.0.0.1:{unused_port}")

    assert raised.value.code == "invalid_argument"
    assert list(tmp_path.iterdir()) == []


def test_the_environment_may_name_the_model(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _models(loopback, "tiny")
    monkeypatch.setenv("PI_NB_MODEL", loopback.url)

    with pi_nb.agent(cwd=tmp_path) as agent:
        assert agent.model.id == "tiny"


def test_without_a_model_a_prompt_says_what_to_do_and_writes_nothing(tmp_path: Path) -> None:
    with pi_nb.agent(tmp_path / "s.jsonl", cwd=tmp_path) as agent:
        before = (tmp_path / "s.jsonl").read_bytes()
        with pytest.raises(PiError, match="%agent model") as raised:
            agent.prompt_sync("hello")

        assert raised.value.code == "invalid_state"
        assert (tmp_path / "s.jsonl").read_bytes() == before


def test_a_session_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with pi_nb.agent(file, cwd=tmp_path, model=ScriptedModel(["one"]), name="mine") as agent:
        agent.prompt_sync("first")
    model = ScriptedModel(["two"])

    with pi_nb.agent(file, model=model) as agent:
        agent.prompt_sync("second")

        assert agent.session.name == "mine"
        assert agent.env is not None
        assert agent.env.cwd == str(tmp_path)
    asked = [message.role for message in model.requests[0].messages]
    assert asked == ["user", "assistant", "user"]


def test_a_session_whose_folder_is_gone_asks_where_to_go_on(tmp_path: Path) -> None:
    """S-20."""
    home = tmp_path / "project"
    home.mkdir()
    with pi_nb.agent(tmp_path / "s.jsonl", cwd=home, model=ScriptedModel([])):
        pass
    home.rmdir()

    with pytest.raises(PiError, match="cwd="):
        pi_nb.agent(tmp_path / "s.jsonl", model=ScriptedModel([]))

    with pi_nb.agent(tmp_path / "s.jsonl", model=ScriptedModel([]), cwd=tmp_path) as agent:
        assert agent.env is not None
        assert agent.env.cwd == str(tmp_path)


@pytest.mark.parametrize("wrong", ["text", "folder"])
def test_what_is_no_session_is_refused_and_left_as_it_was(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "x.jsonl"
    if wrong == "folder":
        path.mkdir()
    else:
        path.write_text("Dear diary\n")

    with pytest.raises(PiError) as raised:
        pi_nb.agent(path, model=ScriptedModel([]))

    assert raised.value.code == "session"
    assert "\n" not in str(raised.value)
    assert [p.name for p in tmp_path.iterdir()] == ["x.jsonl"]
    assert path.is_dir() or path.read_text() == "Dear diary\n"


def test_the_newest_agent_is_the_current_one_until_it_is_closed(tmp_path: Path) -> None:
    one = pi_nb.agent(tmp_path / "1.jsonl", cwd=tmp_path, model=ScriptedModel([]))
    two = pi_nb.agent(tmp_path / "2.jsonl", cwd=tmp_path, model=ScriptedModel([]))
    assert current() is two

    two.close()
    two.close()

    assert current() is None
    assert "closed" in repr(two)
    one.close()


def test_closing_aborts_what_runs_and_writes_it(tmp_path: Path) -> None:
    asked = threading.Event()

    def slow(_request: Any) -> Any:
        asked.set()
        return reply("never", delay=60)

    agent = pi_nb.agent(tmp_path / "s.jsonl", cwd=tmp_path, model=ScriptedModel([slow]))
    found: list[Any] = []
    runner = threading.Thread(target=lambda: found.append(agent.prompt_sync("go")))
    runner.start()
    assert asked.wait(5)

    agent.close()
    runner.join(5)

    assert found[0].message.stop_reason == "aborted"
    assert '"stopReason":"aborted"' in (tmp_path / "s.jsonl").read_text("utf-8")


def test_a_cancelled_await_aborts_the_run(tmp_path: Path) -> None:
    asked = threading.Event()

    def slow(_request: Any) -> Any:
        asked.set()
        return reply("never", delay=60)

    async def main(agent: pi_nb.Agent) -> None:
        task = asyncio.create_task(agent.prompt("go"))
        await asyncio.to_thread(asked.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert agent.harness.phase == "idle"

    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel([slow])) as agent:
        asyncio.run(main(agent))


def test_no_approval_is_possible_without_somebody_to_ask(tmp_path: Path) -> None:
    model = ScriptedModel([reply(call("bash", command="touch made")), "Well."])
    with pi_nb.agent(cwd=tmp_path, model=model) as agent:
        result = agent.prompt_sync("go")

    assert not (tmp_path / "made").exists()
    assert "nobody can be asked" in result.messages[2].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"approve": "maybe"}, '"ask", "allow", "deny"'),
        ({"approve": None}, '"ask", "allow", "deny"'),
        ({"tools": ["bash"]}, "'bash' is no tool"),
        ({"tools": "bash"}, "a list of tools"),
        ({"model": 3}, "3 is no model"),
        ({"window": 0}, "1 token or more"),
        ({"cwd": "no/such/folder"}, "no folder"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line_before_a_file_is_made(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(PiError, match=said) as raised:
        pi_nb.agent(
            tmp_path / "s.jsonl",
            **{"cwd": tmp_path, "model": ScriptedModel([]), **wrong},
        )

    assert raised.value.code == "invalid_argument"
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_session_file_is_not_made_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PiError, match="no folder"):
        pi_nb.agent(tmp_path / "no" / "s.jsonl", cwd=tmp_path, model=ScriptedModel([]))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("nothing", ["", "  \n", 3, None])
def test_a_prompt_that_says_nothing_is_refused(tmp_path: Path, nothing: Any) -> None:
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel(["x"])) as agent:
        with pytest.raises(PiError) as raised:
            agent.prompt_sync(nothing)

        assert raised.value.code == "invalid_argument"
        assert len(agent.session) == 0


def test_a_failed_model_is_not_silent(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel([reply(error="no such model")])) as agent:
        result = agent.prompt_sync("go")

    assert not result.ok
    assert "no such model" in str(result)


def test_typed_functions_are_tools(tmp_path: Path) -> None:
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"Rain in {city}."

    model = ScriptedModel([reply(call("weather", city="Bergen")), "Rain."])
    with pi_nb.agent(cwd=tmp_path, model=model, tools=[weather]) as agent:
        agent.prompt_sync("How is Bergen?")

        assert [tool.name for tool in agent.tools] == ["weather"]
    assert model.requests[1].messages[-1].text == "Rain in Bergen."  # type: ignore[union-attr]


def test_an_entry_is_gone_to_by_itself_its_number_or_its_id(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel(lambda r: "Yes.")) as agent:
        agent.prompt_sync("one")
        agent.prompt_sync("two")
        second = list(agent.session.entries())[1]

        for where in (second, 2, "2", second.id, second.id[-10:]):
            agent.goto(4)
            agent.goto(where)
            assert agent.harness.leaf == second.id
        assert agent.goto(3).editor_text == "two"


@pytest.mark.slow
def test_a_cell_points_at_a_local_server_and_asks_it(
    kernel: LiveKernel, loopback: Loopback
) -> None:
    _models(loopback, "tiny")
    shown = kernel.good(f"%agent model {loopback.url} --window 4096").result
    loopback.answer(_text_chunks("Hello from the socket"), cut=1)
    cell = kernel.good("%%agent\nhello")

    assert "tiny, window 4,096" in shown
    assert "Hellofromthesocket" in cell.markdown
    refused = kernel.run(f"%agent model {loopback.url}#huge")
    assert refused.ename == "UsageError"
    assert "tiny" in refused.evalue, "says which models there are"


def test_a_fork_of_a_session_from_another_machine_is_one_of_the_folder_here(
    tmp_path: Path,
) -> None:
    """S-20: its own folder is not there; the agent was told where to work instead."""
    file = tmp_path / "s.jsonl"
    Session.create(file, cwd="/nonexistent/x").close()
    with pi_nb.agent(file, cwd=tmp_path, model=ScriptedModel(["yes"])) as agent:
        agent.prompt_sync("there?")

        made = agent.fork(session_dir=tmp_path / "forks")

    with pi_nb.agent(made.path, model=ScriptedModel([])) as again:
        assert again.session.cwd == str(tmp_path)
        assert len(again.session) == 2
