"""A failed request in one line: who failed, how, and what to do next; never the key."""

from __future__ import annotations

from urllib.parse import urlsplit

from pi_nb.text import safe_line

from .http import is_near
from .types import End, Model


def advised(end: End, model: Model, key_name: str, *, has_key: bool) -> str:
    """The words of an `End` of reason `error`, with the provider and the next step.

    Args:
        key_name: What the user calls the key: a variable of the environment, or `api_key`.
        has_key: Whether one was sent.
    """
    said = (end.error_message or "the server gave no reason").rstrip()
    who = safe_line(model.provider, 60)
    if end.failure == "not_found":
        who = f"{who}, model {safe_line(model.id, 80)}"
    step = _step(end.failure or "", model, key_name, has_key)
    stop = "" if said.endswith((".", "!", "?")) or not step else "."
    return f"{who}: {said}{stop}{' ' if step else ''}{step}"


def _step(failure: str, model: Model, key_name: str, has_key: bool) -> str:
    near = is_near(urlsplit(model.base_url).hostname or "")
    match failure:
        case "auth" if has_key:
            return f"Check the key in {key_name}."
        case "auth":
            return f"Set {key_name}, or pass the key as api_key."
        case "not_found":
            return "`%agent model` lists what there is."
        case "network" if near:
            return "Is the model server running?"
        case "network":
            return "Check the network, and HTTPS_PROXY if there is a proxy; then ask again."
        case "timeout":
            return "Ask again, or give it more time in the request options."
        case "throttled" | "overloaded":
            return "Wait a little, then ask again."
        case "quota":
            return "Look at the plan and its billing there, or choose another model."
        case "overflow":
            return "Compact (`%compact`), or choose a model with a larger window."
        case "cut_off":
            return "What had come is kept; ask again."
        case _:
            return ""
