"""A JSON schema, compiled: does a value fit, and where it does not, which word of it is broken.

A schema may come from outside. It never makes us open a connection or a file: references
are followed inside the schema only. Its patterns are matched in bounded time.

The library is compiled code, so it is kept from what such code must not meet: nesting without
end, which would take the process down, and text that is no UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pi_nb.text import one_line, scrub_data

if TYPE_CHECKING:
    import jsonschema_rs

DEEPEST = 200
"""Levels of lists and objects that a value may have."""

_DRAFT = re.compile(r"https?://json-schema\.org/(draft-0[467]|draft/20(19-09|20-12))/schema#?")
_ROOT = "pi-nb:schema"


class SchemaError(Exception):
    """The schema itself is wrong; the text goes on from "The tool's own schema"."""


class TooDeep(Exception):
    """A value has more than `DEEPEST` levels."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a value."""

    path: tuple[str | int, ...]
    """From the whole value to the part that is wrong."""
    rule: str
    """The word of the schema that is broken; `false` where the schema allows nothing at all."""
    wanted: Any
    """What the schema says under that word."""
    value: Any
    """What came; of a bad property name, the name."""


class Validator:
    """One schema, of the draft its `$schema` names; 2020-12 where that names none we know.

    `schema` is the schema as data. Parts of it, the same objects, may be given to `fits`.
    `format` is not checked: what it means is the tool's business.

    Raises:
        SchemaError: it is no schema, or refers to something that is not in it.
    """

    def __init__(self, text: str) -> None:
        # Imported here: it costs 50 ms, which `import pi_nb` should not pay.
        import jsonschema_rs

        self.schema: Any = scrub_data(json.loads(text))
        if isinstance(self.schema, dict) and not _DRAFT.match(str(self.schema.get("$schema"))):
            self.schema.pop("$schema", None)
        try:
            self._whole = jsonschema_rs.validator_for(
                self.schema, validate_formats=False, offline=True
            )
        except jsonschema_rs.ValidationError as error:
            lost = isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing)
            what = "points to nothing" if lost else "is wrong"
            raise SchemaError(f"{what}: {one_line(error.message, 200)}") from None
        except ValueError as error:
            raise SchemaError(f"is wrong: {one_line(str(error), 200)}") from None
        self._pointers = {id(part): pointer for part, pointer in _parts(self.schema)}
        self._parts: dict[str, jsonschema_rs.Validator] = {}
        self._registry: jsonschema_rs.Registry | None = None

    def fits(self, value: Any, part: Any) -> bool:
        """Whether a value fits a part of the schema, whose references stay those of the whole.

        Raises:
            TooDeep: the value is nested beyond reason.
        """
        if isinstance(part, bool):
            return part
        return self._part(self._pointers[id(part)]).is_valid(_readable(value))

    def faults(self, value: Any) -> list[Fault]:
        """All that is wrong with a value, by the place it is at.

        Raises:
            TooDeep: the value is nested beyond reason.
        """
        read = _readable(value)
        found = [self._fault(error, read) for error in self._whole.iter_errors(read)]
        return sorted(found, key=lambda fault: list(map(str, fault.path)))

    def _part(self, pointer: str) -> jsonschema_rs.Validator:
        """Compiled when it is asked for: a large schema has thousands of parts."""
        import jsonschema_rs

        made = self._parts.get(pointer)
        if made is None:
            if self._registry is None:
                self._registry = jsonschema_rs.Registry([(_ROOT, self.schema)])
            made = self._parts[pointer] = type(self._whole)(
                {"$ref": f"{_ROOT}#{quote(pointer)}"},
                registry=self._registry,
                validate_formats=False,
                offline=True,
            )
        return made

    def _fault(self, error: jsonschema_rs.ValidationError, value: Any) -> Fault:
        path, kind = tuple(error.instance_path), error.kind
        rule = str(error.schema_path[-1]) if error.schema_path else ""
        wanted = _at(self.schema, error.schema_path, kind.value)
        came = _at(value, path, error.instance)
        if kind.name == "falseSchema" and rule != "additionalProperties":
            rule = "false"
        elif kind.name == "propertyNames":
            came = kind.value.instance
        elif wanted is True and kind.value is not None:
            # Draft 4 says `exclusiveMinimum: true` beside the limit.
            wanted = kind.value
        return Fault(path, rule, wanted, came)


def _readable(value: Any) -> Any:
    """A copy that the library can read. Broken characters are checked as U+FFFD."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return scrub_data(value)
    raise TooDeep


def _inside(value: Any) -> Iterator[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, dict | list))


def _parts(schema: Any) -> Iterator[tuple[Any, str]]:
    """Every object and list in it, with its JSON pointer."""
    todo = [(schema, "")]
    while todo:
        part, pointer = todo.pop()
        if isinstance(part, dict | list):
            yield part, pointer
            steps = part.items() if isinstance(part, dict) else enumerate(part)
            for step, inner in steps:
                escaped = str(step).replace("~", "~0").replace("/", "~1")
                todo.append((inner, f"{pointer}/{escaped}"))


def _at(value: Any, path: list[str | int] | tuple[str | int, ...], default: Any) -> Any:
    """What lies there; the default where a path goes through a schema inside of a schema."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return default
    return value
