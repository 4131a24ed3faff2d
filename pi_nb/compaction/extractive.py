"""A summary without a model: the fixed sections, filled with the conversation's own words.

The default where nobody can be asked (demos, tests, no key), and what the lab measures the
models against. By rules, without a clock and without chance: the same history always gives the
same summary. It understands nothing. What it takes is taken word for word, so the language
of the user stays; labels such as `ok` and `failed` are English, like the headings.

    user       -> Goal, Constraints & Preferences, In Progress
    calls      -> Done, Blocked
    assistant  -> Key Decisions, Next Steps
    all        -> Critical Context: paths, names, numbers, errors
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from pi_nb.messages import (
    AgentMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    UserMessage,
    text_of,
)
from pi_nb.session.context import ContextItem
from pi_nb.text import count

from .choosing import Focus, Line, as_line, chosen, is_note, merged, needed, shares
from .deeds import Deed, Request, Story, story_of
from .earlier import earlier
from .finds import Kind
from .mentions import Mention, not_mentioned
from .prompts import PREFIX_HEADINGS
from .sections import rendered
from .sentences import constraints, decisions, intentions, is_question, sentences, speaks
from .summary import Material, Written
from .voices import spoken

LIMITS: Mapping[str, int] = {
    "Goal": 1_000,
    "Constraints & Preferences": 1_600,
    "Done": 2_200,
    "In Progress": 600,
    "Blocked": 900,
    "Key Decisions": 1_100,
    "Next Steps": 600,
    "Critical Context": 1_800,
}
"""Characters of each section at most, its heading not counted."""
HEADINGS = 200
"""What headings and blank lines take."""
BOUND = sum(LIMITS.values()) + HEADINGS
"""Characters of a summary at most, however many compactions it has lived through."""
LEAST = 1_600
SHARE = 3
"""A short history gets a shorter summary: one in so many of its characters and of the earlier
summary's, at least `LEAST`. So a summary makes room also in a small window."""
GOALS = 6
"""Requests that stand under Goal: the first, and the newest of the others."""
_REQUEST, _ANSWER = 200, 160
_ROOTS = 40
"""Finds of each kind that are looked at for Critical Context."""


def extractive(material: Material) -> Written:
    """Summarise without a model: deterministic, offline, in time in proportion to the text.

    The fixed sections are filled from user messages, calls and their outcome, and answers.
    An earlier summary is carried on by section: what is said anew stands once, requests
    that were answered since move to Done, errors that were solved since go. Where not all
    fits (`LIMITS`, together `BOUND`), what is older and says less goes first, and the
    section says how many lines went. A line with a word of the instructions comes before
    others.

    Of a `turn_prefix` it is a shorter form, with the headings of one; of a `branch` the goal
    is what the branch was for. Never empty.
    """
    story = story_of(material.messages)
    focus = Focus(material.instructions)
    carried = earlier(material.previous)
    if material.kind == "turn_prefix":
        return Written(_prefix(material, story, carried, focus), "extractive")
    lines = {
        "Goal": _goal(material, story, carried),
        "Constraints & Preferences": _constraints(material, carried),
        "Done": _done(story, carried),
        "In Progress": _in_progress(story, carried),
        "Blocked": _blocked(story, carried),
        "Key Decisions": _decisions(story, carried),
        "Next Steps": _next_steps(story, carried),
        "Critical Context": _critical(material, story, carried),
    }
    return Written(rendered(_fitted(lines, LIMITS, _total(material), focus)), "extractive")


def _total(material: Material) -> int:
    """Characters that the sections of this summary may take together."""
    size = sum(len(text) for m in material.messages for _, text, _ in spoken(m))
    wanted = (size + len(material.previous or "")) // SHARE
    return min(max(wanted, LEAST), BOUND - HEADINGS)


def _fitted(
    lines: Mapping[str, list[Line]], limits: Mapping[str, int], total: int, focus: Focus
) -> dict[str, list[str]]:
    given = shares({name: needed(found) for name, found in lines.items()}, limits, total)
    return {name: chosen(found, given[name], focus) for name, found in lines.items()}


# --- what was asked -------------------------------------------------------------------------


def request_line(text: str, limit: int = _REQUEST) -> str:
    """The beginning of a request: its first sentences, as many as fit, whole where they can."""
    line = ""
    for sentence in sentences(text):
        longer = f"{line} {sentence}".strip()
        if line and len(longer) > limit:
            break
        line = longer
        if len(line) >= limit // 2:
            break
    return as_line(line or text, limit)


def _is_short(line: str) -> bool:
    """`ok`, `yes please`, `continue`: an answer, and no goal of its own."""
    return len(line.split()) < 3 and len(line) < (16 if line.isascii() else 5)


def _goal(material: Material, story: Story, carried: Mapping[str, list[str]]) -> list[Line]:
    asked = [request_line(request.text) for request in story.requests]
    telling = [line for line in asked if not _is_short(line)] or asked[:1]
    old = carried.get("Goal", [])
    if len(telling) > GOALS:  # the others stand in Done, with what became of them
        telling = [*telling[:1], *telling[1 - GOALS :]]
    lines = [Line(line, 1.0 + place / len(telling)) for place, line in enumerate(telling)]
    if not old and lines:
        first = lines[0].text
        prefix = "this branch: " if material.kind == "branch" else ""
        lines[0] = Line(as_line(prefix + first), 9.0)
    # What it all began with stays whatever comes later.
    begun = [Line(as_line(old[0]), 9.0)] if old else []
    return [*begun, *merged(lines, old[1:][-GOALS:], 0.9)]


def _constraints(material: Material, carried: Mapping[str, list[str]]) -> list[Line]:
    texts = [text_of(m.content) for m in material.messages if isinstance(m, UserMessage)]
    found = [
        Line(as_line(sentence, 400), 2.0 + place / len(texts))
        for place, text in enumerate(texts)
        for sentence in constraints(text)
    ]
    if not found:
        # No rule fits the language: whole first sentences are all that can be said for sure.
        found = [
            Line(as_line(first), 1.0 + place / len(texts))
            for place, text in enumerate(texts)
            if text.strip() and speaks(text) is None
            for first in list(sentences(text[:4_000]))[:1]
            if not _is_short(first) and not is_question(first)
        ]
    return merged(found, carried.get("Constraints & Preferences", []), 2.8)


# --- what was done --------------------------------------------------------------------------


def _done(story: Story, carried: Mapping[str, list[str]]) -> list[Line]:
    old = list(carried.get("Done", []))
    if story.ended:  # what was begun before was gone on with, and brought to an end
        answer = request_line(story.ended, _ANSWER)
        old += [
            as_line(f"{line} → {answer}", 2 * _REQUEST)
            for line in carried.get("In Progress", [])
            if not line.startswith(_SO_FAR) and not is_note(line)
        ]
    last = max([1, *(deed.place for deed in story.deeds), *(r.place for r in story.requests)])
    placed = [(place, Line(line, 2.0 + place / last)) for place, line in _answered(story)]
    placed += [
        (deed.place, Line(as_line(str(deed), 240), 1.5 + deed.place / last))
        for deed in story.deeds
        if deed.outcome == "ok" and not deed.looks
    ]
    lines = [line for _, line in sorted(placed, key=lambda pair: pair[0])]
    if story.looks:
        lines.append(Line(f"looked at files and folders {count(story.looks, 'time')}", 1.0))
    # Such a line of before is of no use to anybody.
    old = [line for line in old if not line.startswith("looked at files and folders ")]
    return merged(lines, old, 1.4)


def _answered(story: Story) -> Iterable[tuple[int, str]]:
    """Each answer after what was asked; requests that one answer ended stand on one line."""
    answered = [request for request in story.requests if request.answer is not None]
    for _, group in groupby(answered, key=lambda request: id(request.answer)):
        requests: list[Request] = list(group)
        asked = [request_line(r.text, _ANSWER) for r in requests]
        telling = [line for line in asked if not _is_short(line)] or asked
        said = request_line(requests[-1].answer or "", _ANSWER)
        asking = as_line(" / ".join(telling[-3:]), _REQUEST)
        yield requests[-1].place, as_line(f"{asking} → {said}", 2 * _REQUEST)


def _in_progress(story: Story, carried: Mapping[str, list[str]]) -> list[Line]:
    old = [] if story.ended or story.requests else carried.get("In Progress", [])
    lines = [Line(request_line(request.text, 300), 2.0) for request in story.open[-3:]]
    if (story.open or not story.requests) and not story.ended:
        lines += _so_far(story)
    elif story.open:
        lines += _so_far(story, story.open[0].place)
    return merged(lines, old, 1.5)


_SO_FAR = ("so far: ", "last call: ", "stopped: ")


def _so_far(story: Story, since: int = -1) -> list[Line]:
    """How far an open request came: the last words, the last call, how it stopped."""
    lines = []
    if story.answers and story.answers[-1][0] > since:
        lines.append(Line(_SO_FAR[0] + request_line(story.answers[-1][1]), 1.5))
    if story.deeds and story.deeds[-1].place > since:
        lines.append(Line(as_line(f"{_SO_FAR[1]}{story.deeds[-1]}"), 1.2))
    if story.stopped:
        lines.append(Line(as_line(f"{_SO_FAR[2]}{story.stopped}"), 1.8))
    return lines


def _blocked(story: Story, carried: Mapping[str, list[str]]) -> list[Line]:
    standing = story.standing()
    lines = [
        Line(as_line(_failure(deed)), 2.0 + place / len(standing))
        for place, deed in enumerate(standing)
    ]
    if story.stopped and not story.deeds:
        lines.append(Line(as_line(story.stopped), 3.0))
    gone = {deed.title for deed in story.deeds if deed.work in story.solved}
    works = tuple(f" {work}" for work in story.solved)
    old = [
        line
        for line in carried.get("Blocked", [])
        if not any(line.startswith(title) for title in gone)
        and not any(work in line.partition(": ")[0] for work in works)
    ]
    return merged(lines, old, 1.5)


def _failure(deed: Deed) -> str:
    """The call, and what it failed with as it was printed: one line, for solved it goes whole."""
    times = f" ({count(deed.times, 'time')})" if deed.times > 1 else ""
    errors = " | ".join(deed.errors[:3]) or deed.said or "failed"
    return f"{deed.title}: failed{times}: {errors}"


# --- what was said --------------------------------------------------------------------------


def _decisions(story: Story, carried: Mapping[str, list[str]]) -> list[Line]:
    last = max([1, *(place for place, _ in story.answers)])
    lines = [
        Line(as_line(sentence), 1.0 + place / last)
        for place, text in story.answers
        for sentence in decisions(text)
    ]
    return merged(lines, carried.get("Key Decisions", []), 1.4)


def _next_steps(story: Story, carried: Mapping[str, list[str]]) -> list[Line]:
    """What was said last counts; what was to be done before it is done or was given up."""
    lines = [Line(request_line(request.text, 100), 3.0) for request in story.open[-1:]]
    if story.answers:
        _, text = story.answers[-1]
        meant = [sentence for sentence in intentions(text) if not _is_short(sentence)]
        if not meant and (not story.ended or speaks(text) is None):
            meant = list(sentences(text))[-1:]
        lines += [Line(as_line(sentence), 2.0) for sentence in meant[-4:]]
    return lines or [Line(as_line(line)) for line in carried.get("Next Steps", [])]


# --- what must not be lost ------------------------------------------------------------------

# A member of whatever it is in, a path from wherever it is; and what cannot stand in a list.
_NO_ROOT = re.compile(r"(?:this|self)\.|\.\./|.*,")
_LISTS: Mapping[Kind, str] = {"path": "paths: ", "identifier": "names: ", "url": "addresses: "}


def _critical(material: Material, story: Story, carried: Mapping[str, list[str]]) -> list[Line]:
    old = carried.get("Critical Context", [])
    items = [ContextItem(str(place), m) for place, m in enumerate(material.messages)]
    found = not_mentioned(items, "", kinds=("error", "path", "identifier", "number", "url"))
    lines: list[Line] = []
    for kind, label in _LISTS.items():
        before = [n for line in old if line.startswith(label) for n in _listed(line, label)]
        names = [m.text for m in found.of(kind)[:_ROOTS] if not _NO_ROOT.match(m.text)]
        if listed := _fitting(label, dict.fromkeys([*names, *before])):
            lines.append(Line(listed, 4.0))
    words = _with_words(material.messages, found.of("number")[:_ROOTS])
    lines += [Line(as_line(text, 120), 2.0 - place / 100) for place, text in enumerate(words)]
    standing = {text for deed in story.standing() for text in deed.errors[:3]}
    errors = [m.text for m in found.of("error") if m.text not in standing][:8]
    lines += [Line(as_line(text), 1.9 - place / 10) for place, text in enumerate(errors)]
    for message in material.messages:
        lines += [Line(line, 1.5) for line in _records(message)]
    kept = [line for line in old if not line.startswith(tuple(_LISTS.values()))]
    return merged(lines, kept, 1.5)


def _listed(line: str, label: str) -> list[str]:
    return [name for name in line.removeprefix(label).split(", ") if name and "…" not in name]


def _fitting(label: str, names: Iterable[str], limit: int = 420) -> str:
    """As many names as fit on a line, the weightiest first."""
    taken: list[str] = []
    used = len(label)
    for name in names:
        flat = as_line(name, 120)
        if used + len(flat) + 2 > limit:
            break
        taken.append(flat)
        used += len(flat) + 2
    return label + ", ".join(taken) if taken else ""


def _with_words(messages: Sequence[AgentMessage], numbers: Sequence[Mention]) -> list[str]:
    """The sentences of user and assistant that hold these numbers: a number alone says little."""
    wanted = {mention.text for mention in numbers}
    found: dict[str, None] = {}
    for message in reversed(messages):
        for voice, text, _ in spoken(message):
            if voice in ("user", "assistant") and any(number in text for number in wanted):
                for sentence in sentences(text):
                    if len(sentence) <= 120 and (hits := {n for n in wanted if n in sentence}):
                        wanted -= hits
                        found[sentence] = None
    return list(found)


def _records(message: AgentMessage) -> list[str]:
    """What stands for other history in this one, and what an extension said."""
    if isinstance(message, BranchSummaryMessage | CompactionSummaryMessage):
        parts = earlier(message.summary)
        names = ("Goal", "Key Decisions", "Blocked", "Critical Context")
        return [as_line(f"before: {line}") for name in names for line in parts.get(name, [])[:2]]
    if isinstance(message, CustomMessage):
        first = next(sentences(text_of(message.content)[:4_000]), "")
        return [as_line(f"{message.custom_type}: {first}")] if first else []
    return []


# --- the beginning of a turn ----------------------------------------------------------------


def _prefix(
    material: Material,
    story: Story,
    carried: Mapping[str, list[str]],
    focus: Focus,
) -> str:
    """The shorter form: what was asked, what was done, what the rest needs."""
    asked = [Line(request_line(request.text, 300), 2.0) for request in story.requests]
    said_there = " ".join(line.text for line in asked)
    asked += [line for line in _constraints(material, {}) if line.text not in said_there]
    done = _done(story, carried)
    said = [Line(_SO_FAR[0] + request_line(text)) for _, text in story.answers[-3:]]
    needed_for_rest = [*said, *_blocked(story, carried), *_critical(material, story, carried)]
    asked_for, done_so_far, needs = PREFIX_HEADINGS
    lines = {
        asked_for: merged(asked, carried.get("In Progress", []), 3.0),
        done_so_far: done,
        needs: needed_for_rest,
    }
    limits = {
        asked_for: LIMITS["Goal"],
        done_so_far: LIMITS["Done"],
        needs: LIMITS["Critical Context"],
    }
    parts = []
    for heading, kept in _fitted(lines, limits, _total(material), focus).items():
        body = "\n".join(f"- {line}" for line in kept)
        parts.append(f"### {heading}\n{body or '(none)'}")
    return "\n\n".join(parts)
