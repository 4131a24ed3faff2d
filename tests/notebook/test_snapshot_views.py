"""An agent shows its past: on its own lane, without asking anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

import pi_nb
from pi_nb import PiError, ScriptedModel
from pi_nb.session.entries import CompactionEntry


def test_an_agent_shows_its_snapshots_and_its_newest_compaction(tmp_path: Path) -> None:
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel(["one", "two"])) as agent:
        agent.prompt_sync("first")
        agent.prompt_sync("second")
        kept = next(row for row in agent.snapshots()[-1].rows if row.text == "user: second")
        compaction = agent.session.append_sync(
            CompactionEntry(summary="## Goal\nfirst", first_kept_entry_id=kept.entry_id)
        )

        shots = agent.snapshots()
        (first,) = agent.snapshots(at=agent.session.branch_ids()[0])
        changed = agent.before_after(compaction.id)

    assert [shot.projection for shot in shots] == [
        "system + m1 … m4",
        "system + summary1 + m3 + m4",
    ]
    assert first.moment.at == 1
    assert [row.became for row in changed.rows] == [
        "summarised",
        "summarised",
        "new",
        "kept",
        "kept",
    ]


def test_a_plan_and_a_proposal_are_shown_as_they_would_be_and_what_is_lost_by_its_row(
    tmp_path: Path,
) -> None:
    asked = "Look at it. Never rename parse_duration: other programs call it."
    with pi_nb.agent(cwd=tmp_path, model=ScriptedModel(["one", "two"])) as agent:
        agent.prompt_sync(asked)
        agent.prompt_sync("second")
        entries = len(agent.session)
        plan = agent.plan(cut=3)
        assert plan
        proposal = agent.propose(plan, summariser=lambda _material: "## Goal\nLook at it.")

        planned = agent.before_after(plan)
        proposed = agent.before_after(proposal)
        lost = str(proposed.not_mentioned)

    assert [row.became for row in planned.rows][:2] == ["summarised", "summarised"]
    assert (planned.summary, proposed.summary) == ("", proposal.text)
    assert "Never rename parse_duration: other programs call it.  (in row 1)" in lost
    assert "(in row 1)" in str(proposed.not_mentioned._repr_html_())
    assert len(agent.session) == entries, "nothing of the branch changed"


def test_an_agent_without_a_compaction_says_so(tmp_path: Path) -> None:
    with (
        pi_nb.agent(cwd=tmp_path, model=ScriptedModel([])) as agent,
        pytest.raises(PiError, match="Nothing of this branch was compacted"),
    ):
        agent.before_after()


def test_both_are_public_functions_of_a_session() -> None:
    session = pi_nb.Session.create(cwd="/w")

    assert pi_nb.snapshots(session)[0].title == "now: nothing was said yet"
    with pytest.raises(PiError):
        pi_nb.before_after(session)
