"""The piece estimator against its reference counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_nb.messages import AssistantMessage, ImageContent, SystemMessage, ToolCall, user
from pi_nb.pieces import count_pieces, estimate_pieces, families
from pi_nb.result import PiError
from pi_nb.tokens import weigh_by

CASES = json.loads(
    (Path(__file__).parent.parent / "vectors" / "token_pieces.json").read_text("utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_text_is_made_of_what_the_reference_says(case: dict[str, Any]) -> None:
    assert dict(count_pieces(case["text"])) == case["counts"]
    assert {f: estimate_pieces(case["text"], f) for f in families()} == case["tokens"]


@given(st.text())
def test_every_text_has_an_estimate(text: str) -> None:
    assert all(estimate_pieces(text, family) >= 0 for family in families())


def test_chinese_weighs_more_than_a_quarter_of_its_characters() -> None:
    """C-34, starred."""
    assert estimate_pieces("压缩" * 2_000, "claude_v3") > 2 * 4_000 / 4


def test_an_unknown_family_is_named_with_those_that_are_known() -> None:
    with pytest.raises(PiError, match=r"no family 'gpt'; o200k, claude_v3"):
        estimate_pieces("x", "gpt")


def test_a_message_weighs_what_it_says_and_what_is_put_around_it() -> None:
    call = ToolCall(id="c", name="read", arguments={"path": "a.py"})
    weigh, other = weigh_by("claude_v3"), weigh_by("o200k")

    assert weigh(user("")) == 29
    assert other(user("")) == 4
    assert other(user("hello", [ImageContent(data="x", mime_type="image/png")])) == 4 + 1_200 + 1
    assert other(AssistantMessage(content=(call,))) > 4
    assert other(SystemMessage(content="never sent")) == 0
    with pytest.raises(PiError, match="no family"):
        weigh_by("abacus")
