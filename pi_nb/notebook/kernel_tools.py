"""`python`: the tool that runs code where the user's own cells run.

The code sees and changes the user's variables. It runs on the main thread, as a job that the
waiting cell serves: between the user's cells and never beside one.

    model --call--> loop thread --job--> main thread: run_cell in the user's namespace
                                 <------ what it printed, its last value, its traceback
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import sys
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Annotated, Any

from pi_nb.abort import Aborted
from pi_nb.background import CannotAwait
from pi_nb.env.capture import MAX_BYTES, MAX_LINES
from pi_nb.env.types import Output
from pi_nb.loop.schema import tool
from pi_nb.loop.types import AgentTool, ToolContext, ToolResult, answer
from pi_nb.tools.printed import printed as result_of
from pi_nb.tools.printed import stopped

from .capturing import Printed, capturing
from .kernel import shell

_DESCRIPTION = (
    "Run Python code in the user's own session: its variables are there, and what you define "
    "stays. Gives what was printed, the value of the last line, and the traceback of an "
    f"exception: the last {MAX_LINES:,} lines or {MAX_BYTES // 1000} kB of it. Top-level await "
    "works. There is no input."
)
_CANNOT_AWAIT = (
    "The code was not run: it awaits something at the top level, and the cell that waits for "
    "this run blocks. Put what is awaited into a coroutine function and run that with "
    "asyncio.run in a thread, or ask the user for an ordinary %%agent cell."
)


PYTHON = "python"
"""The name of the tool."""


def python_tool() -> AgentTool:
    """The tool `python`: code in the user's namespace, on the main thread.

    In IPython it runs as a cell does (magics, `!`, top-level await) and is not in its history;
    elsewhere in the namespace of `__main__`. An exception is a result. An interrupt stops the
    code and the run. In a run that no cell waits for, a call waits for the next cell that
    waits for the run.
    """

    @tool(description=_DESCRIPTION, label="Python", mode="sequential", changes=True)
    async def python(context: ToolContext, code: Annotated[str, "source text"]) -> ToolResult:
        printed = Printed(lambda output: context.update(answer(output.text)))
        try:
            error = await context.on_main(lambda: _job(code, printed))
        except Aborted as interrupt:
            words = str(interrupt)
            return stopped(printed.end(), f"{words[:1].upper()}{words[1:]}.", details={})
        except CannotAwait:
            return answer(_CANNOT_AWAIT, is_error=True)
        finally:
            printed.end()
        return _ended(printed.end(), error)

    return python


def _ended(output: Output, error: BaseException | None) -> ToolResult:
    kind = None if error is None else type(error).__name__
    notes = [] if kind is None else [f"It ended with {kind}."]
    return result_of(output, notes, is_error=error is not None, details={"error": kind})


Outcome = BaseException | None
"""What the code raised."""


def _job(code: str, printed: Printed) -> Outcome | Coroutine[Any, Any, Outcome]:
    """Run the code; or, where it awaits something, what has to be awaited.

    Raises:
        KeyboardInterrupt: it was interrupted. IPython keeps that to itself otherwise.
    """
    ip = shell()
    work = _plain(code, printed) if ip is None else _in_ipython(ip, code, printed)
    return work if inspect.iscoroutine(work) else _uninterrupted(work)


def _uninterrupted(error: Any) -> Outcome:
    """What the code raised. IPython also catches what was meant to stop it: that goes on."""
    if isinstance(error, KeyboardInterrupt):
        raise KeyboardInterrupt
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
    return error if isinstance(error, BaseException) else None


# --- in IPython -----------------------------------------------------------------------------


def _in_ipython(ip: Any, code: str, printed: Printed) -> Any:
    if not _awaits(ip, code):
        with capturing(printed), _last_result_kept(ip):
            return _error(ip.run_cell(code, store_history=False))
    return _in_ipython_awaited(ip, code, printed)


async def _in_ipython_awaited(ip: Any, code: str, printed: Printed) -> Outcome:
    with capturing(printed), _last_result_kept(ip):
        result = await ip.run_cell_async(
            code, store_history=False, transformed_cell=ip.transform_cell(code)
        )
        # `run_cell` tells these by itself; figures are shown by one of those who listen.
        ip.events.trigger("post_execute")
        ip.events.trigger("post_run_cell", result)
    return _uninterrupted(_error(result))


def _awaits(ip: Any, code: str) -> bool:
    try:
        transformed = ip.transform_cell(code)
    except Exception:
        return False  # `run_cell` says what is wrong with it
    return bool(ip.should_run_async(code, transformed_cell=transformed))


def _error(result: Any) -> Any:
    return result.error_before_exec or result.error_in_exec


@contextmanager
def _last_result_kept(ip: Any) -> Iterator[None]:
    """The cell that waits has a result of its own, to which IPython's hook still writes."""
    before = ip.displayhook.exec_result
    try:
        yield
    finally:
        ip.displayhook.exec_result = before


# --- in plain Python ------------------------------------------------------------------------

_FILE = "<python tool>"


def _plain(code: str, printed: Printed) -> Any:
    namespace = sys.modules["__main__"].__dict__
    try:
        body, last = _compiled(code)
    except (SyntaxError, ValueError) as error:
        printed.write("".join(traceback.format_exception_only(error)))
        return error
    # A traceback shows the lines of what is not in a file if they are known here.
    linecache.cache[_FILE] = (len(code), None, code.splitlines(keepends=True), _FILE)
    if (body.co_flags | last.co_flags) & inspect.CO_COROUTINE:
        return _plain_awaited(body, last, namespace, printed)
    with capturing(printed):
        try:
            eval(body, namespace)
            sys.displayhook(eval(last, namespace))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _told(error, printed)
    return None


async def _plain_awaited(
    body: CodeType, last: CodeType, namespace: dict[str, Any], printed: Printed
) -> Outcome:
    with capturing(printed):
        try:
            for code in (body, last):
                value = eval(code, namespace)
                if code.co_flags & inspect.CO_COROUTINE:
                    value = await value
            sys.displayhook(value)
        except (Exception, SystemExit) as error:
            return _told(error, printed)
    return None


def _compiled(code: str) -> tuple[CodeType, CodeType]:
    """The statements, and the expression at their end; `None` where there is none."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = ast.parse(code, _FILE)
    ends = tree.body[-1] if tree.body else None
    value: ast.expr = ast.Constant(None)
    if isinstance(ends, ast.Expr):
        tree.body.pop()
        value = ends.value
    last = ast.fix_missing_locations(ast.Expression(value))
    return compile(tree, _FILE, "exec", flags), compile(last, _FILE, "eval", flags)


def _told(error: BaseException, printed: Printed) -> BaseException:
    """The traceback, from the code's own first line on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != _FILE:
        trace = trace.tb_next
    printed.write("".join(traceback.format_exception(type(error), error, trace)))
    return error
