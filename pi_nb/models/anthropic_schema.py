"""Tool schemas as Anthropic takes them: JSON Schema 2020-12, with a plain object at the root.

Any other schema makes the whole request fail, whichever tool is used. A schema is made no
narrower than it was, so that a model can call the tool in every way it could; the arguments
are checked against the tool's own schema before it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_CHOICES = ("anyOf", "oneOf")
_LEFT_OUT = frozenset({*_CHOICES, "allOf", "$ref", "not"})
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps names to schemas: a name is no keyword."""
_DATA = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose value is data, not a schema."""


def input_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments; `parameters` is left as it is.

    - A reference at the root is followed, if it points into the schema itself.
    - `allOf`, `anyOf` and `oneOf` at the root become one object: all properties, and as
      required what every alternative requires.
    - Forms of earlier drafts become those of 2020-12: a list of `items`, a boolean
      `exclusiveMinimum` or `exclusiveMaximum`, another `$schema`.
    """
    root = _modern(parameters)
    whole = _flat(root, root, frozenset())
    whole.pop("$schema", None)
    return {**whole, "type": "object", "properties": whole.get("properties", {})}


def _flat(part: Mapping[str, Any], root: Mapping[str, Any], seen: frozenset[str]) -> dict[str, Any]:
    """One object without alternatives. `seen` are references that are being followed."""
    pieces = [{key: value for key, value in part.items() if key not in _LEFT_OUT}]
    reference = part.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        pieces.append(_flat(_target(reference, root), root, seen | {reference}))
    pieces += [_flat(one, root, seen) for one in _schemas(part.get("allOf"))]
    for key in _CHOICES:
        if ways := [_flat(one, root, seen) for one in _schemas(part.get(key))]:
            pieces.append(_either(ways))
    return _joined(pieces)


def _joined(pieces: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What stands first wins, but properties and required names are added up."""
    whole: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: dict[str, None] = {}
    for piece in pieces:
        whole = {**piece, **whole}
        properties = {**_properties(piece), **properties}
        required |= dict.fromkeys(_names(piece))
    whole.pop("required", None)
    if properties:
        whole["properties"] = properties
    if required:
        whole["required"] = list(required)
    return whole


def _either(ways: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Alternatives as one object: each property as any of them has it."""
    forms: dict[str, list[Any]] = {}
    for way in ways:
        for name, schema in _properties(way).items():
            known = forms.setdefault(name, [])
            if schema not in known:
                known.append(schema)
    shared = set.intersection(*(set(_names(way)) for way in ways))
    return {
        "properties": {
            name: found[0] if len(found) == 1 else {"anyOf": found} for name, found in forms.items()
        },
        "required": [name for name in _names(ways[0]) if name in shared],
    }


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _names(schema: Mapping[str, Any]) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _schemas(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _target(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    if not reference.startswith("#"):
        return {}
    for step in filter(None, reference[1:].split("/")):
        step = step.replace("~1", "/").replace("~0", "~")
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _modern(schema: Any) -> Any:
    """The schema in the words of 2020-12, at every depth."""
    if isinstance(schema, list):
        return [_modern(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DATA:
            made[key] = value
        elif key in _NAMED and isinstance(value, Mapping):
            made[key] = {name: _modern(one) for name, one in value.items()}
        else:
            made[key] = _modern(value)
    if isinstance(made.get("items"), list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    for strict, bound in _BOUNDS.items():
        if made.get(strict) is True and bound in made:
            made[strict] = made.pop(bound)
        elif isinstance(made.get(strict), bool):
            del made[strict]
    return made
