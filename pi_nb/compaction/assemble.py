"""A summary as it is stored: what was written, and what no writer may forget.

the summary of the history
## Turn in Progress          where the cut splits a turn: its beginning
<pinned entry="12">          pinned entries, word for word
<files-read> <files-modified>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pi_nb.session.context import ContextItem

from .files import Files
from .transcript import as_text

TURN_HEADING = "## Turn in Progress"
_OPEN = "The rest of this turn follows word for word; what was asked in it is still open."
_ANSWERED = "The rest of this turn follows word for word, with the answer: nothing in it is open."
TURN_NOTES = frozenset({_OPEN, _ANSWERED})
"""What stands below that heading and says nothing of the turn."""

# Also the lists as pi writes them: a summary of its own may be carried on here. What a writer
# left open reaches no further than the next tag: it must not take the summary with it.
_LISTS = re.compile(r"\s*<(files-read|files-modified|read-files|modified-files)>\n[^<]*?\n?</\1>")
_PINNED = re.compile(
    r"\s*<(pinned(?:-\d+)?) entry=\"[^\"]*\">\n(?:(?!<\1 entry=).)*?\n</\1>", re.DOTALL
)


def assembled(
    history: str | None,
    turn_prefix: str | None,
    pins: Iterable[tuple[str, ContextItem]],
    files: Files,
    *,
    answered: bool = False,
) -> str:
    """The parts as one text; those that are not there are left out.

    Args:
        answered: Whether the turn that is split has its answer in what is kept: what was asked
            in it must not be done a second time (C-48).
        pins: Pinned entries by the name they are called by (a number, or an id).
    """
    parts = [history] if history else []
    if turn_prefix:
        parts.append(f"{TURN_HEADING}\n{_ANSWERED if answered else _OPEN}\n\n{turn_prefix}")
    parts += [pin_block(name, item) for name, item in pins]
    parts += [_list(tag, paths) for tag, paths in _file_lists(files) if paths]
    return "\n\n".join(part.strip() for part in parts)


def pin_block(name: str, item: ContextItem) -> str:
    """A pinned entry as it stands in a summary: its words untouched."""
    words = pinned_words(item)
    tag, number = "pinned", 1
    while f"</{tag}>" in words or f"<{tag} entry=" in words:
        number += 1
        tag = f"pinned-{number}"
    return f'<{tag} entry="{name}">\n{words}\n</{tag}>'


def pinned_words(item: ContextItem) -> str:
    """What of a pinned entry has to stand in a summary, word for word; an image cannot."""
    return as_text([item.message], result_limit=_WHOLE)


_WHOLE = 1 << 40


def without_extras(summary: str) -> str:
    """A stored summary as a writer is shown it again: without pinned words and lists of
    files, which are put around the next one anyway."""
    return _LISTS.sub("", _PINNED.sub("", summary)).strip()


def parted(summary: str) -> tuple[str, str]:
    """A stored summary without the pinned words and lists below it, and these."""
    body = without_extras(summary)
    if not summary.startswith(body):
        return summary, ""  # a hand put them elsewhere
    return body, summary[len(body) :].strip()


def _file_lists(files: Files) -> Iterable[tuple[str, Sequence[str]]]:
    return (("files-read", files.read), ("files-modified", files.modified))


def _list(tag: str, paths: Sequence[str]) -> str:
    # A path with a line break in it must not look like two, nor like the end of the list.
    lines = "\n".join(path.replace("\n", "\\n").replace("<", "‹") for path in paths)
    return f"<{tag}>\n{lines}\n</{tag}>"
