"""What a text says, to be asked many times whether it says this too.

Everything is taken in once, so that a thousand questions cost no more than one reading.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pi_nb.messages import AgentMessage
from pi_nb.text import scrub

from .finds import Kind, numbers, places
from .sentences import sentences
from .voices import spoken

_DEPTH = 12
"""Parts of a path or of a dotted name that are looked at."""
_NAMES = re.compile(r"[A-Za-z0-9_$\u00c0-\u024f-]+(?:(?:\.|::|->)[A-Za-z0-9_$\u00c0-\u024f-]+)*")
_JOINTS = re.compile(r"\.|::|->")
_MARKS = re.compile(r"^[\s>*+•`\"'“”「」-]+|[\s`\"'“”「」*]+$")
_LINE_END = re.compile(r"[.!?。！？;:,…]+$")


class Wordings:
    """A summary and the messages that are kept beside it, as sets of what they say."""

    def __init__(self, summary: str, kept: Sequence[AgentMessage] = ()) -> None:
        summary = scrub(summary)
        self.summary = _flat(summary)
        self.paths: set[str] = set()
        self.names: set[str] = set()
        self.numbers: set[str] = set()
        self.lines: set[str] = set()
        self.words: set[str] = set()
        """Addresses and hashes."""
        self._take(summary)
        for message in kept:
            for _, text, is_path in spoken(message):
                if is_path:
                    self.paths.update(_ends(text.strip().removeprefix("./")))
                self._take(scrub(text))

    def _take(self, text: str) -> None:
        finds, rest = places(text, hashes=True)
        for find in finds:
            if find.kind == "path":
                self.paths.update(_ends(find.text))
            self.words.add(find.text)
        for match in _NAMES.finditer(text):
            self.names.update(_pieces(match[0]))
        self.numbers.update(number_key(number) for number in numbers(rest))
        for line in text.split("\n"):
            bare = _bare(line)
            self.lines.add(bare)
            if len(bare) <= 200:  # a line of a list of files may be a path of any form
                self.paths.add(bare)
        self.lines.update(map(_bare, sentences(text)))

    def has(self, kind: Kind, text: str, owners: Mapping[str, str]) -> bool:
        """Whether a find of another text stands here too.

        Args:
            owners: Of the ends of paths the one path that each belongs to (`owners_of`).
        """
        if kind == "path":
            own = (end for end in _ends(text) if end == text or owners.get(end) == text)
            return any(end in self.paths for end in own)
        if kind == "identifier":
            return text in self.names or text.lstrip("-") in self.names
        if kind == "number":
            return number_key(text) in self.numbers
        if kind in ("url", "hash"):
            return text in self.words
        bare = _bare(text)
        return bare in self.lines or (len(bare) > 3 and bare in self.summary)


def number_key(number: str) -> str:
    """`300ms` and `300 ms` are one."""
    return number.replace(" ", "").replace("\u00a0", "")


def owners_of(paths: Iterable[str]) -> dict[str, str]:
    """Of every end of these paths that belongs to one of them alone: which one.

    A path that is the end of exactly one longer path belongs to it: `src/a.py` and
    `/home/me/src/a.py` are taken for one file. An end that two share belongs to none.
    """
    owners: dict[str, str] = {}
    shared: set[str] = set()
    for path in sorted(set(paths), key=lambda path: (-path.count("/"), -len(path), path)):
        ends = list(_ends(path))
        if path in owners and path not in shared:
            continue
        for end in ends:
            if owners.setdefault(end, path) != path:
                shared.add(end)
        owners[path] = path
        shared.discard(path)
    return {end: path for end, path in owners.items() if end not in shared}


def _ends(path: str) -> Iterator[str]:
    """The path and the ends of it, at whole parts."""
    yield path
    rest = path.strip("/")
    for _ in range(_DEPTH):
        yield rest
        _, slash, rest = rest.partition("/")
        if not slash:
            return
    yield rest.rpartition("/")[2]


def _pieces(name: str) -> Collection[str]:
    """A dotted name, its beginnings, its ends and its parts; of a plain one itself."""
    parts = _JOINTS.split(name)
    if len(parts) == 1:
        return (name,)
    parts = parts[:_DEPTH]
    starts = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return {name, *parts, *starts, *(".".join(parts[at:]) for at in range(len(parts)))}


def _bare(line: str) -> str:
    return _LINE_END.sub("", _flat(_MARKS.sub("", line)))


def _flat(text: str) -> str:
    return " ".join(text.split())
