"""A model server on 127.0.0.1 that sends exactly the bytes a test wants, when it wants.

It has a thread and a loop of its own, so it serves sync tests, async tests and other
processes alike, and it goes on while a test blocks.

    def test_...(loopback):
        loopback.answer(sse({"choices": [...]}, "[DONE]"), cut=1)
        ... ask loopback.url ...
        assert loopback.requests[0].json["model"] == "m"
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass(frozen=True)
class Received:
    """One request as it came over the socket."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """One response.

    `pieces` are written one by one, each as an HTTP chunk of its own. `end` says how it is
    over: `close` properly, `cut` in the middle of the body, `hold` until the other side
    leaves or the server stops.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    end: str = "close"
    before: threading.Event | None = None
    """Waited for before the first byte of the response."""
    pace: float = 0
    """Seconds before each piece."""


def sse(*data: Any) -> bytes:
    """A stream of events; what is no text is written as JSON."""
    texts = (one if isinstance(one, str) else json.dumps(one) for one in data)
    return b"".join(f"data: {text}\n\n".encode() for text in texts)


def cut_every(body: bytes, size: int) -> list[bytes]:
    """The body in pieces of `size` bytes."""
    return [body[at : at + size] for at in range(0, len(body), size)]


class Loopback:
    """The server. Answers are played in order; a path may have one that is always given."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.arrived = threading.Event()
        """Set when a request has been read; clear it to wait for the next one."""
        self.left = threading.Event()
        """Set when the other side has closed a connection that was held."""
        self.port = 0
        self._queue: deque[Answer | Callable[[Received], Answer]] = deque()
        self._fixed: dict[str, Answer] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loopback", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(
        self,
        body: bytes = b"",
        *,
        cut: int | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        end: str = "close",
        before: threading.Event | None = None,
        pace: float = 0,
    ) -> None:
        """Give the next request this body, in pieces of `cut` bytes (None: whole)."""
        pieces = cut_every(body, cut) if cut else [body] if body else []
        self._queue.append(Answer(pieces, status, headers or {}, end, before, pace))

    def answer_with(self, function: Callable[[Received], Answer]) -> None:
        """Let a function of the next request make the response."""
        self._queue.append(function)

    def always(self, path: str, data: Any, *, status: int = 200) -> None:
        """Give every request for a path this JSON (bytes as they are)."""
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self._fixed[path] = Answer([body], status, {"Content-Type": "application/json"})

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            self._loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            received = await _read(reader)
            self.requests.append(received)
            self.arrived.set()
            await self._respond(self._choose(received), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()

    def _choose(self, received: Received) -> Answer:
        if received.path in self._fixed:
            return self._fixed[received.path]
        if not self._queue:
            return Answer([b"{}"], 404)
        answer = self._queue.popleft()
        return answer(received) if callable(answer) else answer

    async def _respond(
        self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if answer.before is not None:
            await self._until(answer.before, reader)
        headers = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        lines = [f"{name}: {value}" for name, value in {**headers, **answer.headers}.items()]
        head = "\r\n".join([f"HTTP/1.1 {answer.status} Said", *lines, "Connection: close"])
        writer.write(head.encode() + b"\r\n\r\n")
        for piece in answer.pieces:
            await asyncio.sleep(answer.pace)
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if answer.end == "hold":
            await reader.read()
            self.left.set()
        elif answer.end == "close":
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async def _until(self, event: threading.Event, reader: asyncio.StreamReader) -> None:
        """Wait for the test's event or for the other side to leave."""
        leaves = asyncio.ensure_future(reader.read())
        while not event.is_set():
            done, _ = await asyncio.wait({leaves}, timeout=0.005)
            if done:
                raise ConnectionResetError
        leaves.cancel()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    """A server for one test."""
    server = Loopback()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port on which nobody listens: it is bound here, and never accepts."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
