"""What is said in the sessions that pi and we write: messages in the form of a file."""

from __future__ import annotations

from typing import Any

from strategies import messages

from pi_nb.messages import AgentMessage


def _by_somebody(message: AgentMessage) -> dict[str, Any]:
    wire = message.to_wire()
    return {**wire, "provider": wire["provider"] or "p"} if "provider" in wire else wire


said_by_somebody = messages.map(_by_somebody)
"""Messages whose maker is named. One without a provider, as a run leaves it that was stopped
before any answer, names nobody to us; pi takes it for the model in force."""
