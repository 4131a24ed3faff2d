"""Arguments as a model gave them, made to fit a tool's JSON schema, or refused in words.

Models send `"5"` for a number, a JSON text for a list, one object for a list of one, null
for "left out", and keys nobody asked for. Where the meaning is beyond doubt it is taken;
what is then still wrong is refused with a text from which a model can repair its call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from pi_nb.js import dumps, number
from pi_nb.result import Err, Ok, Result
from pi_nb.text import one_line

from .json_schema import Schema
from .validator import Fault, SchemaError, TooDeep, Validator

_NUMBER = re.compile(r"[-+]?\d{1,40}(\.\d{1,40})?([eE][-+]?\d{1,3})?")
_SHOWN_ERRORS = 5
_LEFT_OUT = object()


def check_arguments(schema: Schema, arguments: Any) -> Result[dict[str, Any], str]:
    """Make the arguments fit, or say what is wrong with them.

    Taken as meant: `"5"` for a number, `"true"` for a boolean, `5` for a text, a JSON text
    for a list or an object, one value for a list of such values, null for an argument that
    may be left out. Keys that the schema does not name are dropped, unless it allows
    others explicitly (`additionalProperties`, `patternProperties`). An object or a list is
    never taken for a text. Nothing is changed in place.

    Args:
        schema: A JSON schema of an object, of the draft its `$schema` names, else 2020-12.
        arguments: What the model sent; anything but an object is refused.

    Returns:
        The arguments to run with, or a text of up to five lines for the model: which
        argument, what was expected, what came.
    """
    try:
        # Not by `js.dumps`, which rounds the limits of 64-bit numbers.
        validator = _validator(json.dumps(schema, default=float))
    except SchemaError as error:
        return Err(f"The tool's own schema {error}")
    except (RecursionError, ValueError):
        return Err("The tool's own schema is wrong: it is nested too deeply.")
    try:
        value = _Coercion(validator).value(arguments, validator.schema)
        faults = validator.faults(value)
    except (RecursionError, TooDeep):
        return Err("The arguments are nested too deeply.")
    if not isinstance(value, dict):
        return Err(f"The arguments must be an object, but {_came(value)} came.")
    if faults:
        return Err("\n".join(_lines(faults)))
    return Ok(value)


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validator:
    """One validator for each schema, by its text: schemas are dicts and have no hash."""
    return Validator(schema)


# --- coercion -------------------------------------------------------------------------------


class _Coercion:
    """One walk over arguments and schema together."""

    def __init__(self, validator: Validator) -> None:
        self._root = validator.schema
        self._fits = validator.fits

    def value(self, value: Any, schema: Any, *, whole: bool = True) -> Any:
        """The value as the schema wants it; unchanged where that is not clear.

        `whole`: nothing beside this schema describes the value, so that a key it does not
        name may be dropped.
        """
        schema = self._followed(schema)
        if not isinstance(schema, dict):
            return value
        for part in schema.get("allOf", ()):
            value = self.value(value, part, whole=False)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            value = self._chosen(value, choices, whole=whole and "properties" not in schema)
        kinds = _kinds(schema)
        if kinds and not any(_IS[kind](value) for kind in kinds if kind in _IS):
            value = self._converted(value, kinds, schema)
        if isinstance(value, dict):
            return self._object(value, schema, whole)
        if isinstance(value, list):
            return self._list(value, schema)
        return value

    def _followed(self, schema: Any) -> Any:
        """The schema behind a local `$ref`; others are left to the validator."""
        for _ in range(32):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            target: Any = self._root
            for step in unquote(reference[2:]).split("/"):
                step = step.replace("~1", "/").replace("~0", "~")
                target = target.get(step) if isinstance(target, dict) else None
            if target is None:
                break
            schema = target
        return schema

    def _chosen(self, value: Any, choices: Iterable[Any], *, whole: bool) -> Any:
        """The first form that fits after coercion, those that fit as they are first."""
        resolved = [self._followed(choice) for choice in choices]
        for choice in resolved:
            if self._fits(value, choice):
                return self.value(value, choice, whole=whole)
        for choice in resolved:
            candidate = self.value(value, choice, whole=whole)
            if self._fits(candidate, choice):
                return candidate
        return value

    def _converted(self, value: Any, kinds: tuple[str, ...], schema: Schema) -> Any:
        for kind in kinds:
            if kind == "array" and (found := _as_list(value)) is not _LEFT_OUT:
                # One value stands for a list of one only if it could be in that list.
                items = schema.get("items")
                if not isinstance(items, dict | bool):
                    items = True  # draft 7 may have a list there: a schema for each place
                found = [self.value(item, items) for item in found]
                if isinstance(value, str | dict) and not all(
                    self._fits(item, items) for item in found
                ):
                    continue
                return found
            convert = _CONVERT.get(kind)
            if convert is not None and (found := convert(value)) is not _LEFT_OUT:
                return found
        return value

    def _object(self, value: dict[str, Any], schema: Schema, whole: bool) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return value
        others = schema.get("additionalProperties")
        open_ended = bool(others) or "patternProperties" in schema or not whole
        made: dict[str, Any] = {}
        for key, item in value.items():
            if key in properties:
                item = self.value(item, properties[key])
                optional = key not in schema.get("required", ())
                if item is None and optional and not self._fits(None, properties[key]):
                    continue
                made[key] = item
            elif open_ended or not _closes(schema):
                made[key] = self.value(item, others) if isinstance(others, dict) else item
        return made

    def _list(self, value: list[Any], schema: Schema) -> list[Any]:
        items = schema.get("items")
        return [self.value(item, items) for item in value] if isinstance(items, dict) else value


def _closes(schema: Schema) -> bool:
    """Whether keys it does not name mean nothing to it.

    A part of an `allOf` or a choice may name keys that its neighbours do not know.
    """
    return not any(word in schema for word in ("allOf", "anyOf", "oneOf", "if", "$ref"))


def _kinds(schema: Schema) -> tuple[str, ...]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return tuple(kind for kind in kinds if isinstance(kind, str))
    return (kinds,) if isinstance(kinds, str) else ()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_IS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return _LEFT_OUT
    return _LEFT_OUT


def _as_list(value: Any) -> Any:
    parsed = _parsed(value)
    if isinstance(parsed, list):
        return parsed
    if isinstance(parsed, dict):
        return [parsed]
    return _LEFT_OUT if value is None else [value]


def _as_object(value: Any) -> Any:
    parsed = _parsed(value)
    return parsed if isinstance(parsed, dict) else _LEFT_OUT


def _as_number(value: Any) -> Any:
    if isinstance(value, str) and _NUMBER.fullmatch(text := value.strip()):
        found = float(text) if set(text) & set(".eE") else int(text)
        return found if math.isfinite(found) else _LEFT_OUT
    return _LEFT_OUT


def _as_integer(value: Any) -> Any:
    found = value if isinstance(value, float) else _as_number(value)
    if isinstance(found, float):
        return int(found) if found.is_integer() else _LEFT_OUT
    return found


def _as_boolean(value: Any) -> Any:
    words = {"true": True, "false": False}
    return words.get(value.strip().lower(), _LEFT_OUT) if isinstance(value, str) else _LEFT_OUT


def _as_string(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _LEFT_OUT
    return str(value) if isinstance(value, int) else number(value)


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "string": _as_string,
    "number": _as_number,
    "integer": _as_integer,
    "boolean": _as_boolean,
    "object": _as_object,
}


# --- words for the model --------------------------------------------------------------------


def _lines(faults: list[Fault]) -> list[str]:
    # One line names all missing keys, and two parts of a schema may say the same.
    lines = list(dict.fromkeys(map(_line, faults)))
    if len(lines) > _SHOWN_ERRORS:
        lines[_SHOWN_ERRORS:] = [f"and {len(lines) - _SHOWN_ERRORS} more"]
    return lines


def _line(fault: Fault) -> str:
    where, rule, wanted, came = _where(fault), fault.rule, fault.wanted, _came(fault.value)
    if rule == "required" and isinstance(fault.value, dict):
        missing = [name for name in wanted if name not in fault.value]
        names = ", ".join(f"`{name}`" for name in missing)
        inside = f" in {where}" if fault.path else ""
        return f"{names}: missing{inside}, but required"
    if rule == "type":
        kinds = " or ".join(wanted) if isinstance(wanted, list) else wanted
        return f"{where}: expected {kinds}, got {came}"
    if rule in ("enum", "const"):
        allowed = wanted if rule == "enum" else [wanted]
        shown = one_line(", ".join(map(dumps, allowed)), 300)
        return f"{where}: expected one of {shown}; got {came}"
    if rule in ("anyOf", "oneOf"):
        forms = dict.fromkeys(_form(form) for form in wanted)
        return f"{where}: expected {' or '.join(forms)}, got {came}"
    if rule == "false":
        return f"{where}: nothing is allowed here, got {came}"
    return f"{where}: must satisfy {rule} {one_line(dumps(wanted), 100)}, got {came}"


def _where(fault: Fault) -> str:
    path = ""
    for step in fault.path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return f"`{one_line(path, 100)}`" if path else "the arguments"


def _form(schema: Any) -> str:
    kinds = _kinds(schema) if isinstance(schema, dict) else ()
    return " or ".join(kinds) or "another form"


def _came(value: Any) -> str:
    """A value as the model will know it again, short: its kind and its beginning."""
    kind = next((name for name, is_kind in _IS.items() if is_kind(value)), type(value).__name__)
    if isinstance(value, str):
        value = value[:200]
    elif isinstance(value, dict | list) and len(value) > 20:
        return f"{kind} with {len(value)} items"
    return kind if value is None else f"{kind} {one_line(dumps(value), 80)}"
