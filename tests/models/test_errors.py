from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from pi_nb.models.errors import MESSAGE_LIMIT, read_error, read_error_body, read_retry_after


@pytest.mark.parametrize(
    ("data", "message", "kind"),
    [
        ({"error": {"message": "slow", "type": "overloaded_error"}}, "slow", "overloaded"),
        ({"error": {"message": "x", "type": "invalid_request_error",
                    "code": "context_length_exceeded"}}, "x", "overflow"),
        ({"error": {"message": "no", "type": "insufficient_quota", "code": None}}, "no", "quota"),
        ({"error": {"message": "Provider returned error", "code": 502,
                    "metadata": {"raw": "upstream gone"}}},
         "Provider returned error: upstream gone", "overloaded"),
        ({"error": "model 'x' not found"}, "model 'x' not found", "not_found"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
         "Overloaded", "overloaded"),
        ({"object": "error", "message": "maximum context length is 8", "code": 400},
         "maximum context length is 8", "overflow"),
        ({"detail": "Not authenticated"}, "Not authenticated", "unknown"),
        ({"detail": [{"msg": "field required", "loc": ["x"]}]}, "field required", "unknown"),
        ([{"error": {"message": "in a list", "code": 503}}], "in a list", "overloaded"),
        ({"error": {"error": {"message": "deep"}}}, "", "unknown"),
        ({"error": True}, "", "unknown"),
        ("only words", "only words", "unknown"),
        (None, "", "unknown"),
    ],
)  # fmt: skip
def test_errors_are_read_in_all_their_forms(data: Any, message: str, kind: str) -> None:
    """X-06."""
    error = read_error(data)

    assert error.message == message
    assert error.failure.kind == kind


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (json.dumps({"error": {"message": "bad tool"}}).encode(), "bad tool"),
        (b"<html><title>502 Bad &amp; Gone</title><body>x</body></html>", "502 Bad & Gone"),
        (b"<p>only <b>text</b></p><script>alert(1)</script>", "only text"),
        (b"plain\n  words", "plain words"),
        (b"", ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[" * 100_000, "[" * (MESSAGE_LIMIT - 1) + "…"),
    ],
)  # fmt: skip
def test_a_refused_request_says_what_its_body_says(body: bytes, message: str) -> None:
    """X-17."""
    error = read_error_body(body, 400)

    assert error.message == message
    assert error.status == 400


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30),
        ({"retry-after": "Thu, 01 Jan 2025 00:00:30 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "1.2.3"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 -0000"}, None),
    ],
)
def test_the_wait_a_server_asks_for_is_read_or_ignored(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert read_retry_after(headers, lambda: NOW) == seconds
