"""What a compiled schema says of a value; hostile schemas and values are its daily bread."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_nb.loop.arguments import check_arguments
from pi_nb.loop.validator import DEEPEST, SchemaError, TooDeep, Validator
from pi_nb.result import Err, Ok
from pi_nb.text import one_line

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TREE = {
    "type": "object",
    "properties": {"any": {"anyOf": [{"$ref": "#/$defs/a~1b"}, {"type": "null"}]}},
    "$defs": {"a/b": {"type": "array", "items": {"$ref": "#/$defs/50%25%20%C3%A9"}},
              "50% é": {"type": "integer"}},
}  # fmt: skip


def faults(schema: Any, value: Any) -> list[tuple[tuple[str | int, ...], str, Any, Any]]:
    return [
        (fault.path, fault.rule, fault.wanted, fault.value)
        for fault in Validator(json.dumps(schema)).faults(value)
    ]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"type": ["string", "null"]}, 1, ((), "type", ["string", "null"], 1)),
        ({"properties": {"a": False}}, {"a": 1}, (("a",), "false", False, 1)),
        ({"additionalProperties": False}, {"a": 1},
         ((), "additionalProperties", False, {"a": 1})),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, ((), "pattern", "^a", "b")),
        ({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"minimum": 5}}}, [7, 3],
         ((1,), "minimum", 5, 3)),
        ({"$schema": DRAFT_4, "minimum": 3, "exclusiveMinimum": True}, 3,
         ((), "exclusiveMinimum", 3, 3)),
        ({"$schema": DRAFT_7, "items": [{"type": "string"}]}, [1], ((0,), "type", "string", 1)),
        ({"maximum": 10**30}, 10**400, ((), "maximum", 10**30, 10**400)),
        ({"multipleOf": 3}, 10**40, ((), "multipleOf", 3, 10**40)),
        ({"const": True}, 1, ((), "const", True, 1)),
    ],
    ids=lambda value: one_line(repr(value), 40),
)  # fmt: skip
def test_a_fault_names_the_place_the_word_and_the_value(
    schema: Any, value: Any, fault: tuple[Any, ...]
) -> None:
    assert faults(schema, value) == [fault]


def test_a_part_of_a_schema_keeps_the_references_of_the_whole() -> None:
    validator = Validator(json.dumps(TREE))
    choice = validator.schema["properties"]["any"]["anyOf"][0]

    assert validator.fits([1], choice)
    assert not validator.fits(["a"], choice)
    assert validator.fits(1, validator.schema["$defs"]["50% é"])


def test_a_choice_between_references_takes_what_is_meant() -> None:
    assert check_arguments(TREE, {"any": ["1"]}) == Ok({"any": [1]})


@pytest.mark.parametrize("reference", ["#/anyOf/0", "#name", "#/$defs/no%20one", "#/$defs/yes"])
def test_a_reference_that_only_the_validator_follows_is_still_checked(reference: str) -> None:
    schema = {
        "anyOf": [{"type": "object"}],
        "properties": {"x": {"anyOf": [{"$ref": reference}, {"type": "null"}]}},
        "$defs": {"no one": {"$anchor": "name", "type": "object"}, "yes": True},
    }

    assert check_arguments(schema, {"x": {}}) == Ok({"x": {}})


def test_one_value_for_a_list_of_places_becomes_that_list() -> None:
    schema = {"$schema": DRAFT_7, "type": "object", "properties": {
        "x": {"type": "array", "items": [{"type": "string"}]}}}  # fmt: skip

    assert check_arguments(schema, {"x": "a"}) == Ok({"x": ["a"]})


@pytest.mark.parametrize(
    "schema",
    [
        {"format": "email"},
        {"$schema": DRAFT_7, "format": "date"},
        {"$schema": "http://127.0.0.1:9/meta.json", "type": "string"},
        {"a word that nobody knows": 3},
    ],
)
def test_what_does_not_bind_a_value_does_not_refuse_it(schema: Any) -> None:
    assert faults(schema, "no") == []


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "is wrong"),
        ({"pattern": "("}, "is wrong"),
        ([], "is wrong"),
        ({"$ref": "#/$defs/gone"}, "points to nothing"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "points to nothing"),
    ],
)
def test_a_schema_that_is_none_is_refused_when_it_is_compiled(schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Validator(json.dumps(schema))


def test_a_reference_to_a_file_is_not_followed(tmp_path: Path) -> None:
    there = tmp_path / "schema.json"
    there.write_text('{"type": "string"}')

    with pytest.raises(SchemaError, match="points to nothing"):
        Validator(json.dumps({"$ref": there.as_uri()}))


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    ],
)
def test_a_schema_that_goes_in_a_circle_comes_to_an_end(schema: Any) -> None:
    assert faults(schema, {"x": 1}) == []


def test_a_schema_nested_beyond_reason_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100_000):
        schema = {"properties": {"x": schema}}

    result = check_arguments(schema, {})

    assert result == Err("The tool's own schema is wrong: it is nested too deeply.")


def test_a_value_may_be_deep_but_not_without_end() -> None:
    validator = Validator(json.dumps({"type": "object", "additionalProperties": {"$ref": "#"}}))

    assert validator.faults(nested(DEEPEST)) == []
    with pytest.raises(TooDeep):
        validator.faults(nested(DEEPEST + 1))


def test_nesting_without_end_does_not_take_the_process_down() -> None:
    """In a process of its own: unguarded, the library overruns its stack."""
    program = """
from pi_nb.loop.arguments import check_arguments
deep = {}
for _ in range(100_000):
    deep = {"x": deep}
print(check_arguments({"type": "object", "additionalProperties": {"$ref": "#"}}, deep))
"""

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ran.returncode, ran.stdout.strip()) == (
        0,
        "Err(error='The arguments are nested too deeply.')",
    )


def test_half_characters_are_checked_and_reach_the_tool_as_they_came() -> None:
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "mode": {"enum": ["\ud83d", "x"]}},
        "additionalProperties": {"type": "integer"},
    }

    given = {"text": "a\ud83d", "mode": "\ud83d", "\ud83d": 1}
    wrong = check_arguments(schema, {"\ud83d": "a\ud83d"})

    assert check_arguments(schema, given) == Ok(given)
    assert wrong == Err('`\ufffd`: expected integer, got string "a\ufffd"')


def test_a_pattern_that_would_search_for_ever_is_a_fault_at_once() -> None:
    schema = {"pattern": "^(?=a)(a+)+(?!x)$"}

    assert [rule for _, rule, _, _ in faults(schema, "a" * 60 + "b")] == ["pattern"]


def test_several_missing_keys_are_told_in_one_line() -> None:
    schema = {"type": "object", "required": ["a", "b", "c"]}

    assert check_arguments(schema, {"b": 1}) == Err("`a`, `c`: missing, but required")


@pytest.mark.parametrize("endless", ["1e999", "-1e999"])
def test_a_number_beyond_all_numbers_stays_a_text(endless: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}

    result = check_arguments(schema, {"n": endless})

    assert result == Err(f'`n`: expected number, got string "{endless}"')


def test_the_first_check_costs_a_user_nothing_to_notice() -> None:
    """Schema libraries with optional parts take seconds where JupyterLab brings these."""
    program = """
import time
from pi_nb.loop.arguments import check_arguments
begin = time.perf_counter()
check_arguments({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": "1"})
print(time.perf_counter() - begin)
"""

    seconds = [
        float(
            subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
        )
        for _ in range(3)
    ]

    assert min(seconds) < 0.2
