"""What a summary must not lose, found in plain text: paths, names of code, numbers, addresses.

By rules alone, without a model, so that the same text always gives the same finds; the
extractive summariser, the list of what a summary does not mention and the lab share them.
Precision goes before recall: a list with stop-words in it is not read. Every function is
linear in the text; none looks at who said it.

    retry src/cart.py:87 with max_retries = 3, then wait 300 ms
          path                identifier                number
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["path", "identifier", "number", "error", "constraint", "url", "hash"]

LONGEST = 200
"""Characters of a path, a name or an address; what is longer is data."""


class Find(NamedTuple):
    """One place in a text."""

    kind: Kind
    text: str


# Latin letters with marks belong to a word, so that no half of one is taken for a name. Chinese
# and Japanese ones do not: they stand next to a name without a space.
_LETTER = r"A-Za-z\u00c0-\u024f"
_RUN = re.compile(rf"[{_LETTER}0-9_$.~@+%\\/:#?=&-]+")
_URL = re.compile(r"(?:https?|wss?|ftp|file)://[^\s<>\"'`|\\^{}\u3000-\u303f\uff00-\uffef]+")
_NAME = re.compile(
    rf"(?<![{_LETTER}0-9_$.-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?![{_LETTER}0-9_-])"
    rf"|(?<![{_LETTER}0-9_$.])[A-Za-z_$][A-Za-z0-9_$]*(?:(?:\.|::)[A-Za-z_$][A-Za-z0-9_$]*)*"
    rf"(?![{_LETTER}0-9_$])"
)
_TICKED = re.compile(r"(?<!`)`([^\s`]{2,80})`(?!`)")
_TICKED_NAME = re.compile(r"[A-Za-z_$][\w$-]*(?:(?:\.|::|->)[\w$-]+)*", re.ASCII)
_LINE_OF = re.compile(r"(?::\d+){1,2}:?$")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ROOTED = re.compile(r"~/|\.{1,2}/|[A-Za-z]:[\\/]")
_JOINTS = re.compile(r"[=:@]+")
_SLASHES = re.compile(r"[/\\]")
_SNAKE = re.compile(r"[A-Za-z0-9]_[A-Za-z0-9]|^__[a-z0-9]+__$")
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z][a-z]+[0-9]*[A-Z]")
_SWITCH = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_HEX = re.compile(r"(?:0x)?[0-9a-f]{7,128}|[0-9A-F]{7,128}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TELLING = re.compile(r"[._0-9-]")


def word_set(words: str) -> frozenset[str]:
    """Words that are written with blanks between them, for long lists."""
    return frozenset(words.split())


_EXTENSIONS = word_set(
    "py pyi ipynb ts tsx mts cts js jsx mjs cjs json jsonl json5 yaml yml toml md mdx rst txt html"
    " htm css scss less sh bash zsh fish ps1 bat sql go mod rs c h cc cpp cxx hpp java kt kts rb"
    " php swift cs lua zig ex exs hs ml jl vue svelte xml csv tsv ini cfg conf lock png jpg gif"
    " jpeg svg webp pdf zip tar gz whl proto tf gradle tex bib patch diff parquet db sqlite"
)
# After a dot these are as often a member (`console.log`, `process.env`) as a kind of file.
_ALSO_FILES = _EXTENSIONS | word_set("log env r m d lib so out tmp bak map")
_DOMAINS = word_set("com org net io dev ai edu gov de fr es cn jp uk eu ch at")
_NO_NAMES = word_set(
    "GitHub GitLab JavaScript TypeScript CoffeeScript PostgreSQL MySQL NoSQL SQLite OpenAI DeepSeek"
    " YouTube LinkedIn LaTeX iPhone iPad iOS macOS MacOS FreeBSD JetBrains PyCharm PyPI NumPy SciPy"
    " PyTorch GraphQL WebSocket PhD JupyterLab IPython DevOps VSCode WiFi PowerShell"
    " e.g i.e z.B d.h u.a p.ej a.k.a"
    " Node.js Vue.js Next.js React.js Nuxt.js Express.js Three.js D3.js node.js"
)
# `the file.Then`: two sentences without a blank between them.
_BEGINNINGS = word_set(
    "A After All Also And As At But By Can Do For From Here How I If In Is It Let My No Not Now On"
    " Or Please See She So That The Then There They This To Use We What When Where Why You"
)
_BARE = word_set(
    "Makefile Dockerfile Jenkinsfile Procfile Gemfile Rakefile CMakeLists.txt .gitignore .env"
    " .gitattributes .dockerignore .editorconfig .npmrc .bashrc .zshrc .eslintrc .prettierrc"
)
"""Names of files by themselves."""
_ROOTS = word_set(
    "src lib libs tests docs packages apps cmd internal pkg bin dist vendor node_modules"
    " site-packages .github .git .venv"
)
"""Folders that a path often begins with."""
_NO_TICKED = word_set(
    "true false null none undefined self this and not the for with from import return if else"
    " def class function const let var int str bool float string number object any void"
)


# --- paths, addresses, hashes ---------------------------------------------------------------


def places(text: str, *, hashes: bool = False) -> tuple[list[Find], str]:
    """Paths and addresses in a text, and the text without them.

    A path is what has a slash and either begins like one (`/a/b`, `./a`, `~/a`, `C:\\a`) or
    ends in a kind of file, or a bare name of a file of a known kind. A line's number after it
    (`a.py:87`) is no part of it. Hashes, random ids and data in base64 are neither found nor
    left in the rest, unless asked for.

    Returns:
        What was found, in order, and the text with a blank in place of each of them.
    """
    found: list[Find] = []
    rest: list[str] = []
    done = 0
    text = _URL.sub(lambda url: _noted(found, url[0]), text)
    for run in _RUN.finditer(text):
        word = run[0]
        if len(word) < 4 or not (_has_mark(word) or _is_long(word) or word in _BARE):
            continue
        if (known := _place(word)) is None:
            continue
        find, beside = known
        if find.kind != "hash" or hashes:
            found.append(find)
        rest += [text[done : run.start()], f" {beside} "]
        done = run.end()
    rest.append(text[done:])
    return found, "".join(rest)


def _noted(found: list[Find], url: str) -> str:
    bare = url.rstrip(".,;:!?)]*_")
    if len(bare) <= LONGEST:
        found.append(Find("url", bare))
    return " "


def _has_mark(word: str) -> bool:
    return "." in word or "/" in word or "\\" in word


def _is_long(word: str) -> bool:
    return len(word) >= 7 and any(map(str.isdigit, word))


def _place(run: str) -> tuple[Find, str] | None:
    """What a run of characters without blanks is, and what of it is something else."""
    if len(run) > LONGEST:
        return Find("hash", run[:LONGEST]), ""
    word = _LINE_OF.sub("", run.strip("?=&:").rstrip(".#%+-@"))
    if is_hash(word):
        return Find("hash", word), ""
    pieces = [word] if _DRIVE.match(word) else _JOINTS.split(word)  # `--file=a.py`, `a.py::test`
    for at, piece in enumerate(pieces):
        if is_path(piece):
            rest = " ".join([*pieces[:at], *pieces[at + 1 :]])
            return Find("path", without_diff_mark(piece)), rest
    return None


def without_diff_mark(path: str) -> str:
    """`src/a.py` of `a/src/a.py`, as a diff writes it, and of `./src/a.py`."""
    if path.startswith(("a/", "b/")) and path.count("/") > 1:
        return path[2:]
    return path.removeprefix("./")


def is_path(word: str) -> bool:
    """Whether a word without blanks names a file or a folder, as far as its form can say."""
    parts = [part for part in _SLASHES.split(word) if part]
    if not parts or not any(map(str.isalpha, word)) or set(word) & set("?&#"):
        return False
    name, dot, kind = parts[-1].rpartition(".")
    if len(parts) == 1 and "/" not in word:
        known = kind.lower() in _EXTENSIONS and parts[0] not in _NO_NAMES
        return word in _BARE or bool(name and dot and known)
    if "//" in word or word.endswith("\\") or (word.startswith("\\") and "/" not in word):
        return False
    if dot and (kind.lower() in _ALSO_FILES or (not name and len(kind) > 1)):
        return True
    if _ROOTED.match(word):
        return len(parts) > 1
    if word.startswith("/"):
        return len(parts) > 1 and any(len(part) > 2 for part in parts)
    if "\\" in word:
        return False
    if parts[0] in _ROOTS:
        return len(parts) > 1 or word.endswith("/")
    return len(parts) > 2 and any(map(_TELLING.search, parts)) and len(parts[0]) > 1


def is_hash(word: str) -> bool:
    """Whether a word is a hash, a random id, or a piece of encoded data."""
    if len(word) < 7:
        return False
    if _UUID.fullmatch(word):
        return True
    if _HEX.fullmatch(word):
        return any(map(str.isdigit, word)) and any(map(str.isalpha, word))
    if len(word) < 16 or any(mark in word for mark in ". "):
        return False
    head = word[:LONGEST]
    return sum(1 for _ in _SWITCH.finditer(head)) >= 4 and (
        "/" not in word or len(max(head.split("/"), key=len)) >= 32
    )


# --- names and numbers ----------------------------------------------------------------------


def identifiers(text: str, *, ticked: bool = True) -> Iterator[str]:
    """Names of code in a text without paths: snake_case, camelCase, dotted, options (`--keep`).

    Args:
        ticked: Take single words between backticks too. Not for the output of programs, where
            a backtick is often only a quote.
    """
    if ticked:
        for match in _TICKED.finditer(text):
            word = match[1].removesuffix("()")
            if _TICKED_NAME.fullmatch(word) and _is_ticked(word):
                yield word
    for match in _NAME.finditer(text):
        word = match[0]
        if is_identifier(word) and not (ticked and _between_ticks(text, match)):
            yield word


def is_identifier(word: str) -> bool:
    """Whether a word is a name of code by its form alone."""
    if not 3 <= len(word) <= 80 or word in _NO_NAMES or is_hash(word):
        return False
    if word.startswith("--"):
        return True
    parts = word.replace("::", ".").split(".")
    if len(parts) > 1:
        if parts[-1].lower() in _DOMAINS and parts[0].islower():
            return False
        if len(parts) == 2 and parts[1] in _BEGINNINGS:
            return False
        return any(len(part) > 2 for part in parts)
    return bool(_SNAKE.search(word) or _CAMEL.search(word))


def _is_ticked(word: str) -> bool:
    return 3 <= len(word) <= 80 and word.lower() not in _NO_TICKED and not is_hash(word)


def _between_ticks(text: str, match: re.Match[str]) -> bool:
    """Whether it was found between its backticks already."""
    end = match.end()
    return text[match.start() - 1 : match.start()] == "`" and (
        text.startswith("`", end) or text.startswith("()`", end)
    )


_UNITS = (
    "%|‰|°C|°F|[kKM](?: ?tokens?)?|[kKMGT]i?B|[kMGT]?bit|bytes?|Bytes?|ns|µs|us|ms|secs?|seconds?|s"
    "|mins?|minutes?|hours?|hrs?|h|days?|weeks?|months?|years?|px|rem|em|pt|dpi|fps|rps|qps|[kMG]?Hz|tokens?"
    "|characters?|chars?|lines?|rows?|columns?|files?|tests?|items?|entries|users?|requests?|retries"
    "|attempts?|times|percent|failed|passed|errors?|warnings?|dollars?|euros?|USD|EUR|x"
    "|Sekunden?|Minuten?|Stunden?|Tagen?|Tage|Prozent|Zeilen?|Dateien?|secondes?|heures?|jours?"
    "|lignes?|fichiers?|segundos?|minutos?|horas?|d[ií]as?|l[ií]neas?|archivos?"
)
_CJK_UNITS = (
    "毫秒|秒|分钟|小时|天|周|个月|年|个|行目|行|次|条|元|人|件|円|分|時間|日間|日|回|個|文字|字"
    "|倍|万|亿|億"
)
_NUMBER = re.compile(
    rf"(?<![{_LETTER}0-9_$.\\/@#])(?<!\d[-:])(?:\d{{4}}-\d{{2}}-\d{{2}}(?![\dT-])"
    rf"|[$€£¥]?(?:v(?=\d+\.))?\d++(?:[,._]\d++)*+(?!-\d\d-)"
    rf"(?:[ \u00a0]?(?:{_UNITS})(?![{_LETTER}0-9_])|[ \u00a0]?(?:{_CJK_UNITS}))?"
    rf"(?![{_LETTER}0-9_]))"
)
_DIGITS = re.compile(r"\d")
_MONEY = frozenset("$€£¥")


def numbers(text: str) -> Iterator[str]:
    """Numbers in a text without paths that mean something: with a unit or a currency, dates,
    or of three digits and more (a version `1.6.0` has three). Times of a day are none, nor
    are numbers of issues (`#12345`)."""
    for match in _NUMBER.finditer(text):
        word = match[0]
        if not word[-1].isdigit() or word[0] in _MONEY or len(_DIGITS.findall(word)) >= 3:
            yield word


_NUMBERED = re.compile(r"[ \t]*[+-]?[ \t]*(\d+)([:→|│\t]|-(?=\s)|[ ]+|$)")


_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)


def without_line_numbers(text: str) -> str:
    """The output of a tool without the numbers that it put before its lines.

    A number before a blank is one only where a line beside it has the next or the one before;
    before a colon, a tab or a bar it always is.
    """
    # Of a diff's hunk the places are numbers of lines too.
    lines = _HUNK.sub("@@", text).split("\n")
    heads = [_NUMBERED.match(line[:200]) for line in lines]
    values = [int(head[1][:18]) if head else None for head in heads]
    for at, head in enumerate(heads):
        value = values[at]
        if head is None or value is None:
            continue
        beside = (*values[max(at - 1, 0) : at], *values[at + 1 : at + 2])
        if head[2].strip(" ") or any(other in (value - 1, value + 1) for other in beside):
            lines[at] = lines[at][head.end() :]
    return "\n".join(lines)


# --- errors ---------------------------------------------------------------------------------

ERROR = 300
"""Characters of a line that counts as an error; of a longer one its beginning."""

# What programs print, not what programs are written of: `raise ValueError(` is no error.
_ERROR = re.compile(
    r"^\s*(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?::\s|$)"
    r"|^\s*(?:\[?(?:error|fatal|panic|critical|ERROR|FATAL|Error|Fatal|Critical)\]?)(?:\[\w+\])?"
    r"(?::|\s-|\s+in\s)\s*\S"
    r"|^Uncaught \w*(?:Error|Exception)\b|^make(?:\[\d+\])?: \*\*\* "
    r"|^E\s{2,}\S|^(?:FAILED|ERROR)\s+\S|^npm ERR!\s+\S|^--- FAIL|^\s*[✗✖×]\s+\S"
    r"|^\S+[:(]\d+(?:[:,]\d+)?\)?:?\s+(?:-\s+)?(?:fatal\s+)?error\b|\berror TS\d+:"
    r"|^thread '[^']*' panicked|^panic: |^Segmentation fault|\(core dumped\)"
    r"|: (?:command not found|No such file or directory|Permission denied|not found"
    r"|cannot [a-z]+\b.*|Is a directory|Connection refused)\s*$"
    r"|\bE[A-Z]{4,}: |\b(?:[Ee]xited with code|[Ee]xit code:?|exit status) [1-9]"
    r"|(?<![\d.])[1-9]\d* (?:failed|errors?|failures?)\b"
    r"|^\s*(?:Fehler|[Ee]rreur|Errore?|Erro|错误|报错|失败|エラー|失敗)\s*[:：]"
)
_CODE = re.compile(
    r"^\s*(?:raise|throw|except|catch|return|assert|import|from|def|class)\b|[{;]\s*$"
)


def error_lines(text: str) -> Iterator[str]:
    """Lines of a program's output that say what went wrong, as they were printed.

    Of a traceback it is the last line; `1 failed` is an error, `0 errors` is none. Lines of
    code that speak of errors are none.
    """
    for line in text.split("\n"):
        head = line[:ERROR]
        if len(line) > 3 and _ERROR.search(head) and not _CODE.search(head):
            yield head.strip()
