"""Tool results of what is kept, shown shorter: the last resort where a pair alone is too much.

The pair of a call and its result stays whole and the log keeps every word (C-03); only what
the model is shown of the longest results is cut, the longest most.
"""

from __future__ import annotations

from pi_nb.messages import ToolResultMessage
from pi_nb.text import clip

from .branch import Branch
from .budget import Budget
from .plan import Plan, Replace

LEAST = 400
"""Characters of a result that are always shown."""


def shortened(branch: Branch, budget: Budget, excess: int) -> Plan | None:
    """A plan that cuts what is shown of the longest results by about `excess` tokens; None
    where no result can be cut. Pinned ones are not."""
    weigh = branch.estimator.weigh
    long = [
        (weigh(item.message), place)
        for place, item in enumerate(branch.items)
        if isinstance(item.message, ToolResultMessage)
        and item.entry_id not in branch.pins
        and len(item.message.text) > LEAST * 2
    ]
    operations: list[Replace] = []
    for weight, place in sorted(long, reverse=True):
        if excess <= 0:
            break
        item = branch.items[place]
        assert isinstance(item.message, ToolResultMessage)
        text = item.message.text
        share = max(1 - (excess + weight * 0.05) / max(weight, 1), 0)
        cut = clip(text, max(int(len(text) * share), LEAST))
        operations.append(Replace(item.entry_id, cut))
        excess -= weight * (len(text) - len(cut)) // len(text)
    if not operations:
        return None
    return Plan(
        branch=branch,
        budget=budget,
        operations=tuple(operations),
        policy="shorten",
        reasons=("what is kept is too much for the window: its longest results are shown cut",),
    )
