"""Escaping and small elements: the only place that makes markup.

Session text is hostile: everything that comes in is shown as text. Markup that was made
here is an `Html`, and only an `Html` goes into another one unescaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as _escape

from pi_nb.text import scrub


class Html(str):
    """Markup made by this module. Never construct one from outside text."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def text(value: object) -> Html:
    """Any value as text. An `Html` passes through."""
    return value if isinstance(value, Html) else Html(_escape(scrub(str(value)), quote=True))


def element(name: str, *children: object, **attributes: str) -> Html:
    """`<name a="b">children</name>`; a trailing `_` in an attribute's name is dropped."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()
    )
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


def fence(code: str, language: str = "") -> str:
    """A fenced Markdown block that its content cannot close."""
    longest = run = 0
    for char in code:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{scrub(code)}\n{mark}"
