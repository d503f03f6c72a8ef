"""Use the page in a real Chromium as people do: `.venv/web/bin/python -m tests.e2e.use_page PART URL FOLDER FACTS`.

Runs in an environment of its own (`make .venv/web/.ready`). PART is a function below; FACTS, a JSON object, is what it
compares the page with. Screenshots lie in FOLDER.
"""

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

#: Debian's; Playwright's own is fetched from elsewhere.
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PATIENCE_MS = 90_000
DESK = {"width": 1280, "height": 900}
COLOURS = "one => [getComputedStyle(one).color, getComputedStyle(one).getPropertyValue('--bad')]"
EPOCHS = "all => all.map(one => [one.querySelector('a').textContent, one.dataset.epoch])"


class Visit:
    """A browser at a service: its pages, and what went wrong on them."""

    def __init__(self, browser: Browser, url: str, folder: Path) -> None:
        self.browser, self.url, self.folder = browser, url.rstrip("/"), folder
        self.errors: list[str] = []

    def page(self, link: str = "") -> Page:
        """Open the page in a new browser context."""
        page = self.browser.new_context(viewport=DESK).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda note: self.errors.append(note.text) if note.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))
        page.goto(f"{self.url}/{link}")
        expect(page.locator("#live")).to_have_text(re.compile("^live"))
        page.wait_for_selector("#snapshots tbody tr", state="attached")
        return page

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.errors.append(f"{url} is somebody else's")

    def examine(self, page: Page, what: str) -> None:
        """Note what axe finds in both themes."""
        for theme in ("light", "dark"):
            for item in Axe().run(page).response["violations"]:
                if item["impact"] in ("serious", "critical"):
                    self.errors.append(f"{what}, {theme}: {item['id']}: {item['nodes'][0]['html']}")
            page.keyboard.press("d")


def texts(rows: Locator) -> list[list[str]]:
    """The cells of each row."""
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def small(visit: Visit, facts: dict[str, Any]) -> None:
    """Follow direct links, filter, compare; take a snapshot and abort it; assemble one that is captured."""
    page = visit.page()
    epochs = dict(page.locator("#snapshots tbody tr").evaluate_all(EPOCHS))
    look(page, facts)
    page = visit.page(f"#{epochs['monday']}")
    follow(page)
    page.goto(f"{visit.url}/#{epochs['monday']}")
    compare(page, facts)
    page.screenshot(path=visit.folder / "comparison.png", full_page=True)
    act(page, facts["storage"])
    page.goto(f"{visit.url}/#{epochs['captured']}")
    heading = page.locator("#detail h2")
    expect(heading).to_have_text(re.compile("^captured CAPTURED"))
    page.get_by_role("button", name="Assemble and verify").click()
    expect(heading).to_have_text(re.compile("VERIFIED"))
    expect(page.locator("#detail .job")).to_have_text("assembled: VERIFIED")
    expect(page.get_by_role("button", name="Assemble and verify")).to_have_count(0)
    visit.errors[:] = [line for line in visit.errors if "403" not in line]  # the refused storage


def look(page: Page, facts: dict[str, Any]) -> None:
    """Charts, what `doctor` finds, and what is expired."""
    charts = page.locator("#charts .chart")
    shown = page.locator("#snapshots td[data-name='Duration']").all_inner_texts()
    done = sorted(int(text.removesuffix(" ms")) for text in shown if text.endswith(" ms"))
    p50, p99 = (done[math.ceil(part * len(done)) - 1] for part in (0.5, 0.99))
    duration, size, outcomes = page.locator("#charts figcaption").all_inner_texts()
    assert duration == f"Duration of 4: p50 {p50} ms, p99 {p99} ms"
    assert size.startswith("Size of 3: p50 ")
    assert outcomes == "Outcomes of 5"
    assert [chart.locator(".bar").count() for chart in charts.all()] == [4, 3]
    titles = charts.first.locator(".bar").evaluate_all("all => all.map(one => one.title)")
    assert [title.split(":")[0] for title in titles] == ["monday", "tuesday", "broken", "captured"]
    listed = page.locator("#charts .outcomes li")
    expect(listed).to_have_text(["VERIFIED 2", "INITIATED 1", "CAPTURED 1", "INCONSISTENT 1"])
    doctor = page.locator("#doctor")
    expect(doctor.locator("summary")).to_have_text(re.compile("^Doctor: "))
    found = [line.split("\n")[0] for line in doctor.locator("li").all_inner_texts()]
    assert found == facts["doctor"] and found
    page.fill("#filter-id", "bro")
    expect(page.locator("#snapshots tbody tr")).to_have_count(1)
    red = page.locator("#snapshots td[data-name='Restorable until'] .bad")
    expect(red).to_have_text(re.compile("^expired "))
    colour, bad = red.evaluate(COLOURS)
    assert colour == f"rgb({', '.join(str(int(bad.strip()[at : at + 2], 16)) for at in (1, 3, 5))})"


def follow(page: Page) -> None:
    """A direct link knows the other snapshots, also while a filter hides them."""
    choice, heading = page.get_by_label("The other snapshot"), page.locator("#detail h2")
    expect(choice.locator("option")).to_have_text(["broken", "tuesday"])
    until = page.locator("#detail dt", has_text="Restorable until").locator("xpath=following-sibling::dd")
    expect(until).not_to_have_text("unknown")
    assert until.inner_text()
    page.fill("#filter-id", "tues")
    expect(page.locator("#snapshots tbody tr")).to_have_count(1)
    page.get_by_role("link", name="tuesday", exact=True).click()
    expect(heading).to_have_text(re.compile("^tuesday"))
    expect(choice.locator("option")).to_have_text(["broken", "monday"])
    page.go_back()
    expect(heading).to_have_text(re.compile("^monday"))
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#detail")).to_be_hidden()
    assert page.url.endswith(("/", "#"))
    page.fill("#filter-id", "")


def compare(page: Page, facts: dict[str, Any]) -> None:
    """Checks, and the keys that two snapshots have not in common."""
    checks = page.get_by_role("region", name="Checks").locator("tbody tr")
    expect(checks).to_have_count(5)
    assert checks.locator(".check").all_inner_texts() == facts["checks"]
    page.get_by_label("The other snapshot").select_option("tuesday")
    page.get_by_role("button", name="Compare").click()
    keys = page.get_by_role("region", name="Keys").locator("tbody tr")
    expect(keys.first).to_be_visible()
    assert texts(keys) == [
        ["bank", "balances", "added", "dora", "", "4"],
        ["bank", "balances", "changed", "ben", "7", "9"],
        ["bank", "balances", "removed", "cleo", "1", ""],
    ]


def act(page: Page, root: str) -> None:
    """Take a snapshot, elsewhere in vain, and abort it."""
    heading, storage = page.locator("#detail h2"), page.get_by_label("Storage")
    page.locator("#trigger summary").click()
    expect(storage).to_have_value(root)
    storage.fill("/elsewhere")
    page.get_by_role("button", name="Take it").click()
    expect(page.locator("#trigger [role=alert]")).to_contain_text("storage root")
    storage.fill(root)
    page.get_by_role("button", name="Take it").click()
    expect(heading).to_have_text(re.compile("INITIATED"))
    page.get_by_role("button", name="Abort").click()
    page.get_by_role("button", name="Yes, abort it").click()
    expect(heading).to_have_text(re.compile("FAILED"))
    expect(page.locator("#detail .job")).to_have_text("aborted")
    expect(page.get_by_role("button", name="Abort")).to_have_count(0)


def large(visit: Visit, facts: dict[str, Any]) -> None:
    """Go through snapshots of 1, 20 and 100 processes by the keyboard: their diagrams."""
    page = visit.page()
    rows = {row[1].split()[0]: row for row in texts(page.locator("#snapshots tbody tr"))}
    assert list(rows) == ["running", "failed", "hundred", "twenty", "one"]
    assert "waits for" in rows["running"][1]
    assert "ttl: not captured within 5000 ms" in rows["failed"][1]
    assert "latest good" in rows["hundred"][1]
    recovery = texts(page.locator("#recovery tbody tr"))
    stages = [
        ("begun", "twenty"),
        ("aborted\na worker joined", "twenty"),
        ("drill-7", "ready"),
        ("try", "ready"),
    ]
    assert [(row[0], row[1]) for row in recovery] == stages
    assert recovery[3][6].endswith("expired")
    visit.examine(page, "list")
    heading, svg = page.locator("#detail h2"), page.locator("#detail .diagram svg")
    for name in rows:
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(heading).to_have_text(re.compile(f"^{name}"))
        expect(svg).to_be_visible()
        if processes := facts["sizes"].get(name):
            assert rows[name][5] == f"{processes}/{processes}"
            expect(svg.locator(".cut-point")).to_have_count(processes)
            visit.examine(page, name)
        page.locator("#detail .diagram").screenshot(path=visit.folder / f"page-{name}.png")
        if name == "twenty":
            gesture(page)
        page.locator("#detail").focus()
        page.keyboard.press("Escape")


def gesture(page: Page) -> None:
    """Hide a line, collapse an app, filter messages, go through them by the keyboard; then show all of it again."""
    svg = page.locator("#detail svg")
    names = svg.locator("g.lane .name")
    names.first.dblclick()
    names.nth(8).click(modifiers=["Shift"])
    page.get_by_label("Messages with").fill("order-7")
    assert [text for text in names.all_text_contents() if "processes" in text] == ["shop-1, 5 processes"]
    filtered = svg.locator("g.message:not([display]) title").all_text_contents()
    assert len(filtered) == 3 and all("order-7" in title for title in filtered)
    left = page.locator("#detail .gestures").get_by_role("status")
    expect(left).to_have_text("hidden here: lines 1, messages 57")
    page.locator("#detail .diagram").focus()
    page.keyboard.press("ArrowRight")
    assert svg.locator(".traced").count() >= 1
    expect(page.locator("#detail .diagram + p")).to_contain_text("snapkafka trace orders-7 0")
    page.get_by_role("button", name="Show all", exact=True).click()
    expect(svg.locator("[display]")).to_have_count(0)
    page.locator("#detail summary").click()
    columns = "around channels in_flight messages positions processes state"
    expect(page.get_by_label("Columns").locator("tbody td:first-child")).to_have_text(columns.split())


if __name__ == "__main__":
    expect.set_options(timeout=PATIENCE_MS)
    part, url, folder, facts = globals()[sys.argv[1]], sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4])
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        options: dict[str, Any] = {"args": ["--no-sandbox"], "timeout": PATIENCE_MS}
        visit = Visit(playwright.chromium.launch(executable_path=CHROMIUM, **options), url, folder)
        part(visit, facts)
        visit.browser.close()
    assert visit.errors == []
