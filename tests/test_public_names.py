"""What a user meets first: the names of `pi_nb`, what importing it costs, and what it says."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

import pi_nb

PACKAGE = Path(pi_nb.__file__).parent
SOURCES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}
LONGEST = 450
IMPORT_SECONDS = 0.2
HEAVY = (
    "IPython",
    "anywidget",
    "httpx",
    "ipywidgets",
    "jsonschema_rs",
    "msgspec",
    "pydantic",
    "yaml",
)

# Written out, because a child process sees nothing that this one has imported.
COST = """
import sys, time
started = time.process_time()
import pi_nb
seconds = time.process_time() - started
import json
print(json.dumps([seconds, sorted(sys.modules)]))
"""


def fresh_import() -> tuple[float, set[str]]:
    """Processor seconds that `import pi_nb` takes in a new interpreter, and its modules then.

    Not seconds on the wall: what another process took from this one is not the import's doing.
    """
    ran = subprocess.run([sys.executable, "-c", COST], capture_output=True, text=True, check=True)
    seconds, modules = json.loads(ran.stdout)
    return seconds, set(modules)


def descendants(root: str, sources: Iterable[str]) -> set[str]:
    """Names of the classes that derive from `root`, however far down, and `root` itself."""
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    }
    found = {root}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def undocumented(path: str, source: str, exempt: Collection[str] = ()) -> Iterator[str]:
    """Public modules, functions and classes without a docstring, `exempt` classes apart."""
    tree = ast.parse(source)
    said = ast.get_docstring(tree) or ""
    if not said:
        yield path
    elif path.endswith("/__init__.py") and path.count("/") == 1 and "\n" not in said:
        yield f"{path}: one line for a whole folder"
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name.startswith("_") or node.name in exempt or is_overload(node):
            continue
        if not ast.get_docstring(node):
            yield f"{path}: {node.name}"


def is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(ast.unparse(mark) in ("overload", "typing.overload") for mark in node.decorator_list)


@pytest.mark.parametrize("name", pi_nb.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(pi_nb, name) is not None


def test_the_names_are_offered_for_completion() -> None:
    assert set(pi_nb.__all__) <= set(dir(pi_nb))
    assert len(set(pi_nb.__all__)) == len(pi_nb.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'agnet'"):
        _ = pi_nb.agnet


def test_importing_loads_no_widget_library_and_nothing_heavy() -> None:
    _, modules = fresh_import()

    assert [name for name in HEAVY if name in modules] == []


def test_importing_adds_next_to_nothing_to_the_interpreter() -> None:
    best = min(fresh_import()[0] for _ in range(3))

    assert best < IMPORT_SECONDS


def test_everything_public_says_what_it_is_for() -> None:
    # What crosses a border may go without: its fields are what it says.
    exempt = descendants("BaseModel", SOURCES.values()) | descendants("Struct", SOURCES.values())

    found = [
        lack for path, source in SOURCES.items() for lack in undocumented(path, source, exempt)
    ]

    assert found == []


def test_what_says_nothing_is_found() -> None:
    source = "def loud(): ...\ndef _quiet(): ...\nclass Bare: ...\nclass Told(Event): ...\n"
    exempt = descendants("Wire", [source, "class Event(Wire): ..."])

    assert list(undocumented("loop/run.py", source, exempt)) == [
        *("loop/run.py", "loop/run.py: loud", "loop/run.py: Bare")
    ]
    assert list(undocumented("loop/__init__.py", '"""Short."""')) == [
        "loop/__init__.py: one line for a whole folder"
    ]


def test_no_module_is_too_long_to_read() -> None:
    lengths = {path: source.count("\n") for path, source in SOURCES.items()}

    assert {path: lines for path, lines in lengths.items() if lines > LONGEST} == {}
