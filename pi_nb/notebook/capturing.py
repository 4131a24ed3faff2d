"""What one piece of user code prints, kept apart from what everybody else prints meanwhile.

    main thread   job ------ print --> the job's capture
    another thread --------- print --> where it went before

A capture belongs to one thread and one context (a task has its own), so that neither other
threads nor other tasks of the kernel's loop lose a line to it. Streams are exchanged while
at least one capture is open, and given back after the last.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from pi_nb.env.capture import Capture
from pi_nb.env.types import Output
from pi_nb.text import scrub

from .kernel import shell

EVERY = 0.2
"""Seconds between two looks at what has been printed so far, at least."""


class Printed:
    """What was printed so far: bounded, and whole in a file where it is longer."""

    def __init__(self, told: Callable[[Output], None] = lambda _output: None) -> None:
        """
        Args:
            told: Shown what there is, now and then, on the thread that prints.
        """
        self._told = told
        self._capture = Capture()
        self._lock = threading.Lock()
        self._next = 0.0
        self._ended: Output | None = None

    def write(self, text: str) -> None:
        """Take text in. Of more than can be kept whole, the end is."""
        with self._lock:
            if self._ended is not None:
                return  # the code was left behind, and prints on
            self._capture.feed(scrub(text).encode())
            if (now := time.monotonic()) < self._next:
                return
            self._next = now + EVERY
            output = self._capture.output()
        self._told(output)

    def end(self) -> Output:
        """All that was printed; what comes later is dropped. Any thread, and again."""
        with self._lock:
            if self._ended is None:
                self._ended = self._capture.output()
                self._capture.close()
            return self._ended


_mine: ContextVar[tuple[int, Printed] | None] = ContextVar("pi_nb_printed", default=None)


def _printed() -> Printed | None:
    """The capture that the present code belongs to. A thread that was started with a copy of
    its context does not."""
    found = _mine.get()
    return found[1] if found is not None and found[0] == threading.get_ident() else None


class _Stream:
    """Stands for `sys.stdout` or `sys.stderr`; what is nobody's capture goes through."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def write(self, text: str) -> int:
        printed = _printed()
        if printed is None:
            return int(self._before.write(text))
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        printed.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._before, name)


class _Exchange:
    """The streams and hooks of the process, exchanged while somebody captures."""

    def __init__(self) -> None:
        self._open = 0
        self._lock = threading.Lock()
        self._back: list[Callable[[], None]] = []

    def begin(self) -> None:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._put(sys, "stdout", _Stream(sys.stdout))
                self._put(sys, "stderr", _Stream(sys.stderr))
                self._put(sys, "displayhook", _displayhook(sys.displayhook))
                if (ip := shell()) is not None:
                    # Outside of a cell IPython would put its own hook in the place of ours.
                    self._put(ip.display_trap, "hook", _displayhook(ip.display_trap.hook))
                    self._put(ip, "_showtraceback", _showtraceback(ip._showtraceback))

    def end(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0:
                while self._back:
                    self._back.pop()()

    def _put(self, owner: Any, name: str, ours: Any) -> None:
        before = getattr(owner, name)
        of_class = name not in vars(owner) and inspect.ismethod(before)
        setattr(owner, name, ours)

        def back() -> None:
            if getattr(owner, name) is not ours:
                return  # the code put another one there, and means to keep it
            delattr(owner, name) if of_class else setattr(owner, name, before)

        self._back.append(back)


_exchange = _Exchange()


def _displayhook(before: Callable[[Any], None]) -> Callable[[Any], None]:
    """Values of expressions are the job's result; they get no number and no `_`."""

    def show(value: Any) -> None:
        printed = _printed()
        if printed is None:
            before(value)
        elif value is not None:
            printed.write(f"{_repr(value)}\n")

    return show


def _showtraceback(before: Callable[..., None]) -> Callable[..., None]:
    """A traceback is part of the result; in the cell it would look like the user's."""

    def show(kind: Any, value: Any, lines: list[str]) -> None:
        printed = _printed()
        if printed is None:
            before(kind, value, lines)
        else:
            printed.write("\n".join(lines) + "\n")

    return show


def _repr(value: Any) -> str:
    """As IPython prints it, where it runs: its own formatters, and long values cut."""
    formatter = getattr(shell(), "display_formatter", None)
    if formatter is None:
        return repr(value)
    return str(formatter.formatters["text/plain"](value))


@contextlib.contextmanager
def capturing(printed: Printed) -> Iterator[None]:
    """Keep what this thread prints, in this context, until the end of the block."""
    token = _mine.set((threading.get_ident(), printed))
    _exchange.begin()
    try:
        yield
    finally:
        _exchange.end()
        _mine.reset(token)
