"""Escaping and small elements: the only place that makes markup.

Session text is hostile: everything that comes in is shown as text. Markup that was made
here is an `Html`, and only an `Html` goes into another one unescaped.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape as _escape
from html import unescape as _unescape

from pi_nb.text import fence as fence
from pi_nb.text import plain, scrub

# Control characters have pictures of their own; tab and line feed are themselves.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in b"\t\n"} | {0x7F: 0x2421}

# Some of these a browser drops before it looks at the scheme; none of them a reader can see.
_IGNORED = re.compile(r"[\x00-\x20\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
_SCHEME = re.compile(r"(?:https?://|mailto:|#|data:image/(?:png|jpeg|gif|webp);base64,)", re.I)
_VOID = frozenset({"br", "col", "hr", "img", "input", "meta"})


class Html(str):
    """Markup made by this module. Never construct one from outside text."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def text(value: object) -> Html:
    """Any value as text, its control characters made visible. An `Html` passes through."""
    return value if isinstance(value, Html) else Html(_quoted(value))


def _quoted(value: object) -> str:
    return _escape(scrub(str(value)).translate(_PICTURES), quote=True)


def url(value: str) -> str | None:
    """The URL if a page may hold it: http, https, mailto, a fragment, a picture's data.

    Control and invisible characters are taken out first: `java\\x01script:` is one word to
    a browser. Anything else, relative paths too, is None.
    """
    bare = _IGNORED.sub("", value)
    return bare if _SCHEME.match(bare) else None


def element(name: str, *children: object, **attributes: str) -> Html:
    """`<name a="b">children</name>`; a trailing `_` in an attribute's name is dropped.

    An attribute that holds a URL is left out where `url` refuses it.
    """
    given = ""
    for key, value in attributes.items():
        checked = url(value) if key in ("href", "src") else value
        if checked is not None:
            given += f' {key.rstrip("_").replace("_", "-")}="{_quoted(checked)}"'
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{''.join(map(text, children))}</{name}>")


def details(summary: object, *children: object) -> Html:
    """A part that opens on a click, without a script."""
    return element("details", element("summary", summary), *children)


def table(
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    texts: Collection[int] | None = None,
) -> Html:
    """A table with a head row, its cells at the left: notebooks set text at the right.

    Args:
        texts: The columns that are text, from 0, where the others are numbers, at the right;
            said by attributes that stay where style is taken away. None: all are text.
    """

    def row(name: str, cells: Sequence[object]) -> Html:
        if texts is None:
            return element("tr", *(element(name, cell, style="text-align: left") for cell in cells))
        sides = ("left" if place in texts else "right" for place in range(len(cells)))
        aligned = zip(cells, sides, strict=True)
        return element("tr", *(element(name, cell, align=side) for cell, side in aligned))

    return element(
        "table",
        element("thead", row("th", head)),
        element("tbody", *(row("td", cells) for cells in rows)),
    )


# --- Markdown that others wrote -----------------------------------------------------------

# However deep it stands in lists and quotes. What follows tildes may hold backticks.
_FENCE = re.compile(
    r"((?:[ \t>]|(?:[-*+]|\d{1,9}[.)])(?=[ \t]))*)"
    r"(`{3,}(?=[^`]*\Z)|~{3,})[ \t]*([\w+#.-]*).*"
)
_CONTAINER = re.compile(r"^[ \t]*(?:[-*+>]|\d+[.)])", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"(\n[ \t]*\n)")
_TICKS = re.compile("`+")
_MARK = re.compile("`{3,}|~{3,}")
# Where a link or the definition of one says its target. Only looked at, never consumed: a
# target may hold the beginning of another link. As many characters as a scheme may hide in;
# no scheme goes on over a bracket, so that one link's target is not read for the next again.
_HIDING = 200
_LINK = re.compile(rf"\]([(:])(?=[\s>]*(<[^>\n(\]]{{0,{_HIDING}}}|[^\s)(\]]{{0,{_HIDING}}}))")
_ACTIVE = str.maketrans({char: f"&#{ord(char)};" for char in "<>&*_`[]\\~|$:#!"})


def inert(value: object) -> Html:
    """Any text where Markdown is read: shown as it is, neither as markup nor as Markdown.

    For what stands inside an element within Markdown: `<em>` alone does not keep a link or
    a picture from being one.
    """
    return Html(scrub(str(value)).translate(_PICTURES).replace("\n", " ").translate(_ACTIVE))


def safe_markdown(source: str) -> str:
    """Markdown of a model, with everything taken out that is more than text.

    A notebook's own outputs are trusted: JupyterLab runs a script in their Markdown. So
    every `<` is escaped, a link that goes neither where `url` lets it nor to a relative path
    is shown as text, and a picture becomes a link, for loading it would tell its server what
    the model put in the address. Code stays code: a fence is written anew, with a mark that
    its content cannot close, and with the containers before it closed, so that no two parsers
    can disagree about where it ends. Linear in the source; a fence that is still open ends
    with it.
    """
    parts: list[str] = []
    prose: list[str] = []
    lines = deque(plain(source).split("\n"))
    while lines:
        opened = _FENCE.fullmatch(line := lines.popleft())
        if opened is None:
            prose.append(line)
            continue
        if opened[1].strip(" \t>"):
            prose.append(opened[1].rstrip())  # a list's item begins with the fence
        before = _prose("\n".join(prose)).rstrip()
        prose.clear()
        # Blank lines close a paragraph; only a comment at the margin closes a list.
        boundary = "<!-- -->\n\n" if _CONTAINER.search(before) else ""
        code = _code(lines, opened[1], opened[2])
        parts.append(f"{before}\n\n{boundary}{fence(code, opened[3])}\n")
    return "\n".join([*parts, _prose("\n".join(prose))]).strip("\n")


def _code(lines: deque[str], margin: str, mark: str) -> str:
    """What a fence holds, up to its mark or to the end of its quote, without its margin."""
    code = []
    quoted = margin.count(">")
    while lines and not (quoted and lines[0].lstrip(" \t")[:1] != ">"):
        line = lines.popleft()
        closing = line.strip(" \t>") if quoted else line.strip(" \t")
        if closing and set(closing) == {mark[0]} and len(closing) >= len(mark):
            break
        for _ in range(quoted):
            line = line.lstrip(" \t").removeprefix(">")
        inner = margin.rpartition(">")[2]
        indent = len(line) - len(line.lstrip(" \t"))
        code.append(line[min(indent, len(inner)) :])
    return "\n".join(code)


def _prose(source: str) -> str:
    return "".join(map(_paragraph, _PARAGRAPH_END.split(source)))


def _paragraph(source: str) -> str:
    done = []
    end = 0
    for start, stop, ticks in _code_spans(source):
        done += [_bare(source[end:start]), _code_span(source[start:stop], ticks)]
        end = stop
    return "".join([*done, _bare(source[end:])])


def _code_spans(source: str) -> Iterator[tuple[int, int, int]]:
    """Begin, end and number of backticks: from a run of them to the next one as long."""
    runs = [run.span() for run in _TICKS.finditer(source)]
    ends: dict[int, list[int]] = {}
    for start, stop in reversed(runs):
        ends.setdefault(stop - start, []).append(stop)
    done = 0
    for start, stop in runs:
        later = ends[stop - start]
        # Each run is taken off once, so that the whole search is linear.
        while later and later[-1] <= stop:
            later.pop()
        if start >= done and later:
            done = later.pop()
            yield start, done, stop - start


def _bare(source: str) -> str:
    """What stands outside of code: nothing active in it, and nothing that opens a fence.

    A line may begin with such a mark and be none only for a backtick that comes later, in a
    code span that is written as an element.
    """
    return _MARK.sub(lambda mark: f"&#{ord(mark[0][0])};" * len(mark[0]), _inert(source))


def _inert(source: str) -> str:
    # Entities, because a backslash put before `![` would meet one that is already there.
    return _LINK.sub(_checked_link, source).replace("<", "&lt;").replace("![", "&#33;[")


def _code_span(span: str, ticks: int) -> str:
    """As it is where it holds nothing active; else as an element, its content inert.

    For another parser it may be no code: an escaped backtick opens none there, and three at
    the beginning of a line may open a fence.
    """
    if ticks < 3 and _inert(span) == span:
        return span
    return str(element("code", Html(span[ticks:-ticks].strip(" ").translate(_ACTIVE))))


def _checked_link(found: re.Match[str]) -> str:
    """The link as it is, or with a bracket that makes it text, so that its target is seen."""
    mark, target = found.groups()
    bare = _IGNORED.sub("", _unescape(target.lstrip("<")).replace("\\", ""))
    first = re.search("[:/?#]", bare)
    if first is None and len(target) < _HIDING:
        return found[0]
    if first is not None and (first[0] != ":" or url(bare) is not None):
        return found[0]
    return f"]&#{ord(mark)};"
