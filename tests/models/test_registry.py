from __future__ import annotations

from typing import Any

import pytest
from loopback import sse

from pi_nb.models.openai_completions import OpenAICompletions
from pi_nb.models.registry import ModelError, list_models, resolve
from pi_nb.models.types import ChatModel
from pi_nb.result import Err, Ok

pytestmark = pytest.mark.anyio

TWO = {"data": [{"id": "first"}, {"id": "second"}]}
CANARY = "sk-canary-0123456789abcdef"


async def found(spec: str, **options: Any) -> ChatModel:
    result = await resolve(spec, **options)
    assert isinstance(result, Ok), result
    return result.value


async def refused(spec: str, **options: Any) -> ModelError:
    result = await resolve(spec, **options)
    assert isinstance(result, Err)
    return result.error


@pytest.mark.parametrize(
    "ending", ["", "/", "/v1", "/v1/", "/v1/models", "/v1/chat/completions", "?x=1"]
)
async def test_a_url_with_or_without_v1_gives_the_first_model(loopback: Any, ending: str) -> None:
    loopback.always("/v1/models", TWO)

    model = (await found(f" {loopback.url}{ending} ")).model

    assert (model.id, model.base_url) == ("first", f"{loopback.url}/v1")
    assert model.provider == f"127.0.0.1:{loopback.port}"
    assert (model.api, model.context_window) == ("openai-completions", 8_192)


async def test_a_name_after_the_url_chooses_from_the_list(loopback: Any) -> None:
    loopback.always("/v1/models", TWO)

    assert (await found(f"{loopback.url}#second")).model.id == "second"


async def test_what_was_found_can_be_asked(ask: Any, loopback: Any) -> None:
    loopback.always("/v1/models", TWO)
    model = await found(loopback.url)
    loopback.answer(sse({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}))

    assert isinstance(model, OpenAICompletions)
    assert (await ask(model)).message.text == "hi"
    assert loopback.requests[-1].json["model"] == "first"


async def test_a_server_without_v1_in_its_paths_is_found_too(loopback: Any) -> None:
    loopback.always("/models", TWO)

    assert (await found(loopback.url)).model.base_url == loopback.url


ONE = {"data": [{"id": "m"}]}


@pytest.mark.parametrize(
    ("documents", "window", "sees"),
    [
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": 4_096}]}}, 4_096, False),
        ({"/v1/models": {"data": [{"id": "m", "context_length": 5_000}]}}, 5_000, False),
        ({"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 6_000, "n_ctx_train": 99_000}}]}},
         6_000, False),
        ({"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx_train": 99_000}}]},
          "/props": {"default_generation_settings": {"n_ctx": 7_000},
                     "modalities": {"vision": True}}}, 7_000, True),
        ({"/v1/models": ONE, "/api/v0/models": {"data": [
            {"id": "m", "type": "vlm", "loaded_context_length": 9_000,
             "max_context_length": 131_072}]}}, 9_000, True),
        ({"/v1/models": ONE, "/api/v0/models": {"data": [
            {"id": "m", "max_context_length": 131_072}]}}, 131_072, False),
        ({"/v1/models": ONE, "/api/ps": {"models": [
            {"name": "m", "context_length": 16_384}]}}, 16_384, False),
        ({"/v1/models": {"data": [{"id": "m", "capabilities": ["completion", "multimodal"]}]}},
         8_192, True),
        ({"/v1/models": ONE}, 8_192, False),
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": "big", "meta": 3}]},
          "/props": {"default_generation_settings": {"n_ctx": True}},
          "/api/v0/models": {"data": [3, {"id": 4}]}, "/api/ps": {"models": {"m": 1}}},
         8_192, False),
    ],
    ids=["vllm", "router", "llama.cpp list", "llama.cpp props", "lm studio loaded",
         "lm studio at most", "ollama", "capabilities", "nobody says", "nonsense"],
)  # fmt: skip
async def test_the_window_is_what_the_server_says(
    loopback: Any, documents: dict[str, Any], window: int, sees: bool
) -> None:
    for path, document in documents.items():
        loopback.always(path, document)

    model = (await found(loopback.url)).model

    assert (model.context_window, model.images) == (window, sees)


async def test_a_window_that_the_user_gives_wins(loopback: Any) -> None:
    loopback.always("/v1/models", {"data": [{"id": "m", "max_model_len": 4_096}]})

    assert (await found(loopback.url, window=2_000)).model.context_window == 2_000


async def test_props_of_a_server_with_several_models_speak_of_none(loopback: Any) -> None:
    loopback.always("/v1/models", TWO)
    loopback.always("/props", {"default_generation_settings": {"n_ctx": 7_000}})

    assert (await found(loopback.url)).model.context_window == 8_192


async def test_a_server_that_is_not_there_says_so_with_the_next_step(unused_port: int) -> None:
    error = await refused(f"http://127.0.0.1:{unused_port}")

    assert error.code == "unreachable"
    assert "Connection refused" in str(error)
    assert str(error).endswith("Is the model server running?")


@pytest.mark.parametrize("page", [b"<html><title>Jupyter</title></html>", b'{"hello": 1}', b"[1]"])
async def test_another_kind_of_server_says_so_with_the_next_step(
    loopback: Any, page: bytes
) -> None:
    loopback.always("/v1/models", page)
    loopback.always("/models", page)

    error = await refused(loopback.url)

    assert error.code == "not_a_model_server"
    assert "Check the port" in str(error)


async def test_a_server_that_knows_neither_path_is_no_model_server(loopback: Any) -> None:
    assert (await refused(loopback.url)).code == "not_a_model_server"
    assert [request.path for request in loopback.requests] == ["/v1/models", "/models"]


async def test_an_empty_list_says_what_to_do(loopback: Any) -> None:
    loopback.always("/v1/models", {"data": []})

    error = await refused(loopback.url)

    assert error.code == "no_models"
    assert "Load one there" in str(error)


async def test_an_unknown_name_says_which_there_are(loopback: Any) -> None:
    loopback.always("/v1/models", {"data": [{"id": f"m{n}"} for n in range(12)]})

    error = await refused(f"{loopback.url}#other")

    assert error.code == "unknown_model"
    assert "no model 'other'. It has: m0, m1," in str(error)
    assert str(error).endswith("m9 and 2 more.")


@pytest.mark.parametrize(
    "spec", ["", "claude", "big-2", "127.0.0.1", "example.org:8080", "8.8.8.8:80", "127.0.0.1:x",
             "ftp://127.0.0.1", "http://", "http://127.0.0.1:x", "http://127.0.0.1:99999",
             "http://[::1", "#name"]
)  # fmt: skip
async def test_what_is_no_url_says_how_one_looks(spec: str) -> None:
    error = await refused(spec)

    assert error.code == "not_a_url"
    assert "http://127.0.0.1:8080" in str(error)


async def test_a_host_near_by_needs_no_scheme(loopback: Any) -> None:
    loopback.always("/v1/models", TWO)

    for host in ("127.0.0.1", "localhost"):
        model = (await found(f" {host}:{loopback.port}/v1#second")).model

        assert (model.id, model.base_url) == ("second", f"http://{host}:{loopback.port}/v1")


async def test_a_name_alone_is_told_where_it_goes() -> None:
    error = await refused("#big-2")

    assert str(error) == "A name goes behind an address, e.g. http://127.0.0.1:8080#big-2."


async def test_http_where_https_was_asked_for_names_the_address_to_try(plain_port: int) -> None:
    error = await refused(f"https://127.0.0.1:{plain_port}")

    assert error.code == "unreachable"
    assert str(error) == (
        f"127.0.0.1:{plain_port} does not speak https; try http://127.0.0.1:{plain_port}."
    )


async def test_a_certificate_that_nobody_vouches_for_is_named_as_such(tls_server: Any) -> None:
    error = await refused(tls_server.url)

    assert error.code == "unreachable"
    assert f"certificate of 127.0.0.1:{tls_server.port} is not trusted: self-signed" in str(error)
    assert str(error).endswith("SSL_CERT_FILE.")


async def test_a_certificate_of_your_own_is_trusted_when_it_is_named(
    tls_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await refused(tls_server.url)).code == "unreachable"

    monkeypatch.setenv("SSL_CERT_FILE", str(tls_server.certificate))

    assert (await found(tls_server.url)).model.id == "m"


@pytest.mark.parametrize(
    "spec", ["http://me:hunter2@127.0.0.1:1", "me:hunter2@127.0.0.1:1", "me:hunter2@example.org:1"]
)
async def test_a_password_does_not_belong_into_a_url(spec: str) -> None:
    error = await refused(spec)

    assert "api_key" in str(error)
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(("status", "step"), [(401, "api_key"), (500, "log")])
async def test_a_refusal_shows_the_servers_words_but_no_key(
    loopback: Any, status: int, step: str
) -> None:
    """Z-01."""
    loopback.always("/v1/models", {"error": {"message": f"bad {CANARY}"}}, status=status)

    error = await refused(loopback.url, api_key=CANARY)

    assert error.code == "refused"
    assert f"HTTP {status}: bad" in str(error)
    assert step in str(error)
    assert "canary" not in repr(error)
    assert loopback.requests[0].headers["authorization"] == f"Bearer {CANARY}"


async def test_a_key_function_that_fails_is_an_answer_without_its_words(loopback: Any) -> None:
    def key() -> str:
        raise RuntimeError(CANARY)

    error = await refused(loopback.url, api_key=key)

    assert (error.code, loopback.requests) == ("refused", [])
    assert CANARY not in repr(error)


async def test_all_models_of_a_server_can_be_listed(loopback: Any) -> None:
    loopback.always("/v1/models", {"data": [{"id": "a", "max_model_len": 9}, {"id": "b"}, {}]})

    models = await list_models(loopback.url)

    assert isinstance(models, Ok)
    assert [(model.id, model.context_window) for model in models.value] == [("a", 9), ("b", 8_192)]


async def test_a_model_shows_where_it_is_and_how_much_fits(loopback: Any) -> None:
    loopback.always("/v1/models", {"data": [{"id": "tiny\x1b[31m\u202e"}]})

    model = (await found(loopback.url)).model

    assert repr(model) == f"Model(127.0.0.1:{loopback.port}/tiny\\u202e, window 8,192)"
    assert model.to_wire()["id"] == "tiny\x1b[31m\u202e"
