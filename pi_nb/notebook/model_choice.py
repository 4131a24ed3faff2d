"""Which model an agent asks: what the user named, ready to be asked, or nothing yet."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from pi_nb import background
from pi_nb.abort import AbortSignal
from pi_nb.models.registry import resolve
from pi_nb.models.types import ChatModel, End, Model, Request, StreamEvent
from pi_nb.result import Err, PiError
from pi_nb.text import safe_line

_POINT = (
    "Point at a local server, `%agent model http://127.0.0.1:8080`, or make an "
    'agent with one, `agent = pi_nb.agent(model=pi_nb.ScriptedModel(["Hello."]))`.'
)
NO_MODEL = f"No model yet. {_POINT}"


class NoModel:
    """Stands where no model was chosen yet. Asking it is an error that says what to do."""

    model = Model(id="none", provider="none", name="no model")

    async def stream(self, request: Request, signal: AbortSignal) -> AsyncIterator[StreamEvent]:
        """Always the one error; nobody is asked."""
        yield End(reason="error", error_message=NO_MODEL, failure="invalid")


def no_model(used: tuple[str, str] | None) -> str:
    """What to do without a model, for a session that used one before."""
    if used is None:
        return NO_MODEL
    provider, name = used
    return f"No model yet; the session used {safe_line(name)} of {safe_line(provider)}. {_POINT}"


def chat_model(
    model: ChatModel | str | None, window: int | None = None, *, beside: Model | None = None
) -> ChatModel:
    """What the user named as a model, ready to ask. Looks a server up; blocks meanwhile.

    Args:
        model: A `ChatModel`; a server's address; the name of a model of the server that
            `beside` is from; None: the environment variable `PI_NB_MODEL`, else `NoModel`.
        window: Tokens of the context window, where the server does not say it right.

    Raises:
        PiError: `invalid_argument`, with what is wrong and the next step.
    """
    if window is not None and window < 1:
        raise PiError("invalid_argument", f"A window has 1 token or more, not {window}.")
    if model is None:
        named = os.environ.get("PI_NB_MODEL")
        return chat_model(named, window) if named else NoModel()
    if not isinstance(model, str):
        if not hasattr(model, "stream") or not hasattr(model, "model"):
            raise PiError("invalid_argument", f"{model!r} is no model: it cannot be asked.")
        return model
    spec = model.strip()
    if beside is not None and beside.base_url and not any(mark in spec for mark in ":/"):
        spec = f"{beside.base_url}#{spec.removeprefix('#')}"
    found = background.call(resolve(spec, window=window))
    if isinstance(found, Err):
        raise PiError("invalid_argument", str(found.error))
    return found.value
