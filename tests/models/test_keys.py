from __future__ import annotations

import copy
import pickle

import pytest

from pi_nb.models.keys import (
    HIDDEN,
    Key,
    bearer,
    scrub_keys,
    scrub_keys_data,
    secret_values,
    shown_url,
)

CANARY = "sk-canary-0123456789abcdef"


def test_a_key_shows_only_that_it_is_set() -> None:
    """Z-01."""
    key = Key(CANARY)

    assert repr(key) == str(key) == "Key(set)"
    assert repr(Key()) == "Key(none)"
    assert CANARY.encode() not in pickle.dumps(key)
    assert copy.copy(key).read() == ""


def test_a_key_may_be_a_function_that_is_asked_every_time() -> None:
    keys = iter(["one\n", None])
    key = Key(lambda: next(keys))

    assert [key.read(), key.read()] == ["one", ""]


def test_without_a_key_no_header_is_sent() -> None:
    assert bearer("") == {}
    assert bearer("k") == {"Authorization": "Bearer k"}


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {CANARY}.",
        f"Incorrect API key provided: {CANARY[:8]}**********{CANARY[-4:]}. You can find",
        f"header 'Authorization: Bearer {CANARY}' is wrong",
        f'{{"key":"{CANARY}"}}',
        f"key {CANARY[:10]}... is not known",
        f"key beginning with {CANARY[:9]}",
        f"key ending in {CANARY[-8:]}",
    ],
)
def test_no_part_of_a_key_is_left_in_words_of_a_server(text: str) -> None:
    """Z-01: no prefix and no suffix."""
    hidden = scrub_keys(text, [CANARY])

    assert HIDDEN in hidden
    for at in range(len(CANARY) - 5):
        assert CANARY[at : at + 6] not in hidden
    assert not hidden.endswith(CANARY[-4:])


def test_a_key_nobody_told_us_of_is_known_by_its_form() -> None:
    other = "sk-proj-abcdefghijk"

    assert scrub_keys(f"use {other} instead") == f"use {HIDDEN} instead"
    assert scrub_keys("Bearer abcdef123") == f"Bearer {HIDDEN}"


@pytest.mark.parametrize("secrets", [[], [""], [CANARY]])
def test_ordinary_words_stay_as_they_are(secrets: list[str]) -> None:
    text = "HTTP 400: the model 'task-force-9' has no *emphasis*, see a/b ... and so on"

    assert scrub_keys(text, secrets) == text


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown_url("http://u:p@host:1/v1?key=k#f") == "http://host:1/v1"


def test_only_headers_that_carry_secrets_are_hidden() -> None:
    headers = {"X-Api-Key": "a", "Authorization": "Bearer b", "X-Version": "1", "Accept": "text"}

    assert secret_values(headers) == ["a", "b"]


def test_what_is_too_short_for_a_key_does_not_eat_the_words() -> None:
    assert scrub_keys("HTTP 401: a bad day", ["a", "1"]) == "HTTP 401: a bad day"


def test_keys_are_taken_out_of_plain_data_wherever_they_stand() -> None:
    data = {CANARY: [{"a": f"Bearer {CANARY}", "n": 1}], "turned": ("q-r-s-t", None)}

    assert scrub_keys_data(data, iter(["q-r-s-t"])) == {
        HIDDEN: [{"a": f"Bearer {HIDDEN}", "n": 1}],
        "turned": [HIDDEN, None],
    }
