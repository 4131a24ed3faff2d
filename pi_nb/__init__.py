"""pi_nb: an agent harness that lives in a notebook.

Names are loaded when they are first used, so that `import pi_nb` costs next to nothing
and loads no widget library.

    ground      result abort ids js text wire messages tokens html background
    the river   models -> loop -> env -> tools -> session -> resources -> harness -> views
                -> notebook
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Where each public name lives. `tests/test_public_names.py` resolves every one of them.
_NAMES: dict[str, tuple[str, ...]] = {
    "pi_nb.result": ("Err", "Ok", "PiError", "Result"),
    "pi_nb.abort": ("AbortSignal",),
    "pi_nb.messages": (
        "AgentMessage",
        "AssistantMessage",
        "BashExecutionMessage",
        "BranchSummaryMessage",
        "CompactionSummaryMessage",
        "CustomMessage",
        "ImageContent",
        "TextContent",
        "ThinkingContent",
        "ToolCall",
        "ToolResultMessage",
        "Usage",
        "UserMessage",
        "convert_to_llm",
        "user",
    ),
    "pi_nb.tokens": ("Estimate", "Estimator", "estimate_tokens"),
    "pi_nb.estimators": ("estimator", "family_of"),
    "pi_nb.background": ("RunAborted",),
    "pi_nb.models.types": ("ChatModel", "Model", "Request", "RequestOptions"),
    "pi_nb.models.scripted": ("Script", "ScriptedModel", "call", "reply", "thinking"),
    "pi_nb.models.cassette": ("Cassette", "PlayingModel", "RecordingModel"),
    "pi_nb.models.replay": ("ReplayModel",),
    "pi_nb.models.openai_completions": ("OpenAICompletions",),
    "pi_nb.models.registry": ("list_models", "resolve"),
    "pi_nb.models.pairing": ("pair",),
    "pi_nb.loop.types": ("AgentTool", "ToolContext", "ToolResult"),
    "pi_nb.loop.schema": ("tool",),
    "pi_nb.loop.cassette_tools": ("cassette_tools",),
    "pi_nb.loop.calls": ("Blocked",),
    "pi_nb.loop.run": ("run_loop",),
    "pi_nb.env.types": ("ExecError", "ExecResult", "ExecutionEnv", "FileError", "FileInfo"),
    "pi_nb.env.local": ("LocalEnv",),
    "pi_nb.env.memory": ("MemoryEnv",),
    "pi_nb.tools": ("all_tools", "default_tools"),
    "pi_nb.session.session": ("Session",),
    "pi_nb.session.context": ("SessionContext", "build_session_context"),
    "pi_nb.session.repo": ("SessionInfo", "SessionRepo"),
    "pi_nb.session.convert": ("copy_session",),
    "pi_nb.session.fork": ("clone_session", "fork_session"),
    "pi_nb.session.redact": ("Redaction",),
    "pi_nb.compaction.branch": ("Branch",),
    "pi_nb.compaction.before_after": ("before_after",),
    "pi_nb.compaction.budget": ("Budget", "should_compact"),
    "pi_nb.compaction.composition": ("Composition",),
    "pi_nb.compaction.cut": ("find_cut_point",),
    "pi_nb.compaction.extractive": ("extractive",),
    "pi_nb.compaction.mentions": ("not_mentioned",),
    "pi_nb.compaction.estimating": ("estimator_errors",),
    "pi_nb.compaction.plan": (
        "NothingToCompact",
        "Omit",
        "Plan",
        "Replace",
        "Summarise",
        "plan_compaction",
    ),
    "pi_nb.compaction.policy": ("Policy", "policy"),
    "pi_nb.compaction.prompts": ("Prompts",),
    "pi_nb.compaction.proposal": ("Proposal",),
    "pi_nb.compaction.snapshots": ("snapshots",),
    "pi_nb.compaction.summary": ("Material", "Written"),
    "pi_nb.compaction.sweep": ("sweep",),
    "pi_nb.harness.compaction_settings": ("CompactionSettings",),
    "pi_nb.harness.harness": ("AgentHarness",),
    "pi_nb.harness.limits": ("Limits",),
    "pi_nb.models.retry": ("RetryPolicy",),
    "pi_nb.harness.hooks": ("ResultPatch", "StartPatch"),
    "pi_nb.harness.approval": ("ApprovalRequest", "Decision"),
    "pi_nb.harness.steps": ("Action", "Step", "SteppedRun"),
    "pi_nb.harness.turn": (
        "AbortResult",
        "CompactResult",
        "NavigateResult",
        "TurnResult",
        "UndoResult",
    ),
    "pi_nb.views.export": ("export",),
    "pi_nb.notebook.agent": ("Agent",),
    "pi_nb.notebook.kernel_tools": ("python_tool",),
    "pi_nb.notebook.making": ("agent",),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(["__version__", "load_ipython_extension", "unload_ipython_extension", *_WHERE])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext pi_nb`: register the magics. Prints nothing, binds nothing, asks nobody."""
    import_module("pi_nb.notebook.magics").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext pi_nb`: take everything back that loading added."""
    import_module("pi_nb.notebook.magics").unload(shell)
