"""A session as others may see it: every text redacted, everything that holds it together kept.

It is a `SessionReader` over the same file, so that whatever shows or copies a session shows
or copies this one as well. Ids, links, types and times are as they were, pictures and the
signatures of providers too; every other string is redacted, the names of fields included.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pi_nb.result import PiError
from pi_nb.text import safe_line

from .entries import Entry
from .index import Diagnostic, Place
from .reader import SessionReader
from .records import Header, Record
from .redact import Redaction, Redactor

S = TypeVar("S", Entry, Record)

# Strings that say what a line is and what it belongs to.
_OF_LINES = frozenset(
    {"type", "id", "parentId", "targetId", "leafId", "fromId", "firstKeptEntryId", "fact"}
    | {"runId", "entryId", "resultEntryId", "assistantEntryId", "sourceLeafId", "toolCallId"}
    | {"proposalId", "outcome", "queue", "replay", "step", "cause", "state", "kind"}
)
_OF_HEADERS = frozenset({"id", "parentSessionId"})
_OF_MESSAGES = frozenset({"role", "api", "stopReason", "toolCallId", "responseId", "fromId"})
_OF_BLOCKS = frozenset({"type", "id", "mimeType"})
_SIGNATURES = frozenset({"thinkingSignature", "textSignature", "thoughtSignature"})
# A path is base64 as well, so a picture has to begin like one, and a signature is long.
_PICTURE = re.compile(r"(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/\s]*={0,2}\s*")
_SIGNATURE = re.compile(r"[A-Za-z0-9+/]{64,}={0,2}")
_OWN_TYPE = re.compile(r"pi(?:_nb)?\.\w+")


class RedactedReader(SessionReader):
    """What `source` holds now, with its texts redacted as they are read."""

    def __init__(self, source: SessionReader, redaction: Redaction) -> None:
        """
        Raises:
            PiError: `invalid_argument`, see `Redactor`; `session`, the file cannot be read.
        """
        index = copy.copy(source._index)
        super().__init__(index, source._log, source._codec, None)
        self._redactor = redactor = Redactor(redaction)
        self._lane_names: dict[str, str] = {"main": "main"}
        self._counted: set[str] = set()
        for line, _ in source._log.lines():
            redactor.learn(_plain(line))
        index.header = self._header(source.header)
        index.name = None if source.name is None else redactor.text(source.name)
        index.labels = {target: redactor.text(said) for target, said in source.labels.items()}
        index.lanes = {self._lane(lane): leaf for lane, leaf in source.lanes.items()}
        self._diagnostics = tuple(
            Diagnostic(odd.line, odd.code, redactor.text(_uncut(odd))) for odd in source.diagnostics
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """What was left out of what was read so far: kind to number, each line once."""
        return dict(sorted(self._redactor.counts.items()))

    def read_all(self) -> None:
        """Read what can be read once, so that `counts` is that of the whole session."""
        for entry_id in self.entry_ids():
            with suppress(PiError):
                self.entry(entry_id)
        with suppress(PiError):
            for _ in self.records():
                pass

    def note(self) -> None:
        """Write `counts` into the header's metadata, for a copy."""
        header = self._index.header
        metadata = {**(header.metadata or {}), "redacted": dict(self.counts)}
        self._index.header = header.having(metadata=metadata)

    def entry(self, entry_id: str | int) -> Entry:
        entry = super().entry(entry_id)
        return self._once(entry.id, entry)

    def _records(self, places: list[Place]) -> Iterator[Record]:
        for record in super()._records(places):
            yield self._once(f"record {record.id}", record)

    def _once(self, key: str, stored: S) -> S:
        """Redact; what was read before is not counted again."""
        counts = self._redactor.counts.copy()
        try:
            redacted = self._redacted(stored)
        except RecursionError:
            # Not shown at all, rather than with something in it that was not looked at.
            raise PiError("session", f"{safe_line(key, 40)}: nested too deeply") from None
        if key in self._counted:
            self._redactor.counts = counts
        self._counted.add(key)
        return redacted

    def _redacted(self, stored: S) -> S:
        done: dict[str, Any] = {}
        for name, value in stored.to_wire().items():
            if name in _OF_LINES and not isinstance(value, dict | list):
                done[name] = value
            elif name == "lane":
                done[name] = None if value is None else self._lane(value)
            elif name in ("message", "systemMessage"):
                done[name] = self._message(value)
            elif name == "retainedTail":
                done[name] = value and [self._message(message) for message in value]
            elif name == "content":
                done[name] = self._content(value)
            elif name == "replacement":
                done[name] = value and self._message(value)
            elif name == "customType" and _OWN_TYPE.fullmatch(str(value)):
                done[name] = value
            else:
                done |= self._redactor.data({name: value})
        return type(stored).model_validate(done)

    def _message(self, message: Any) -> Any:
        if not isinstance(message, dict):
            return self._redactor.data(message)
        done: dict[str, Any] = {}
        for name, value in message.items():
            if name in _OF_MESSAGES and isinstance(value, str):
                done[name] = value
            elif name == "content":
                done[name] = self._content(value)
            else:
                done |= self._redactor.data({name: value})
        return done

    def _content(self, content: Any) -> Any:
        if isinstance(content, list):
            return [self._block(block) for block in content]
        return self._redactor.data(content)

    def _block(self, block: Any) -> Any:
        if not isinstance(block, dict):
            return self._redactor.data(block)
        done: dict[str, Any] = {}
        for name, value in block.items():
            if isinstance(value, str) and (name in _OF_BLOCKS or _is_opaque(name, value, block)):
                done[name] = value
            else:
                done |= self._redactor.data({name: value})
        return done

    def _lane(self, name: str) -> str:
        """A lane's name; two that become the same get a number, for they are two lanes."""
        if name not in self._lane_names:
            redacted = self._redactor.text(name)
            taken = set(self._lane_names.values())
            free, number = redacted, 1
            while free in taken:
                number += 1
                free = f"{redacted} {number}"
            self._lane_names[name] = free
        return self._lane_names[name]

    def _header(self, header: Header) -> Header:
        done: dict[str, Any] = {}
        for name, value in header.to_wire().items():
            spared = name in _OF_HEADERS
            done |= {name: value} if spared else self._redactor.data({name: value})
        return Header.model_validate(done)


def _is_opaque(name: str, value: str, block: Mapping[str, Any]) -> bool:
    """Bytes that hold no readable text: a picture, or what a provider signed."""
    if name == "data" and block.get("type") == "image":
        return _PICTURE.fullmatch(value) is not None
    return name in _SIGNATURES and _SIGNATURE.fullmatch(value) is not None


def _uncut(odd: Diagnostic) -> str:
    """What is odd, without the beginning of a line: half a key is no key to a redactor."""
    return odd.message.partition(":")[0] if odd.code == "bad_line" else odd.message


def _plain(line: bytes) -> Any:
    """A line's data; what is no JSON holds nothing that is ever copied."""
    try:
        return json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return None
