"""The tree as text and as HTML."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import bodies, texts

from pi_nb.messages import (
    AssistantMessage,
    BashExecutionMessage,
    SystemMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    user,
)
from pi_nb.result import PiError
from pi_nb.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    Entry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
)
from pi_nb.session.filters import FILTERS
from pi_nb.session.layout import DEEPEST, Gap, chains_in
from pi_nb.session.outline import Outline
from pi_nb.session.session import Session
from pi_nb.tokens import estimate_all

# The elements and attributes that GitHub lets through in what users write: WHITELIST in
# lib/html/pipeline/sanitization_filter.rb of jch/html-pipeline 2.x, which github/markup names.
ELEMENTS = (
    "h1 h2 h3 h4 h5 h6 h7 h8 br b i strong em a pre code img tt div ins del sup sub p ol ul "
    "table thead tbody tfoot blockquote dl dt dd kbd q samp var hr ruby rt rp li tr td th s "
    "strike summary details"
)
ATTRIBUTES = (
    "abbr accept accept-charset accesskey action align alt axis border cellpadding cellspacing "
    "char charoff charset checked clear cols colspan color compact coords datetime dir disabled "
    "enctype for frame headers height hreflang hspace ismap label lang maxlength media method "
    "multiple name nohref noshade nowrap open prompt readonly rel rev rows rowspan rules scope "
    "selected shape size span start summary tabindex target title type usemap valign value "
    "vspace width itemprop"
)


def said(text: str) -> MessageEntry:
    return MessageEntry(message=user(text))


def answered(*blocks: Any, **fields: Any) -> MessageEntry:
    return MessageEntry(message=AssistantMessage(content=blocks, **fields))


def grown(*entries: Entry) -> Session:
    session = Session.create(cwd="/w")
    for entry in entries:
        session.append_sync(entry)
    return session


def drawing(outline: Outline) -> str:
    """The tree alone, without its head and the remarks below it."""
    lines = str(outline).splitlines()
    return "\n".join(lines[1 : len(lines) - len(list(outline._remarks()))])


CALL = ToolCall(id="c", name="read", arguments={"offset": 3, "path": "notes.md"})
RESULT = ToolResultMessage(tool_call_id="c", tool_name="read", content="tea", is_error=False)


# --- how it is drawn ----------------------------------------------------------------------


def test_a_chain_is_flat_and_a_branch_point_indents() -> None:
    session = grown(said("u1"), said("u2"), said("u3"))
    first, second, _ = session.branch_ids()
    session.move_sync(second)
    session.append_sync(said("u4"))
    session.append_sync(said("u5"))
    session.move_sync(first)
    session.append_sync(said("u6"))
    session.move_sync(second)
    session.append_sync(said("u7"))

    assert str(session.outline()) == dedent("""\
        # ≈tokens
        1       1  ● user: u1 (2 branches)
        2       1    ├─ ● user: u2 (3 branches)
        3       1    │  ├─   user: u3
        4       1    │  ├─   user: u4
        5       1    │  │    user: u5
        7       1    │  └─ ● user: u7 ← main
        6       1    └─   user: u6
        ● sent to the model at the leaf of main; ≈tokens: characters / 4 (pi)""")
    assert [row.text for row in session.outline().rows if row.number == 7] == ["user: u7"]
    assert session.find("#7").id == session.find("7").id == session.leaf()
    assert session.number(session.leaf() or "") == 7


def test_several_roots_are_a_forest() -> None:
    """T-13."""
    session = grown(said("u1"), said("u2"))
    session.move_sync(None)
    session.append_sync(said("u3"))

    assert drawing(session.outline()) == dedent("""\
        1       1  ├─   user: u1
        2       1  │    user: u2
        3       1  └─ ● user: u3 ← main""")


def test_every_kind_of_row_says_what_it_is() -> None:
    session = grown(
        ModelChangeEntry(provider="p", model_id="m"),
        answered(TextContent(text="I\nlook"), CALL),
        MessageEntry(message=RESULT),
        MessageEntry(message=RESULT.having(is_error=True)),
        answered(stop_reason="error", error_message="overloaded"),
        MessageEntry(message=BashExecutionMessage(command="ls", exit_code=2)),
        BranchSummaryEntry(summary="left"),
        CustomEntry(custom_type="note"),
    )

    assert [row.text for row in session.outline(filter="all").rows] == [
        "[model: p/m]",
        "assistant: I look [read: notes.md]",
        "read ok: tea",
        "read error: tea",
        "assistant (error): overloaded",
        "user ran: ls (exit code 2)",
        "[branch summary] left",
        "[data: note]",
    ]


def test_a_label_and_on_demand_ids_are_shown() -> None:
    session = grown(said("u"))
    leaf = session.branch_ids()[0]
    asyncio.run(session.set_label(leaf, "start"))

    assert drawing(session.outline()) == "1       1  ● user: u [label: start] ← main"
    named = drawing(session.outline(ids=True))
    assert named == f"1       1  ● {leaf[-8:]} user: u [label: start] ← main"


async def grown_on_two_lanes() -> Session:
    session = grown(said("u1"), said("u2"))
    await session.add_lane("other", session.branch_ids()[0])
    await session.append(said("u3"), "other")
    return session


def test_each_lane_is_named_at_its_leaf_and_one_is_marked() -> None:
    session = asyncio.run(grown_on_two_lanes())

    assert drawing(session.outline("other")) == dedent("""\
        1       1  ● user: u1 (2 branches)
        2       1    ├─   user: u2 ← main
        3       1    └─ ● user: u3 ← other""")


def test_an_empty_session_says_so() -> None:
    assert str(grown().outline()) == "(no entries)"
    assert grown().outline()._repr_html_() == "<p>(no entries)</p>"


def test_two_runs_of_the_same_give_the_same() -> None:
    one, other = (grown(said("u1"), said("u2")).outline() for _ in range(2))

    assert str(one) == str(other)
    assert one._repr_html_() == other._repr_html_()


def test_an_outline_is_read_once_and_prints_when_its_session_is_closed() -> None:
    session = grown(said("u1"))
    outline = session.outline()
    session.close()

    assert "user: u1" in str(outline)


# --- what the model is sent ---------------------------------------------------------------


def test_a_compaction_says_what_it_swallowed_and_what_is_left() -> None:
    session = grown(said("a" * 400), said("b" * 40), said("c" * 40))
    kept = session.leaf() or ""
    session.append_sync(
        CompactionEntry(summary="so far", tokens_before=84_000, first_kept_entry_id=kept)
    )
    session.append_sync(said("d" * 4))

    rows = session.outline().rows
    assert [(row.number, row.state, row.tokens) for row in rows] == [
        (1, "kept back", 100),
        (2, "kept back", 10),
        (3, "sent", 10),
        (4, "sent", 2),
        (5, "sent", 1),
    ]
    # After it: the summary and what it kept, 2 + 10.
    assert rows[3].text == "[compaction: 84,000 → ≈12 tokens, 2 entries summarised] so far"
    assert "○ on its branch, not sent" in str(session.outline())


def test_an_edited_entry_weighs_what_is_sent_of_it() -> None:
    session = grown(said("a" * 400), said("b" * 400))
    first, second = session.branch_ids()
    session.append_sync(ContextEditEntry(target_id=first, replacement=Replacement(content="abcd")))
    session.append_sync(ContextEditEntry(target_id=second, replacement=None))

    rows = session.outline().rows

    assert [(row.state, row.tokens) for row in rows[:2]] == [("edited", 1), ("kept back", 100)]
    assert [row.text for row in rows[2:]] == ["[edit: replaces 1]", "[edit: leaves out 2]"]


@st.composite
def trees(draw: st.DrawFn) -> Session:
    """A session with branches, compactions and edits of what is there, and labels."""
    session = grown()
    number_of = st.integers(0, 30)
    for _ in range(draw(st.integers(0, 14))):
        ids = [entry.id for entry in session.entries()]
        some = [*ids, "nowhere"][draw(number_of) % (len(ids) + 1)]
        match draw(st.sampled_from(["move", "compact", "leave out", "label", *["append"] * 6])):
            case "move":
                session.move_sync(some if some in ids else None)
            case "compact":
                session.append_sync(CompactionEntry(summary="s", first_kept_entry_id=some))
            case "leave out":
                session.append_sync(ContextEditEntry(target_id=some, replacement=None))
            case "label" if some in ids:
                asyncio.run(session.set_label(some, draw(texts) or "x"))
            case _:
                session.append_sync(draw(bodies))
    return session


@settings(max_examples=60)
@given(trees())
def test_the_rows_that_are_sent_add_up_to_the_context(session: Session) -> None:
    items = session.context().items

    rows = [row for row in session.outline(filter="all").rows if row.in_context]

    assert {row.entry_id for row in rows} == {item.entry_id for item in items}
    whole = estimate_all(item.message for item in items).tokens
    assert sum(row.tokens or 0 for row in rows) == whole


# --- filters and search -------------------------------------------------------------------


def conversation() -> Session:
    """u1, a call and its result, an answer; then a second branch after the hidden result."""
    session = grown(
        ModelChangeEntry(provider="p", model_id="m"),
        MessageEntry(message=SystemMessage(content="prompt")),
        said("u1"),
        answered(ThinkingContent(thinking="hm"), CALL, stop_reason="toolUse"),
        MessageEntry(message=RESULT),
        answered(TextContent(text="Tea.")),
    )
    session.move_sync(session.branch_ids()[-2])
    session.append_sync(said("u2"))
    return session


def test_the_default_leaves_bookkeeping_out() -> None:
    outline = conversation().outline()

    assert [row.number for row in outline.rows] == [3, 4, 5, 6, 7]
    assert "5 of 7 entries (filter default)" in str(outline)


def test_without_tools_what_follows_them_attaches_to_what_is_above() -> None:
    """T-12: children of a hidden entry hang on the nearest that is shown, in the same order."""
    assert drawing(conversation().outline(filter="no-tools")) == dedent("""\
        3       1  ● user: u1 (2 branches)
        6       1    ├─   assistant: Tea.
        7       1    └─ ● user: u2 ← main""")


def test_an_answer_that_only_calls_tools_is_shown_where_something_is_odd_or_goes_on() -> None:
    failed = grown(said("u"), answered(CALL, stop_reason="aborted"), said("v"))
    note = CustomEntry(custom_type="note")
    current = grown(said("u"), answered(CALL, stop_reason="toolUse"), note)

    assert len(failed.outline(filter="no-tools").rows) == 3
    assert len(current.outline(filter="no-tools").rows) == 2


def test_the_users_words_and_labelled_entries_can_be_had_alone() -> None:
    session = conversation()
    asyncio.run(session.set_label(session.find("6").id, "tea"))

    assert [row.number for row in session.outline(filter="user-only").rows] == [3, 7]
    assert [row.number for row in session.outline(filter="labelled").rows] == [6]


@settings(max_examples=60)
@given(trees(), st.sampled_from(FILTERS))
def test_a_filter_keeps_order_and_the_nearest_above(session: Session, name: str) -> None:
    """T-12."""
    whole = [row.entry_id for row in session.outline(filter="all").rows]
    rows = session.outline(filter=name).rows

    shown = [row.entry_id for row in rows]
    assert shown == [entry for entry in whole if entry in set(shown)]
    below: Counter[str | None] = Counter()
    for entry in shown:
        above = session.parent_id(entry)
        while above is not None and above not in shown:
            above = session.parent_id(above)
        below[above] += 1
    assert all(row.branches == below[row.entry_id] for row in rows)


def test_a_search_finds_what_a_row_does_not_show() -> None:
    """Deep in a text, in a summary, in a call's arguments, in thinking; whatever the case."""
    session = grown(
        said("x " * 500 + "a NEEDLE here" + " y" * 500),
        answered(ToolCall(id="c", name="read", arguments={"deep": [{"needle": 1}]})),
        answered(ThinkingContent(thinking="no Needle")),
        CompactionEntry(summary="z " * 500 + "needle"),
        said("nothing"),
        said("naïve Straße"),
    )

    outline = session.outline(find="needle")

    assert [(row.number, row.hit) for row in outline.rows] == [(n, True) for n in (1, 2, 3, 4)]
    assert "a NEEDLE here" in outline.rows[0].text
    assert "4 entries hold 'needle'" in str(outline)
    assert "<strong>NEEDLE</strong>" in outline._repr_html_()
    assert [row.number for row in session.outline(find="STRASSE").rows] == [6]
    assert session.outline(find="nowhere").hits == 0
    assert "0 entries hold 'nowhere'" in str(session.outline(find="nowhere"))


def test_a_search_shows_where_the_ways_to_its_hits_part() -> None:
    session = grown(said("u1"), said("u2"), said("one needle"))
    session.move_sync(session.branch_ids()[1])
    session.append_sync(said("u4"))
    session.append_sync(said("another needle"))

    assert drawing(session.outline(find="needle")) == dedent("""\
        2       1  ● user: u2 (2 branches)
        3       3    ├─   » user: one needle
        5       4    └─ ● » user: another needle ← main""")


def test_a_search_numbers_branches_as_the_whole_tree_has_them() -> None:
    session = grown(said("u1"), said("one needle"))
    first = session.branch_ids()[0]
    for text in ("nothing", "between"):
        session.move_sync(first)
        session.append_sync(said(text))
    session.append_sync(said("another needle"))

    page = session.outline(find="needle")._repr_html_()

    assert "(3 branches)" in page
    assert re.findall(r"branch \d of \d", page) == ["branch 1 of 3", "branch 3 of 3"]


@given(trees(), st.sampled_from(["a", "e", "needle"]))
def test_a_search_numbers_no_two_branches_of_one_point_alike(session: Session, text: str) -> None:
    top = session.outline(find=text, limit=None).top
    for chain in chains_in(top):
        inside = [part for part in chain.inside if not isinstance(part, Gap)]
        numbers = [(part.number, part.count) for part in inside if part.level > chain.level]
        if chain.level < DEEPEST - 1:
            assert numbers == sorted(set(numbers))
            assert all(1 <= number <= of for number, of in numbers)


@given(st.lists(texts, min_size=1, max_size=5), st.data())
def test_a_search_misses_nothing_that_was_said(said_: list[str], data: st.DataObject) -> None:
    """However a line spells its characters: the quick look at it must not lie."""
    session = grown(*map(said, said_))
    text = data.draw(st.sampled_from(said_))
    start = data.draw(st.integers(0, len(text)))
    part = text[start : start + 3]
    if not part.strip():
        return

    numbers = [row.number for row in session.outline(find=part).rows]

    stored = [entry.message.content[0].text for entry in session.entries()]  # type: ignore[attr-defined]
    holding = [n for n, whole in enumerate(stored, 1) if part.casefold() in whole.casefold()]
    assert numbers == holding


@pytest.mark.parametrize(
    ("wish", "said_"),
    [
        ({"filter": "tools"}, r"no filter 'tools'; there are default, no-tools"),
        ({"find": "  "}, "some text"),
        ({"limit": 0}, "1 or more"),
        ({"lane": "none"}, "no lane 'none'"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(wish: dict[str, Any], said_: str) -> None:
    with pytest.raises(PiError, match=said_) as refused:
        grown().outline(**wish)
    assert refused.value.code == "invalid_argument"


# --- large trees --------------------------------------------------------------------------


def test_of_a_long_chain_the_end_and_the_beginning_are_drawn() -> None:
    session = grown(*(said(f"u{number}") for number in range(1, 101)))

    outline = session.outline(limit=16)

    assert [row.number for row in outline.rows] == [1, 2, *range(87, 101)]
    assert "             … 84 rows" in str(outline).splitlines()
    assert "16 of 100 rows drawn, limit=None draws all" in str(outline)
    assert "<li><em>… 84 rows</em></li>" in outline._repr_html_()
    assert len(session.outline(limit=None).rows) == outline.total == 100


def test_branches_that_the_lane_is_not_on_can_be_folded() -> None:
    session = grown(*(said(f"u{number}") for number in range(1, 6)))
    session.move_sync(session.branch_ids()[0])
    session.append_sync(said("u6"))

    assert drawing(session.outline(fold=True)) == dedent("""\
        1       1  ● user: u1 (2 branches)
        2       1    ├─   user: u2
                     │  … 3 rows
        6       1    └─ ● user: u6 ← main""")


@settings(max_examples=60)
@given(trees(), st.integers(1, 8), st.booleans())
def test_drawn_rows_and_gaps_are_all_there_is(session: Session, limit: int, fold: bool) -> None:
    """At most so many rows, each once, and a few gaps for every branch point on their way."""
    outline = session.outline(filter="all", limit=limit, fold=fold)

    assert len(outline.rows) == len(outline.drawn) <= limit
    gaps = [line.split("… ")[1] for line in drawing(outline).splitlines() if "… " in line]
    hidden = sum(int(gap.split()[0]) for gap in gaps if gap.endswith(("row", "rows")))
    if not any("… " in row.text for row in outline.rows):
        assert len(outline.rows) + hidden == outline.total == len(session)
        branch_points = sum(len(session.child_ids(i)) > 1 for i in [None, *session.entry_ids()])
        assert len(gaps) <= 3 * limit * (branch_points + 1)


def test_a_long_branch_that_the_lane_is_not_on_is_closed_in_html() -> None:
    session = grown(*(said(f"u{number}") for number in range(1, 15)))
    session.move_sync(session.branch_ids()[0])
    session.append_sync(said("here"))

    html = session.outline()._repr_html_()

    assert "<details><summary><em>branch 1 of 2</em>, 13 rows: user: u2</summary><ul>" in html
    assert "<li><em>branch 2 of 2, here</em><ul>" in html


@pytest.mark.slow
def test_a_tree_that_forks_at_every_entry_stays_readable() -> None:
    """Deeper than Python recurses, and an indentation that stops growing."""
    session = Session.create(cwd="/w")
    for number in range(1_500):
        session.append_sync(CustomEntry(custom_type=str(number)))
        session.move_sync(session.parent_id(session.leaf() or ""))
        session.append_sync(CustomEntry(custom_type=f"{number}b"))

    outline = session.outline(filter="all", limit=None)

    assert len(outline.rows) == 3_000
    assert max(map(len, str(outline).splitlines())) < 160
    assert outline._repr_html_().count("<li>") >= 3_000


def test_only_what_is_drawn_is_read(tmp_path: Path) -> None:
    """Of a long session the outline costs a look at the index, not its bodies."""
    lines: list[dict[str, Any]] = [
        {"kind": "header", "version": 4, "id": "s", "createdAt": 1, "cwd": "/w"}
    ]
    lines += [
        {"kind": "entry", "seq": n, "lane": "main", "type": "message", "id": f"e{n}",
         "parentId": f"e{n - 1}" if n > 1 else None, "timestamp": n,
         "message": {"role": "user", "content": [{"type": "text", "text": f"u{n}"}]}}
        for n in range(1, 5_001)
    ]  # fmt: skip
    path = tmp_path / "s.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    with Session.open(path, read_only=True) as session:
        data = path.read_bytes()
        middle = session.line("e2500")
        path.write_bytes(data.replace(middle, b" " * (len(middle) - 1) + b"\n"))
        few = session.outline()
        every = session.outline(limit=None)

    assert (len(few.rows), len(every.rows)) == (200, 5_000)
    assert "cannot be read" not in str(few), "whoever reads it would find nothing there"
    assert str(every).count("cannot be read") == 1


# --- hostile text -------------------------------------------------------------------------


class Tags(HTMLParser):
    """Every element and attribute, and whether each element is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    handle_decl = handle_pi = unknown_decl = handle_comment


HOSTILE = "<script>alert(1)</script><!-- --><b id=x style=y onclick=z>\x1b[2J\x1b]0;t\x07 & \u202e"


def hostile() -> Session:
    """Somebody else's words wherever a session holds some."""
    call = ToolCall(id=HOSTILE, name=HOSTILE, arguments={HOSTILE: HOSTILE})
    result = RESULT.having(tool_name=HOSTILE, content=HOSTILE)
    session = grown(
        said(HOSTILE),
        ModelChangeEntry(provider=HOSTILE, model_id=HOSTILE),
        answered(TextContent(text=HOSTILE), call),
        MessageEntry(message=result),
        answered(stop_reason="error", error_message=HOSTILE),
        MessageEntry(message=BashExecutionMessage(command=HOSTILE)),
        CompactionEntry(summary=HOSTILE, first_kept_entry_id=HOSTILE),
        BranchSummaryEntry(summary=HOSTILE),
        CustomEntry(custom_type=HOSTILE),
        *(said("x") for _ in range(12)),
    )
    asyncio.run(session.set_label(session.leaf() or "", HOSTILE))
    session.move_sync(session.branch_ids()[3])
    session.append_sync(said("y"))
    return session


@pytest.mark.parametrize(
    ("filter", "find", "limit"),
    [*itertools.product(FILTERS, [None, "alert", "x", "<"], [200, 3])],
)
def test_the_html_of_a_hostile_session_passes_github(
    filter: str, find: str | None, limit: int
) -> None:
    outline = hostile().outline(filter=filter, find=find, ids=True, limit=limit)

    tags = Tags(outline._repr_html_())

    assert tags.elements <= {*ELEMENTS.split()}
    assert tags.attributes <= {*ATTRIBUTES.split()}
    assert "\x1b" not in str(outline)
    assert "\x07" not in str(outline)


@settings(max_examples=60)
@given(trees(), texts)
def test_whatever_is_in_a_session_its_html_is_whole(session: Session, text: str) -> None:
    find = text if text.strip() else None

    tags = Tags(session.outline(find=find, limit=5)._repr_html_())

    assert tags.elements <= {*ELEMENTS.split()}
    assert tags.attributes <= {*ATTRIBUTES.split()}


def test_long_texts_are_cut() -> None:
    outline = grown(said("x" * 10_000), CompactionEntry(summary="y" * 10_000)).outline()

    assert max(len(row.text) for row in outline.rows) < 180


def test_a_filter_is_found_in_either_spelling() -> None:
    session = grown(said("u1"), said("u2"))
    session.set_label_sync(session.branch_ids()[0], "start")

    assert str(session.outline(filter="labeled")) == str(session.outline(filter="labelled"))
