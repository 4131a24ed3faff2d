from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.models.http import (
    ERROR_BODY_LIMIT,
    HttpFailure,
    Timeouts,
    get_json,
    is_loopback,
    is_near,
    post,
)
from pi_nb.result import Err, Ok

pytestmark = pytest.mark.anyio

CANARY = "sk-canary-0123456789abcdef"


async def exchange(url: str, signal: AbortSignal | None = None, **options: Any) -> list[Any]:
    stream = post(url, {"a": 1}, signal=signal or AbortSignal(), **options)
    return [item async for item in stream]


def failure_of(items: list[Any]) -> HttpFailure:
    assert isinstance(items[-1], HttpFailure)
    return items[-1]


async def test_json_goes_out_and_bytes_come_back(loopback: Any) -> None:
    loopback.answer(b"abcdef", cut=2)

    items = await exchange(loopback.url + "/x", headers={"X-Mine": "1"})

    assert b"".join(items) == b"abcdef"
    (request,) = loopback.requests
    assert (request.method, request.path, request.json) == ("POST", "/x", {"a": 1})
    assert request.headers["x-mine"] == "1"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "no such tool"}}', "HTTP 400: no such tool"),
        (b"<html><title>Nope</title></html>", "HTTP 400: Nope"),
        (b"", "HTTP 400: Said"),
    ],
)
async def test_a_refusal_shows_its_status_and_the_words_of_the_server(
    loopback: Any, body: bytes, words: str
) -> None:
    """X-17."""
    loopback.answer(body, status=400)

    failure = failure_of(await exchange(loopback.url))

    assert str(failure) == words
    assert failure.status == 400


async def test_an_error_body_without_end_is_read_to_its_limit(loopback: Any) -> None:
    loopback.answer(b"x" * (ERROR_BODY_LIMIT + 1), status=500, end="hold")

    async with asyncio.timeout(5):
        failure = failure_of(await exchange(loopback.url))

    assert failure.error.failure.kind == "overloaded"


async def test_a_broken_error_body_still_tells_its_status(loopback: Any) -> None:
    loopback.answer(b"half of it", status=503, end="cut")

    failure = failure_of(await exchange(loopback.url))

    assert str(failure) == "HTTP 503: half of it"


async def test_the_wait_that_a_server_asks_for_comes_along(loopback: Any) -> None:
    loopback.answer(b"{}", status=429, headers={"Retry-After": "12"})

    failure = failure_of(await exchange(loopback.url)).error.failure

    assert (failure.kind, failure.retry_after) == ("throttled", 12)


async def test_a_redirect_is_not_followed_with_the_key(loopback: Any) -> None:
    loopback.answer(status=307, headers={"Location": "http://elsewhere/?k=secret"})

    failure = failure_of(await exchange(loopback.url))

    assert str(failure) == "HTTP 307: the server redirects to http://elsewhere/"
    assert len(loopback.requests) == 1


async def test_a_server_that_is_not_there_is_named(unused_port: int) -> None:
    url = f"http://127.0.0.1:{unused_port}/v1"

    failure = failure_of(await exchange(url))

    assert str(failure) == f"No connection to {url}: Connection refused"
    assert failure.error.failure.kind == "network"


async def test_a_server_without_tls_is_no_matter_of_the_systems_error_numbers(
    plain_port: int,
) -> None:
    """OpenSSL's number 1 or 8 is not `errno` 1 or 8 ("Exec format error")."""
    failure = failure_of(await exchange(f"https://127.0.0.1:{plain_port}/v1"))

    assert str(failure).startswith(f"127.0.0.1:{plain_port} does not speak https; try http://")
    assert not failure.error.failure.retryable


async def test_a_server_that_waits_while_we_greet_it_may_speak_no_tls(loopback: Any) -> None:
    url = f"https://127.0.0.1:{loopback.port}"

    failure = failure_of(await exchange(url, timeouts=Timeouts(connect=0.1)))

    assert str(failure) == f"No connection to {url} within 0.1 s; try {loopback.url}"


async def test_a_self_signed_certificate_is_a_fault_that_asking_again_does_not_mend(
    tls_server: Any,
) -> None:
    failure = failure_of(await exchange(tls_server.url))

    assert "is not trusted: self-signed" in str(failure)
    assert not failure.error.failure.retryable


async def test_a_body_that_is_cut_off_ends_early(loopback: Any) -> None:
    """X-07."""
    loopback.answer(b"half", end="cut")

    items = await exchange(loopback.url)

    assert items[0] == b"half"
    assert failure_of(items).error.failure.kind == "cut_off"


async def test_a_connection_closed_without_a_word_is_a_broken_network(loopback: Any) -> None:
    def leave(_request: Any) -> Any:
        raise ConnectionResetError

    loopback.answer_with(leave)

    assert failure_of(await exchange(loopback.url)).error.failure.kind == "network"


@pytest.mark.parametrize("body", [b"", b"some"])
async def test_silence_has_its_time_out_before_and_between_bytes(
    loopback: Any, body: bytes
) -> None:
    before = threading.Event() if not body else None
    loopback.answer(body, end="hold", before=before)

    items = await exchange(loopback.url, timeouts=Timeouts(idle=0.1))

    failure = failure_of(items)
    assert failure.error.failure.kind == "timeout"
    assert "for 0.1 s" in str(failure)


@pytest.mark.parametrize("moment", ["first byte", "mid-stream"])
async def test_an_abort_is_heard_while_waiting_for_bytes(loopback: Any, moment: str) -> None:
    signal = AbortSignal()
    waits = moment == "first byte"
    loopback.answer(b"some", end="hold", before=threading.Event() if waits else None)

    async def abort_then() -> None:
        await asyncio.to_thread(loopback.arrived.wait)
        signal.abort()

    begin = time.monotonic()
    aborting = asyncio.ensure_future(abort_then())
    items = await exchange(loopback.url, signal)
    await aborting

    assert failure_of(items).aborted
    assert time.monotonic() - begin < 1
    assert await asyncio.to_thread(loopback.left.wait, 2), "the connection was closed"


async def test_an_abort_is_heard_while_connecting() -> None:
    """A full backlog: the other side neither takes nor refuses the connection."""
    signal = AbortSignal()
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        asyncio.get_running_loop().call_later(0.05, signal.abort)

        async with asyncio.timeout(2):
            items = await exchange(f"http://127.0.0.1:{listener.getsockname()[1]}", signal)

    assert failure_of(items).aborted


async def test_an_abort_before_the_start_sends_nothing(loopback: Any) -> None:
    signal = AbortSignal()
    signal.abort("enough")

    items = await exchange(loopback.url, signal)

    assert failure_of(items).aborted
    assert loopback.requests == []


async def test_a_reader_that_leaves_closes_the_connection(loopback: Any) -> None:
    loopback.answer(b"some", end="hold")

    stream = post(loopback.url, {}, signal=AbortSignal())
    assert await anext(stream) == b"some"
    await stream.aclose()

    assert await asyncio.to_thread(loopback.left.wait, 2)


async def test_a_proxy_of_the_environment_is_not_used_for_this_machine(
    loopback: Any, monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port}")
    loopback.answer(b"direct")

    assert await exchange(loopback.url) == [b"direct"]


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost", True), ("a.localhost", True), ("127.0.0.1", True), ("127.9.9.9", True),
     ("::1", True), ("0.0.0.0", True), ("10.0.0.1", False), ("example.org", False), ("", False)],
)  # fmt: skip
async def test_loopback_is_known_by_name_and_by_number(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("host", "near"),
    [("127.0.0.1", True), ("192.168.1.7", True), ("10.0.0.1", True), ("fd00::1", True),
     ("169.254.1.1", True), ("gpubox", True), ("gpubox.local", True), ("GPU.lan.", True),
     ("8.8.8.8", False), ("example.org", False), ("local.example.org", False), ("", False)],
)  # fmt: skip
async def test_a_private_network_is_known_by_name_and_by_number(host: str, near: bool) -> None:
    assert is_near(host) is near


@pytest.mark.parametrize("key", [CANARY + "\nX: y", CANARY + "…", CANARY])
async def test_a_key_shows_in_no_failure(loopback: Any, key: str) -> None:
    """Z-01: not when the server echoes it and not when it cannot be sent at all."""
    loopback.answer(f'{{"error": {{"message": "bad key {CANARY}"}}}}'.encode(), status=401)

    items = await exchange(loopback.url, headers={"Authorization": key}, secrets=(key, CANARY))

    assert CANARY[:9] not in repr(failure_of(items))


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/x", "http://", "http://127.0.0.1:99999/", "nothing", "http://[::1"]
)
async def test_what_is_no_url_is_a_failure_and_no_exception(url: str) -> None:
    assert not failure_of(await exchange(url)).error.failure.retryable


async def test_a_request_that_is_no_json_is_a_failure_and_no_exception(loopback: Any) -> None:
    for body in ({"a": float("nan")}, {"a": object()}):
        stream = post(loopback.url, body, signal=AbortSignal())
        assert "no JSON" in str(failure_of([item async for item in stream]))
    assert loopback.requests == []


async def test_half_characters_are_replaced_on_the_wire(loopback: Any) -> None:
    """S-29."""
    loopback.answer(b"ok")

    async for _ in post(loopback.url, {"a": "x\ud83d"}, signal=AbortSignal()):
        pass

    assert loopback.requests[0].json == {"a": "x\ufffd"}


async def test_get_reads_a_document_or_says_why_not(loopback: Any) -> None:
    loopback.always("/list", {"data": []})
    loopback.always("/page", b"<html>hi</html>")

    assert await get_json(loopback.url + "/list") == Ok({"data": []})
    page = await get_json(loopback.url + "/page")
    gone = await get_json(loopback.url + "/gone")

    assert isinstance(page, Err)
    assert page.error.error.codes == ("not_json",)
    assert isinstance(gone, Err)
    assert gone.error.status == 404
