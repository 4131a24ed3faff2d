"""Escaping and small elements: the only place that makes markup.

Session text is hostile: everything that comes in is shown as text. Markup that was made
here is an `Html`, and only an `Html` goes into another one unescaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape as _escape

from pi_nb.text import fence as fence
from pi_nb.text import scrub

# Control characters have pictures of their own; tab and line feed are themselves.
_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in b"\t\n"} | {0x7F: 0x2421}

# Some of these a browser drops before it looks at the scheme; none of them a reader can see.
_IGNORED = re.compile(r"[\x00-\x20\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
_SCHEME = re.compile(r"(?:https?://|mailto:|#|data:image/(?:png|jpeg|gif|webp);base64,)", re.I)
_VOID = frozenset({"br", "col", "hr", "img", "input"})


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


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> Html:
    """A table with a head row."""
    return element(
        "table",
        element("thead", element("tr", *(element("th", cell) for cell in head))),
        element(
            "tbody",
            *(element("tr", *(element("td", cell) for cell in row)) for row in rows),
        ),
    )
