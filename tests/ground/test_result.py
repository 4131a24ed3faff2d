from __future__ import annotations

import pickle

import pytest

from pi_nb.result import Err, Ok, PiError, Result


def first_word(text: str) -> Result[str, str]:
    return Ok(text.split()[0]) if text.strip() else Err("nothing was said")


def test_a_result_is_matched_by_its_kind() -> None:
    match first_word("tea and rice"):
        case Ok(word):
            assert word == "tea"
        case Err(_):
            pytest.fail("a word was there")

    match first_word(" "):
        case Ok(_):
            pytest.fail("no word was there")
        case Err(why):
            assert why == "nothing was said"


def test_equal_results_are_equal_and_an_ok_is_never_an_err() -> None:
    assert Ok(1) == Ok(1)
    assert Ok(1) != Err(1)
    assert len({Ok(1), Ok(1), Err(1)}) == 2


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Ok(1).value = 2  # type: ignore[misc]


def test_an_error_of_the_caller_keeps_its_code_on_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(PiError("busy", "A run is going on.")))

    assert (error.code, error.message, str(error)) == (
        "busy",
        "A run is going on.",
        "A run is going on.",
    )
