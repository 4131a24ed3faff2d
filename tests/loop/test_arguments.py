"""Arguments as models send them: taken as meant, or refused in words (known fault L-13)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.loop.arguments import check_arguments
from pi_nb.result import Err, Ok

EDIT = {
    "type": "object",
    "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
    "required": ["old", "new"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "offset": {"type": "integer"},
        "timeout": {"type": "number", "exclusiveMinimum": 0},
        "all": {"type": "boolean"},
        "edits": {"type": "array", "items": EDIT},
        "one": EDIT,
        "mode": {"enum": ["fast", "slow"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
        "maybe": {"type": ["string", "null"]},
    },
    "required": ["path"],
}
PAIR = {"old": "a", "new": "b"}


def refused(arguments: Any, schema: dict[str, Any] = SCHEMA) -> str:
    result = check_arguments(schema, arguments)
    assert isinstance(result, Err)
    return result.error


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"offset": "5"}, {"offset": 5}),
        ({"offset": " 5.0 "}, {"offset": 5}),
        ({"offset": 5.0}, {"offset": 5}),
        ({"timeout": "5"}, {"timeout": 5}),
        ({"timeout": "1.5e1"}, {"timeout": 15.0}),
        ({"all": "true"}, {"all": True}),
        ({"all": "False"}, {"all": False}),
        ({"edits": '[{"old": "a", "new": "b"}]'}, {"edits": [PAIR]}),
        ({"edits": '{"old": "a", "new": "b"}'}, {"edits": [PAIR]}),
        ({"edits": PAIR}, {"edits": [PAIR]}),
        ({"edits": [{"old": 1, "new": "b", "why": "x"}]}, {"edits": [{"old": "1", "new": "b"}]}),
        ({"one": '{"old": "a", "new": "b"}'}, {"one": PAIR}),
        ({"offset": None}, {}),
        ({"maybe": None}, {"maybe": None}),
        ({"colour": "red"}, {}),
        ({"either": "7"}, {"either": 7}),
        ({"either": "seven"}, {"either": ["seven"]}),
        ({"path": 123}, {"path": "123"}),
        ({"path": 1.0}, {"path": "1"}),
    ],
)
def test_what_a_model_means_is_taken(given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert check_arguments(SCHEMA, {"path": "p", **given}) == Ok({"path": "p", **meant})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"path": {"a": 1}}, '`path`: expected string, got object {"a":1}'),
        ({"path": ["a"]}, '`path`: expected string, got array ["a"]'),
        ({"path": True}, "`path`: expected string, got boolean true"),
        ({"path": None}, "`path`: expected string, got null"),
        ({}, "`path`: missing, but required"),
        ({"path": "p", "offset": "5.5"}, '`offset`: expected integer, got string "5.5"'),
        ({"path": "p", "offset": "9" * 60}, f'`offset`: expected integer, got string "{"9" * 60}"'),
        ({"path": "p", "all": 1}, "`all`: expected boolean, got integer 1"),
        ({"path": "p", "edits": "x"}, '`edits`: expected array, got string "x"'),
        ({"path": "p", "edits": [{"old": "a"}]}, "`new`: missing in `edits[0]`, but required"),
        ({"path": "p", "mode": "x"}, '`mode`: expected one of "fast", "slow"; got string "x"'),
        (
            {"path": "p", "timeout": 0},
            "`timeout`: must satisfy exclusiveMinimum 0, got integer 0",
        ),
        (
            {"path": "p", "either": {"a": 1}},
            '`either`: expected integer or array, got object {"a":1}',
        ),
        ([1], "The arguments must be an object, but array [1] came."),
        ("no", 'The arguments must be an object, but string "no" came.'),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(given: Any, text: str) -> None:
    assert refused(given) == text


def test_several_faults_are_told_together_but_not_without_end() -> None:
    text = refused({"path": "p", "edits": [{"old": []}] * 20})

    assert len(text.splitlines()) == 6
    assert text.endswith("and 35 more")


def test_a_huge_wrong_value_does_not_come_back_whole() -> None:
    assert len(refused({"path": {"x": "y" * 1_000_000}})) < 200


@pytest.mark.parametrize("others", [True, {"type": "integer"}])
def test_keys_without_a_name_stay_where_the_schema_allows_them(others: Any) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": others}

    assert check_arguments(schema, {"x": 1}) == Ok({"x": 1})


def test_parts_of_an_all_of_do_not_drop_each_others_keys() -> None:
    schema = {
        "type": "object",
        "allOf": [
            {"properties": {"a": {"type": "integer"}}},
            {"properties": {"b": {"type": "integer"}}},
        ],
    }

    assert check_arguments(schema, {"a": "1", "b": "2"}) == Ok({"a": 1, "b": 2})


def test_a_schema_may_refer_to_itself() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
            }
        },
    }

    result = check_arguments(schema, {"tree": {"children": [{"n": "1", "children": []}]}})

    assert result == Ok({"tree": {"children": [{"n": 1, "children": []}]}})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/gone"}}},
    ],
)
def test_a_broken_schema_fails_the_call_and_opens_no_connection(schema: dict[str, Any]) -> None:
    assert "own schema" in refused({"x": 1}, schema)


def test_arguments_nested_beyond_reason_are_refused() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"$ref": "#"}},
    }
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"x": deep}

    assert refused(deep, schema) == "The arguments are nested too deeply."


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), json_values))
def test_checking_what_passed_changes_nothing_more(arguments: dict[str, Any]) -> None:
    before = repr(arguments)
    first = check_arguments(SCHEMA, arguments)

    assert repr(arguments) == before
    if isinstance(first, Ok):
        assert check_arguments(SCHEMA, first.value) == first
