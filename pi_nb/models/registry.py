"""From a URL to a model: what a server on this machine, or elsewhere, has to offer.

    http://127.0.0.1:8080            the first model of the server's list
    http://127.0.0.1:8080/v1#name    the one with that name
    127.0.0.1:8080                   the same as with http://, on this machine or network only

Only the server of that URL is asked. How much fits into a model's window is told by each
server in its own place; where none tells, 8,192 tokens are assumed, because too small a
window compacts early and too large a one fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pi_nb.result import Err, Ok, Result
from pi_nb.text import one_line, safe_line

from .http import HttpFailure, Timeouts, get_json, is_near
from .keys import ApiKey, Key, bearer, shown_url
from .openai_completions import API, OpenAICompletions
from .types import ChatModel, Model

DEFAULT_WINDOW = 8_192

_LIST = Timeouts(connect=5.0, idle=15.0)
_PROBE = Timeouts(connect=2.0, idle=2.0)
_ENDINGS = ("/chat/completions", "/completions", "/models")
_NAMES_SHOWN = 10

ModelErrorCode = Literal[
    "not_a_url", "unreachable", "refused", "not_a_model_server", "no_models", "unknown_model"
]


@dataclass(frozen=True, slots=True)
class ModelError:
    """Why there is no model, and what to do about it."""

    code: ModelErrorCode
    message: str

    def __str__(self) -> str:
        return self.message


async def resolve(
    spec: str, *, window: int | None = None, api_key: ApiKey = None
) -> Result[ChatModel, ModelError]:
    """The model that `spec` names, ready to be asked.

    Args:
        spec: `URL` or `URL#name`, the URL with or without `/v1`. Of a host near by,
            `host:port` is enough.
        window: Tokens of its context window; None: as the server says, else 8,192.
        api_key: Sent as Bearer; local servers need none.
    """
    url, _, name = spec.strip().partition("#")
    if name and not url:
        shown = safe_line(name, 60)
        words = f"A name goes behind an address, e.g. http://127.0.0.1:8080#{shown}."
        return Err(ModelError("not_a_url", words))
    match await list_models(url, api_key=api_key):
        case Err() as refused:
            return refused
        case Ok(models):
            pass
    chosen = next((model for model in models if model.id == name), None) if name else models[0]
    if chosen is None:
        names = ", ".join(one_line(model.id, 60) for model in models[:_NAMES_SHOWN])
        more = f" and {len(models) - _NAMES_SHOWN} more" if len(models) > _NAMES_SHOWN else ""
        where = shown_url(url)
        return Err(
            ModelError("unknown_model", f"{where} has no model {name!r}. It has: {names}{more}.")
        )
    if window is not None:
        chosen = chosen.having(context_window=window)
    return Ok(OpenAICompletions(chosen, api_key=api_key))


async def list_models(url: str, *, api_key: ApiKey = None) -> Result[list[Model], ModelError]:
    """The models of a server, in its order, with the window of each where it says.

    A server without TLS is taken for a local one and is asked in the other places where
    such servers keep the window; a provider on the internet is asked for its list alone.
    """
    base = _base(url)
    if isinstance(base, ModelError):
        return Err(base)
    try:
        secret = Key(api_key).read()
    except Exception as error:
        words = f"The function that gives the key failed with {type(error).__name__}."
        return Err(ModelError("refused", words))
    ask = _Asker(bearer(secret), (secret,))
    rows: list[dict[str, Any]] | None = None
    versioned = base if base.endswith("/v1") else f"{base}/v1"
    for root in dict.fromkeys((versioned, base)):
        answer = await ask(f"{root}/models", _LIST)
        if isinstance(answer, Ok):
            rows = _rows(answer.value)
        elif not _is_missing(answer.error):
            return Err(_list_error(base, answer.error))
        if rows is not None:
            break
    if rows is None:
        return Err(_no_server(base))
    if not rows:
        words = f"The server at {shown_url(base)} has no model. Load one there, then try again."
        return Err(ModelError("no_models", words))
    found = _Found.of(rows)
    if base.startswith("http://") and any(row["id"] not in found.windows for row in rows):
        await _probe(root.removesuffix("/v1"), ask, found, rows)
    provider = urlsplit(base).netloc
    _lists[root] = tuple(row["id"] for row in rows)
    return Ok([found.model(row["id"], provider, root) for row in rows])


_lists: dict[str, tuple[str, ...]] = {}


def last_list(base_url: str) -> tuple[str, ...]:
    """The names that a server, by a model's `base_url`, listed last in this process; nobody
    is asked for them."""
    return _lists.get(base_url, ())


def _base(url: str) -> str | ModelError:
    """The URL without what was copied along with it."""
    url = url.strip()
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    scheme = parts.scheme
    if not scheme and port is not None and is_near(parts.hostname or ""):
        scheme = "http"
    if "@" in parts.netloc:
        # It would stand in logs and session files; a key has its own way.
        return ModelError("not_a_url", "Leave the password out of the URL and pass it as api_key.")
    if scheme not in ("http", "https") or not parts.hostname:
        words = f"{one_line(url)!r} is no URL of a model server. Write e.g. http://127.0.0.1:8080."
        return ModelError("not_a_url", words)
    path = parts.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    return urlunsplit((scheme, parts.netloc, path, "", ""))


# --- asking ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class _Asker:
    headers: Mapping[str, str]
    secrets: tuple[str, ...]

    async def __call__(self, url: str, timeouts: Timeouts) -> Result[Any, HttpFailure]:
        return await get_json(url, headers=self.headers, timeouts=timeouts, secrets=self.secrets)


def _is_missing(failure: HttpFailure) -> bool:
    """A server is there, but no list of models under this path."""
    return failure.status in (404, 405) or "not_json" in failure.error.codes


def _list_error(base: str, failure: HttpFailure) -> ModelError:
    where = shown_url(base)
    if "tls" in failure.error.codes:
        return ModelError("unreachable", f"{failure}.")
    if failure.status is None:
        return ModelError("unreachable", f"{failure}. Is the model server running?")
    auth = failure.error.failure.kind == "auth"
    step = "Pass its key as api_key." if auth else "See the server's own log."
    return ModelError("refused", f"The server at {where} refused: {failure}. {step}")


def _no_server(base: str) -> ModelError:
    words = (
        f"{shown_url(base)} answers, but not as a model server: it has no list of models under "
        "/v1/models. Check the port and the path."
    )
    return ModelError("not_a_model_server", words)


def _rows(data: Any) -> list[dict[str, Any]] | None:
    """The models of a list, or None if it is no such list."""
    rows = data.get("data", data.get("models")) if isinstance(data, dict) else data
    if not isinstance(rows, list):
        return None
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
    return named if named or not rows else None


# --- what is known of each ------------------------------------------------------------------


@dataclass(slots=True)
class _Found:
    """Windows and eyes of models by id, as far as anybody said."""

    windows: dict[str, int]
    seeing: set[str]

    @classmethod
    def of(cls, rows: list[dict[str, Any]]) -> _Found:
        found = cls({}, set())
        for row in rows:
            meta = row.get("meta")
            meta = meta if isinstance(meta, dict) else {}
            # vLLM; routers; llama.cpp, whose `n_ctx_train` is what the model could, not
            # what the server holds.
            found.window(
                row["id"], row.get("max_model_len"), row.get("context_length"), meta.get("n_ctx")
            )
            abilities = row.get("capabilities")
            if isinstance(abilities, list) and {"multimodal", "vision"} & set(map(str, abilities)):
                found.seeing.add(row["id"])
        return found

    def window(self, name: str, *values: Any) -> None:
        """Note the first value that is a number of tokens, unless one is known."""
        for value in values:
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                self.windows.setdefault(name, value)
                return

    def model(self, name: str, provider: str, base_url: str) -> Model:
        return Model(
            id=name,
            provider=provider,
            api=API,
            base_url=base_url,
            context_window=self.windows.get(name, DEFAULT_WINDOW),
            images=name in self.seeing,
        )


async def _probe(root: str, ask: _Asker, found: _Found, rows: list[dict[str, Any]]) -> None:
    """Look where single servers keep what the list does not say. Failures mean nothing."""
    readers: dict[str, Callable[[Any, _Found, list[dict[str, Any]]], None]] = {
        "/props": _read_llama_cpp,
        "/api/v0/models": _read_lm_studio,
        "/api/ps": _read_ollama,
    }
    answers = await asyncio.gather(*(ask(root + path, _PROBE) for path in readers))
    for reader, answer in zip(readers.values(), answers, strict=True):
        if isinstance(answer, Ok) and isinstance(answer.value, dict):
            reader(answer.value, found, rows)


def _read_llama_cpp(data: Any, found: _Found, rows: list[dict[str, Any]]) -> None:
    """`/props` of llama.cpp speaks of the one model it has loaded."""
    settings = data.get("default_generation_settings")
    if isinstance(settings, dict) and len(rows) == 1:
        found.window(rows[0]["id"], settings.get("n_ctx"))
    modalities = data.get("modalities")
    if isinstance(modalities, dict) and modalities.get("vision") is True:
        found.seeing.update(row["id"] for row in rows)


def _read_lm_studio(data: Any, found: _Found, _rows: list[dict[str, Any]]) -> None:
    """LM Studio lists each model with the window it is loaded with and the largest it has."""
    listed = data.get("data")
    for row in listed if isinstance(listed, list) else []:
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            found.window(row["id"], row.get("loaded_context_length"), row.get("max_context_length"))
            if row.get("type") == "vlm":
                found.seeing.add(row["id"])


def _read_ollama(data: Any, found: _Found, _rows: list[dict[str, Any]]) -> None:
    """Ollama tells the window of what is running; what a model could hold at most is no use."""
    listed = data.get("models")
    for row in listed if isinstance(listed, list) else []:
        if isinstance(row, dict) and isinstance(name := row.get("model", row.get("name")), str):
            found.window(name, row.get("context_length"))
