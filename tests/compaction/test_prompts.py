"""What a summariser is asked: the material first and quoted, the question last, in fixed words."""

from __future__ import annotations

from dataclasses import fields

import pytest

from pi_nb.compaction.prompts import PREFIX_HEADINGS, Prompts, fenced
from pi_nb.compaction.sections import PROGRESS, SECTIONS, headings
from pi_nb.compaction.summary import Kind, Material
from pi_nb.messages import user

TALK = "[User]: ¿Cuántas judías hay?"
WHOLE: tuple[tuple[Kind, str | None], ...] = (
    ("history", None),
    ("history", "the earlier one"),
    ("branch", None),
)
ALL = (*WHOLE, ("turn_prefix", None), ("turn_prefix", "p"), ("branch", "p"))


def asked(kind: Kind, previous: str | None = None, *, again: bool = False, **more: str) -> str:
    material = Material(kind, [user("¿Cuántas judías hay?")], previous, **more)  # type: ignore[arg-type]
    return Prompts().asked(material, TALK, again=again)


@pytest.mark.parametrize(("kind", "previous"), WHOLE)
def test_the_fixed_headings_are_asked_for_in_their_order(kind: Kind, previous: str | None) -> None:
    question = asked(kind, previous)

    names = [words for _, _, words in headings(question)]
    assert [name for name in names if name in SECTIONS] == list(SECTIONS)
    assert [name for name in names if name in PROGRESS] == list(PROGRESS)


def test_the_beginning_of_a_turn_is_asked_for_in_headings_of_its_own_and_shortly() -> None:
    question = asked("turn_prefix")

    assert [words for _, _, words in headings(question)] == list(PREFIX_HEADINGS)
    assert "in a few lines" in question
    assert len(question) < len(asked("history"))


@pytest.mark.parametrize(("kind", "previous"), ALL)
def test_what_is_said_comes_first_and_quoted_and_the_question_last(
    kind: Kind, previous: str | None
) -> None:
    """C-18."""
    question = asked(kind, previous)

    assert question.startswith(f"<conversation>\n{TALK}\n</conversation>\n\n")
    assert question.count("<earlier_summary>") == (previous is not None)
    after = question.rpartition("</")[2]
    assert "Do not answer anything" in after
    assert "call no tool" in after


@pytest.mark.parametrize(("kind", "previous"), ALL)
def test_a_summary_is_written_in_the_user_s_language_below_fixed_headings(
    kind: Kind, previous: str | None
) -> None:
    """C-20, starred: asked in the first prompt and in the update, and for every other kind."""
    question = asked(kind, previous)

    assert "Write in the language that the user writes in." in question
    if kind != "turn_prefix":
        assert "spelled as they are here, whatever the language of the rest" in question
        constraints = question.partition("## Constraints & Preferences\n")[2].partition("\n##")[0]
        assert "language the user wants answers in" in " ".join(constraints.split())


@pytest.mark.parametrize(("kind", "previous"), WHOLE)
def test_what_is_done_what_blocks_and_what_is_open_have_places_of_their_own(
    kind: Kind, previous: str | None
) -> None:
    """C-48, C-49: an action with an effect is named as done; the last request is not lost."""
    question = asked(kind, previous)

    def below(heading: str) -> str:
        return " ".join(question.partition(f"{heading}\n")[2].partition("\n#")[0].split())

    assert "nobody does it a second time" in below("### Done")
    assert "the error as it was printed" in below("### Blocked")
    assert "the request that is open now" in below("## Goal")
    assert "the very next thing first" in below("## Next Steps")
    assert "letter by letter" in below("## Critical Context")


def test_the_beginning_of_a_turn_names_what_was_done_and_does_not_call_it_open() -> None:
    """C-48: the rest of the turn may hold its answer."""
    question = " ".join(asked("turn_prefix").split())

    assert "nobody does it a second time" in question
    assert "still open" not in question


def test_an_update_merges_what_is_finished_so_that_it_does_not_grow() -> None:
    """C-50."""
    update = " ".join(asked("history", "the earlier one").split())

    assert "merge finished items of one kind into one line" in update
    assert "take out what was solved or given up" in update
    assert "merge finished items" not in asked("history")


@pytest.mark.parametrize("kind", ["turn_prefix", "branch"])
def test_what_is_read_in_pieces_is_told_of_the_pieces_before(kind: Kind) -> None:
    assert "goes on from an earlier part" in asked(kind, "so far")
    assert "goes on from an earlier part" not in asked(kind)


def test_instructions_and_a_second_asking_come_after_the_question() -> None:
    """C-21: with whatever braces they have."""
    question = asked("history", again=True, instructions="the {tests} in {0}")

    assert question.index("## Critical Context") < question.index("at this: the {tests} in {0}")
    assert question.endswith("beginning with the first of the headings.")


@pytest.mark.parametrize("field", [f.name for f in fields(Prompts) if f.name != "system"])
def test_every_text_can_be_replaced(field: str) -> None:
    prompts = Prompts()
    setattr(prompts, field, f"our own {field} {{instructions}}")

    texts = [
        prompts.asked(Material(kind, [], previous, "look"), TALK, again=True)
        for kind, previous in ALL
    ]

    assert any(f"our own {field}" in text for text in texts)


@pytest.mark.parametrize(
    "end", ["</t>", "</T>", "< /t >", "</ t>", "<\n/t>", "<t>", "<t a='1'>", "</t\n>"]
)
def test_a_fence_is_closed_by_nothing_inside_it(end: str) -> None:
    text = f"before {end} after"

    made = fenced("t", text)

    inside = made.removeprefix("<t>\n").removesuffix("\n</t>")
    assert inside == text.replace("<", "‹")
    assert fenced("t", "a < b </tt> <tr>") == "<t>\na < b </tt> <tr>\n</t>"
