"""The base of all that crosses a border: frozen, camelCase outside, unknown fields kept.

A file written by a newer pi holds fields we do not know; they are read, kept and written
back. A field that was never given is not written; one that was given as null is.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from pi_nb.grown import Grown
from pi_nb.js import dumps


class Wire(BaseModel):
    """A value with a wire form. Fields are snake_case here and camelCase in JSON."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )

    def to_wire(self) -> dict[str, Any]:
        """Plain data for JSON. Optional fields that were never given are left out."""
        wire: dict[str, Any] = {}
        given = self.model_fields_set
        for name, field in type(self).model_fields.items():
            if field.exclude:
                continue
            value = getattr(self, name)
            if value is None and name not in given:
                continue
            wire[field.serialization_alias or field.alias or name] = _plain(value)
        for name, value in (self.model_extra or {}).items():
            wire[name] = _plain(value)
        return wire

    def to_json(self) -> str:
        """One line of JSON, as `JSON.stringify` writes it."""
        return dumps(self.to_wire())

    def having(self, **changes: Any) -> Self:
        """A copy with some fields changed; the rest, given or not, stays as it is."""
        return self.model_copy(update=changes)


class Brief(Wire):
    """A `Wire` that shows itself in one short line; `to_wire()` is the whole.

    What it shows comes from models and files, so it goes through `text.quoted`.
    """

    def about(self) -> str:
        """What stands between the brackets of the repr."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.about()})"

    def __str__(self) -> str:
        return repr(self)


def _plain(value: Any) -> Any:
    if isinstance(value, Wire):
        return value.to_wire()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | Grown):
        return [_plain(item) for item in value]
    return value
