"""pi_nb: an agent harness that lives in a notebook.

Names are loaded when they are first used, so that `import pi_nb` costs next to nothing
and loads no widget library.

    ground      result abort ids js text wire messages tokens html background
    the river   models -> loop -> env -> tools -> session -> resources -> harness -> notebook
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Where each public name lives. `tests/test_public_names.py` resolves every one of them.
_WHERE: dict[str, str] = {}

__all__ = sorted(["__version__", "load_ipython_extension", "unload_ipython_extension", *_WHERE])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext pi_nb`: register the magics. Prints nothing, binds nothing, asks nobody."""
    import_module("pi_nb.notebook.magics").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext pi_nb`: take everything back that loading added."""
    import_module("pi_nb.notebook.magics").unload(shell)
