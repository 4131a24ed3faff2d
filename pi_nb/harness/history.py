"""The branch as a provider may see it, kept from turn to turn.

Converting and pairing a whole branch for every request would make a turn cost the length of
the session. What was paired stays paired; only what is new is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from pi_nb.messages import to_llm
from pi_nb.models.pairing import Paired, Pairing
from pi_nb.models.types import Model
from pi_nb.session.context import ContextItem


class History:
    """The paired messages of one lane, for one model at a time."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._pairing = Pairing()
        self._count = 0
        self._last: ContextItem | None = None

    def paired(self, items: Sequence[ContextItem], model: Model) -> Paired:
        """The items converted and paired; anew where the branch or the model is another.

        A context that only grew keeps its items; one that was built again (the leaf moved,
        an edit, a compaction) has others, so the last one known tells.
        """
        known = self._count
        grown = known <= len(items) and (not known or items[known - 1] is self._last)
        if not grown or model != self._model:
            self._pairing, self._model, known = Pairing(model), model, 0
        for item in items[known:]:
            if (message := to_llm(item.message)) is not None:
                self._pairing.add(message)
        self._count, self._last = len(items), items[-1] if items else None
        return self._pairing.paired()
