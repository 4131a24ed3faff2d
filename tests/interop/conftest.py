"""One peer for all: Node takes longer to start than most tests take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from interop.peer import Peer, running_peer, why_no_peer


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    if missing := why_no_peer():
        pytest.skip(missing)
    with running_peer() as peer:
        yield peer
