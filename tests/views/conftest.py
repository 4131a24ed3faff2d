"""A session in a file, and the browser that pages are looked at with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_nb.session.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session.create(tmp_path / "x.jsonl", cwd="/somewhere", durability="flush") as session:
        yield session
