"""What every test stands on: its own home, the asyncio backend, the reference vectors.

No test reads or writes the home folder of whoever runs it, and none can reach a paid
model: the keys of providers are taken out of the environment before the first test.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent

pytest_plugins = ["loopback"]

# A slow machine is no fault of a property, so nothing here depends on time. CI also draws
# the same examples every time: a red run there can be repeated.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", parent=settings.get_profile("here"), derandomize=True, database=None, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_configure(config: pytest.Config) -> None:
    """The fast part is run many times a day, and draws fewer examples each time."""
    if not os.environ.get("CI") and config.getoption("markexpr", "") == "not slow":
        settings.register_profile("fast", parent=settings.get_profile("here"), max_examples=20)
        settings.load_profile("fast")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncio alone: the kernel runs nothing else. Session-wide, so that fixtures may be too."""
    return "asyncio"


def _live_in(home: Path, patch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    patch.setenv("HOME", str(home))
    patch.setenv("PI_NB_SESSION_DIR", str(home / "sessions"))


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="session", autouse=True)
def _nobodys_machine(_homes: Path) -> Iterator[None]:
    """For what outlives a test, such as a kernel shared by a module."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.endswith("_API_KEY")]:
            patch.delenv(name)
        _live_in(_homes / "shared", patch)
        yield


_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def _a_home_of_its_own(_homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _live_in(_homes / str(next(_numbers)), monkeypatch)


@pytest.fixture(scope="session")
def vectors() -> Callable[[str], Any]:
    """Load a file of `tests/vectors` by its name, e.g. `vectors("skills.json")`."""

    def load(name: str) -> Any:
        return json.loads((TESTS / "vectors" / name).read_text("utf-8"))

    return load
