"""`port.yaml`: nothing of the original is forgotten, and what we say we have is there."""

from __future__ import annotations

import re
from importlib import import_module, resources
from typing import Any

import pytest
import yaml

PORT: dict[str, Any] = yaml.safe_load(resources.files("pi_nb").joinpath("port.yaml").read_text())
LISTS = {"exports_0_83_0": "count_0_83_0", "session_0_84_4": "count_session_0_84_4"}
ENTRIES: list[dict[str, Any]] = [entry for part in LISTS for entry in PORT[part]]
OURS = sorted({entry["ours"] for entry in ENTRIES if "ours" in entry})
ISSUES = range(3, 10)


def resolve(place: str) -> Any:
    """What stands at `module:name`, the name dotted where it is inside a class."""
    module, _, names = place.partition(":")
    found: Any = import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


def fates(entry: dict[str, Any]) -> list[str]:
    return [fate for fate in ("ours", "refused", "issue") if fate in entry]


@pytest.mark.parametrize("part", LISTS)
def test_no_name_is_missing_and_none_is_listed_twice(part: str) -> None:
    names = [entry["name"] for entry in PORT[part]]

    assert len(names) == PORT[LISTS[part]]
    assert len(set(names)) == len(names)


def test_the_original_has_as_many_names_as_were_counted() -> None:
    """Counted by a type checker over the packages' declarations; not by this list."""
    assert (PORT["count_0_83_0"], PORT["count_session_0_84_4"]) == (232, 62)


def test_every_name_has_exactly_one_fate() -> None:
    for entry in ENTRIES:
        assert set(entry) == {"name", *fates(entry)}, entry
        assert len(fates(entry)) == 1, entry


def test_every_name_is_text_also_for_a_yaml_that_knows_yes_and_no() -> None:
    for entry in ENTRIES:
        assert isinstance(entry["name"], str)
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", entry["name"])


@pytest.mark.parametrize("place", OURS)
def test_what_we_say_we_have_is_there(place: str) -> None:
    assert re.fullmatch(r"pi_nb(\.\w+)+:\w+(\.\w+)*", place)
    assert resolve(place) is not None


def test_a_refusal_has_a_reason_and_a_promise_an_open_issue() -> None:
    for entry in ENTRIES:
        if "refused" in entry:
            assert entry["refused"].endswith("."), entry
        if "issue" in entry:
            assert entry["issue"] in ISSUES, entry


def test_a_name_in_both_versions_has_one_fate() -> None:
    first = {entry["name"]: entry for entry in PORT["exports_0_83_0"]}

    for entry in PORT["session_0_84_4"]:
        assert first.get(entry["name"], entry) == entry


def test_every_difference_says_what_and_why_and_since_when() -> None:
    assert PORT["differences"]
    for difference in PORT["differences"]:
        assert set(difference) == {"issue", "what", "why"}
        assert difference["issue"] in (2, *ISSUES)
        assert difference["what"].endswith(".")
        assert difference["why"].endswith(".")
