"""Z-02: what a session holds is shown as text; it never becomes markup."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.html import Html, details, element, safe_markdown, table, text, url

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</td></table><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "<!-- --><svg/onload=alert(1)>",
    "&lt;b&gt;",
    "\ud83d<b>",
    "\x00<b>\x1b[31m",
]
anything = st.text(st.characters(codec=None)) | st.sampled_from(HOSTILE)


class Seen(HTMLParser):
    """What a browser would find: tags, attributes and text."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(anything, anything, anything)
def test_nothing_from_outside_becomes_a_tag_or_an_attribute(
    title: str, cell: str, summary: str
) -> None:
    markup = element(
        "section", details(summary, table(["head", title], [[cell, 1]])), title=title, class_="x"
    )

    seen = Seen(markup)

    assert seen.tags == [
        *("section", "details", "summary", "table", "thead", "tr", "th", "th"),
        *("tbody", "tr", "td", "td"),
    ]
    assert [name for name, _ in seen.attributes if name != "style"] == ["title", "class"]
    assert {value for name, value in seen.attributes if name == "style"} == {"text-align: left"}
    markup.encode()


@pytest.mark.parametrize("hostile", HOSTILE[:6])
def test_what_was_said_can_be_read(hostile: str) -> None:
    assert Seen(element("p", hostile)).text == hostile
    assert Seen(element("p", title=hostile)).attributes == [("title", hostile)]


def test_control_characters_are_made_visible() -> None:
    assert text("a\x00b\x1b[0m\tc\nd\x7f") == "a␀b␛[0m\tc\nd␡"


def test_markup_of_ours_goes_into_markup_and_the_rest_does_not() -> None:
    inner = element("b", "<i>")

    assert element("p", inner, "<i>") == "<p><b>&lt;i&gt;</b>&lt;i&gt;</p>"
    assert isinstance(text(inner), Html)
    assert inner._repr_html_() == inner


def test_markup_is_only_text_inside_an_attribute() -> None:
    assert element("p", title=Html('"><script>')) == '<p title="&quot;&gt;&lt;script&gt;"></p>'


def test_names_of_attributes_are_written_as_html_has_them() -> None:
    assert element("p", class_="a", aria_label="b") == '<p class="a" aria-label="b"></p>'


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/a?b=1&c=2#d",
        "HTTP://example.org",
        "mailto:ada@example.org",
        "#entry-7",
        "data:image/png;base64,aGk=",
    ],
)
def test_an_address_of_a_known_kind_is_kept(address: str) -> None:
    assert url(address) == address
    assert Seen(element("a", "x", href=address)).attributes == [("href", address)]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\x01script:alert(1)",
        "java\nscript:alert(1)",
        "\u200bjavascript:alert(1)",
        " javascript:alert(1)",
        "vbscript:x",
        "data:text/html,<script>alert(1)</script>",
        "data:image/svg+xml;base64,aGk=",
        "data:image/png,<svg>",
        "file:///etc/passwd",
        "//example.org/x",
        "relative/path",
        "",
    ],
)
def test_an_address_of_any_other_kind_is_left_out(address: str) -> None:
    assert url(address) is None
    assert element("a", "x", href=address) == "<a>x</a>"
    assert element("img", src=address) == "<img>"


def test_what_a_browser_would_ignore_in_an_address_is_taken_out() -> None:
    assert url("ht\ntps://exam\u200bple.org") == "https://example.org"


GOOD_MARKDOWN = """\
# What I found

The *slow* test is `test_walk`, see [the docs](https://example.org/a?b=1#c) and [it](tests/x.py).

- one `a[i]: int` & two
- [ ] three[^1]

| a | b |
|---|---|
| 1 | 2 |

```python
if a < b: print("<b>", x[0](1), "![no picture]")
```

[^1]: A note.
"""
MARKS = [
    *("`", "``", "```", "~~~", "\n", "\n\n", "    ", "- ", "> ", "1. ", "\\", "\n```\n", "\n~~~\n"),
    *("<script>x</script>", "<img src=x onerror=1>", "<!--", "-->", "</code>", "&lt;", "&#96;"),
    *("![x](http://e/?q)", "![", "[a](javascript:x)", "[a]: javascript:x", "[a]", "](", ")", "("),
    *("[a](<java\tscript:x>)", "[a](&#106;avascript:x)", "[a](\njavascript:x)", "$", "|", "a", ":"),
]


def outside_code(markdown: str) -> str:
    """What stands in no fence and in no element of ours."""
    kept, mark = [], ""
    for line in markdown.split("\n"):
        if mark:
            mark = "" if line == mark else mark
        elif fence := re.fullmatch(r"(`{3,})[\w+#.-]*", line):
            mark = fence[1]
        else:
            kept.append(line)
    assert mark == "", "a fence is left open"
    return re.sub(r"</?code>|<!-- -->", "", "\n".join(kept))


def test_ordinary_markdown_is_left_as_it_is() -> None:
    shown = safe_markdown(GOOD_MARKDOWN).replace("<!-- -->", "")

    assert shown.split() == GOOD_MARKDOWN.split()


@given(st.lists(st.sampled_from(MARKS), max_size=14).map("".join) | st.text())
def test_no_markdown_of_a_model_holds_markup_or_a_picture(source: str) -> None:
    """Z-02. Two parsers, marked and markdown-it, were held against the same pieces by hand."""
    seen = outside_code(safe_markdown(source))

    assert "<" not in seen
    assert "![" not in seen
    assert not re.search(r"(?i)\][(:][\s>]*<?(?:java.?script|&#106;avascript):", seen)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("[a](javascript:alert)", "[a]&#40;javascript:alert)"),
        ("[a](java\\script:alert)", "[a]&#40;java\\script:alert)"),
        ("[a]( &#106;avascript&colon;alert)", "[a]&#40; &#106;avascript&colon;alert)"),
        ("[b]([a](\njavascript:x)", "[b]([a]&#40;\njavascript:x)"),
        ("1. [a]: javascript:x", "1. [a]&#58; javascript:x"),
        (f"[a]({'&Tab;' * 60}javascript:x)", f"[a]&#40;{'&Tab;' * 60}javascript:x)"),
        ("\\![x](http://e/?secret)", "\\&#33;[x](http://e/?secret)"),
        ("\\`![x](http://e/?secret)`", "\\<code>&#33;&#91;x&#93;(http&#58;//e/?secret)</code>"),
        ("`a < b`", "<code>a &#60; b</code>"),
        ("a < b", "a &lt; b"),
        ("- ```\n<script>", "-\n\n<!-- -->\n\n```\n<script>\n```"),
        ("```\n<b>", "```\n<b>\n```"),
        ("- a\n```\n<b>\n```", "- a\n\n<!-- -->\n\n```\n<b>\n```"),
    ],
)
def test_markdown_that_would_do_something_is_shown_instead(source: str, shown: str) -> None:
    """Z-02."""
    assert safe_markdown(source) == shown


@pytest.mark.parametrize(
    "hostile",
    [
        *("\n" * 200_000, " \n" * 100_000, "`a" * 100_000, "](" * 100_000, "[a]:" * 100_000),
        *("> " * 100_000, "```\n" * 50_000, "-\n" * 100_000, "\\`" * 100_000, "[" * 200_000),
        " ".join("`" * length for length in range(1, 700)),
    ],
    ids=lambda hostile: ascii(hostile[:8]),
)
def test_markdown_made_to_be_slow_is_not(hostile: str) -> None:
    started = time.perf_counter()
    safe_markdown(hostile)

    # A quadratic one would take minutes.
    assert time.perf_counter() - started < 5
