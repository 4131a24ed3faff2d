from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pi_nb.wire import Wire


class Berry(Wire):
    """A small value of its own kind."""

    ripe_on: str
    sour_ness: int = 1
    note: str | None = None


class Basket(Wire):
    """A value that holds others."""

    picked_by: str
    berries: tuple[Berry, ...] = ()
    labels: dict[str, Any] | None = None


KNOWN = {"pickedBy", "picked_by", "berries", "labels"}
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
unknown_fields = st.dictionaries(st.text().filter(lambda name: name not in KNOWN), plain_json)


def test_names_are_camel_case_outside_and_snake_case_here() -> None:
    berry = Berry.model_validate({"ripeOn": "July"})

    assert berry.ripe_on == "July"
    assert berry == Berry(ripe_on="July")
    assert berry.to_wire() == {"ripeOn": "July", "sourNess": 1}


def test_null_is_written_only_where_it_was_given() -> None:
    assert "note" not in Berry(ripe_on="July").to_wire()
    assert Berry(ripe_on="July", note=None).to_wire()["note"] is None
    assert '"note":null' in Berry.model_validate_json('{"ripeOn":"July","note":null}').to_json()


@given(unknown_fields)
def test_fields_that_nobody_knows_are_written_back(unknown: dict[str, Any]) -> None:
    wire = {"pickedBy": "Ada", "berries": [], **unknown}

    assert Basket.model_validate(wire).to_wire() == wire
    assert json.loads(Basket.model_validate(wire).to_json()) == wire


def test_unknown_fields_are_kept_at_every_depth() -> None:
    wire = {"pickedBy": "Ada", "berries": [{"ripeOn": "May", "sourNess": 3, "soldTo": {"x": [1]}}]}

    assert Basket.model_validate(wire).to_wire() == wire


def test_values_inside_plain_data_have_their_wire_form_too() -> None:
    basket = Basket(picked_by="Ada", labels={"best": Berry(ripe_on="May"), "rest": (1, 2)})

    assert basket.to_wire()["labels"] == {
        "best": {"ripeOn": "May", "sourNess": 1},
        "rest": [1, 2],
    }


def test_a_value_is_one_line_of_json() -> None:
    line = Basket(picked_by="A\nda \u2028").to_json()

    assert "\n" not in line
    assert line == '{"pickedBy":"A\\nda \u2028","berries":[]}'


def test_a_value_cannot_be_changed_but_a_copy_can_differ() -> None:
    berry = Berry.model_validate({"ripeOn": "July", "soldTo": "Ben"})
    with pytest.raises(ValidationError, match=re.escape("frozen")):
        berry.note = "sweet"  # type: ignore[misc]

    sweet = berry.having(note="sweet")

    assert berry.note is None
    assert sweet.to_wire() == {**berry.to_wire(), "note": "sweet"}
    assert sweet.to_wire()["soldTo"] == "Ben"
