"""Messages as flat text for a summariser: who said what, and which tools were called.

Thinking is left out, because a live request seldom carries it and a summary of it would be
longer than what it shrinks; tool results are cut, because what matters of them was said in
the answers (rule 14). Nothing here knows what the text is for.
"""

from __future__ import annotations

from collections.abc import Iterable

from pi_nb.js import dumps
from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    ToolCall,
    ToolResultMessage,
    convert_to_llm,
    text_of,
)
from pi_nb.text import clip

LONGEST_RESULT = 2_000
"""Characters of a tool result that are shown."""


def as_text(messages: Iterable[AgentMessage], *, result_limit: int = LONGEST_RESULT) -> str:
    """The messages as text, a blank line between two parts, what is empty left out."""
    return "\n\n".join(part for message in messages for part in parts_of(message, result_limit))


def parts_of(message: AgentMessage, result_limit: int = LONGEST_RESULT) -> list[str]:
    """One message as the parts that `as_text` puts together; none where it says nothing."""
    parts = []
    for known in convert_to_llm([message]):
        if isinstance(known, AssistantMessage):
            parts.append(("[Assistant]: ", known.text))
            parts.append(("[Assistant tool calls]: ", "; ".join(map(_call, known.tool_calls))))
        elif isinstance(known, ToolResultMessage):
            parts.append(("[Tool result]: ", clip(known.text, result_limit)))
        else:
            parts.append(("[User]: ", text_of(known.content)))
    return [label + text for label, text in parts if text]


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={dumps(value)}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"
