"""A table of ours as a pandas frame, where pandas is installed; nothing here depends on it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pi_nb.result import PiError


def as_frame(data: Any) -> Any:
    """A pandas `DataFrame` of columns by name, or of rows that are dictionaries.

    Raises:
        PiError: `invalid_state`: pandas is not installed.
    """
    try:
        pandas = import_module("pandas")
    except ImportError:
        text = "A frame needs pandas (`pip install pandas`); to_dict() needs nothing."
        raise PiError("invalid_state", text) from None
    return pandas.DataFrame(data)
