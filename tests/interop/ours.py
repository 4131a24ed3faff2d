"""Our side of the exchange: the operations of `peer.mjs`, and the same look at a file.

A look is written as pi writes it, so that two of them can be compared as they are: entries
with ISO times, context as `buildSessionContext` gives it. One difference is meant: pi puts
the prompt's state into its context as `system` messages, which are no conversation here
(`session.declared` has it, and is compared by itself). `as_ours` takes them out of pi's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from pi_nb.messages import Usage, read_message
from pi_nb.session.context import SessionContext, build_session_context
from pi_nb.session.declared import Declared
from pi_nb.session.entries import CustomMessageEntry, Entry, MessageEntry, UsageEntry
from pi_nb.session.session import Session
from pi_nb.session.v3.bodies import read_body

T = TypeVar("T")

_EDITABLE = ("user", "assistant", "toolResult")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def write(session: Session, ops: Sequence[dict[str, Any]]) -> None:
    """Do these operations one by one."""
    for op in ops:
        await _do(session, **op)


async def _do(session: Session, op: str, which: int = 0, **given: Any) -> None:
    match op:
        case "message":
            await session.append_message(read_message(given["message"]))
        case "custom_message":
            await session.append_custom_message(
                given["customType"], given["content"], display=given["display"]
            )
        case "custom":
            await session.append_custom(given["customType"], given["data"])
        case "model":
            await session.append_model_change(given["provider"], given["modelId"])
        case "thinking":
            await session.append_thinking_level_change(given["level"])
        case "usage":
            await session.append(UsageEntry.model_validate(given))
        case "name":
            await session.set_name(given["name"])
        case "label":
            if ids := [entry.id for entry in session.entries()]:
                await session.set_label(_chosen(ids, which), given["label"])
        case "branch":
            await session.move(_place(session, which))
        case "branch_summary":
            left = session.leaf()
            await session.move(_place(session, which))
            await session.append_branch_summary(given["summary"], left)
        case "compaction":
            await _compact(session, which, **given)
        case "context_edit":
            if ids := [entry.id for entry in session.branch() if _editable(entry)]:
                replacement = given["replacement"]
                content = None if replacement is None else replacement["content"]
                await session.append_context_edit(_chosen(ids, which), content)
        case "record":
            await session.record("usage", usage=given["usage"], cause="adjustment")
        case _:
            raise ValueError(op)


async def _compact(
    session: Session,
    which: int,
    *,
    summary: str,
    tokensBefore: int,
    details: Any = None,
    usage: dict[str, Any] | None = None,
    fromHook: bool | None = None,
) -> None:
    kept = _chosen([None, *session.branch_ids()], which)
    await session.append_compaction(
        summary,
        kept,
        tokensBefore,
        details=details,
        usage=usage and Usage.model_validate(usage),
        from_hook=fromHook,
    )


def _chosen(items: Sequence[T], which: int) -> T:
    return items[which % len(items)]


def _place(session: Session, which: int) -> str | None:
    """An entry's id, or None for the place before every root."""
    return _chosen([None, *(entry.id for entry in session.entries())], which)


def _editable(entry: Entry) -> bool:
    """Whether pi lets anybody edit its content."""
    if isinstance(entry, MessageEntry):
        return entry.message.role in _EDITABLE
    return isinstance(entry, CustomMessageEntry)


def look(path: Path) -> dict[str, Any]:
    """What we see in a file, read-only, in the form of the peer's look."""
    with Session.open(path, read_only=True) as session:
        return {
            "entries": [pi_form(entry) for entry in session.entries()],
            "leaf": session.leaf(),
            "labels": dict(session.labels),
            "name": session.name,
            "context": context_form(session.context()),
            "declared": declared_form(session.declared()),
        }


def oddities(path: Path) -> set[str]:
    """What we find odd about a file, by its code."""
    with Session.open(path, read_only=True) as session:
        return {found.code for found in session.diagnostics}


def contexts(path: Path) -> dict[str, Any]:
    """What we would send from each entry."""
    with Session.open(path, read_only=True) as session:
        return {
            entry.id: context_form(build_session_context(session.branch(entry.id)))
            for entry in session.entries()
        }


def pi_form(entry: Entry) -> dict[str, Any]:
    """An entry as its line in a v3 file says it."""
    wire = {key: value for key, value in entry.to_wire().items() if key != "lane"}
    return wire | {"parentId": entry.parent_id, "timestamp": iso(entry.timestamp)}


def iso(ms: int) -> str:
    """A time as JavaScript's `toISOString` writes it."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return f"{moment.isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"


def context_form(context: SessionContext) -> dict[str, Any]:
    model = context.model
    return {
        "messages": [message.to_wire() for message in context.messages],
        "thinkingLevel": context.thinking_level,
        "model": model and {"provider": model[0], "modelId": model[1]},
    }


def declared_form(declared: Declared) -> dict[str, Any]:
    tools = list(declared.tools.values())
    return {"content": declared.content, "sections": declared.sections, "tools": tools}


def as_ours(context: dict[str, Any]) -> dict[str, Any]:
    """A context of pi's without the state of its prompt."""
    spoken = [message for message in context["messages"] if message["role"] != "system"]
    return {**context, "messages": spoken}


def as_read(look: dict[str, Any]) -> dict[str, Any]:
    """A look of pi's with what we fill in where a line lacks it."""
    context = as_ours(look["context"])
    return {
        **look,
        "entries": [pi_form(read_body(entry)) for entry in look["entries"]],
        "context": {
            **context,
            "messages": [read_message(message).to_wire() for message in context["messages"]],
        },
    }
