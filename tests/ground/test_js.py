"""Held against what JavaScript itself answered: `tests/vectors/json_stringify.mjs`."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.js import dumps, number, trim, utf16_len, well_paired

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "json_stringify.json").read_text("utf-8")
)

plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["text"])
def test_dumps_writes_what_json_stringify_writes(case: dict[str, Any]) -> None:
    assert dumps(case["value"]) == case["text"]


@pytest.mark.parametrize("case", VECTORS["lengths"], ids=lambda case: ascii(case["text"]))
def test_a_length_is_what_javascript_counts(case: dict[str, Any]) -> None:
    assert utf16_len(case["text"]) == case["length"]


def test_every_recorded_double_is_printed_as_javascript_prints_it() -> None:
    for case in VECTORS["doubles"]:
        (value,) = struct.unpack(">d", bytes.fromhex(case["bits"]))

        assert number(value) == case["text"], case["bits"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_number_is_the_number(value: float) -> None:
    assert float(number(value)) == value


@given(plain_json)
def test_what_was_written_is_read_again(value: Any) -> None:
    written = dumps(value)

    assert "\n" not in written
    assert dumps(json.loads(written)) == written


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_written_to_a_file(text: str) -> None:
    """S-29: a lone surrogate is escaped, so it neither fails here nor is it lost."""
    written = dumps(text)

    assert json.loads(written.encode()) == well_paired(text)


def test_every_character_goes_there_and_back_in_one_line() -> None:
    """S-28: raw U+2028 and U+0085 are ordinary characters between two line feeds."""
    everything = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)

    line = dumps({"text": everything}).encode()

    assert line.count(b"\n") == 0
    assert json.loads(line) == {"text": everything}


def test_halves_of_a_character_that_meet_are_one_character() -> None:
    assert well_paired("\ud83d" + "\ude00") == "😀"
    assert well_paired("a\ud83d") == "a\ud83d"
    assert well_paired("😀\ude00") == "😀\ude00"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (10**21, "1e+21"),
        (-(10**400), "null"),
        (math.nan, "null"),
        ((1, 2), "[1,2]"),
        ({1: 2, None: 4}, '{"1":2,"null":4}'),
        ({2: 0, 1.5: 0, False: 0}, '{"2":0,"1.5":0,"false":0}'),
        (Decimal("1.50"), "1.5"),
    ],
)
def test_what_json_cannot_say_becomes_what_javascript_would_hold(value: Any, text: str) -> None:
    assert dumps(value) == text


@pytest.mark.parametrize("value", [object(), b"12", {1, 2}, [object()]], ids=repr)
def test_a_value_without_a_json_form_is_named(value: Any) -> None:
    with pytest.raises(TypeError, match="has no JSON form"):
        dumps(value)


def test_what_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(ValueError, match="holds itself"):
        dumps(circle)


def test_a_deeply_nested_value_is_written_as_deep_as_it_was_read() -> None:
    text = "[" * 500 + "]" * 500

    assert dumps(json.loads(text)) == text


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        (" \t\r\n\x0b\x0ca b\u00a0\u3000", "a b"),
        ("\ufeffa\u2028", "a"),
        ("\x85a\x1c", "\x85a\x1c"),
        ("\u200ba\u180e", "\u200ba\u180e"),
        ("", ""),
    ],
    ids=ascii,
)
def test_space_is_what_javascript_takes_for_it(text: str, trimmed: str) -> None:
    assert trim(text) == trimmed
