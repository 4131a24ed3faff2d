"""The river: a folder imports only from folders above it, a ground module from those above it.

Read from the source, so that an import under TYPE_CHECKING or inside a function counts as
much as one at the top: it says just as well who knows whom.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pi_nb

RIVER = (
    # the ground, module by module
    *(
        "result",
        "abort",
        "ids",
        "js",
        "text",
        "grown",
        "wire",
        "messages",
        "pieces",
        "tokens",
        "exact_tokens",
        "estimators",
        "calibration",
        "html",
    ),
    *("own_thread", "loop_thread", "background"),
    # the folders
    *("models", "loop", "env", "tools", "session", "compaction", "resources", "harness"),
    *("lab", "views", "notebook"),
    # the ways in, which may also use the public names
    *(WAYS_IN := ("demo", "cli_sessions", "cli_open", "cli", "__main__")),
)

Sources = Mapping[str, str]
"""Path below `pi_nb/`, such as `loop/run.py`, to source text."""


def sources_of(package: Path) -> Sources:
    return {
        path.relative_to(package).as_posix(): path.read_text("utf-8")
        for path in sorted(package.rglob("*.py"))
    }


def module_of(path: str) -> str:
    """`loop/run.py` is `loop.run`, `loop/__init__.py` is `loop`, the root's is empty."""
    return path.removesuffix(".py").removesuffix("__init__").strip("/").replace("/", ".")


def imports_of(path: str, source: str, modules: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """Every import of our own: its target below `pi_nb`, its line, and its number of dots."""
    package = path.split("/")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "pi_nb":
                    yield alias.name.removeprefix("pi_nb").strip("."), node.lineno, 0
        elif isinstance(node, ast.ImportFrom):
            named = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, *([named] if named else [])])
            elif named.split(".")[0] == "pi_nb":
                base = named.removeprefix("pi_nb").strip(".")
            else:
                continue
            for alias in node.names:
                if (base, alias.name) == ("", "__version__"):
                    continue  # set before anything is imported
                inner = f"{base}.{alias.name}".strip(".")
                yield inner if inner in modules else base, node.lineno, node.level


def against_the_river(sources: Sources) -> list[str]:
    """One sentence for every import that runs the wrong way."""
    modules = frozenset(map(module_of, sources))
    found: list[str] = []
    for path, source in sources.items():
        here = module_of(path).split(".")[0]
        if not here:
            continue  # pi_nb/__init__.py names everything, lazily
        if here not in RIVER:
            found.append(f"{path}: {here} has no place in the river")
            continue
        nested = path.count("/") > 1
        for target, line, dots in imports_of(path, source, modules):
            there = target.split(".")[0]
            where = f"{path}:{line}"
            if dots and "/" in path and there != here:
                found.append(f"{where}: {there or 'pi_nb'} is another folder; name it in full")
            elif not dots and there == here and not nested:
                found.append(f"{where}: {target} is in this folder; name it with a dot")
            elif not there and here in WAYS_IN:
                continue
            elif there not in RIVER:
                found.append(f"{where}: imports {there or 'pi_nb itself'}, which is not upstream")
            elif RIVER.index(there) > RIVER.index(here):
                found.append(f"{where}: {here} imports {target}, which lies below it")
    return found


def cycles(sources: Sources) -> list[str]:
    """The first circle of imports, as `a -> b -> a`; empty where there is none."""
    modules = frozenset(map(module_of, sources))
    graph: dict[str, set[str]] = {}
    for path, source in sources.items():
        if here := module_of(path):
            targets = {target for target, _, _ in imports_of(path, source, modules)}
            graph[here] = targets - {here, ""}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" -> ".join(reversed(error.args[1]))]
    return []


OURS = sources_of(Path(pi_nb.__file__).parent)


def test_every_import_runs_with_the_river() -> None:
    assert against_the_river(OURS) == []


def test_no_module_imports_itself_in_a_circle() -> None:
    assert cycles(OURS) == []


@pytest.mark.parametrize(
    ("path", "source", "complaint"),
    [
        ("models/http.py", "from pi_nb.loop.types import AgentTool", "models imports loop.types"),
        ("loop/run.py", "import pi_nb.harness.turn", "loop imports harness.turn"),
        ("js.py", "from pi_nb import text", "js imports text"),
        ("js.py", "def f():\n    from pi_nb.wire import Wire", "js imports wire"),
        ("tools/read.py", "if TYPE_CHECKING:\n    from pi_nb.session import Session", "session"),
        ("tools/read.py", "from ..env.types import Shell", "env is another folder"),
        ("loop/run.py", "from pi_nb.loop.types import AgentTool", "name it with a dot"),
        ("loop/run.py", "from pi_nb import agent", "pi_nb itself"),
        ("helpers/misc.py", "", "no place in the river"),
    ],
)
def test_an_import_against_the_river_is_named_with_its_line(
    path: str, source: str, complaint: str
) -> None:
    world = {"loop/types.py": "", "text.py": "", "env/types.py": "", path: source}

    (found,) = against_the_river(world)

    assert found.startswith(path)
    assert complaint in found


def test_a_circle_is_drawn() -> None:
    world = {
        "loop/run.py": "from .calls import run_calls",
        "loop/calls.py": "if TYPE_CHECKING:\n    from . import run",
    }

    (drawn,) = cycles(world)

    assert drawn in ("loop.run -> loop.calls -> loop.run", "loop.calls -> loop.run -> loop.calls")


def test_what_runs_with_the_river_is_left_alone() -> None:
    world = {
        "session/v4/codec.py": "from pi_nb.session.entries import Entry\nfrom ..tree import Tree",
        "session/tree.py": "from .entries import Entry\nfrom pi_nb.messages import user",
        "session/entries.py": "import json\nfrom pi_nb import __version__",
        "cli.py": "import pi_nb\nfrom pi_nb.session.tree import Tree",
    }

    assert against_the_river(world) == []
    assert cycles(world) == []
