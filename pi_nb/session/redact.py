"""What is left out of a copy that others may see: keys, home folders, names, chosen patterns.

It works on texts and plain data, and counts what it replaced; the count never holds what
was there. Where in a line a text may stand, and which strings hold the line together, is
the matter of `redacted`.

    /home/ada/notes.md        ~/notes.md        and then also: ssh ada@box -> ssh [user]@box
    export KEY=sk-ant-...     export KEY=[key]
"""

from __future__ import annotations

import getpass
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pi_nb.models.keys import HIDDEN, scrub_keys
from pi_nb.result import PiError
from pi_nb.text import plain, without_escapes

USER = "[user]"
NAME = "[name]"
PATTERN = "[left out]"

# Where a word begins: also behind an escape, written out or not, that ends in a letter, as in
# `\n`, `%3D`, `\u0022` and the colours of a terminal.
_ESCAPED = r"(?<=\\[bfnrtv])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=[\d;\[]m)|(?<=\[K)"
_BEGIN = rf"(?:(?<!\w)|{_ESCAPED})"
_QUOTE = r"(?:\\{0,8}[\"']|&quot;|&#39;|%22)?"
# Keys whose form is known, beside those that `scrub_keys` knows.
_KEYS = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,20000}"
    r"(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?"
    rf"|(?=[ASeghlnprstwxy]){_BEGIN}(?:gh[opusr]_\w{{16,}}|github_pat_\w{{20,}}|glpat-[\w-]{{16,}}|npm_\w{{20,}}"
    r"|pypi-[\w-]{20,}|xox[abeprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|(?:sk|rk|gsk|xai|hf|pplx|nvapi|tvly|r8|lsv2|whsec)[-_](?=[A-Za-z_-]{0,80}\d)[\w-]{16,}"
    r"|AIza[\w-]{20,}|ya29\.[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|eyJ[\w-]{8,2000}\.eyJ[\w-]{8,}\.[\w-]*)"
    r"|(?<=://)[^\s/@:]{1,100}:[^\s/@]{1,200}(?=@)"
)
# `API_KEY=...`, `token: ...`, `--password ...`: a value that is no word of a language and no
# number. In `Authorization: Basic ...` it may be a word.
_ASSIGNED = re.compile(
    r"(?=[AaPpSsTt])(?:"
    r"(?i:(?:api|access|account|private|signing)[_-]?key|token|secret|password|passwd|passphrase)"
    rf"(?:{_QUOTE}\s{{0,3}}(?:[=:]|%3[ADad])\s{{0,3}}|(?P<gap>\s{{1,3}})(?!-)){_QUOTE}"
    r"(?P<value>(?=[^\s\"',;]{0,200}\d)(?=[^\s\"',;]{0,200}[A-Za-z])[\w+/=.~!@#%^&*$?|-]{8,})"
    rf"|(?i:authorization){_QUOTE}\s{{0,3}}[=:]\s{{0,3}}{_QUOTE}(?i:basic|token)\s{{1,3}}"
    r"(?P<word>[\w+/=.~-]{8,}))"
)
_OPTION = re.compile(r"(?<![\w-])--?[\w-]{0,30}\Z")
# Without one of these in a text there is nothing to look for; that is told ten times faster.
_KEY_SIGNS = (
    *("PRIVATE KEY", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("npm_", "pypi-", "xox", "AKIA", "ASIA", "eyJ", "://", "sk-", "sk_", "rk_", "xai-", "hf_"),
    *("pplx-", "nvapi-", "tvly-", "r8_", "lsv2_", "whsec_", "AIza", "ya29.", "SG."),
)
_NAME_SIGNS = ("key", "token", "secret", "passw", "passphrase", "authorization")
_HOME_SIGNS = ("home", "Users")
_SECRET_FIELD = re.compile(
    r"(?i:(?:api|access|account|private|signing)[_-]?keys?|secrets?|passw(?:or)?ds?|passphrase"
    r"|authorization|cookie|(?:access|auth|refresh|bearer|session|api|bot|id|csrf)[_-]?token)\Z"
    r"|\A(?i:token)\Z|[A-Z0-9]_TOKEN\Z"
)
_SECRET_VARIABLE = re.compile(r"(?i)(?:KEY|TOKEN|SECRET|PASSWORD)\Z")
_SHORTEST_SECRET = 8
# What a terminal obeys. It may stand in the middle of a key, as where a search was marked.
_OBEYED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")

_SEPARATOR = r"(?:/{1,2}|\\{1,8}|%2[Ff]|%5[Cc])"
_PERSON = r"[^\s\\/:*?\"'`<>|,;()\[\]{}%$&=\x00-\x1f\x7f-\x9f]{1,64}(?<!\.)"
# A Windows name may hold spaces; only the next backslash then says where it ends.
_HOME = re.compile(
    rf"(?P<folder>(?:(?<!\w)[A-Za-z]:)?{_SEPARATOR}(?:home|Users){_SEPARATOR})"
    rf"(?P<user>[^\\/:*?\"<>|\x00-\x1f\x7f-\x9f]{{1,40}}(?=\\)|{_PERSON})"
)
_BEHIND_ESCAPE = re.compile(_ESCAPED)
# Where home folders lie deeper: mounted disks of Windows, and some systems.
_MOUNTED = re.compile(r"(?<![\w.])(?:/mnt/[a-z]|/cygdrive/[a-z]|/[a-z]|/var|/export)\Z")
_NOBODY = frozenset(
    {"admin", "administrator", "all users", "default", "dev", "home", "jovyan", "linuxbrew"}
    | {"public", "root", "runner", "shared", "ubuntu", "user", "users", "vscode"}
)
"""Folders and accounts that name no person; `/home/user` is still shortened to `~`."""
_SHORTEST_USER = 3
_SHORT = 64
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Redaction:
    """What to leave out. `redact=True` is `Redaction()`.

    Attributes:
        keys: API keys and tokens of well-known forms, private keys, passwords in addresses,
            values assigned to names such as `API_KEY`, and the values of this process's own
            environment variables with such names.
        home: Home folders (`/home/x`, `/Users/x`, `C:\\\\Users\\\\x`) become `~`, and the
            names of their users, wherever they stand as a word, `[user]`.
        names: Given names, as whole words in any case, become `[name]`.
        patterns: Regular expressions; what they match becomes `[left out]`.
    """

    keys: bool = True
    home: bool = True
    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # The names are what somebody wants to hide.
        return (
            f"Redaction(keys={self.keys}, home={self.home}, "
            f"names={len(self.names)}, patterns={len(self.patterns)})"
        )

    @classmethod
    def of(cls, wanted: bool | Redaction | None) -> Redaction | None:
        """What `redact=` says; None where nothing is left out.

        Raises:
            PiError: `invalid_argument`.
        """
        if isinstance(wanted, Redaction):
            return wanted
        if wanted is None or isinstance(wanted, bool):
            return cls() if wanted else None
        raise PiError("invalid_argument", "redact is True, False or a Redaction(...)")


class Redactor:
    """One pass of leaving out. `counts` says how often, by kind."""

    def __init__(self, redaction: Redaction) -> None:
        """
        Raises:
            PiError: `invalid_argument`: an empty name, or a pattern that is none or matches
                the empty text.
        """
        self.counts: Counter[str] = Counter()
        self._redaction = redaction
        # Names of fields come again and again.
        self._unchanged: set[str] = set()
        self._patterns = [_compiled(pattern) for pattern in _texts(redaction.patterns, "patterns")]
        self._names = _words(_texts(redaction.names, "names"))
        self._secrets = _own_secrets() if redaction.keys else ()
        self._homes = _own_homes() if redaction.home else None
        self._users: set[str] = set(_own_users()) if redaction.home else set()
        self._user_words = _words(self._users)

    def learn(self, data: Any) -> None:
        """Look in plain data for home folders, so that their users' names are known before
        the first text is redacted."""
        if not self._redaction.home:
            return
        known = len(self._users)
        for text in _strings(data):
            if not any(sign in text for sign in _HOME_SIGNS):
                continue
            for found in _HOME.finditer(text):
                user = found["user"]
                # In `site.org/home/news` it is no user, though the path is shortened.
                if _is_person(user) and not _in_other_path(text, found.start()):
                    self._users.add(user)
        if len(self._users) != known:
            self._unchanged.clear()
            self._user_words = _words(self._users)

    def text(self, text: str) -> str:
        """The text with everything left out, and counted."""
        if text in self._unchanged:
            return text
        done = self._left_out(text)
        if done == text and len(text) < _SHORT and len(self._unchanged) < _MOST:
            self._unchanged.add(text)
        return done

    def _left_out(self, text: str) -> str:
        """Looked at as it is, and as a terminal would show it: if only that shows what is to
        be left out, that is what the text becomes."""
        text = self._looked_at(text)
        if _OBEYED.search(text):
            for shown in (without_escapes(text)[0], plain(text)):
                done = self._looked_at(shown)
                if done != shown:
                    return done
        return text

    def _looked_at(self, text: str) -> str:
        for pattern in self._patterns:
            text = self._count("patterns", *pattern.subn(PATTERN, text))
        if self._redaction.keys:
            text = self._without_keys(text)
        if self._redaction.home:
            if self._homes is not None:
                text = self._count("home folders", *self._homes.subn("~", text))
            if any(sign in text for sign in _HOME_SIGNS):
                text = self._count("home folders", *_HOME.subn(_home, text))
        if self._user_words is not None:
            text = self._count("user names", *self._user_words.subn(USER, text))
        if self._names is not None:
            text = self._count("names", *self._names.subn(NAME, text))
        return text

    def data(self, value: Any) -> Any:
        """Plain data with `text` done to every string in it, names of fields included.

        A field called `password`, `api_key` or the like loses its value, and each value of a
        list, be it a text or a number.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        if not isinstance(value, dict):
            return value
        done: dict[str, Any] = {}
        for name, item in value.items():
            if self._redaction.keys and _SECRET_FIELD.search(str(name)):
                item = self._hidden(item)
            done[_free(self.text(str(name)), done)] = self.data(item)
        return done

    def _without_keys(self, text: str) -> str:
        before = text.count(HIDDEN)
        if any(sign in text for sign in _KEY_SIGNS):
            text = _KEYS.sub(HIDDEN, text)
        text = scrub_keys(text, self._secrets)
        lower = text.lower()
        if any(sign in lower for sign in _NAME_SIGNS):
            text = _ASSIGNED.sub(_without_value, text)
        return self._count("keys", text, max(text.count(HIDDEN) - before, 0))

    def _hidden(self, value: Any) -> Any:
        """The value of a secret field; what has fields of its own is looked at in there."""
        if isinstance(value, list | tuple):
            return [self._hidden(item) for item in value]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number or (isinstance(value, str) and value.strip()):
            return self._count("keys", HIDDEN, 1)
        return value

    def _count(self, kind: str, text: str, times: int) -> str:
        if times:
            self.counts[kind] += times
        return text


def _home(found: re.Match[str]) -> str:
    """`~`, or where the path goes on before it, the same folder without its user."""
    before = found.string[max(found.start() - 1, 0) : found.start()]
    inside = before.isalnum() or before in tuple("._~-/\\%")
    if inside and not _BEHIND_ESCAPE.match(found.string, found.start()):
        return f"{found['folder']}{USER}"
    return "~"


def _in_other_path(text: str, start: int) -> bool:
    """Whether a path goes on before what looks like a home folder, so that it may be none."""
    before = text[max(start - 20, 0) : start]
    goes_on = before[-1:].isalnum() and not _BEHIND_ESCAPE.match(text, start)
    return goes_on and not _MOUNTED.search(before)


def _without_value(found: re.Match[str]) -> str:
    """A name and `[key]`. Only an option, as in `--password x`, has its value after a gap."""
    before = found.string[max(found.start() - 32, 0) : found.start()]
    if found["gap"] and not _OPTION.search(before):
        end = found.end("gap") - found.start()
        return found[0][:end] + _ASSIGNED.sub(_without_value, found[0][end:])
    group = "value" if found["value"] is not None else "word"
    end = found.start(group) - found.start()
    return f"{found[0][:end]}{HIDDEN}"


def _is_person(user: str) -> bool:
    return len(user) >= _SHORTEST_USER and user.casefold() not in _NOBODY


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name, with a number behind it where two fields became the same."""
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


def _strings(value: Any) -> Iterator[str]:
    """Every string in plain data, without recursion: files nest as they like."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending += item.keys()
            pending += item.values()
        elif isinstance(item, list | tuple):
            pending += item


def _texts(given: Iterable[str], what: str) -> list[str]:
    texts: list[object] = [given] if isinstance(given, str) else list(given)
    checked = [text for text in texts if isinstance(text, str) and text.strip()]
    if len(checked) < len(texts):
        raise PiError("invalid_argument", f"{what} holds texts that are not empty")
    return checked


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise PiError("invalid_argument", f"the pattern {pattern!r}: {error}") from None
    if compiled.search(""):
        raise PiError("invalid_argument", f"the pattern {pattern!r} matches the empty text")
    return compiled


def _words(words: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern for whole words in any case, composed or not; longer ones first."""
    forms = {unicodedata.normalize(form, word) for word in words for form in ("NFC", "NFD")}
    if not forms:
        return None
    ordered = sorted(forms, key=lambda word: (-len(word), word))
    return re.compile("|".join(map(_bounded, ordered)), re.IGNORECASE)


def _bounded(word: str) -> str:
    """Where letters have no case, as in Chinese, no space says where a word ends."""
    before = rf"(?:(?<![^\W_])|{_ESCAPED})" if _is_lettered(word[0]) else ""
    after = r"(?![^\W_])" if _is_lettered(word[-1]) else ""
    # The word first: looking back at every character would take four times as long.
    return f"(?={re.escape(word)}){before}{re.escape(word)}{after}"


def _is_lettered(char: str) -> bool:
    return char.isdigit() or char.lower() != char.upper()


def _own_secrets() -> tuple[str, ...]:
    """What this process itself holds as keys: it may have been printed into the session."""
    return tuple(
        value.strip()
        for name, value in os.environ.items()
        if _SECRET_VARIABLE.search(name) and len(value.strip()) >= _SHORTEST_SECRET
    )


def _own_homes() -> re.Pattern[str] | None:
    """This user's home folder, which may lie anywhere."""
    try:
        home = str(Path.home())
    except RuntimeError:
        return None
    if home == os.path.abspath(os.sep):
        return None
    return re.compile(rf"(?<![\w.~/\\-]){re.escape(home)}(?![\w.-])")


def _own_users() -> Iterator[str]:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        return
    if _is_person(user):
        yield user
