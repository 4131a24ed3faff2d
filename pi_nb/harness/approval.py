"""Ask before a tool changes something. Never a hang: where nobody can answer, policy does.

allow      every call runs
deny       no call that changes something runs
ask        somebody is asked; nobody there = denied
function   decides by itself: True, False, or a reason for the refusal
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from pi_nb.abort import Aborted
from pi_nb.loop.types import AgentTool
from pi_nb.messages import ToolCall
from pi_nb.result import PiError

ApprovalMode = Literal["ask", "allow", "deny"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One call that waits for a decision."""

    call: ToolCall
    tool: AgentTool
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, by whom (`policy`, `user`, `function`), and the words for the model."""

    allowed: bool
    by: str
    reason: str = ""
    for_session: bool = False
    """Do not ask again for this tool in this session."""


Approve = ApprovalMode | Callable[[ApprovalRequest], Any]
Asker = Callable[[ApprovalRequest], Awaitable[Decision]]


class Approval:
    """The policy of one harness, and whom it asks."""

    def __init__(self, approve: Approve = "ask", asker: Asker | None = None) -> None:
        """
        Raises:
            PiError: `invalid_argument`, `approve` is neither a mode nor a function.
        """
        if not callable(approve) and approve not in ("ask", "allow", "deny"):
            raise PiError(
                "invalid_argument",
                f'approve must be "ask", "allow", "deny" or a function, not {approve!r}',
            )
        self.approve = approve
        self.asker = asker
        self._granted: set[str] = set()

    async def decide(self, request: ApprovalRequest) -> Decision:
        """Whether the call may run. A function or an asker that raises denies, with its text."""
        if callable(self.approve):
            return await self._by_function(self.approve, request)
        if self.approve == "allow" or request.tool.name in self._granted:
            return Decision(True, "policy")
        if self.approve == "deny":
            return Decision(False, "policy", f"{request.tool.name} is not allowed here.")
        if self.asker is None:
            return Decision(
                False,
                "policy",
                f"{request.tool.name} needs an approval, and nobody can be asked here.",
            )
        try:
            decision = await self.asker(request)
        except Aborted:
            raise  # the run was stopped instead of an answer
        except Exception as error:
            return Decision(False, "policy", f"Nobody could be asked: {error}")
        if decision.allowed and decision.for_session:
            self._granted.add(request.tool.name)
        return decision

    @staticmethod
    async def _by_function(
        function: Callable[[ApprovalRequest], Any], request: ApprovalRequest
    ) -> Decision:
        try:
            answer = function(request)
            answer = await answer if inspect.isawaitable(answer) else answer
        except Aborted:
            raise
        except Exception as error:
            return Decision(False, "function", f"The approval failed: {error}")
        if isinstance(answer, Decision):
            return answer
        if isinstance(answer, str):
            return Decision(False, "function", answer)
        return Decision(bool(answer), "function", "" if answer else "This call was not approved.")
