"""A value or a refusal: what the world may refuse comes back as one of these two.

`Ok` and `Err` are matched, not raised. A caller's own mistake still raises (`PiError`).

    match await env.read_text("notes.md"):
        case Ok(text): ...
        case Err(error): ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """It went well, and here is the value."""

    value: T


@dataclass(frozen=True, slots=True)
class Err(Generic[E]):
    """It was refused, and here is why."""

    error: E


Result = Ok[T] | Err[E]


class PiError(Exception):
    """A caller is wrong, or an operation cannot go on; `code` is stable, the text is not.

    Codes: `busy`, `invalid_state`, `invalid_argument`, `session`, `compaction`,
    `branch_summary`, `hook`, `unknown`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[PiError], tuple[str, str]]:
        return (type(self), (self.code, self.message))
