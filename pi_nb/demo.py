"""`pi-nb demo`: an agent mends a real project with the real tools, without a key.

Only the model is scripted. The files, the failing test, the edit, the abort, the branch and
the session file are what they would be with any model.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.events import Event, ToolStart
from pi_nb.models.scripted import Reply, ScriptedModel, call, reply
from pi_nb.notebook.agent import Agent
from pi_nb.notebook.making import agent

NOTEBOOK = "00_first_prompt.ipynb"

PROJECT = {
    "shelf.py": '''\
"""What is on a shelf, and what it is worth."""


def total(prices, discount=0):
    """The sum of the prices, less `discount` percent."""
    return sum(prices) - discount


def cheapest(prices):
    return min(prices) if prices else None
''',
    "test_shelf.py": """\
import unittest

from shelf import cheapest, total


class TestShelf(unittest.TestCase):
    def test_total_without_a_discount(self):
        self.assertEqual(total([2, 3, 5]), 10)

    def test_total_takes_the_discount_as_percent(self):
        self.assertEqual(total([20, 30], discount=10), 45)

    def test_an_empty_shelf_has_no_cheapest(self):
        self.assertIsNone(cheapest([]))


if __name__ == "__main__":
    unittest.main()
""",
}

SLOW = "sleep 30"


class DemoError(Exception):
    """The demo cannot run here; the text says what to do."""


def run(folder: Path | None = None) -> int:
    """Run the demo, printing as it goes.

    Args:
        folder: Where to work; must be empty or not there. None makes a temporary one, which
            stays, for its session can be opened afterwards.

    Returns:
        0 if the project's tests pass at the end, else 1.

    Raises:
        DemoError: the folder cannot be used, or there is no Python to run the tests with.
    """
    place = _laid_out(folder)
    python = next(filter(shutil.which, ("python3", "python")), None)
    if python is None:
        raise DemoError("no python3 on the PATH to run the small project's tests with")
    test = f"{python} -m unittest -q"
    session_file = place / "session.jsonl"
    made = agent(
        session_file,
        model=ScriptedModel(_script(test), id="demo", pace=0.01),
        cwd=place,
        approve="allow",
        name="pi-nb demo",
    )
    with made:
        _say(f"A small project in {place}. One of its tests fails.")
        _ask(made, "A test fails. Find out why and mend it.", stop_at=SLOW)
        _say("That was aborted after half a second: the sleep is gone, and every call of it has")
        _say("its result in the session, so that the next prompt is valid. It goes on:", gap=False)
        last = _ask(made, "Do not wait. Mend it and run the tests.")
        _say("Now a branch: back to before that prompt, and another question from there.")
        made.goto(_second_prompt(made))
        _ask(made, "Only tell me what is wrong.")
        _say("Both roads are in the session:")
        print(made.outline())
        _say(f"The session is {session_file}")
        print(f"Go on in a notebook:  agent = pi_nb.agent({str(session_file)!r})")
    return 0 if last else 1


def _laid_out(folder: Path | None) -> Path:
    try:
        if folder is None:
            place = Path(tempfile.mkdtemp(prefix="pi-nb-demo-")).resolve()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            place = folder.resolve()
            if any(place.iterdir()):
                raise DemoError(f"{place} is not empty; name another --folder")
        for name, text in PROJECT.items():
            (place / name).write_text(text, "utf-8")
    except OSError as error:
        raise DemoError(f"cannot work in {folder or 'a temporary folder'}: {error}") from None
    return place


def _script(test: str) -> Iterator[Reply]:
    """What the model says, request by request."""
    yield reply("I run the tests first.", call("bash", command=test))
    yield reply("One fails. Here is the code.", call("read", path="shelf.py"))
    yield reply("I let it rest for a while.", call("bash", command=SLOW))
    yield reply(
        "`total` takes the discount away as an amount, not as percent.",
        call(
            "edit",
            path="shelf.py",
            edits=[
                {
                    "old": "return sum(prices) - discount",
                    "new": "return sum(prices) * (100 - discount) / 100",
                }
            ],
        ),
    )
    yield reply(call("bash", command=test))
    yield reply("All three tests pass: the discount is percent now.")
    yield reply(
        "`total` subtracts `discount` itself. The test wants it as percent: "
        "`sum(prices) * (100 - discount) / 100`."
    )


def _ask(made: Agent, prompt: str, *, stop_at: str | None = None) -> bool:
    """Ask and print. Whether the last command of the run ended well."""
    print(f"\n> {prompt}")
    codes: list[bool] = []

    def watch(event: Event) -> None:
        if event.type == "tool_execution_end":
            codes.append(not event.is_error)  # type: ignore[attr-defined]
        if stop_at and isinstance(event, ToolStart) and stop_at in str(event.arguments):
            asyncio.get_running_loop().call_later(0.5, _abort, made.harness)

    leave = made.harness.subscribe(watch)
    try:
        made.prompt_sync(prompt, show=True)
    finally:
        leave()
    return bool(codes) and codes[-1]


_aborting: set[asyncio.Task[object]] = set()


def _abort(harness: AgentHarness) -> None:
    task: asyncio.Task[object] = asyncio.ensure_future(harness.abort())
    _aborting.add(task)
    task.add_done_callback(_aborting.discard)


def _second_prompt(made: Agent) -> str:
    """The id of the second user message of the session."""
    prompts = [
        entry.id
        for entry in made.session.entries()
        if entry.type == "message" and entry.message.role == "user"  # type: ignore[attr-defined]
    ]
    return prompts[1]


def _say(text: str, *, gap: bool = True) -> None:
    print(f"\n-- {text}" if gap else f"-- {text}", flush=True)


# --- the notebook -----------------------------------------------------------------------------


def notebook_source() -> Path:
    """The first notebook, as installed or in the project's folder.

    Raises:
        DemoError: it is in neither place.
    """
    package = Path(__file__).parent
    for folder in (package / "_notebooks", package.parent / "notebooks"):
        if (folder / NOTEBOOK).is_file():
            return folder / NOTEBOOK
    raise DemoError(f"{NOTEBOOK} is not part of this installation")


def run_notebook(target: Path) -> int:
    """Execute the first notebook in a temporary folder and write it, outputs and all.

    Raises:
        DemoError: the extra `notebook` is missing, a cell failed, the target is no place.
    """
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError
    except ImportError:
        raise DemoError('this needs the extra: pip install "pi-nb[notebook]"') from None
    target = target.expanduser().resolve()
    if target.is_dir():
        target = target / NOTEBOOK
    if not target.parent.is_dir():
        raise DemoError(f"there is no folder {target.parent} to write the notebook to")
    notebook = nbformat.read(notebook_source(), as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(prefix="pi-nb-demo-") as folder:
        # What the notebook makes goes with the folder.
        inside = {**os.environ, "TMPDIR": folder, "PI_NB_SESSION_DIR": f"{folder}/sessions"}
        client = NotebookClient(
            notebook,
            timeout=120,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            store_widget_state=False,
            record_timing=False,
            coalesce_streams=True,
            # ipykernel warns on the terminal about sockets that only this process knows of.
            extra_arguments=["--log-level=ERROR"],
        )
        described = deepcopy(notebook.metadata)
        try:
            client.execute(env=inside)
        except CellExecutionError as error:
            raise DemoError(f"a cell failed:\n{error}") from None
    # The kernel adds its version; the notebook is the same whatever ran it.
    notebook.metadata = described
    try:
        nbformat.write(notebook, target)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise DemoError(f"cannot write {target}: {error.strerror}") from None
    print(f"Executed and written: {target}")
    return 0
