"""A session file, and the bytes of everything around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_nb.session.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path, durability="flush") as session:
        yield session


@pytest.fixture(params=["v4", "v3"])
def create(request: pytest.FixtureRequest) -> Callable[..., Session]:
    """`Session.create` in each format that a file may have, without waiting for the disk."""

    def make(path: Path, **options: Any) -> Session:
        given = {"format": request.param, "durability": "flush", **options}
        return Session.create(path, cwd="/w", **given)

    return make


@pytest.fixture
def digest(tmp_path: Path) -> Callable[[], dict[str, bytes]]:
    """Every file below `tmp_path` and what is in it."""

    def look() -> dict[str, bytes]:
        files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}

    return look
