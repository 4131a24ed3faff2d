"""A model that says again what a stored conversation holds, and nothing to any other.

    model = ReplayModel(session.context().messages)

Each request is held against the conversation up to the answer it is about to get. One that
asks something else ends in an error which names the first difference.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

from pi_nb.abort import AbortSignal
from pi_nb.messages import AgentMessage, AssistantMessage, to_llm
from pi_nb.result import PiError
from pi_nb.text import count

from .pairing import Pairing
from .playback import events_of, paced
from .question import Conversation, Plain, messages_difference
from .retry import classify
from .types import End, Messages, Model, Request, Start, StreamEvent, UsageUpdate

WINDOW = 200_000
"""Tokens of the window that it claims, where nobody says."""


class ReplayModel:
    """A `ChatModel` that plays the assistant messages of a branch, one a request, in order.

    Failed and aborted answers are played as such. Usage is as it was stored.

    Args:
        messages: One branch, oldest first.
        model: What it claims to be; None: who gave the first answer, with a window of
            200,000 tokens. It has to be that model for reasoning to stay in the requests.
        whole: False compares only what came since the last answer, for runs whose older
            history is shortened on the way (a compaction, an edit).
        pace: Seconds between two pieces; None: as fast as it is read.

    Raises:
        PiError: `invalid_argument`: there is no answer among the messages.
    """

    def __init__(
        self,
        messages: Iterable[AgentMessage],
        *,
        model: Model | None = None,
        whole: bool = True,
        pace: float | None = None,
    ) -> None:
        self._branch = tuple(messages)
        self._answers = [
            place
            for place, message in enumerate(self._branch)
            if isinstance(message, AssistantMessage)
        ]
        if not self._answers:
            raise PiError("invalid_argument", "There is no answer among the messages to replay.")
        self._model = model or _model_of(self._branch[self._answers[0]])
        self._whole = whole
        self._pace = pace
        self._played = 0
        self._pairing, self._paired = Pairing(self._model), 0
        self._stored, self._asked = Conversation(), Conversation()

    def __repr__(self) -> str:
        return f"ReplayModel({self._model}, {self.remaining} left)"

    @property
    def model(self) -> Model:
        return self._model

    @property
    def remaining(self) -> int:
        """Answers that were not played yet."""
        return len(self._answers) - self._played

    async def stream(
        self, request: Request, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        """Play the next answer. A refused request, or an aborted signal, takes none."""
        if signal.aborted:
            yield End(reason="aborted")
            return
        refused = self._refusal(request)
        if refused:
            yield End(reason="error", error_message=refused, failure="invalid")
            return
        answer = self._branch[self._answers[self._played]]
        assert isinstance(answer, AssistantMessage)
        self._played += 1
        async for event in paced(self._events(answer), signal):
            yield event

    def _refusal(self, request: Request) -> str:
        if not self.remaining:
            held = count(len(self._answers), "answer")
            return (
                f"The branch has no answer for request {self._played + 1}: it holds {held}. "
                "Start the replay again with a new ReplayModel, or stop here."
            )
        stored = self._stored.follow(self._before(self._answers[self._played]))
        try:
            asked = self._asked.follow(request.messages)
        except (TypeError, ValueError, RecursionError) as error:
            return f"Request {self._played + 1} cannot be compared: {error}"
        if stored.marks[-1:] == asked.marks[-1:]:
            return ""
        if self._whole:
            differs = messages_difference(stored.plain, asked.plain)
        else:
            _, recorded = _news(stored.plain)
            first, new = _news(asked.plain)
            differs = messages_difference(recorded, new, first=first)
        if not differs:
            return ""
        return (
            f"Request {self._played + 1} does not continue the stored conversation: {differs}. "
            "Ask as it was asked then, or use another model from here on."
        )

    def _before(self, place: int) -> Messages:
        """What was sent for the answer at this place."""
        for message in self._branch[self._paired : place]:
            if (converted := to_llm(message)) is not None:
                self._pairing.add(converted)
        self._paired = max(self._paired, place)
        return self._pairing.paired().messages

    def _events(self, answer: AssistantMessage) -> Iterator[tuple[float, StreamEvent]]:
        yield (
            0,
            Start(response_id=answer.response_id, response_model=answer.response_model),
        )
        for index, block in enumerate(answer.content):
            for event in events_of(index, block):
                yield self._pace or 0, event
        yield 0, UsageUpdate(usage=answer.usage)
        failed = answer.stop_reason == "error"
        yield (
            0,
            End(
                reason=answer.stop_reason,
                error_message=answer.error_message,
                failure=classify(text=answer.error_message or "").kind if failed else None,
            ),
        )


def _model_of(answer: AgentMessage) -> Model:
    assert isinstance(answer, AssistantMessage)
    return Model(
        id=answer.model or "replay",
        provider=answer.provider or "replay",
        api=answer.api,
        context_window=WINDOW,
        images=True,
        reasoning=True,
    )


def _news(messages: Sequence[Plain]) -> tuple[int, list[Plain]]:
    """What came after the last answer, its calls' numbers left out, and where it begins."""
    places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    start = places[-1] + 1 if places else 0
    news = [
        {name: value for name, value in message.items() if name != "call"}
        for message in messages[start:]
    ]
    return start + 1, news
