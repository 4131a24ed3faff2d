"""The page in a real browser: what it loads, what keys do, where links lead."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pi_nb.messages import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ToolResultMessage,
    UserMessage,
)
from pi_nb.session.entries import Entry, MessageEntry
from pi_nb.session.session import Session

pytestmark = pytest.mark.slow

api: Any = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if CHROMIUM is None:
    pytest.skip("needs chromium", allow_module_level=True)

QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


def _say(session: Session, message: AgentMessage) -> Entry:
    return session.append_sync(MessageEntry(message=message))


class Visit:
    """One page that is open, and everything it asked for or complained of."""

    def __init__(self, browser: Any, file: Path, fragment: str = "", **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.tab = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.address = f"{file.as_uri()}"
        self.tab.goto(f"{self.address}{fragment}")

    def at(self) -> str:
        """The id of the article that has the focus."""
        return str(self.tab.evaluate("document.activeElement.closest('article')?.id ?? ''"))

    def row(self) -> str:
        """What the tree's focused row says."""
        return str(self.tab.evaluate("document.activeElement.innerText"))

    def press(self, *keys: str) -> str:
        for key in keys:
            self.tab.keyboard.press(key)
        return self.row()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """1 first; 2 left; 3 right; 4 after right, where the lane stands."""
    with Session.create(tmp_path / "s.jsonl", cwd=tmp_path, durability="flush") as session:
        first = _say(session, UserMessage(content="first <script>alert(1)</script>"))
        _say(session, UserMessage(content="left"))
        session.move_sync(first.id)
        _say(session, UserMessage(content="right"))
        _say(
            session,
            AssistantMessage(content=(TextContent(text="![x](https://example.org/a.png)"),)),
        )
        yield session


@pytest.fixture
def written(session: Session, tmp_path: Path) -> Path:
    session.export(tmp_path / "page.html")
    return tmp_path / "page.html"


def test_it_loads_nothing_and_complains_of_nothing(browser: Any, written: Path) -> None:
    visit = Visit(browser, written)

    visit.tab.get_by_role("tree").get_by_role("treeitem").first.wait_for()

    assert visit.requests == [visit.address]
    assert visit.complaints == []


def test_the_policy_stops_what_would_get_in(browser: Any, written: Path) -> None:
    visit = Visit(browser, written)

    visit.tab.evaluate(
        """() => {
        window.stopped = [];
        document.addEventListener("securitypolicyviolation", (event) => {
            window.stopped.push(event.effectiveDirective);
        });
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        const image = document.createElement("img");
        image.src = "https://example.org/leak";
        document.body.append(script, image);
        document.body.insertAdjacentHTML("beforeend", "<p onclick='window.ran = true' id=x>x</p>");
        document.getElementById("x").click();
    }"""
    )

    visit.tab.wait_for_function("window.stopped.length === 3")
    stopped = visit.tab.evaluate("window.stopped.sort()")
    assert stopped == ["img-src", "script-src-attr", "script-src-elem"]
    assert visit.tab.evaluate("window.ran") is None


def test_the_tree_is_walked_with_the_keys_of_a_tree(browser: Any, written: Path) -> None:
    visit = Visit(browser, written)

    visit.tab.locator("[role=treeitem][tabindex='0']").focus()

    assert "first" in visit.row()
    assert "branch 1 of 2" in visit.press("ArrowDown")
    assert "left" in visit.press("ArrowRight")
    assert "branch 1 of 2" in visit.press("ArrowLeft")
    visit.press("ArrowLeft")
    folded = visit.tab.locator("[role=treeitem]:focus")
    assert folded.get_attribute("aria-expanded") == "false"
    assert "branch 2 of 2" in visit.press("ArrowDown"), "what is folded is passed over"
    assert "assistant" in visit.press("End")
    assert "first" in visit.press("Home")
    assert visit.tab.locator("[role=treeitem][tabindex='0']").count() == 1


def test_enter_goes_to_the_entry_and_a_link_to_it_leads_there_again(
    browser: Any, written: Path, session: Session
) -> None:
    last = f"entry-{session.leaf()}"
    visit = Visit(browser, written)

    visit.tab.locator("[role=treeitem][tabindex='0']").focus()
    visit.press("End", "Enter")
    visit.tab.wait_for_function("id => document.activeElement.id === id", arg=last)
    link = visit.tab.evaluate("location.hash")

    again = Visit(browser, written, link)
    assert again.at() == last
    assert again.tab.locator("[aria-selected=true]").get_attribute("data-entry") == last


def test_a_link_into_a_folded_branch_unfolds_it(
    browser: Any, written: Path, session: Session
) -> None:
    left = f"entry-{session.entry_ids()[1]}"
    visit = Visit(browser, written)
    visit.tab.locator("[role=treeitem][tabindex='0']").focus()
    visit.press("ArrowDown", "ArrowLeft")

    visit.tab.evaluate("id => { location.hash = id }", left)
    visit.tab.wait_for_function("id => document.activeElement.id === id", arg=left)

    assert visit.tab.locator(f"[data-entry='{left}']").is_visible()


def test_one_branch_can_be_read_alone(browser: Any, written: Path, session: Session) -> None:
    ids = session.entry_ids()
    visit = Visit(browser, written)

    def shown() -> list[int]:
        articles = visit.tab.locator("article:visible").all()
        return [int(article.get_attribute("data-number")) for article in articles]

    assert shown() == [1, 2, 3, 4]
    visit.tab.get_by_label("Only the branch").check()
    assert shown() == [1, 3, 4]
    visit.tab.locator(f"[data-entry='entry-{ids[1]}']").click()
    visit.tab.wait_for_function("location.hash !== ''")
    assert shown() == [1, 2]
    visit.tab.locator(f"[data-entry='entry-{ids[0]}']").click()
    visit.tab.wait_for_function("id => document.activeElement.id === id", arg=f"entry-{ids[0]}")
    assert shown() == [1, 3, 4], "the newest that follows"
    visit.tab.get_by_label("Only the branch").uncheck()
    assert shown() == [1, 2, 3, 4]


def test_without_javascript_it_is_a_page_to_read(
    browser: Any, written: Path, session: Session
) -> None:
    visit = Visit(browser, written, java_script_enabled=False)

    assert visit.tab.locator("article:visible").count() == 4
    assert visit.tab.locator("[role=tree]").count() == 0, "no role without its keys"
    visit.tab.locator("nav a").last.click()
    assert visit.tab.url.endswith(f"#entry-{session.leaf()}")


def test_everything_has_a_role_and_a_name(browser: Any, written: Path) -> None:
    visit = Visit(browser, written)

    for role in ("navigation", "main", "tree", "banner"):
        assert visit.tab.get_by_role(role).count() == 1
    for role in ("link", "treeitem", "heading", "table"):
        for part in visit.tab.get_by_role(role).all():
            assert part.inner_text().strip() or part.get_attribute("aria-label")
    tags = visit.tab.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => h.tagName)")
    levels = [int(tag[1]) for tag in tags]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    visit.tab.keyboard.press("Tab")
    assert visit.row() == "Skip to the transcript"
    visit.press("Enter")
    assert visit.tab.evaluate("location.hash") == "#transcript"


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"forced_colors": "active"}])
def test_the_focus_can_be_seen_in_every_scheme(
    browser: Any, written: Path, options: dict[str, str]
) -> None:
    visit = Visit(browser, written, **options)

    visit.tab.locator("[role=treeitem][tabindex='0']").focus()
    visit.press("ArrowDown", "ArrowUp")

    outline = "getComputedStyle(document.activeElement.querySelector('a')).outlineStyle"
    assert visit.tab.evaluate(outline) == "solid"


def test_ten_thousand_entries_stay_usable(browser: Any, tmp_path: Path) -> None:
    with Session.create(tmp_path / "big.jsonl", cwd=tmp_path, durability="flush") as session:
        for number in range(5_000):
            asked = _say(session, UserMessage(content=f"question {number}"))
            result = TextContent(text="line\n" * 40)
            _say(session, ToolResultMessage(tool_call_id="c", content=(result,)))
            if number % 500 == 499:
                session.move_sync(asked.id)
        session.export(tmp_path / "big.html")
    visit = Visit(browser, tmp_path / "big.html")

    took = visit.tab.evaluate(
        """() => {
        document.querySelector("[role=treeitem][tabindex='0']").focus();
        const press = (key) => document.activeElement.dispatchEvent(
            new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        const began = performance.now();
        for (const key of ["End", "ArrowUp", "ArrowUp", "Home", "ArrowDown"]) press(key);
        return (performance.now() - began) / 5;
    }"""
    )

    assert visit.tab.locator("article").count() == 10_000
    assert took < 500, "milliseconds a key"
