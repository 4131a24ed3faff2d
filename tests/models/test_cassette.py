"""Cassettes at the level of one request: what is written, what is found again, what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import made, texts

from pi_nb.abort import AbortSignal
from pi_nb.messages import Usage, user
from pi_nb.models.cassette import Cassette, PlayingModel, RecordingModel
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import (
    CallDelta,
    CallStart,
    End,
    Model,
    Request,
    RequestOptions,
    Start,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from pi_nb.result import PiError

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-0123456789abcdef"
TURNED = "zq9-plain-secret-value"
MODEL = Model(id="m", provider="p", context_window=1_234)


class Told:
    """A model that gives these events, and counts how often it was asked."""

    def __init__(self, *streams: Sequence[StreamEvent], fails: Exception | None = None) -> None:
        self.streams = list(streams)
        self.fails = fails
        self.model = MODEL

    async def stream(
        self, _request: Request, _signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        for event in self.streams.pop(0):
            yield event
        if self.fails:
            raise self.fails


def ask_for(text: str, **fields: Any) -> Request:
    return Request(messages=(user(text),), **fields)


async def recorded(path: Path, ask: Any, answers: dict[str, str]) -> None:
    with Cassette(path, "record") as cassette:
        model = cassette.recording(ScriptedModel(list(answers.values()), id="m"))
        for text in answers:
            await ask(model, ask_for(text))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# --- record, then play ----------------------------------------------------------------------

_index = st.integers(0, 3)
_pieces: st.SearchStrategy[StreamEvent] = st.one_of(
    made(Start, response_id=st.none() | texts, response_model=texts),
    made(TextDelta, index=_index, delta=texts, signature=st.none() | texts),
    made(ThinkingDelta, index=_index, delta=texts, redacted=st.none() | st.booleans()),
    made(CallStart, index=_index, id=texts, name=texts),
    made(CallDelta, index=_index, delta=texts | st.just('{"a": "\ud83d"}')),
    made(UsageUpdate, usage=made(Usage, input=st.integers(0, 2**40), output=st.integers(0, 9))),
)
_ends = made(
    End,
    reason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
    error_message=st.none() | texts,
    retry_after=st.none() | st.floats(0, 1e6),
)


@given(st.lists(_pieces, max_size=8), _ends)
def test_what_was_told_once_is_told_again(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[StreamEvent], end: End
) -> None:
    path = tmp_path_factory.mktemp("tape") / "run.jsonl"
    told = [*pieces, end]

    async def both() -> tuple[list[StreamEvent], list[StreamEvent]]:
        with Cassette(path, "record") as cassette:
            live = cassette.recording(Told(told))
            first = [event async for event in live.stream(ask_for("q"), AbortSignal())]
        player = Cassette(path, "play").playing()
        return first, [event async for event in player.stream(ask_for("q"), AbortSignal())]

    live, played = asyncio.run(both())

    assert live == told
    assert played == told


async def test_it_claims_to_be_the_model_that_was_recorded(ask: Any, tmp_path: Path) -> None:
    live = Told([End(reason="stop")])
    live.model = MODEL.having(base_url="http://u:pass@127.0.0.1:1/v1")
    with Cassette(tmp_path / "t", "record") as cassette:
        await ask(cassette.recording(live), ask_for("q"))

    assert Cassette(tmp_path / "t", "play").playing().model == MODEL
    assert "pass" not in (tmp_path / "t").read_text()


async def test_equal_requests_get_their_answers_in_order(ask: Any, tmp_path: Path) -> None:
    failed = reply(error="overloaded")
    with Cassette(tmp_path / "t", "record") as cassette:
        model = cassette.recording(ScriptedModel([failed, "other", "second try"]))
        for text in ("q", "x", "q"):
            await ask(model, ask_for(text))
    player = Cassette(tmp_path / "t", "play").playing()

    said = [await ask(player, ask_for("q")) for _ in range(2)]

    assert [one.end.reason for one in said] == ["error", "stop"]
    assert said[0].end.failure == "overloaded"
    assert said[1].message.text == "second try"


async def test_requests_that_ran_side_by_side_are_played_in_the_order_they_began(
    ask: Any, tmp_path: Path
) -> None:
    script = [reply("slow", delay=0.05), "fast"]
    with Cassette(tmp_path / "t", "record") as cassette:
        model = cassette.recording(ScriptedModel(script))
        await asyncio.gather(*(ask(model, ask_for("q")) for _ in range(2)))
    player = Cassette(tmp_path / "t", "play").playing()

    assert [(await ask(player, ask_for("q"))).message.text for _ in range(2)] == ["slow", "fast"]


async def test_every_player_starts_at_the_beginning(ask: Any, tmp_path: Path) -> None:
    await recorded(tmp_path / "t", ask, {"q": "a"})
    cassette = Cassette(tmp_path / "t", "play")

    said = [(await ask(cassette.playing(), ask_for("q"))).message.text for _ in range(3)]

    assert said == ["a", "a", "a"]


async def test_one_of_several_models_can_be_played(ask: Any, tmp_path: Path) -> None:
    with Cassette(tmp_path / "t", "record") as cassette:
        for name in ("m1", "m2"):
            await ask(cassette.recording(ScriptedModel([name], id=name)), ask_for("q"))
    cassette = Cassette(tmp_path / "t", "play")

    assert cassette.playing().model.id == "m1"
    assert (await ask(cassette.playing(id="m2"), ask_for("q"))).message.text == "m2"
    with pytest.raises(PiError, match=r"no model 'm3'\. It has: m1, m2\."):
        cassette.playing(id="m3")


async def test_the_recorded_pace_and_a_given_one_are_kept(ask: Any, tmp_path: Path) -> None:
    with Cassette(tmp_path / "t", "record") as cassette:
        await ask(cassette.recording(ScriptedModel(["one two"], pace=0.03)), ask_for("q"))
    cassette = Cassette(tmp_path / "t", "play")
    clock = asyncio.get_running_loop().time
    took = []
    for pace in (None, "recorded", 0.02):
        begin = clock()
        await ask(cassette.playing(pace=pace), ask_for("q"))
        took.append(clock() - begin)

    assert took[0] < took[1]
    assert took[1] >= 0.05
    assert took[2] >= 0.08


async def test_playing_can_be_aborted_while_it_waits(ask: Any, tmp_path: Path) -> None:
    await recorded(tmp_path / "t", ask, {"q": "one two"})
    signal = AbortSignal()
    asyncio.get_running_loop().call_later(0.01, signal.abort)

    async with asyncio.timeout(1):
        said = await ask(Cassette(tmp_path / "t", "play").playing(pace=60), ask_for("q"), signal)

    assert said.end.reason == "aborted"


async def test_an_aborted_signal_takes_and_writes_nothing(ask: Any, tmp_path: Path) -> None:
    await recorded(tmp_path / "t", ask, {"q": "a"})
    size = (tmp_path / "t").stat().st_size
    signal = AbortSignal()
    signal.abort()
    live = ScriptedModel(["new"])
    with Cassette(tmp_path / "t") as cassette:
        player = cassette.playing(live, id="m")
        for model in (player, cassette.recording(live)):
            assert (await ask(model, ask_for("q"), signal)).end.reason == "aborted"

        assert (await ask(player, ask_for("q"))).message.text == "a"
    assert live.requests == []
    assert (tmp_path / "t").stat().st_size == size


async def test_an_aborted_recording_is_kept_as_aborted(ask: Any, tmp_path: Path) -> None:
    signal = AbortSignal()

    def stop(event: StreamEvent) -> None:
        if isinstance(event, TextDelta) and event.delta == "two ":
            signal.abort()

    with Cassette(tmp_path / "t", "record") as cassette:
        model = cassette.recording(ScriptedModel(["one two three"]))
        await ask(model, ask_for("q"), signal, stop)

    played = await ask(Cassette(tmp_path / "t", "play").playing(), ask_for("q"))

    assert (played.message.text, played.end.reason) == ("one two ", "aborted")


async def test_what_a_listener_heard_before_it_left_is_kept(ask: Any, tmp_path: Path) -> None:
    with Cassette(tmp_path / "t", "record") as cassette:
        stream = cassette.recording(ScriptedModel(["one two"])).stream(ask_for("q"), AbortSignal())
        async with aclosing(stream):
            async for event in stream:
                if isinstance(event, TextDelta):
                    break

    played = await ask(Cassette(tmp_path / "t", "play").playing(), ask_for("q"))

    assert (played.message.text, played.end.reason) == ("one ", "aborted")


async def test_a_model_that_breaks_its_word_is_an_error_on_the_tape(
    ask: Any, tmp_path: Path
) -> None:
    with Cassette(tmp_path / "t", "record") as cassette:
        raising = cassette.recording(Told([], fails=RuntimeError(f"bad {CANARY}")))
        ended = [await ask(raising, ask_for("a")), await ask(cassette.recording(Told([])), None)]

    assert [one.end.reason for one in ended] == ["error", "error"]
    assert "RuntimeError: bad [key]" in ended[0].end.error_message
    assert ended[1].end.error_message == "The stream ended early."
    assert len(Cassette(tmp_path / "t", "play").exchanges) == 2


# --- auto -----------------------------------------------------------------------------------


async def test_auto_plays_what_is_there_and_records_what_is_not(ask: Any, tmp_path: Path) -> None:
    await recorded(tmp_path / "t", ask, {"old": "from the tape"})
    live = ScriptedModel(["asked", "asked again"], id="m")

    with Cassette(tmp_path / "t") as cassette:
        model = cassette.playing(live)
        said = [(await ask(model, ask_for(text))).message.text for text in ("old", "new", "new")]
    player = Cassette(tmp_path / "t", "play").playing()
    again = [(await ask(player, ask_for(text))).message.text for text in ("old", "new", "new")]

    assert said == again == ["from the tape", "asked", "asked again"]
    assert len(live.requests) == 2


async def test_auto_writes_nothing_as_long_as_all_is_there(ask: Any, tmp_path: Path) -> None:
    """A notebook that is run again pays nothing and changes nothing."""
    await recorded(tmp_path / "t", ask, {"q": "a"})
    (tmp_path / "t.lock").unlink(missing_ok=True)
    before = (tmp_path / "t").read_bytes()

    await ask(Cassette(tmp_path / "t").playing(), ask_for("q"))

    assert (tmp_path / "t").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


async def test_one_line_of_code_records_and_plays(ask: Any, tmp_path: Path) -> None:
    live = ScriptedModel(["a"], id="m")
    for mode in ("record", "auto", "play"):
        with Cassette(tmp_path / "t", mode) as cassette:
            assert (await ask(cassette.playing(live), ask_for("q"))).message.text == "a"

    assert len(live.requests) == 1


# --- what is not on the tape ----------------------------------------------------------------


async def test_a_changed_prompt_is_named_with_the_next_step(ask: Any, tmp_path: Path) -> None:
    await recorded(tmp_path / "run", ask, {"List the rivers": "Rhine", "Read a.txt": "tea"})

    said = await ask(Cassette(tmp_path / "run", "play").playing(), ask_for("Read b.txt"))

    assert said.end.reason == "error"
    assert said.end.failure == "invalid"
    assert said.end.error_message.startswith("run has no answer to this. Compared with its request")
    assert "asked 'Read b.txt'" in said.end.error_message
    assert "mode='auto'" in said.end.error_message


async def test_the_nearest_request_is_the_one_that_goes_furthest_along(
    ask: Any, tmp_path: Path
) -> None:
    with Cassette(tmp_path / "t", "record") as cassette:
        model = cassette.recording(ScriptedModel(lambda _request: "a", id="m"))
        await ask(model, Request(messages=(user("a"), user("b"), user("c"))))
        await ask(model, Request(messages=(user("x"),)))

    said = await ask(
        Cassette(tmp_path / "t", "play").playing(),
        Request(messages=(user("a"), user("b"), user("d"))),
    )

    assert "request 1: message 3 (user): recorded 'c', asked 'd'" in said.end.error_message


async def test_asked_more_often_than_recorded_is_said(ask: Any, tmp_path: Path) -> None:
    await recorded(tmp_path / "t", ask, {"q": "a"})
    player = Cassette(tmp_path / "t", "play").playing()
    await ask(player, ask_for("q"))

    said = await ask(player, ask_for("q"))

    assert "holds this request 1 time, and it was asked once more" in said.end.error_message


async def test_a_request_without_a_json_form_is_an_error_and_never_raises(
    ask: Any, tmp_path: Path
) -> None:
    await recorded(tmp_path / "t", ask, {"q": "a"})
    circle: dict[str, Any] = {}
    circle["self"] = circle
    odd: list[dict[str, Any]] = [{"x": {1, 2}}, circle]
    with Cassette(tmp_path / "t") as cassette:
        for body in odd:
            request = ask_for("q", options=RequestOptions(extra_body=body))
            for model in (cassette.playing(), cassette.recording(ScriptedModel(["a"]))):
                assert (await ask(model, request)).end.reason == "error"


def test_a_caller_who_is_wrong_is_told_so_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "newer").write_text('{"type":"pi_nb.cassette","version":2}\n')
    live = ScriptedModel()

    for name, mode, words in (
        ("none", "play", "nothing to play"),
        ("empty", "play", "nothing to play"),
        ("text", "auto", "is not a cassette"),
        ("newer", "auto", "has version 2"),
        ("none", "loud", "No mode 'loud'"),
        (".", "auto", "Is a directory"),
    ):
        with pytest.raises(PiError, match=words) as wrong:
            Cassette(tmp_path / name, mode)
        assert wrong.value.code == "invalid_argument"
    with pytest.raises(PiError, match=r"Give the model to record: playing\(model\)"):
        Cassette(tmp_path / "none").playing()
    assert PlayingModel(Cassette(tmp_path / "none"), live).model == live.model


async def test_a_recording_is_never_recorded_over(ask: Any, tmp_path: Path) -> None:
    await recorded(tmp_path / "t", ask, {"q": "a"})

    with pytest.raises(PiError, match="holds a recording"):
        Cassette(tmp_path / "t", "record")
    with pytest.raises(PiError, match="only played"):
        RecordingModel(ScriptedModel(), Cassette(tmp_path / "t", "play"))


# --- the file -------------------------------------------------------------------------------


async def test_the_file_is_private_and_holds_no_clock(ask: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        await recorded(tmp_path / name, ask, {"q": "a", "r": "b"})

    first, second = (lines_of(tmp_path / name) for name in ("a", "b"))
    for line in (*first, *second):
        for timed in line.get("events", ()):
            timed[0] = 0
    assert first == second
    assert first[0] == {"type": "pi_nb.cassette", "version": 1}
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o600


async def test_a_conversation_is_written_once_and_not_with_every_request(
    ask: Any, tmp_path: Path
) -> None:
    """Otherwise a tape grows with the square of the conversation."""
    said = [user(f"message {number} " + "x" * 500) for number in range(40)]
    with Cassette(tmp_path / "t", "record") as cassette:
        model = cassette.recording(ScriptedModel(lambda _request: "ok"))
        for length in range(1, 41):
            for lane in ("left", "right"):
                request = Request(system_prompt="s" * 2_000, messages=(user(lane), *said[:length]))
                await ask(model, request)

    assert (tmp_path / "t").stat().st_size < 120_000
    last = Cassette(tmp_path / "t", "play").exchanges[-1]
    assert len(last.question.messages) == 41
    assert last.question.messages[0]["content"][0]["text"] == "right"


TAPE = (
    '{"type":"pi_nb.cassette","version":1}\n'
    '{"type":"exchange","order":0,"after":null,"kept":0,"question":{"model":{"id":"m",'
    '"provider":"p"},"systemPrompt":"","tools":[],"options":{},"messages":[{"role":"user",'
    '"content":[{"type":"text","text":"中"}]}]},"events":[[0,{"type":"end","reason":"stop"}]]}\n'
    '{"type":"call","order":1,"tool":"read","arguments":{},"result":{"content":[]}}\n'
    '{"type":"exchange","order":2,"after":0,"kept":1,"question":{"messages":[{"role":"user",'
    '"content":[{"type":"text","text":"b"}]}]},"events":[[5,{"type":"end","reason":"stop"}]]}\n'
).encode()


@given(st.integers(0, len(TAPE)))
def test_a_tape_cut_at_any_byte_plays_its_whole_lines_and_can_be_continued(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("tape") / "t"
    path.write_bytes(TAPE[:cut])
    # A line whose newline alone is missing is whole.
    whole = TAPE[:cut].count(b"\n") + TAPE[cut:].startswith(b"\n")

    cassette = Cassette(path)
    held = len(cassette.exchanges) + len(cassette.calls)
    cassette.add_call(9, "bash", {}, result={})
    cassette.close()

    assert held == max(whole - 1, 0)
    assert all(json.loads(line) for line in path.read_bytes().splitlines())
    assert Cassette(path, "play").calls[-1].tool == "bash"
    assert path.read_bytes().startswith(TAPE[: TAPE.index(b"\n") + 1])


def test_a_torn_tail_is_left_alone_by_whoever_only_plays(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(TAPE[:-9])

    Cassette(path, "play")

    assert path.read_bytes() == TAPE[:-9]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"order":0,', "", "line 2: order is missing"),
        ('"after":0', '"after":7', "line 4: it has another shape"),
        ('"reason":"stop"', '"reason":"bored"', "line 2: end.reason"),
        ('[[0,{"type":"end","reason":"stop"}]]', "[]", "line 2: its answer has no end"),
        ('"systemPrompt":"",', "", "line 2: systemPrompt is missing"),
        ('"systemPrompt":', '"system_prompt":', "line 2: systemPrompt is missing"),
        ('"tools":[]', '"tools":[{}]', "line 2: tools.0.name"),
        ('"role":"user",', "", "line 2: messages.0.role"),
        ('"id":"m",', "", "line 2: id: Field required"),
        ('"kept":1', '"kept":"all"', "line 4: invalid literal"),
        ('"type":"call"', '"type":"song"', "line 3: it is neither an exchange nor a call"),
        ('"tool":"read"', '"tool":"read', "line 3 is broken"),
        ('"arguments":{}', '"arguments":5', "line 3: it has another shape"),
    ],
)
def test_a_broken_line_in_the_middle_is_refused_by_its_number(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = tmp_path / "t"
    path.write_text(TAPE.decode().replace(old, new, 1))

    with pytest.raises(PiError, match=words):
        Cassette(path)


def test_one_writer_at_a_time_and_nothing_lost_to_another(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first = Cassette(path, "record")
    with pytest.raises(PiError, match="being recorded elsewhere") as taken:
        Cassette(path, "record")
    late = Cassette(path)
    first.add_call(0, "read", {}, result={})
    first.close()

    with pytest.raises(PiError, match="changed since it was read"):
        late.add_call(0, "read", {}, result={})
    with pytest.raises(PiError, match="is closed"):
        first.add_call(1, "read", {}, result={})
    assert taken.value.code == "invalid_state"
    assert len(lines_of(path)) == 2


async def test_what_cannot_be_written_ends_in_an_error_that_says_so(
    ask: Any, tmp_path: Path
) -> None:
    cassette = Cassette(tmp_path / "t", "record")
    model = cassette.recording(ScriptedModel(["an answer"]))
    cassette.close()

    said = await ask(model, ask_for("q"))

    assert said.message.text == "an answer"
    assert "could not be recorded" in said.end.error_message


FULL_DISK = """
import resource, signal, sys
from pi_nb.models.cassette import Cassette
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cassette = Cassette(sys.argv[1], "record")
cassette.add_call(0, "read", {}, result={"text": "first"})
resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
try:
    cassette.add_call(1, "read", {}, result={"text": "x" * 2000})
except Exception as error:
    print(error.code, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
cassette.add_call(2, "read", {}, result={"text": "third"})
"""


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    """In a process of its own, whose files cannot grow beyond 500 bytes for a moment."""
    path = tmp_path / "t"

    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=True
    )

    assert "invalid_state" in ran.stdout
    assert "nothing was written" in ran.stdout
    assert [line["result"]["text"] for line in lines_of(path)[1:]] == ["first", "third"]


# --- keys -----------------------------------------------------------------------------------


async def test_no_key_gets_on_the_tape_by_any_way(ask: Any, tmp_path: Path) -> None:
    """Z-01: header, body, prompt, answer in pieces, arguments, error, tool result."""
    middle = len(CANARY) // 2
    halves = CANARY[:middle], CANARY[middle:]
    events: list[StreamEvent] = [
        Start(response_id=CANARY),
        *(TextDelta(index=0, delta=half) for half in ("Use ", *halves, " now")),
        CallStart(index=1, id="c1", name="bash"),
        *(CallDelta(index=1, delta=half) for half in ('{"header":"Bearer ', *halves, '"}')),
        *(ThinkingDelta(index=2, delta=half) for half in (TURNED[:5], TURNED[5:])),
        End(reason="error", error_message=f"bad key {CANARY[:9]}****{CANARY[-4:]}"),
    ]
    request = ask_for(
        f"my key is {CANARY}, not {TURNED}",
        system_prompt=CANARY,
        options=RequestOptions(
            headers={"Authorization": f"Bearer {CANARY}"}, extra_body={"api_key": TURNED}
        ),
    )
    with Cassette(tmp_path / "t", "record", secrets=[TURNED]) as cassette:
        live = await ask(cassette.recording(Told(events)), request)
        cassette.add_call(5, "bash", {"k": CANARY}, result={"content": f"K={TURNED}"})
    written = (tmp_path / "t").read_text()
    played = await ask(Cassette(tmp_path / "t", "play", secrets=[TURNED]).playing(), request)

    for secret in (CANARY, TURNED):
        assert [
            secret[at:] for at in range(len(secret) - 7) if secret[at : at + 8] in written
        ] == []
    assert "sk-canary" not in written
    assert live.message.text == f"Use {CANARY} now"
    assert played.message.text == "Use [key] now"
    assert played.message.tool_calls[0].arguments == {"header": "Bearer [key]"}
    assert len(played.events) == len(live.events)


async def test_a_conversation_with_a_hidden_key_in_it_goes_on(ask: Any, tmp_path: Path) -> None:
    """What is played says `[key]`, and so does the next request."""
    with Cassette(tmp_path / "t", "record") as cassette:
        model = cassette.recording(ScriptedModel([f"It is {CANARY}", "Done"]))
        first = (await ask(model, ask_for("q"))).message
        await ask(model, Request(messages=(user("q"), first, user("thanks"))))
    player = Cassette(tmp_path / "t", "play").playing()

    again = (await ask(player, ask_for("q"))).message
    said = await ask(player, Request(messages=(user("q"), again, user("thanks"))))

    assert again.text == "It is [key]"
    assert said.message.text == "Done"


async def test_a_tape_made_with_a_key_in_a_header_is_played_without_one(
    ask: Any, tmp_path: Path
) -> None:
    keyed = RequestOptions(headers={"Authorization": f"Bearer {CANARY}"})
    text = "What is a Bearer token in a header called Authorization?"
    with Cassette(tmp_path / "t", "record") as cassette:
        await ask(cassette.recording(ScriptedModel(["A key."])), ask_for(text, options=keyed))

    played = await ask(Cassette(tmp_path / "t", "play").playing(), ask_for(text))

    assert played.message.text == "A key."


async def test_no_repr_shows_a_secret_or_a_prompt(ask: Any, tmp_path: Path) -> None:
    with Cassette(tmp_path / "t", "record", secrets=[TURNED]) as cassette:
        model = cassette.recording(ScriptedModel([reply(call("read"))]))
        await ask(model, ask_for("private words"))
        cassette.add_call(1, "read", {}, aborted="stop")
    shown = repr([cassette, model, cassette.playing(model), cassette.exchanges])

    assert TURNED not in shown
    assert "private" not in shown
    assert "record, 1 exchange, 1 call" in shown
