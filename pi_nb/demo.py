"""`pi-nb demo`: an agent mends a real project with the real tools, without a key.

Only the model is scripted, and summaries are written by rules. The files, the failing test,
the edit, the abort, the compaction, the branch and the session file are what they would be
with any model.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from pi_nb.compaction.extractive import extractive
from pi_nb.compaction.prompts import PREFIX_HEADINGS
from pi_nb.compaction.sections import headings
from pi_nb.harness.events import AutoCompaction, SessionCompact, SummaryUpdate
from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.events import Event, ToolStart
from pi_nb.models.scripted import Reply, ScriptedModel, call, reply
from pi_nb.notebook.agent import Agent
from pi_nb.notebook.auto_line import AutoLine
from pi_nb.notebook.making import agent
from pi_nb.text import count, safe_line

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

LISTS = tuple(f"deliveries-{number}.txt" for number in range(1, 5))
"""Long enough, together, for the window below."""
WINDOW = 4_000
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
        model=ScriptedModel(_script(test), id="demo", pace=0.01, context_window=WINDOW),
        cwd=place,
        approve="allow",
        name="pi-nb demo",
    )
    made.compaction.summariser = extractive
    with made:
        _say(f"A small project in {place}. One of its tests fails.")
        _ask(made, "A test fails. Find out why and mend it.", stop_at=SLOW)
        _say("That was aborted after half a second: the sleep is gone, and every call of it has")
        _say("its result in the session, so that the next prompt is valid. It goes on:", gap=False)
        last = _ask(made, "Do not wait. Mend it and run the tests.")
        _say(f"A longer task. The window is small, {WINDOW:,} tokens, and four lists fill it.")
        _ask_briefly(made, "Read the four lists of deliveries and count the late ones.")
        _say("The cut fell inside that turn. What is sent now, with what its beginning became:")
        _show_split(made)
        _say("Now a branch: back to before the second prompt. What is left gets a summary, which")
        _say(
            "stands where the new branch begins. It is written by rules, nobody is asked:",
            gap=False,
        )
        moved = made.goto(_second_prompt(made), summarize=True)
        _show_summary(made, moved.summary_entry_id)
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
        for name, text in {**PROJECT, **_deliveries()}.items():
            (place / name).write_text(text, "utf-8")
    except OSError as error:
        raise DemoError(f"cannot work in {folder or 'a temporary folder'}: {error}") from None
    return place


def _deliveries() -> dict[str, str]:
    lists = {}
    for place, name in enumerate(LISTS, 2):
        days = ("late by a day" if box % (place + 3) == 1 else "in time" for box in range(72))
        lists[name] = "".join(
            f"box {box:02} of paperbacks: {day}\n" for box, day in enumerate(days)
        )
    return lists


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
    said, late = "I read them one by one.", 0
    for name, text in _deliveries().items():
        yield reply(said, call("read", path=name))
        late += text.count("late")
        said = f"{name}: {text.count('late')} late, {late} so far."
    yield reply(f"{said} That was the last list: {late} deliveries were late.")
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


def _ask_briefly(made: Agent, prompt: str) -> None:
    """Ask, and print the calls and what is compacted, not what was read."""
    print(f"\n> {prompt}\n")
    line = AutoLine()

    def watch(event: Event) -> None:
        nonlocal line
        match event:
            case ToolStart():
                print(f"▸ {event.tool_name}: {event.arguments.get('path', '')}", flush=True)
            case AutoCompaction() | SummaryUpdate() | SessionCompact() if line.add(event):
                print(f"  {line}", flush=True)
                line = AutoLine()

    leave = made.harness.subscribe(watch)
    try:
        print(made.prompt_sync(prompt))
    finally:
        leave()


def _show_split(made: Agent) -> None:
    """What is sent after a compaction that parts a turn, and that turn's own summary."""
    print(f"  {made.snapshots()[-1].projection}")
    summary = made.before_after().summary.partition("\n<")[0]  # without the lists of files
    places = (line for line, _, words in headings(summary) if words == PREFIX_HEADINGS[0])
    _quote(summary.splitlines()[next(places, 0) :])


def _show_summary(made: Agent, entry_id: str | None) -> None:
    if entry_id is not None:
        entry = made.session.entry(entry_id)
        _quote(entry.summary.splitlines())  # type: ignore[attr-defined]


def _quote(lines: list[str], limit: int = 12) -> None:
    """The beginning of a summary, without the blank lines."""
    full = [line for line in lines if line.strip()]
    for line in full[:limit]:
        print(f"  | {safe_line(line, 88)}")
    if len(full) > limit:
        print(f"  | ... {count(len(full) - limit, 'more line')}")


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
