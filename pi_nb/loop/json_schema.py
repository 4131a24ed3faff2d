"""The JSON schema of a pydantic model, as short as a model needs it.

Every word of it is sent with every request: titles that repeat a name, definitions that
are used once and null for "may be left out" go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from pi_nb.js import dumps

Schema = dict[str, Any]


def schema_of(model: type[BaseModel]) -> Schema:
    """The schema of an object, self-contained; `$defs` only where a type contains itself.

    Raises:
        pydantic.errors.PydanticUserError: a type has no JSON form.
    """
    return _tidy(model.model_json_schema(schema_generator=_Schemas))


class _Schemas(GenerateJsonSchema):
    """Silent where a default has no JSON form: the default then stays ours alone."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


def _tidy(schema: Schema) -> Schema:
    """Without titles, without `$defs` unless a type contains itself, null left unsaid.

    That an argument may be null says no more than that it may be left out, and costs
    tokens in every request.
    """
    definitions = schema.pop("$defs", {})
    made: Schema = _inlined(schema, definitions)
    made.setdefault("properties", {})
    for name, item in made["properties"].items():
        if item.get("default", ...) is None:
            made["properties"][name] = _without_null(item)
    if "#/$defs/" in dumps(made):
        made["$defs"] = {name: _inlined(item, definitions) for name, item in definitions.items()}
    return made


def _inlined(value: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inlined(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    name = str(value.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and not _contains_itself(name, definitions):
        beside = {key: item for key, item in value.items() if key != "$ref"}
        return _inlined({**definitions[name], **beside}, definitions)
    made: Schema = {}
    for key, item in value.items():
        if key == "title" and isinstance(item, str):
            continue
        if key == "properties" and isinstance(item, dict):
            # Its keys are names, not words of the schema: one may be called `title`.
            made[key] = {name: _inlined(inner, definitions) for name, inner in item.items()}
        elif key in ("default", "const", "enum", "examples"):
            made[key] = item
        else:
            made[key] = _inlined(item, definitions)
    return made


def _contains_itself(name: str, definitions: Mapping[str, Any]) -> bool:
    """Whether a definition reaches itself through others."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        for found in re.findall(r'"#/\$defs/([^"]+)"', dumps(definitions.get(todo.pop(), {}))):
            if found == name:
                return True
            if found not in seen:
                seen.add(found)
                todo.append(found)
    return False


def _without_null(item: Schema) -> Schema:
    made = {key: value for key, value in item.items() if key != "default"}
    forms = [form for form in made.get("anyOf", ()) if form != {"type": "null"}]
    if len(forms) == 1 and isinstance(forms[0], dict):
        del made["anyOf"]
        return {**forms[0], **made}
    if forms:
        made["anyOf"] = forms
    return made
