"""Conversations as they are had, for tests of what is found in one."""

from __future__ import annotations

from itertools import count as counting

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    user,
)
from pi_nb.session.context import ContextItem

_numbers = counting(1)


def asked(text: str) -> AgentMessage:
    return user(text, timestamp=0)


def said(text: str = "", *calls: ToolCall) -> AgentMessage:
    words = (TextContent(text=text),) if text else ()
    stop = "toolUse" if calls else "stop"
    return AssistantMessage.model_validate(
        {"content": (*words, *calls), "stop_reason": stop, "timestamp": 0}
    )


def worked(name: str, output: str, *, failed: bool = False, **arguments: str) -> list[AgentMessage]:
    """A call and its result."""
    call = ToolCall(id=f"call{next(_numbers)}", name=name, arguments=dict(arguments))
    return [said("", call), answered(call, output, failed=failed)]


def answered(call: ToolCall, output: str, *, failed: bool = False) -> AgentMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextContent(text=output),),
        is_error=failed,
        timestamp=0,
    )


def printed(output: str) -> AgentMessage:
    return answered(ToolCall(id="c", name="bash", arguments={}), output)


def items(*messages: AgentMessage) -> list[ContextItem]:
    """Messages as entries `e0`, `e1`, ..."""
    return [ContextItem(f"e{place}", message) for place, message in enumerate(messages)]


DENIED = (
    "fatal: unable to access 'https://example.org/shop.git/': The requested URL returned error: 403"
)


def shop() -> list[AgentMessage]:
    """A bug that is found and fixed, and a push that is refused in the last turn."""
    return [
        asked(
            "The totals in src/cart.py are wrong for discounted items. Find out why and fix it. "
            "Never change the signature of `total`."
        ),
        *worked("read", "1\tdef total(items):\n2\t    return 0", path="src/cart.py"),
        *worked(
            "bash",
            "F.\nE   assert 90 == 81\n1 failed, 1 passed\n\nCommand exited with code 1",
            failed=True,
            command="cd /home/me/shop && pytest -q tests/test_cart.py",
        ),
        said("I decided to apply `Item.discount` per item, because rounding differs."),
        asked("Go on with it."),
        *worked("edit", "Replaced.", path="src/cart.py", oldText="a", newText="b"),
        *worked("bash", "12 passed in 0.29s", command="pytest -q"),
        said("Fixed, all 12 tests pass."),
        asked("Push it to main, please."),
        *worked("bash", DENIED, failed=True, command="git push origin main"),
    ]
