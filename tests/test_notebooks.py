"""Every notebook, executed twice in a fresh kernel: equal results, and what was committed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from pi_nb.compaction.estimating import estimator_errors
from pi_nb.session.session import Session

SAMPLES = os.environ.get("PI_NB_SAMPLES", "")
NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def _executed(path: Path, folder: Path) -> list[Any]:
    folder.mkdir()
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        coalesce_streams=True,
    )
    client.execute(env={**os.environ, "TMPDIR": str(folder)})
    return [_outputs(cell) for cell in notebook.cells if cell.cell_type == "code"]


def _outputs(cell: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in output.items() if k != "execution_count"} for output in cell.outputs]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_gives_the_same_twice_and_what_is_committed(path: Path, tmp_path: Path) -> None:
    first = _executed(path, tmp_path / "a")
    second = _executed(path, tmp_path / "b")

    assert first == second
    committed = nbformat.read(path, as_version=4)
    assert first == [_outputs(cell) for cell in committed.cells if cell.cell_type == "code"]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES, reason="PI_NB_SAMPLES names no folder of sample sessions")
def test_the_errors_of_estimators_in_a_notebook_are_those_of_the_samples() -> None:
    path = next(path for path in NOTEBOOKS if path.stem == "02_context_and_compaction")
    prose = "\n".join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown")

    rows = []
    for file in sorted(Path(SAMPLES).glob("*.jsonl")):
        with Session.open(file, read_only=True) as session:
            found = [row for row in estimator_errors(session) if row.intervals]
        rows += [
            f"| {row.session} | `{row.estimator}` | {row.bias:.2f} | {row.median:.2f} "
            f"| {row.error:.1%} | {row.intervals} |"
            for row in found
        ]

    assert rows
    assert "\n".join(rows) in prose
