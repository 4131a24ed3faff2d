"""A session written for others: what comes, what stays out, and what is never lost.

The canaries stand in every place of a session where a text may be, and every form of export
is searched for them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pi_nb.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_nb.result import PiError
from pi_nb.session.exporting import ExportFormat
from pi_nb.session.redact import Redaction
from pi_nb.session.redacted import RedactedReader
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio

KEY = "sk-proj-CANARYabcdef0123456789"
HOME = "/home/canaryuser"
NAME = "Canaria"
PATTERN = "CANARY-4711"
EVERYTHING = f"{KEY} {HOME}/x canaryuser {NAME} {PATTERN}"
CANARIES = ("CANARY", "canaryuser", "Canaria")
CHOSEN = Redaction(names=(NAME,), patterns=(r"CANARY-\d+",))
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"pixel" * 8).decode()


async def _filled(session: Session) -> Session:
    """Canaries in every text there is."""
    said = await session.append_message(
        UserMessage(
            content=(
                TextContent(text=EVERYTHING),
                ImageContent(data=PIXEL, mime_type="image/png"),
                ImageContent(data=f"{HOME}/secret", mime_type="image/png"),
            )
        )
    )
    call = ToolCall(
        id="c1", name="bash", arguments={"command": EVERYTHING, EVERYTHING: [{"x": EVERYTHING}]}
    )
    blocks = (
        ThinkingContent(thinking=EVERYTHING, thinking_signature="ab" * 40),
        TextContent(text=EVERYTHING, text_signature=EVERYTHING),
        call,
    )
    await session.append_message(
        AssistantMessage(
            content=blocks, provider="p", model=f"{HOME}/m.gguf", stop_reason="toolUse"
        )
    )
    result = ToolResultMessage(
        tool_call_id="c1",
        tool_name="bash",
        content=(TextContent(text=EVERYTHING),),
        details={"path": f"{HOME}/y", EVERYTHING: EVERYTHING},
    )
    await session.append_message(result)
    await session.append_message(
        BashExecutionMessage(command=EVERYTHING, output=EVERYTHING, full_output_path=f"{HOME}/o")
    )
    await session.append_message(AssistantMessage(stop_reason="error", error_message=EVERYTHING))
    await session.append_compaction(
        EVERYTHING, said.id, 10, details={"readFiles": [f"{HOME}/z"], "modifiedFiles": []}
    )
    await session.append_branch_summary(EVERYTHING, said.id, details=[EVERYTHING])
    await session.append_custom_message("note", EVERYTHING, details={"x": EVERYTHING})
    await session.append_custom("mine", {EVERYTHING: EVERYTHING})
    await session.append_context_edit(said.id, EVERYTHING)
    await session.append_model_change("p", f"{HOME}/m.gguf")
    await session.append_active_tools_change([EVERYTHING])
    await session.set_name(EVERYTHING)
    await session.set_label(said.id, EVERYTHING)
    await session.record(
        "operation_started", intent={"kind": "run", "originalPrompt": EVERYTHING}, id="r1"
    )
    await session.record(
        "operation_finished", run_id="r1", outcome="failed", error={"message": EVERYTHING}
    )
    return session


@pytest.fixture(params=["v4", "v3"])
async def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with Session.create(
        tmp_path / "s.jsonl",
        cwd=f"{HOME}/work",
        format=request.param,
        metadata={EVERYTHING: EVERYTHING},
        durability="flush",
    ) as session:
        yield await _filled(session)


@pytest.mark.parametrize("form", ["v3", "v4", "md", "html"])
async def test_no_canary_is_in_any_form_of_a_redacted_export(
    filled: Session, tmp_path: Path, form: ExportFormat
) -> None:
    out = tmp_path / f"out.{form if form in ('md', 'html') else 'jsonl'}"

    done = filled.export(out, format=form, redact=CHOSEN)

    text = out.read_text("utf-8")
    assert [canary for canary in CANARIES if canary in text] == []
    assert "[key]" in text or "&#91;key&#93;" in text
    assert set(done.left_out) == {"keys", "home folders", "user names", "names", "patterns"}
    assert min(done.left_out.values()) > 5


async def test_without_redaction_everything_is_there(filled: Session, tmp_path: Path) -> None:
    for name in ("a.md", "a.html", "a.jsonl"):
        filled.export(tmp_path / name)

        text = (tmp_path / name).read_text("utf-8")
        assert [canary for canary in CANARIES if canary not in text] == []


async def test_a_redacted_copy_is_the_same_tree(filled: Session, tmp_path: Path) -> None:
    out = tmp_path / "copy.jsonl"

    done = filled.export(out, redact=CHOSEN)

    with Session.open(out, read_only=True) as copy:
        assert copy.format == filled.format
        kept = [e for e in filled.entries() if not filled.is_own(e.id)]
        ours = [e for e in copy.entries() if not copy.is_own(e.id)]
        ids = [entry.id for entry in ours]
        for entry in kept:
            assert entry.id in ids or entry.type in ("label", "session_info")
        by_id = {entry.id: entry for entry in ours}
        for entry in kept:
            if entry.id in by_id:
                assert by_id[entry.id].type == entry.type
                assert by_id[entry.id].timestamp == entry.timestamp
        assert copy.header.metadata is not None
        assert copy.header.metadata["redacted"] == dict(done.left_out)
        roles = [message.role for message in copy.context().messages]
        assert roles == [message.role for message in filled.context().messages]


async def test_a_picture_stays_and_a_path_in_its_place_does_not(filled: Session) -> None:
    reader = RedactedReader(filled, CHOSEN)

    first = next(entry for entry in reader.entries() if entry.type == "message")

    blocks = first.to_wire()["message"]["content"]
    assert blocks[1]["data"] == PIXEL
    assert blocks[2]["data"] == "~/secret"


async def test_what_was_left_out_is_counted_once_however_often_it_is_read(
    filled: Session,
) -> None:
    reader = RedactedReader(filled, CHOSEN)

    reader.read_all()
    once = reader.counts
    reader.read_all()
    str(reader.outline())

    assert reader.counts == once


async def test_a_markdown_file_and_a_page_say_what_was_left_out(
    filled: Session, tmp_path: Path
) -> None:
    for name in ("a.md", "a.html"):
        done = filled.export(tmp_path / name, redact=True)

        assert f"{done.left_out['keys']} keys" in (tmp_path / name).read_text("utf-8")


async def test_lanes_that_become_the_same_stay_two(tmp_path: Path) -> None:
    with Session.create(cwd=tmp_path) as session:
        await session.append_message(UserMessage(content="hello"))
        await session.add_lane("ada", None)
        await session.append_message(UserMessage(content="one"), lane="ada")
        await session.add_lane("grace", None)
        await session.append_message(UserMessage(content="two"), lane="grace")

        session.export(tmp_path / "o.jsonl", redact=Redaction(names=("Ada", "Grace", "main")))

    with Session.open(tmp_path / "o.jsonl", read_only=True) as copy:
        assert set(copy.lanes) == {"main", "[name]", "[name] 2"}
        assert [entry.lane for entry in copy.entries()] == ["main", "[name]", "[name] 2"]


# --- files --------------------------------------------------------------------------------


@pytest.fixture
async def small(session: Session) -> Session:
    await session.append_message(UserMessage(content="hello"))
    return session


@pytest.mark.parametrize("name", ["x.md", "x.html", "x.jsonl"])
async def test_a_file_that_is_there_is_replaced_only_when_asked(
    small: Session, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine")

    with pytest.raises(PiError, match="there already"):
        small.export(tmp_path / name)
    assert (tmp_path / name).read_text() == "mine"

    small.export(tmp_path / name, overwrite=True)
    assert "hello" in (tmp_path / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("x.txt", {}, "invalid_argument"),
        ("x.html", {"format": "v3"}, "invalid_argument"),
        ("x.jsonl", {"format": "md"}, "invalid_argument"),
        ("x.jsonl", {"format": "v5"}, "invalid_argument"),
        ("x.md", {"lane": "no"}, "invalid_argument"),
        ("x.md", {"redact": "yes"}, "invalid_argument"),
        ("no/such/x.md", {}, "session"),
        ("s.jsonl", {"overwrite": True}, "session"),
    ],
)
async def test_what_cannot_be_written_leaves_nothing_behind(
    small: Session,
    tmp_path: Path,
    digest: Callable[[], dict[str, bytes]],
    name: str,
    options: dict[str, Any],
    code: str,
) -> None:
    before = digest()

    with pytest.raises(PiError) as refused:
        small.export(tmp_path / name, **options)

    assert refused.value.code == code
    assert digest() == before


async def test_a_format_names_what_the_file_name_does_not(small: Session, tmp_path: Path) -> None:
    small.export(tmp_path / "transcript", format="md")

    assert (tmp_path / "transcript").read_text("utf-8").startswith("# A session")


async def test_a_copy_in_the_other_format_is_a_session(small: Session, tmp_path: Path) -> None:
    small.export(tmp_path / "for-pi.jsonl", format="v3")

    header = json.loads((tmp_path / "for-pi.jsonl").read_text("utf-8").split("\n")[0])
    assert header["type"] == "session"
    with Session.open(tmp_path / "for-pi.jsonl", read_only=True) as copy:
        assert copy.format == "v3"
        assert copy.context().messages == small.context().messages


@pytest.mark.parametrize("ending", ["md", "html"])
def test_half_a_key_is_not_shown_in_what_is_said_of_a_bad_line(ending: str, tmp_path: Path) -> None:
    header = '{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z"}'
    key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    file = tmp_path / "s.jsonl"
    file.write_text(f"{header}\nexport GITHUB_KEY_FOR_CI_RUNS={key}\n")

    with Session.open(file, read_only=True) as session:
        assert "ghp_16" in str(session.diagnostics[0])
        session.export(tmp_path / f"o.{ending}", redact=True)

    assert "ghp_16" not in (tmp_path / f"o.{ending}").read_text("utf-8")


@pytest.mark.parametrize("redact", [False, True])
def test_data_nested_too_deeply_to_be_copied_is_named_and_shown_around(
    redact: bool, tmp_path: Path
) -> None:
    deep = "[" * 900 + '"/home/ada/x"' + "]" * 900
    lines = [
        '{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z"}',
        '{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"hello"}}',
        f'{{"type":"custom","id":"b","parentId":"a","customType":"x","data":{deep}}}',
    ]
    file = tmp_path / "s.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines))

    with Session.open(file, read_only=True) as session:
        forms: tuple[ExportFormat, ...] = ("v3", "v4")
        for form in forms:
            copy = tmp_path / f"{form}.jsonl"
            with pytest.raises(PiError, match="deep"):
                session.export(copy, format=form, redact=redact)
            assert not copy.exists()
        session.export(tmp_path / "o.html", redact=redact)

    shown = (tmp_path / "o.html").read_text("utf-8")
    assert "hello" in shown
    assert not redact or "/home/" not in shown
