"""What an agent can do to the world: read, write, edit, bash; and look for: ls, find, grep.

Each is a factory that takes an `ExecutionEnv`; none touches the disk or a process by
itself. A refusal is a result that the model can act on, with the next step in words.
"""

from __future__ import annotations

from pi_nb.env.types import ExecutionEnv
from pi_nb.loop.types import AgentTool

from .bash import bash_tool
from .edit import edit_tool
from .find import find_tool
from .grep import grep_tool
from .ls import ls_tool
from .read import read_tool
from .write import write_tool

__all__ = [
    "all_tools",
    "bash_tool",
    "default_tools",
    "edit_tool",
    "find_tool",
    "grep_tool",
    "ls_tool",
    "read_tool",
    "write_tool",
]


def default_tools(env: ExecutionEnv) -> list[AgentTool]:
    """read, bash, edit and write on one environment."""
    return [read_tool(env), bash_tool(env), edit_tool(env), write_tool(env)]


def all_tools(env: ExecutionEnv) -> list[AgentTool]:
    """The default ones, then ls, find and grep.

    Those three are for environments without a shell, and for models that should look around
    without being able to run anything; beside bash they cost each request more than they give.
    """
    return [*default_tools(env), ls_tool(env), find_tool(env), grep_tool(env)]
