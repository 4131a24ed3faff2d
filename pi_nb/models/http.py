"""One exchange with a model server: JSON out, bytes in, and nothing raises.

What the world refuses comes back as the last item of the stream. An abort is heard at any
point: while connecting, while waiting for the first byte, between two. Each exchange has
its own client, so it belongs to no event loop but the one that makes it.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pi_nb.abort import Aborted, AbortSignal, unless_aborted
from pi_nb.result import Err, Ok, Result
from pi_nb.text import scrub_data

from .errors import ServerError, read_error_body, read_retry_after
from .keys import scrub_keys, shown_url

if TYPE_CHECKING:
    import ssl

    import httpx

ERROR_BODY_LIMIT = 64 * 1024
"""Bytes of an error's body that are read; the rest is left with the server."""
ANSWER_LIMIT = 16 * 1024 * 1024
"""Bytes of an answer that is not streamed."""

_NEAR = (".local", ".lan", ".internal", ".home.arpa")
# What OpenSSL says, by its version, when the bytes that come are those of another protocol.
_NO_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"}
_NO_KNOWN_ISSUER = {18, 19, 20, 21}  # X509_V_ERR_*: signed by itself, or by nobody we know


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `first` is from the request to the first byte of the answer's body, however
    slowly its head comes; `idle` is the longest silence afterwards."""

    connect: float = 10.0
    idle: float = 300.0
    first: float = 300.0


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """Why an exchange did not go through. Holds no key: the words are scrubbed."""

    error: ServerError
    aborted: bool = False

    def __str__(self) -> str:
        return self.error.message

    @property
    def status(self) -> int | None:
        return self.error.status


async def post(
    url: str,
    body: Mapping[str, Any],
    *,
    signal: AbortSignal,
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts = Timeouts(),
    secrets: tuple[str, ...] = (),
) -> AsyncGenerator[bytes | HttpFailure, None]:
    """POST JSON and yield the answer's bytes as they come; a failure is the last item.

    Args:
        body: Plain data. Surrogate halves in it are replaced.
        secrets: Texts that must not come back in an error's words.
    """
    try:
        content = json.dumps(scrub_data(body), ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        yield HttpFailure(ServerError(f"The request is no JSON: {error}", ("invalid",)))
        return
    sent = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
    began = False
    try:
        async with _client(url, timeouts) as client:
            request = client.build_request(
                "POST", url, content=content, headers={**sent, **(headers or {})}
            )
            async with asyncio.timeout(timeouts.first):
                response = await unless_aborted(client.send(request, stream=True), signal)
                if response.status_code != 200:
                    refused = await unless_aborted(_refusal(response, secrets), signal)
                else:
                    chunks = response.aiter_bytes()
                    chunk = await unless_aborted(anext(chunks, b""), signal)
            if response.status_code != 200:
                yield refused
                return
            began = True
            while chunk:
                yield chunk
                chunk = await unless_aborted(anext(chunks, b""), signal)
    except TimeoutError:
        words = f"No answer came from {shown_url(url)} within {timeouts.first:g} s"
        yield HttpFailure(ServerError(words, ("timeout",)))
    except Aborted as stop:
        yield HttpFailure(ServerError(str(stop)), aborted=True)
    except Exception as error:
        yield HttpFailure(_explained(error, url, timeouts, began, secrets))


async def get_json(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts = Timeouts(),
    secrets: tuple[str, ...] = (),
) -> Result[Any, HttpFailure]:
    """GET a JSON document. A body that is no JSON is a failure with code `not_json`."""
    try:
        async with (
            _client(url, timeouts) as client,
            client.stream("GET", url, headers=dict(headers or {})) as response,
        ):
            if response.status_code != 200:
                return Err(await _refusal(response, secrets))
            body = await _read(response, ANSWER_LIMIT)
    except Exception as error:
        return Err(HttpFailure(_explained(error, url, timeouts, False, secrets)))
    try:
        return Ok(json.loads(body))
    except (ValueError, RecursionError):
        return Err(HttpFailure(ServerError("The answer is no JSON", ("not_json",), 200)))


def is_loopback(host: str) -> bool:
    """The host is this machine: a proxy has no business in between."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def is_near(host: str) -> bool:
    """The host is this machine or one of its own network, by its number or its name.

    A name without a dot is one that a router or a hosts file gave.
    """
    if is_loopback(host):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        name = host.lower().rstrip(".")
        return bool(name) and ("." not in name or name.endswith(_NEAR))


def _client(url: str, timeouts: Timeouts) -> httpx.AsyncClient:
    import httpx  # a tenth of a second that a session without a server does not need

    parts = urlsplit(url)
    return httpx.AsyncClient(
        timeout=httpx.Timeout(timeouts.idle, connect=timeouts.connect, pool=timeouts.connect),
        trust_env=not is_loopback(parts.hostname or ""),
        # Without TLS there is nothing to verify, and no certificates need to be read.
        verify=_trust(*map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
        if parts.scheme == "https"
        else False,
        follow_redirects=False,
        # A compressed stream is held back by proxies until a block is full.
        headers={"Accept-Encoding": "identity", "User-Agent": "pi-nb"},
    )


@functools.lru_cache(maxsize=4)
def _trust(*_named: str | None) -> ssl.SSLContext:
    """The certificates of this machine, or those that the environment names.

    Kept: reading them takes longer than a request on a local network.
    """
    import httpx

    return httpx.create_ssl_context()


async def _read(response: httpx.Response, limit: int) -> bytes:
    """The body, cut at the limit; what a broken connection left of it counts as the body."""
    import httpx

    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > limit:
                break
    except httpx.HTTPError:
        if response.status_code == 200:
            raise
    return bytes(body[:limit])


async def _refusal(response: httpx.Response, secrets: tuple[str, ...]) -> HttpFailure:
    status = response.status_code
    body = await _read(response, ERROR_BODY_LIMIT)
    found = read_error_body(body, status, read_retry_after(response.headers))
    words = found.message or response.reason_phrase or "the server gave no reason"
    if 300 <= status < 400:
        words = f"the server redirects to {shown_url(response.headers.get('location', '?'))}"
    message = scrub_keys(f"HTTP {status}: {words}", secrets)
    return HttpFailure(ServerError(message, found.codes, status, found.retry_after))


def _explained(
    error: Exception, url: str, timeouts: Timeouts, began: bool, secrets: tuple[str, ...]
) -> ServerError:
    """A transport's exception in words. Its own text is used only where it cannot hold a key."""
    import ssl

    import httpx

    where = shown_url(url)
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            # A server without TLS may wait for a request while we wait for its greeting.
            words = f"No connection to {where} within {timeouts.connect:g} s{_without_tls(url)}"
            return ServerError(words, ("timeout",))
        case httpx.TimeoutException():
            return ServerError(f"Nothing came from {where} for {timeouts.idle:g} s", ("timeout",))
        case httpx.ConnectError():
            cause = _innermost(error)
            if isinstance(cause, ssl.SSLError):
                return _explained_tls(cause, url)
            return ServerError(f"No connection to {where}: {_reason(cause)}", ("network",))
        case httpx.ReadError() | httpx.RemoteProtocolError() if began:
            return ServerError("The stream ended early", ("cut_off",))
        case httpx.RemoteProtocolError():
            return ServerError(f"{where} closed the connection without an answer", ("network",))
        case httpx.NetworkError() | httpx.ProxyError():
            return ServerError(f"The connection to {where} broke", ("network",))
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return ServerError(f"Not a URL that can be asked: {where}", ("invalid",))
        case httpx.LocalProtocolError() | UnicodeError():
            # Their texts quote the header, and the header is the key.
            words = "The request cannot be sent: the key or a header holds a forbidden character"
            return ServerError(words, ("invalid",))
        case _:
            words = f"The request to {where} failed: {type(error).__name__}: {error}"
            return ServerError(scrub_keys(words, secrets))


def _explained_tls(error: ssl.SSLError, url: str) -> ServerError:
    """Why there is no secure connection. Its number is OpenSSL's, and no `errno`."""
    import ssl

    parts = urlsplit(shown_url(url))
    if isinstance(error, ssl.SSLCertVerificationError):
        words = f"The certificate of {parts.netloc} is not trusted: {error.verify_message}"
        words = words.rstrip(".")
        if error.verify_code in _NO_KNOWN_ISSUER:
            words += ". If it is your own, name its file in the environment's SSL_CERT_FILE"
        return ServerError(words, ("tls", "invalid"))
    if error.reason in _NO_TLS:
        words = f"{parts.netloc} does not speak https{_without_tls(url)}"
        return ServerError(words, ("tls", "invalid"))
    reason = (error.reason or "the connection ended").replace("_", " ").lower()
    return ServerError(f"No secure connection to {parts.netloc}: {reason}", ("tls", "network"))


def _without_tls(url: str) -> str:
    """Advice, but not for the open internet, where a key would go out for all to read."""
    parts = urlsplit(shown_url(url))
    fits = parts.scheme == "https" and is_near(parts.hostname or "")
    return f"; try http://{parts.netloc}" if fits else ""


def _innermost(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _reason(error: BaseException) -> str:
    """The system's words for a refused connection."""
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
