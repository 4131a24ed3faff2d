from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pi_nb.messages import (
    AssistantMessage,
    ImageContent,
    ToolCall,
    UnknownContent,
    UserMessage,
    read_message,
    user,
)
from pi_nb.tokens import Estimate, estimate_all, estimate_tokens

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "compaction.json").read_text("utf-8"))[
    "estimate"
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["message"]["role"])
def test_an_estimate_is_the_reference_s(case: dict[str, Any]) -> None:
    assert estimate_tokens(read_message(case["message"])) == case["tokens"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("中文字符", 1), ("😀😀😀", 2)],
)
def test_text_counts_in_utf16_units_rounded_up(text: str, tokens: int) -> None:
    assert estimate_tokens(UserMessage(content=text)) == tokens
    assert estimate_tokens(user(text)) == tokens


def test_an_image_counts_the_same_whatever_its_size() -> None:
    assert estimate_tokens(user("", [ImageContent(data="A" * 9_999, mime_type="x")])) == 1_200


def test_a_call_counts_its_name_and_its_arguments_as_javascript_writes_them() -> None:
    call = ToolCall(id="c1", name="read", arguments={"n": 1.0, "path": "中"})

    # read{"n":1,"path":"中"} has 22 units
    assert estimate_tokens(AssistantMessage(content=(call,))) == 6


def test_what_is_not_sent_counts_nothing() -> None:
    assert estimate_tokens(AssistantMessage(content=(UnknownContent(type="video"),))) == 0
    assert estimate_tokens(read_message({"role": "system", "content": "long " * 100})) == 0


def test_a_number_says_where_it_comes_from() -> None:
    assert estimate_all([user("abcd"), user("abcde")]) == Estimate(3, "pi")
    assert str(Estimate(1_234, "pi")) == "≈1,234 (pi)"
    assert str(Estimate(1_234, "provider")) == "1,234 (provider)"
