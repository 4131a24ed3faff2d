"""Estimators by name, and which family of tokenizers suits a model.

estimator("pi")                 characters / 4, as the original counts
estimator("piece/claude_v3")    by words and scripts; no package needed
estimator("exact/o200k")        by a tokenizer, where its package is installed
"""

from __future__ import annotations

import re

from pi_nb.exact_tokens import counter, exact_families
from pi_nb.pieces import estimate_pieces, families
from pi_nb.result import PiError
from pi_nb.text import quoted
from pi_nb.tokens import PI, Estimator, weigh_by, weigh_with, wrapping

DEFAULT_FAMILY = "o200k"
"""The family of a model that is not known, and of those whose own is not public."""

# Claude up to 4.6, in the ways that providers write it: 3-5-sonnet, sonnet-4-5, opus-4@20250514.
_OLDER_CLAUDE = re.compile(
    r"claude[-_. ]?(?:[123]\b|instant)"
    r"|claude.*[-_. ]4[-_.][0-6]\b"
    r"|claude.*[-_. ]4[-_.@]20\d{6}"
    r"|claude[-_. ][a-z]+[-_. ]4(?![-_.]?\d)"
)
# The first that is found in a name decides.
_FAMILIES = (
    (re.compile(r"gpt-?oss|gpt-?\d|chatgpt|\bo[1-9]\b|codex"), "o200k"),
    (re.compile(r"gemini|gemma"), "gemma3"),
    (re.compile(r"kimi|moonshot"), "kimi_k2"),
    (re.compile(r"qwen|qwq"), "qwen3"),
    (re.compile(r"(?<!o)llama(?!\.?cpp)"), "llama3"),  # these two serve any model
    (re.compile(r"mi[sx]tral|codestral|devstral|ministral|magistral|pixtral"), "mistral_v3"),
    (re.compile(r"deepseek"), "deepseek_v3"),  # last: a distilled model has the other's tokenizer
)


def family_of(provider: str, model_id: str) -> str:
    """The family of tokenizers whose weights suit a model.

    Claude up to 4.6 is `claude_v3`, newer Claude `claude_v4.7` (Anthropic changed its tokenizer
    with 4.7); Gemini counts as `gemma3`. The id decides; where it says nothing, the provider's
    name does.

    Returns:
        A family of `piece/...`; `DEFAULT_FAMILY` for a model that is not known.
    """
    for name in (model_id.lower(), provider.lower()):
        if "claude" in name or name == "anthropic":
            return "claude_v3" if _OLDER_CLAUDE.search(name) else "claude_v4.7"
        for pattern, family in _FAMILIES:
            if pattern.search(name):
                return family
    return DEFAULT_FAMILY


def estimator(name: str) -> Estimator:
    """An estimator by its name: `pi`, `piece/<family>` or `exact/<family>`; `:` does for `/`.

    Raises:
        PiError: `invalid_argument`: no such name or family, those that there are being named;
            `invalid_state`: the tokenizer's package is not installed.
    """
    kind, _, family = str(name).strip().replace(":", "/").partition("/")
    if kind == "pi" and not family:
        return PI
    if kind == "piece" and family in families():
        return Estimator(
            f"piece/{family}",
            weigh_by(family),
            lambda text: estimate_pieces(text, family),
            wrapping(family),
        )
    if kind == "exact" and family in exact_families():
        count, around = counter(family), wrapping(family)
        return Estimator(f"exact/{family}", weigh_with(count, around), count, around)
    raise PiError("invalid_argument", _unknown(str(name), kind))


def _unknown(name: str, kind: str) -> str:
    said = f"There is no estimator {quoted(name)}."
    if kind == "piece":
        return f"{said} After piece/: {', '.join(families())}."
    if kind == "exact":
        return f"{said} After exact/: {', '.join(exact_families())}."
    return f"{said} There are pi, piece/FAMILY ({', '.join(families())}) and exact/FAMILY."


def estimator_names() -> list[str]:
    """Every name that `estimator` takes, whatever is installed."""
    pieces = (f"piece/{family}" for family in families())
    return ["pi", *pieces, *(f"exact/{family}" for family in exact_families())]
