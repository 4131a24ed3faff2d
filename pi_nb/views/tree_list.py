"""A session's tree as nested lists of links; the page's script makes them an ARIA tree."""

from __future__ import annotations

from collections.abc import Iterator

from pi_nb.html import Html, element
from pi_nb.result import PiError
from pi_nb.session.in_words import entry_line
from pi_nb.session.reader import SessionReader
from pi_nb.text import safe_line, straight

from .paths import Anchors, End, Fork, reading_order


def tree_list(session: SessionReader, anchors: Anchors) -> Iterator[str]:
    """The lists, in pieces. A branch is an item that holds the list of its entries."""
    if not len(session):
        yield element("p", "(no entries)")
        return
    yield '<ul class="tree">'
    for step in reading_order(session):
        match step:
            case Fork():
                yield _fork(step, anchors)
            case End():
                yield "</ul></li>"
            case entry_id:
                yield _row(session, anchors, entry_id)
    yield "</ul>"


def _fork(fork: Fork, anchors: Anchors) -> str:
    here = ", the lane's" if anchors.is_active(fork.first) else ""
    name = element("span", f"branch {fork.number} of {fork.count}{here}", class_="name")
    opened = str(element("li", name, class_="branch on" if here else "branch"))
    return f"{opened.removesuffix('</li>')}<ul>" if fork.nested else opened


def _row(session: SessionReader, anchors: Anchors, entry_id: str) -> Html:
    active = anchors.is_active(entry_id)
    try:
        line = straight(entry_line(session.entry(entry_id)))
    except PiError as error:
        line = f"[cannot be read: {safe_line(error.message)}]"
    label = session.labels.get(entry_id)
    parts: list[object] = [
        element("span", f"{anchors.number(entry_id)}", class_="number"),
        " ",
        element("span", "•" if active else " ", class_="mark", aria_hidden="true"),
        " ",
        line,
    ]
    if label:
        parts += [" ", element("span", f"label: {straight(safe_line(label))}", class_="label")]
    link = element("a", *parts, href=f"#{anchors.anchor(entry_id)}")
    return element("li", link, class_="on" if active else "off")
