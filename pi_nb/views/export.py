"""One self-contained page of a session: its tree, its transcript, what it cost.

Nothing is fetched and nothing can be: a content security policy in the page forbids all but
its own style and script, named by their hashes, and pictures that are in the page itself.
Without JavaScript the page is complete; the script adds arrow keys in the tree, folding,
and reading one branch alone. It says nothing of when it was made, so the same session
gives the same page.

    +- tree --------+- transcript -------------------+
    | 1 user: ...   |  User                       #1 |
    | 2 assistant   |  Which tests are slow?         |
    |  branch 1     |  Assistant, p/m             #2 |
    +---------------+--------------------------------+
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files

from pi_nb.html import Html, element
from pi_nb.session.exporting import Exported, ExportFormat
from pi_nb.session.exporting import export as export_session
from pi_nb.session.reader import SessionReader
from pi_nb.session.redact import Redaction
from pi_nb.session.salvage import reading
from pi_nb.text import safe_line, straight

from .facts import facts, heading
from .paths import Anchors
from .transcript import transcript
from .tree_list import tree_list


def export(
    session: SessionReader | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    format: ExportFormat | None = None,
    redact: bool | Redaction | None = None,
    overwrite: bool = False,
    lane: str = "main",
    whole: bool = False,
) -> Exported:
    """As `Session.export`, for a session or for the file of one.

    The file is opened read-only; of a v4 file that is broken the valid part is written.

    Raises:
        PiError: as `Session.export`; `session`: the file is no session.
    """
    if isinstance(session, SessionReader):
        return export_session(
            session,
            path,
            format=format,
            redact=redact,
            overwrite=overwrite,
            lane=lane,
            whole=whole,
        )
    with reading(session) as opened:
        return export(
            opened,
            path,
            format=format,
            redact=redact,
            overwrite=overwrite,
            lane=lane,
            whole=whole,
        )


def page(
    session: SessionReader, *, lane: str = "main", note: Callable[[], str] = str
) -> Iterator[str]:
    """The page of a whole session, in pieces.

    Args:
        lane: Its branch is marked in the tree; what lies elsewhere says so.
        note: Asked when all else was given: a line for the footer.

    Raises:
        PiError: `invalid_argument`: no such lane; `session`: the file cannot be read.
    """
    anchors = Anchors(session, lane)
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield element("head", *_head(session))
    yield "<body>"
    yield element("a", "Skip to the transcript", href="#transcript", class_="skip")
    yield element("header", heading(session), class_="page")
    yield '<div class="columns">'
    yield '<nav aria-label="Session tree" id="tree">'
    yield element("h2", "Tree")
    yield from tree_list(session, anchors)
    yield "</nav>"
    yield '<main id="transcript" tabindex="-1">'
    yield facts(session)
    yield element("h2", "Transcript")
    yield from transcript(session, anchors)
    yield "</main>"
    yield "</div>"
    if said := note():
        yield element("footer", element("p", said), class_="page")
    yield element("script", Html(_asset("page.js")))
    yield "</body>"
    yield "</html>"


def _head(session: SessionReader) -> Iterator[Html]:
    yield element("meta", charset="utf-8")
    yield element("meta", http_equiv="Content-Security-Policy", content=policy())
    yield element("meta", name_="referrer", content="no-referrer")
    yield element("meta", name_="viewport", content="width=device-width, initial-scale=1")
    yield element("meta", name_="color-scheme", content="light dark")
    yield element("title", straight(safe_line(session.name or f"Session {session.id}", 200)))
    yield element("style", Html(_asset("page.css")))


def policy() -> str:
    """What the page may load: nothing but what it holds, and of that only what is named."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_hash('page.css')}'",
            f"script-src '{_hash('page.js')}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(name: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()}"
