"""A session as Markdown: what is in it, and that nothing in it is more than text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from strategies import messages

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_nb.session.entries import MessageEntry
from pi_nb.session.markdown import entry_markdown, to_markdown
from pi_nb.session.session import Session

pytestmark = pytest.mark.anyio

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](https://example.org/?leak)",
    "</details></div><iframe src='//example.org'>",
    "```\n</details>\n```\n````\n<svg onload=alert(1)>",
    "# x\n\n    <b onclick=alert(1)>",
    "\x1b[31mred\x1b]8;;https://example.org\x07link\x1b]8;;\x07",
    "a `code` ``` b\n~~~\n<object data=x>",
)
# What our own frame needs besides what Markdown makes of text.
FRAME = frozenset({"details", "summary", "code", "em", "p", "pre", "strong", "h1", "h3", "hr"})
OF_TEXT = frozenset({"a", "ul", "ol", "li", "blockquote", "br", "h2", "h4", "h5", "h6"})
_PARSER = MarkdownIt("commonmark", {"html": True})


class Tags(HTMLParser):
    """The tags and attributes that a page made of this Markdown would have."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.depth = 0
        self.feed(_PARSER.render(markdown))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {f"{name}={value}" if name == "href" else name for name, value in attrs}
        self.depth += tag == "details"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "details"
        assert self.depth >= 0, "somebody closed a fold that is ours"


def _checked(markdown: str) -> str:
    found = Tags(markdown)
    assert found.tags <= FRAME | OF_TEXT
    assert found.depth == 0
    odd = {name for name in found.attributes if not re.match(r"class|start|href=(https?:|#)", name)}
    assert odd == set()
    return markdown


def _everywhere(text: str) -> Iterable[AgentMessage]:
    call = ToolCall(id="c", name=text, arguments={"a": text, text: [text, {"b": text}]})
    thought = ThinkingContent(thinking=text)
    yield UserMessage(content=text)
    yield AssistantMessage(
        content=(thought, TextContent(text=text), call),
        model=text,
        stop_reason="error",
        error_message=text,
    )
    yield ToolResultMessage(
        tool_call_id="c", tool_name=text, content=(TextContent(text=text * 20),), is_error=True
    )


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_stays_text(session: Session, text: str) -> None:
    for message in _everywhere(text):
        await session.append_message(message)
    last = await session.append_branch_summary(text, None)
    await session.append_custom_message(text, text)
    await session.append_compaction(text, last.id, 1)
    await session.set_label(last.id, text)
    await session.set_name(text)

    markdown = _checked("\n".join(to_markdown(session)))

    assert "\x1b" not in markdown
    assert "\x07" not in markdown


@given(messages)
def test_any_message_keeps_to_its_place(message: AgentMessage) -> None:
    _checked("\n\n".join(entry_markdown(MessageEntry(message=message))))


@given(st.lists(st.sampled_from([*HOSTILE, "`", "```", "\n", "~~~~", "> ", "- ", "x"]), max_size=9))
def test_no_combination_of_marks_breaks_out(parts: list[str]) -> None:
    for message in _everywhere("".join(parts)):
        _checked("\n\n".join(entry_markdown(MessageEntry(message=message))))


async def test_marks_that_turn_the_direction_are_spelled(session: Session) -> None:
    await session.append_message(UserMessage(content="rm \u202e txt.\u202c שלום"))

    markdown = "\n".join(to_markdown(session))

    assert "\\u202e" in markdown
    assert "\u202e" not in markdown
    assert "שלום" in markdown


async def test_it_reads_as_the_conversation_it_was(session: Session) -> None:
    await session.append_message(UserMessage(content="Which *tests* are slow?"))
    call = ToolCall(id="c", name="bash", arguments={"command": "pytest", "stdin": "a\nb"})
    await session.append_message(
        AssistantMessage(
            content=(ThinkingContent(thinking="hm"), TextContent(text="Let me see."), call),
            provider="p",
            model="m",
            stop_reason="toolUse",
        )
    )
    await session.append_message(
        ToolResultMessage(tool_call_id="c", tool_name="bash", content=(TextContent(text="ok"),))
    )
    await session.append_message(
        UserMessage(content=(ImageContent(data="A" * 8, mime_type="x/y"),))
    )
    await session.set_name("Slow tests")
    first = session.branch_ids()[0]
    await session.set_label(first, "begin")

    body = "\n".join(to_markdown(session)).split("entries of 4\n", 1)[1]

    assert "\n".join(to_markdown(session)).startswith("# Slow tests\n")
    assert body.strip() == (
        "### 1 · User · label: begin\n\nWhich *tests* are slow?\n\n"
        "### 2 · Assistant, p/m\n\n"
        "<details><summary><code>thinking</code></summary>\n\n```\nhm\n```\n\n</details>\n\n"
        "Let me see.\n\nCalls **bash**:\n\n"
        '```json\n{"command":"pytest"}\n```\n\n```\na\nb\n```\n\n'
        "### 3 · Result of bash\n\n```\nok\n```\n\n"
        "### 4 · User\n\n[picture, x/y, 6 bytes]"
    )


async def test_one_branch_is_written_unless_the_whole_tree_is_asked_for(session: Session) -> None:
    first = await session.append_message(UserMessage(content="first"))
    await session.append_message(UserMessage(content="left behind"))
    await session.move(first.id)
    await session.append_message(UserMessage(content="taken up"))

    one = "\n".join(to_markdown(session))
    whole = "\n".join(to_markdown(session, whole=True))

    assert "left behind" not in one
    assert "left behind" in whole
    assert whole.count("*Another branch: this follows entry 1.*") == 1


async def test_the_same_session_gives_the_same_text(session: Session) -> None:
    await session.append_message(UserMessage(content="hello", timestamp=5))

    assert list(to_markdown(session)) == list(to_markdown(session))


async def test_plain_words_are_not_spelled_in_numbers() -> None:
    """What stands at the end of a redacted transcript is read as it is, too."""
    session = Session.create(cwd="/w")
    await session.append_message(UserMessage(content="hello"))
    await session.set_name("Tea: https://example.org ![x](y)")

    text = "".join(to_markdown(session, note=lambda: "Left out: 2 keys."))

    assert text.endswith("Left out: 2 keys.\n")
    assert text.startswith("# Tea: https&#58;//example.org &#33;")
