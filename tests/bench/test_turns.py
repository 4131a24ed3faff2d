"""The benchmark's own code runs; what it measures is nobody's test."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import turns


@pytest.mark.anyio
async def test_fifty_prompts_are_measured_one_by_one(tmp_path: Path) -> None:
    measured = await turns.measure(50, None, tmp_path)

    assert len(measured.ours) == 50
    assert all(cost.wall > 0 for cost in measured.ours)


def test_the_table_has_a_row_a_quarter_and_their_ratio() -> None:
    ours = [turns.Cost(wall, 1) for wall in (1, 1, 2, 2, 3, 3, 4, 6)]
    measured = turns.Measured(ours, [turns.Cost(2, 1)] * 8, provider=0.5)

    rows = turns.table(measured).splitlines()

    assert [row.split()[-6:] for row in rows[1:6]] == [
        ["1.00", "1.00", "1.00", "2.00", "2.00", "1.00"],
        ["2.00", "2.00", "1.00", "2.00", "2.00", "1.00"],
        ["3.00", "3.00", "1.00", "2.00", "2.00", "1.00"],
        ["5.00", "5.00", "1.00", "2.00", "2.00", "1.00"],
        ["5.00", "5.00", "1.00", "1.00", "1.00", "1.00"],
    ]
    assert rows[6].endswith("0.50 ms a request")
