"""What people, models and tools say to each other, in the form session files keep it.

Seven roles are stored or projected; a provider knows three. `convert_to_llm` turns the
first into the second. It never repairs anything: that is `models/pairing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, TypeAdapter

from pi_nb.ids import now_ms
from pi_nb.text import count, fence, quoted, unquoted
from pi_nb.wire import Brief, Wire

StopReason = Literal["stop", "length", "toolUse", "error", "aborted", "deferred"]


class TextContent(Wire):
    """Plain text. `text_signature` is a provider's own mark, sent back to it unread."""

    type: Literal["text"] = "text"
    text: str
    text_signature: str | None = None


class ImageContent(Wire):
    """A picture: base64 `data` without a prefix, and its MIME type."""

    type: Literal["image"] = "image"
    data: str
    mime_type: str


class ThinkingContent(Wire):
    """A model's reasoning. Sent back byte for byte to the model that made it, or not at all."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    thinking_signature: str | None = None
    redacted: bool | None = None


class ToolCall(Wire):
    """A model's wish to run a tool.

    Where the arguments were no complete JSON object, `arguments` holds what could be read
    of them for display, and the raw text stands in `raw_arguments`; such a call never runs.
    """

    type: Literal["toolCall"] = "toolCall"
    id: str
    name: str
    arguments: dict[str, Any]
    thought_signature: str | None = None
    namespace: str | None = None
    raw_arguments: str | None = None


class UnknownContent(Wire):
    """A block of a type we do not know; kept, shown by its type, not sent."""

    type: str


def _known(*tags: str) -> Any:
    def tag(value: Any) -> str:
        found = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
        return found if found in tags else "unknown"

    return Discriminator(tag)


UserBlock = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[ImageContent, Tag("image")]
    | Annotated[UnknownContent, Tag("unknown")],
    _known("text", "image"),
]
AssistantBlock = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[ThinkingContent, Tag("thinking")]
    | Annotated[ToolCall, Tag("toolCall")]
    | Annotated[UnknownContent, Tag("unknown")],
    _known("text", "thinking", "toolCall"),
]
Content = str | tuple[UserBlock, ...]


def _as_blocks(value: Any) -> Any:
    """Some writers store a bare string, or null where nothing was said."""
    if value is None:
        return ()
    return ({"type": "text", "text": value},) if isinstance(value, str) else value


_AsBlocks = BeforeValidator(_as_blocks)


class Cost(Wire):
    """US dollars."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0


class Usage(Wire):
    """Tokens of one request, normalised: `input` holds no cached tokens.

    context size = input + cache_read + cache_write + output. `reasoning` is inside `output`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write1h: int | None = Field(default=None, alias="cacheWrite1h")
    reasoning: int | None = None
    total_tokens: int = 0
    cost: Cost = Cost()
    estimated: bool | None = None
    """True: no provider said it; it was missing, or could not be true."""

    @property
    def total(self) -> int:
        """`total_tokens`; the sum of the parts where a writer left it out, as old pi did."""
        parts = self.input + self.output + self.cache_read + self.cache_write
        return self.total_tokens or parts

    def __add__(self, other: Usage) -> Usage:
        """The sum of two requests, for totals; estimated if one of them is. The other optional
        fields are left out."""
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            total_tokens=self.total + other.total,
            cost=Cost(
                input=self.cost.input + other.cost.input,
                output=self.cost.output + other.cost.output,
                cache_read=self.cost.cache_read + other.cost.cache_read,
                cache_write=self.cost.cache_write + other.cost.cache_write,
                total=self.cost.total + other.cost.total,
            ),
            **({"estimated": True} if self.estimated or other.estimated else {}),
        )


class UserMessage(Brief):
    role: Literal["user"] = "user"
    content: Content
    timestamp: int = Field(default_factory=now_ms)

    def about(self) -> str:
        images = sum(isinstance(block, ImageContent) for block in self.content)
        return quoted(text_of(self.content)) + (f", {count(images, 'image')}" if images else "")


class SystemMessage(Brief):
    """Prompt state that pi 1.x writes; never sent as conversation."""

    role: Literal["system"] = "system"
    content: Content = ""
    sections: dict[str, str | None] | None = None
    tools_added: list[Any] | None = None
    tools_removed: list[Any] | None = None
    timestamp: int = Field(default_factory=now_ms)

    def about(self) -> str:
        return quoted(text_of(self.content))


class AssistantMessage(Brief):
    """What a model said, as far as it came; `stop_reason` says how it ended.

    `error` and `aborted` messages stay in the log and are left out of later requests.
    """

    role: Literal["assistant"] = "assistant"
    content: Annotated[tuple[AssistantBlock, ...], _AsBlocks] = ()
    api: str = ""
    provider: str = ""
    model: str = ""
    response_model: str | None = None
    response_id: str | None = None
    thinking_level: str | None = None
    usage: Usage = Usage()
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    diagnostics: list[Any] | None = None
    timestamp: int = Field(default_factory=now_ms)

    @property
    def text(self) -> str:
        """The text blocks joined, thinking and calls left out."""
        return "\n".join(b.text for b in self.content if isinstance(b, TextContent) and b.text)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    def about(self) -> str:
        parts = [quoted(self.text)] if self.text else []
        if self.tool_calls:
            parts.append(count(len(self.tool_calls), "call"))
        if self.stop_reason not in ("stop", "toolUse"):
            parts.append(self.stop_reason)
            if self.error_message and not self.text:
                parts.append(quoted(self.error_message))
        return ", ".join(parts) or "empty"


class ToolResultMessage(Brief):
    """What a tool answered. The model sees `content`; `details` is for people and views."""

    role: Literal["toolResult"] = "toolResult"
    tool_call_id: str
    tool_name: str = ""
    content: Annotated[tuple[UserBlock, ...], _AsBlocks] = ()
    details: Any = None
    usage: Usage | None = None
    nested_calls: list[Any] | None = None
    is_error: bool = False
    timestamp: int = Field(default_factory=now_ms)

    @property
    def text(self) -> str:
        return text_of(self.content)

    def about(self) -> str:
        how = "error" if self.is_error else "ok"
        return f"{unquoted(self.tool_name, 20) or '?'}, {how}, {quoted(self.text)}"


class BashExecutionMessage(Brief):
    """A command that the user ran, not the model."""

    role: Literal["bashExecution"] = "bashExecution"
    command: str
    output: str = ""
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    exclude_from_context: bool | None = None
    timestamp: int = Field(default_factory=now_ms)

    def about(self) -> str:
        code = f", exit code {self.exit_code}" if self.exit_code else ""
        return quoted(self.command) + code


class CustomMessage(Brief):
    """Something an extension or a hook says to the model, in the place of a user."""

    role: Literal["custom"] = "custom"
    custom_type: str
    content: Content = ""
    display: bool = True
    details: Any = None
    timestamp: int = Field(default_factory=now_ms)

    def about(self) -> str:
        return f"{unquoted(self.custom_type, 20)}, {quoted(text_of(self.content))}"


class BranchSummaryMessage(Brief):
    """Stands for a branch that was left. Made when a branch is projected, not stored."""

    role: Literal["branchSummary"] = "branchSummary"
    summary: str
    from_id: str = ""
    timestamp: int = Field(default_factory=now_ms)

    def about(self) -> str:
        return quoted(self.summary)


class CompactionSummaryMessage(Brief):
    """Stands for the entries before a cut. Made when a branch is projected, not stored."""

    role: Literal["compactionSummary"] = "compactionSummary"
    summary: str
    tokens_before: int = 0
    timestamp: int = Field(default_factory=now_ms)

    def about(self) -> str:
        return quoted(self.summary)


class UnknownMessage(Brief):
    """A message of a role we do not know: kept and shown, never sent."""

    role: str
    timestamp: int = 0

    def about(self) -> str:
        return unquoted(self.role)


_ROLES: dict[str, type[Brief]] = {
    "user": UserMessage,
    "assistant": AssistantMessage,
    "toolResult": ToolResultMessage,
    "system": SystemMessage,
    "bashExecution": BashExecutionMessage,
    "custom": CustomMessage,
    "branchSummary": BranchSummaryMessage,
    "compactionSummary": CompactionSummaryMessage,
}


def _role(value: Any) -> str:
    found = value.get("role") if isinstance(value, dict) else getattr(value, "role", None)
    return found if isinstance(found, str) and found in _ROLES else "unknown"


LlmMessage = UserMessage | AssistantMessage | ToolResultMessage
"""What a provider knows."""

AgentMessage = Annotated[
    Annotated[UserMessage, Tag("user")]
    | Annotated[AssistantMessage, Tag("assistant")]
    | Annotated[ToolResultMessage, Tag("toolResult")]
    | Annotated[SystemMessage, Tag("system")]
    | Annotated[BashExecutionMessage, Tag("bashExecution")]
    | Annotated[CustomMessage, Tag("custom")]
    | Annotated[BranchSummaryMessage, Tag("branchSummary")]
    | Annotated[CompactionSummaryMessage, Tag("compactionSummary")]
    | Annotated[UnknownMessage, Tag("unknown")],
    Discriminator(_role),
]
"""Everything a session may hold."""

_ADAPTER: TypeAdapter[Any] = TypeAdapter(AgentMessage)


def read_message(data: Any) -> AgentMessage:
    """A message from its wire form.

    Raises:
        pydantic.ValidationError: the fields do not fit the role.
    """
    if isinstance(data, dict) and data.get("role") == "hookMessage":  # v2's word for it
        data = {**data, "role": "custom"}
    message: AgentMessage = _ADAPTER.validate_python(data)
    return message


def user(
    text: str, images: Sequence[ImageContent] = (), *, timestamp: int | None = None
) -> UserMessage:
    """A user message of one text block and the images after it."""
    blocks: tuple[UserBlock, ...] = (TextContent(text=text), *images)
    return UserMessage(content=blocks, timestamp=now_ms() if timestamp is None else timestamp)


def blocks_of(content: Content) -> tuple[UserBlock, ...]:
    """Content as blocks; a string is one text block, an empty string none."""
    if isinstance(content, str):
        return (TextContent(text=content),) if content else ()
    return content


def text_of(content: Content | tuple[AssistantBlock, ...]) -> str:
    """The text blocks joined by newlines; images, thinking and calls left out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


# The words around a summary make clear that it is history: a model that reads an old
# request as a new one answers it again, or does again what is done (known fault C-48).
COMPACTION_PREFIX = (
    "Earlier parts of this conversation were taken out to save space. What follows is a "
    "record of them. It describes what has already happened and asks for nothing.\n\n<summary>\n"
)
COMPACTION_SUFFIX = "\n</summary>"
BRANCH_PREFIX = (
    "Another branch of this conversation was explored and then left. What follows is a "
    "record of it. It describes what happened there and asks for nothing.\n\n<branch_summary>\n"
)
BRANCH_SUFFIX = "\n</branch_summary>"


def bash_execution_to_text(message: BashExecutionMessage) -> str:
    """A user's own command as the model reads it: command, output, how it ended."""
    lines = [f"The user ran this command: `{message.command}`"]
    lines.append(fence(message.output) if message.output else "It printed nothing.")
    if message.cancelled:
        lines.append("The user stopped it before it ended.")
    elif message.exit_code:
        lines.append(f"It ended with exit code {message.exit_code}.")
    if message.truncated:
        where = f" The whole is in {message.full_output_path}." if message.full_output_path else ""
        lines.append(f"The output was cut.{where}")
    return "\n".join(lines)


def to_llm(message: AgentMessage) -> LlmMessage | None:
    """One message as a provider may see it, or None where it is not for the model."""
    match message:
        case UserMessage() | AssistantMessage() | ToolResultMessage():
            return message
        case BashExecutionMessage():
            if message.exclude_from_context:
                return None
            return user(bash_execution_to_text(message), timestamp=message.timestamp)
        case CustomMessage():
            return UserMessage(content=blocks_of(message.content), timestamp=message.timestamp)
        case BranchSummaryMessage():
            text = f"{BRANCH_PREFIX}{message.summary}{BRANCH_SUFFIX}"
            return user(text, timestamp=message.timestamp)
        case CompactionSummaryMessage():
            text = f"{COMPACTION_PREFIX}{message.summary}{COMPACTION_SUFFIX}"
            return user(text, timestamp=message.timestamp)
        case _:
            return None


def convert_to_llm(messages: Iterable[AgentMessage]) -> list[LlmMessage]:
    """Messages of a branch as a provider may see them, in order; see `to_llm`."""
    return [converted for m in messages if (converted := to_llm(m)) is not None]
