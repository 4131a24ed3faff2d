"""Asking a model and collecting what it says."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from pi_nb.abort import AbortSignal
from pi_nb.messages import AssistantMessage
from pi_nb.models.fold import Fold
from pi_nb.models.types import ChatModel, End, Request, StreamEvent


@dataclass(frozen=True)
class Said:
    """All events of one stream, and the message they make."""

    events: list[StreamEvent]
    message: AssistantMessage

    @property
    def end(self) -> End:
        assert isinstance(self.events[-1], End)
        return self.events[-1]


Ask = Callable[..., Awaitable[Said]]


async def _ask(
    model: ChatModel,
    request: Request | None = None,
    signal: AbortSignal | None = None,
    on_event: Callable[[StreamEvent], None] = lambda _event: None,
) -> Said:
    events: list[StreamEvent] = []
    fold = Fold(model.model)
    async for event in model.stream(request or Request(), signal or AbortSignal()):
        assert not events or not isinstance(events[-1], End), "something came after the end"
        events.append(event)
        fold.apply(event)
        on_event(event)
    assert fold.end is not None, "a stream ends with an End"
    return Said(events, fold.message())


@pytest.fixture(scope="session")
def ask() -> Ask:
    return _ask


async def _answers(
    status: str, body: bytes, reader: asyncio.StreamReader, to: asyncio.StreamWriter
) -> None:
    """One answer to whatever comes first, a request or the greeting of TLS."""
    with suppress(ConnectionError):
        await reader.read(4096)
        to.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await to.drain()
        to.close()


@pytest.fixture
async def plain_port() -> AsyncIterator[int]:
    """A server without TLS that takes a greeting of TLS for a bad request, as most do."""

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Awaitable[None]:
        return _answers("400 Bad Request", b"", reader, writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@dataclass(frozen=True)
class TlsServer:
    """A model server with one model and a certificate that it signed itself."""

    port: int
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A fresh certificate for 127.0.0.1, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command here to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


@pytest.fixture
async def tls_server(certificate: tuple[Path, Path]) -> AsyncIterator[TlsServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Awaitable[None]:
        return _answers("200 OK", b'{"data": [{"id": "m"}]}', reader, writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield TlsServer(server.sockets[0].getsockname()[1], certificate[0])
