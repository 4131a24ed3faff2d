"""A run of many turns in a small window: what it asks, and what it is told."""

from __future__ import annotations

import random
from typing import Any

from pi_nb.harness.harness import AgentHarness
from pi_nb.loop.schema import tool
from pi_nb.models.scripted import ScriptedModel, call, reply
from pi_nb.models.types import Request
from pi_nb.session.session import Session
from pi_nb.tokens import estimate_all, estimate_text

WINDOW = 8_192
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def said(rng: random.Random, least: int, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(least, most)))


class Worker:
    """A scripted model that looks things up, two calls in three answers, and that writes
    summaries where it is asked for them."""

    def __init__(self, seed: int, longest: int = 1_200) -> None:
        self._rng = random.Random(seed)
        self._longest = longest
        self.turns = 0

    def __call__(self, request: Request) -> Any:
        if request.system_prompt.startswith("You write summaries"):
            done = said(self._rng, 20, 120)
            return f"## Goal\nCount on.\n\n## Progress\n### Done\n- {done}"
        self.turns += 1
        if self.turns % 3:
            return reply(said(self._rng, 1, 40), call("look", words=self._words()))
        return said(self._rng, 5, 200)

    def _words(self) -> int:
        return self._rng.choice([5, 50, 200, self._longest])


@tool
def look(words: int) -> str:
    """Look at something."""
    return said(random.Random(words), words, words)


async def long_run(session: Session, turns: int, seed: int = 1) -> tuple[AgentHarness, Worker]:
    """So many turns or a few more, a prompt whenever the worker has said all it had to say."""
    worker = Worker(seed)
    harness = AgentHarness(
        ScriptedModel(worker, context_window=WINDOW),
        session=session,
        tools=[look],
        system_prompt="You look at things and count them. " * 5,
        approve="allow",
    )
    prompts = random.Random(seed)
    while worker.turns < turns:
        result = await harness.prompt(said(prompts, 3, 60))
        assert result.ok, result.ending
    return harness, worker


def sent_tokens(request: Request) -> int:
    """What a request holds, by the rule by which the scripted model counts."""
    told = "".join([request.system_prompt, *(spec.to_json() for spec in request.tools)])
    return estimate_all(request.messages).tokens + estimate_text(told)
