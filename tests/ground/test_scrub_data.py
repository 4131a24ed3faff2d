from __future__ import annotations

from pi_nb.text import scrub_data


def test_every_string_in_plain_data_can_be_written_as_utf8() -> None:
    """S-29."""
    data = {"a\ud83d": ["x\ude00", ("\ud83d\ude00", 1)], "n": None, "f": 1.5, "b": True}

    assert scrub_data(data) == {
        "a\ufffd": ["x\ufffd", ["\U0001f600", 1]],
        "n": None,
        "f": 1.5,
        "b": True,
    }
