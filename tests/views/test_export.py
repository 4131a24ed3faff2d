"""The page of a session as text: nothing in it runs or loads, everything in it is there."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from strategies import messages

import pi_nb
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_nb.session.entries import CustomEntry, MessageEntry
from pi_nb.session.session import Session
from pi_nb.views.export import page
from pi_nb.views.paths import DEEPEST

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(24)).decode()
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1)) ![y](https://example.org/?leak)",
    "</article></main></style><iframe src='https://example.org'>",
    '" onmouseover="alert(1)" x="',
    "```\n</code></pre><svg onload=alert(1)>\n```",
    "\x1b[31mred\x1b]8;;https://example.org\x07link\x1b]8;;\x07",
    "rm \u202etxt.\u202c \u2066x",
    "&lt;script&gt; \x00 \ud800",
)


class Page(HTMLParser):
    """What a browser finds: ids, links, sources, tags, and attributes that would run."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.sources += [value or "" for name, value in attrs if name == "src"]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} closes what somebody else opened"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


def _page(session: Session) -> Page:
    found = Page("\n".join(page(session)))
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert {link for link in found.links if link[1:] not in found.ids} == set()
    assert not [name for name in found.attributes if name.startswith("on") or name == "style"]
    assert found.tags.count("script") == found.tags.count("style") == 1
    assert not {"iframe", "object", "embed", "link", "base", "form", "svg"} & set(found.tags)
    assert not [source for source in found.sources if not source.startswith("data:image/")]
    return found


def _everywhere(text: str) -> Iterator[AgentMessage]:
    call = ToolCall(id="c", name=text, arguments={text: text, "b": [text, f"{text}\n{text}"]})
    yield UserMessage(content=text)
    yield AssistantMessage(
        content=(TextContent(text=text), call),
        provider=text,
        model=text,
        stop_reason="error",
        error_message=text,
        usage=Usage(input=1, total_tokens=1),
    )
    yield ToolResultMessage(
        tool_call_id="c", tool_name=text, content=(TextContent(text=text * 30),), is_error=True
    )
    yield UserMessage(content=(ImageContent(data=text, mime_type="image/png"),))
    yield UserMessage(content=(ImageContent(data=PNG, mime_type=text),))


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_stays_text(session: Session, text: str) -> None:
    for message in _everywhere(text):
        await session.append_message(message)
    last = await session.append_compaction(text, None, 1, details={text: text})
    await session.append_branch_summary(text, last.id)
    await session.append_custom_message(text, text)
    await session.append_custom("x", {text: text})
    await session.append_model_change(text, text)
    await session.set_label(last.id, text)
    await session.set_name(text)

    found = _page(session)

    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", found.html)
    assert found.sources == []


@settings(max_examples=30)
@given(messages)
def test_any_message_keeps_to_its_place(message: AgentMessage) -> None:
    with Session.create(cwd=".") as session:
        session.append_sync(MessageEntry(message=message))

        _page(session)


async def test_nothing_may_be_loaded_and_what_runs_is_named_by_its_hash(session: Session) -> None:
    html = "\n".join(page(session))

    policy = re.search(r'Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    assert html.index("Security-Policy") < html.index("<style")
    for tag in ("script", "style"):
        held = re.search(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        assert held is not None
        digest = base64.b64encode(hashlib.sha256(held[1].encode()).digest()).decode()
        assert f"{tag}-src &#x27;sha256-{digest}&#x27;" in policy[1]
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "unsafe" not in policy[1]


async def test_there_is_no_reference_to_anything_outside(session: Session) -> None:
    await session.append_message(UserMessage(content="see https://example.org/x"))

    found = _page(session)

    assert all(link.startswith("#") for link in found.links)
    assert "https://example.org/x" in "".join(found.text)
    css = files("pi_nb.views").joinpath("page.css").read_text("utf-8")
    script = files("pi_nb.views").joinpath("page.js").read_text("utf-8")
    assert "url(" not in css
    assert "@import" not in css
    for word in ("fetch(", "XMLHttp", "import(", "innerHTML", "outerHTML", "eval(", "WebSocket"):
        assert word not in script


async def test_a_picture_is_shown_if_a_browser_knows_it_and_it_is_whole(session: Session) -> None:
    for mime, data in [
        ("image/png", PNG),
        ("image/svg+xml", PNG),
        ("text/html", PNG),
        ("image/png", "not base64"),
        ("image/png", ""),
    ]:
        await session.append_message(
            UserMessage(content=(ImageContent(data=data, mime_type=mime),))
        )

    found = _page(session)

    assert found.sources == [f"data:image/png;base64,{PNG}"]
    assert "".join(found.text).count("not shown") == 4


async def test_every_entry_of_every_branch_has_a_place_a_link_and_a_row(session: Session) -> None:
    first = await session.append_message(UserMessage(content="first"))
    await session.append_message(UserMessage(content="left"))
    await session.move(first.id)
    await session.append_message(UserMessage(content="right"))
    await session.move(None)
    await session.append_message(UserMessage(content="another root"))

    found = _page(session)

    for entry_id in session.entry_ids():
        assert f"entry-{entry_id}" in found.ids
        assert found.links.count(f"#entry-{entry_id}") >= 2
    text = "".join(found.text)
    assert "Branch 2 of 2, from the beginning" in text
    assert "Branch 2 of 2, after #1" in text
    assert text.count("on another branch") == 3


async def test_totals_include_what_summaries_cost(session: Session) -> None:
    await session.append_message(
        AssistantMessage(provider="p", model="m", usage=Usage(input=1_000, total_tokens=1_000))
    )
    await session.append_compaction("s", None, 1, usage=Usage(input=230, total_tokens=230))

    text = " ".join(_page(session).text)

    assert "1,230" in text
    assert "compactions" in text


async def test_ids_that_no_link_can_hold_have_links_all_the_same(session: Session) -> None:
    for odd in ("a b", 'x"y', "<i>", "é", "entry-1", "row-1", "#"):
        await session.append(CustomEntry(custom_type="x", id=odd))

    found = _page(session)

    assert {"row-1", "row-2", "entry-entry-1"} <= set(found.ids)


async def test_a_long_row_of_marks_is_read_in_time_that_grows_with_it(session: Session) -> None:
    await session.append_message(UserMessage(content="~" * 60_000, timestamp=1))

    begun = time.monotonic()
    shown = "".join(page(session))

    assert "~" * 60_000 in shown
    assert time.monotonic() - begun < 5


async def test_a_tree_that_forks_at_every_entry_is_not_nested_without_end(
    session: Session,
) -> None:
    for _ in range(2 * DEEPEST):
        leaf = session.leaf()
        await session.append_custom("x")
        await session.move(leaf)
        await session.append_custom("y")

    html = _page(session).html

    depth = deepest = 0
    for mark in re.findall("<ul|</ul", html):
        depth += 1 if mark == "<ul" else -1
        deepest = max(deepest, depth)
    assert deepest == DEEPEST + 1


async def test_an_empty_session_is_a_page_as_well(session: Session) -> None:
    assert "(no entries)" in "".join(_page(session).text)


async def test_the_page_of_a_file_is_made_by_its_name(session: Session, tmp_path: Path) -> None:
    await session.append_message(UserMessage(content="hello"))
    assert session.path is not None

    done = pi_nb.export(session.path, tmp_path / "s.html")

    assert done.entries == 1
    assert "hello" in (tmp_path / "s.html").read_text("utf-8")
    assert not session.closed


async def test_bookkeeping_of_ours_in_pis_files_is_left_out(tmp_path: Path) -> None:
    with Session.create(tmp_path / "v3.jsonl", cwd=tmp_path, format="v3") as session:
        first = await session.append_message(UserMessage(content="first"))
        await session.append_message(UserMessage(content="left"))
        await session.move(first.id)
        await session.record("usage", usage=Usage(input=1))
        await session.append_message(UserMessage(content="right"))

        found = _page(session)

    assert found.tags.count("article") == 3
    assert "pi_nb.leaf" not in found.html


def test_the_same_session_gives_the_same_page(tmp_path: Path) -> None:
    with Session.create(cwd=tmp_path) as session:
        session.append_sync(CustomEntry(custom_type="x", data={"b": 1, "a": 2}))
        assert list(page(session)) == list(page(session))


# --- colours ------------------------------------------------------------------------------


def _palettes() -> Iterator[dict[str, str]]:
    css = files("pi_nb.views").joinpath("page.css").read_text("utf-8")
    for block in re.findall(r":root \{(.*?)\}", css, re.S):
        yield dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 has it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_text_has_enough_contrast_in_light_and_dark() -> None:
    palettes = list(_palettes())

    assert len(palettes) == 2
    for palette in palettes:
        for ground in ("page", "panel"):
            for name in set(palette) - {"page", "panel", "line"}:
                light, dark = sorted(map(_luminance, (palette[name], palette[ground])))[::-1]
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ground)
