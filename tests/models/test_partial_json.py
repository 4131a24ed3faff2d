from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_nb.models.partial_json import MAX_DEPTH, parse_object, read_partial

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: st.lists(children, max_size=4)
    | st.dictionaries(st.text(max_size=5), children, max_size=4),
    max_leaves=12,
)  # fmt: skip
json_objects = st.dictionaries(st.text(max_size=5), json_values, max_size=5)


def part_of(part: Any, whole: Any) -> bool:
    """`part` says nothing that `whole` does not say."""
    if isinstance(part, dict):
        known = isinstance(whole, dict) and list(part) == list(whole)[: len(part)]
        return known and all(part_of(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and all(map(part_of, part, whole))
    if isinstance(part, str):
        return isinstance(whole, str) and whole.startswith(part)
    return bool(part == whole)


@settings(max_examples=25)  # each example reads every prefix
@given(json_objects, st.booleans(), st.sampled_from([None, 2]))
def test_what_is_read_of_any_prefix_is_a_part_of_the_whole(
    value: dict[str, Any], escaped: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=indent)

    for end in range(len(text)):
        assert part_of(read_partial(text[:end]), value), text[:end]
    assert read_partial(text) == value == parse_object(text)


@given(json_objects, st.data())
def test_a_longer_prefix_never_shows_less(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    longer = data.draw(st.integers(0, len(text)))
    shorter = data.draw(st.integers(0, longer))

    assert part_of(read_partial(text[:shorter]), read_partial(text[:longer]))


@given(st.text(alphabet='{}[]:,"\\ntruefals0123456789.-+eEux d8', max_size=60))
def test_neither_reader_ever_raises_and_the_strict_one_agrees_with_json(text: str) -> None:
    read_partial(text)
    strict = parse_object(text)
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if isinstance(strict, dict) and text.strip():
        assert isinstance(expected, dict)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", {}),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a":"', {"a": ""}),
        ('{"a":"b\\', {"a": "b"}),
        ('{"a":"b\\u00', {"a": "b"}),
        ('{"a":"\\ud83d', {"a": ""}),
        ('{"a":"\\ud83d\\ude00', {"a": "😀"}),
        ('{"a":12', {}),
        ('{"a":12,', {"a": 12}),
        ('{"a":tru', {}),
        ('{"a":[1,{"b":"c', {"a": [1, {"b": "c"}]}),
        ('{"a":"line\nbreak"', {"a": "line\nbreak"}),
        ('{"a":1, oops', {"a": 1}),
        ('{"x":{"a":},"b":1}', {"x": {}, "b": 1}),
        ('{"a":,"b":1}', {"b": 1}),
        ("[1,2", {}),
        ("text", {}),
    ],
)
def test_a_cut_text_shows_what_is_certain(text: str, read: dict[str, Any]) -> None:
    assert read_partial(text) == read


@pytest.mark.parametrize(
    "text",
    ["{", '{"a":1', '{"a":1}x', "[]", "1", "null", '"x"', '{"a":NaN}', '{"a":Infinity}',
     '{"a":1e999}', "{'a':1}", '{"a":1,}', '{"a":' + "9" * 5_000 + "}"],
)  # fmt: skip
def test_what_is_no_whole_object_does_not_run(text: str) -> None:
    """L-05."""
    assert parse_object(text) is None


@pytest.mark.parametrize("text", ["", " ", "\n\t", "{}", " {} \n"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert parse_object(text) == {}


@pytest.mark.parametrize("opening", ['{"a":', "[", '{"a":['])
def test_text_that_nests_without_end_harms_nobody(opening: str) -> None:
    deep = '{"x":' + opening * 50_000

    assert parse_object(deep) is None
    shown = read_partial(deep)
    assert json.dumps(shown).count("[") + json.dumps(shown).count("{") <= MAX_DEPTH + 1
    assert parse_object('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH) is not None
    assert parse_object('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1)) is None


def test_reading_a_megabyte_takes_a_moment() -> None:
    """Linear: a quadratic reader would need minutes for this."""
    long_text = json.dumps({"content": 'a "quoted" line\n' * 60_000, "n": list(range(50_000))})

    shown = read_partial(long_text[:-1])

    assert len(shown["n"]) == 50_000
