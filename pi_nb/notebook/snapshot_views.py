"""What an agent shows of its past: snapshots of its branch, and before and after a compaction."""

from __future__ import annotations

from pi_nb.compaction.before_after import BeforeAfter, before_after, before_after_of
from pi_nb.compaction.plan import Plan
from pi_nb.compaction.proposal import Proposal
from pi_nb.compaction.snapshots import Snapshots, snapshots
from pi_nb.harness.harness import AgentHarness
from pi_nb.session.entries import Entry


class SnapshotViews:
    """The part of an `Agent` that looks back. It reads the session, and asks nobody."""

    harness: AgentHarness

    def snapshots(self, at: str | int | None = None) -> Snapshots:
        """What was sent at each moment of the branch, and what stood for the rest.

        Args:
            at: Show the moment after this entry alone: its id, label or number in the outline.

        Raises:
            PiError: `invalid_argument`, no such entry.
        """
        return snapshots(self.harness.session, self.harness.lane, at)

    def before_after(self, where: str | int | Entry | Plan | Proposal | None = None) -> BeforeAfter:
        """What a compaction did to what is sent, entry by entry, or would do.

        Args:
            where: It, or its id, label or number in the outline; None: the newest one. Or a
                proposal, or a plan: of a plan the summary is empty, for nobody wrote it yet.

        Raises:
            PiError: `invalid_argument`, it is no compaction and no edit; `invalid_state`,
                nothing of the branch was compacted or edited.
        """
        if isinstance(where, Proposal):
            return before_after_of(where.plan, where.text)
        if isinstance(where, Plan):
            return before_after_of(where)
        return before_after(self.harness.session, where, self.harness.lane)
