"""Use the page in a real Chromium as people do: `.venv/web/bin/python -m tests.e2e.use_page PART URL FOLDER`.

Runs in an environment of its own (`make .venv/web/.ready`). PART is a function below. Prints one JSON object: what was
seen, what axe found, and what the console said. Screenshots lie in FOLDER.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

#: Debian's; Playwright's own is fetched from elsewhere.
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PATIENCE_MS = 90_000
DESK = {"width": 1280, "height": 900}
COLOURS = "one => [getComputedStyle(one).color, getComputedStyle(one).getPropertyValue('--bad')]"


class Visit:
    """A browser at a service: its pages, and what went wrong on them."""

    def __init__(self, browser: Browser, url: str, folder: Path) -> None:
        self.browser, self.url, self.folder = browser, url.rstrip("/"), folder
        self.errors: list[str] = []
        self.serious: list[tuple[str, str]] = []

    def page(self, link: str = "") -> Page:
        """Open the page in a new browser context."""
        page = self.browser.new_context(viewport=DESK).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda note: self.errors.append(note.text) if note.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))
        page.goto(f"{self.url}/{link}")
        expect(page.locator("#live")).to_have_text(re.compile("^live"), timeout=PATIENCE_MS)
        page.wait_for_selector("#snapshots tbody tr", state="attached")
        return page

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.errors.append(f"{url} is somebody else's")

    def examine(self, page: Page, what: str) -> None:
        """Note what axe finds in both themes."""
        for theme in ("light", "dark"):
            found = Axe().run(page).response["violations"]
            grave = [item for item in found if item["impact"] in ("serious", "critical")]
            self.serious += [(f"{what}, {theme}: {item['id']}", item["nodes"][0]["html"]) for item in grave]
            page.keyboard.press("d")

    def epochs(self, page: Page) -> dict[str, str]:
        """The epochs of the listed snapshots, by their ids."""
        found = page.locator("#snapshots tbody tr")
        return dict(
            found.evaluate_all(
                "all => all.map(one => [one.querySelector('a').textContent, one.dataset.epoch])"
            )
        )


def links(visit: Visit) -> dict[str, Any]:
    """Open snapshots by direct links, one of them while a filter hides the others."""
    epochs = visit.epochs(visit.page())
    page = visit.page(f"#{epochs['monday']}")
    choice = page.get_by_label("The other snapshot")
    expect(choice).to_be_visible(timeout=PATIENCE_MS)
    until = page.locator("#detail dt", has_text="Restorable until").locator("xpath=following-sibling::dd")
    expect(until).not_to_have_text("unknown", timeout=PATIENCE_MS)
    found: dict[str, Any] = {
        "others": choice.locator("option").all_inner_texts(),
        "until": until.inner_text(),
        "expired": until.locator(".bad").count(),
    }
    page.fill("#filter-id", "tues")
    expect(page.locator("#snapshots tbody tr")).to_have_count(1, timeout=PATIENCE_MS)
    page.get_by_role("link", name="tuesday", exact=True).click()
    expect(page.locator("#detail h2")).to_have_text(re.compile("^tuesday"), timeout=PATIENCE_MS)
    expect(choice).to_be_visible(timeout=PATIENCE_MS)
    found["filtered"] = choice.locator("option").all_inner_texts()
    page.go_back()
    expect(page.locator("#detail h2")).to_have_text(re.compile("^monday"), timeout=PATIENCE_MS)
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#detail")).to_be_hidden(timeout=PATIENCE_MS)
    found["closed"] = page.url.endswith(("/", "#"))
    red = page.locator("#snapshots td[data-name='Restorable until'] .bad")
    page.fill("#filter-id", "bro")
    expect(page.locator("#snapshots tbody tr")).to_have_count(1, timeout=PATIENCE_MS)
    found["red"] = [red.inner_text(), *red.evaluate(COLOURS)]
    return found


def contents(visit: Visit) -> dict[str, Any]:
    """Read the checks, the comparison, the charts, and what doctor finds."""
    page = visit.page()
    epochs = visit.epochs(page)
    found: dict[str, Any] = {
        "captions": page.locator("#charts figcaption").all_inner_texts(),
        "bars": [chart.locator(".bar").count() for chart in page.locator("#charts .chart").all()],
        "titles": page.locator("#charts .chart")
        .first.locator(".bar")
        .evaluate_all("all => all.map(one => one.title)"),
        "outcomes": page.locator("#charts .outcomes li").all_inner_texts(),
        "durations": page.locator("#snapshots td[data-name='Duration']").all_inner_texts(),
    }
    doctor = page.locator("#doctor")
    expect(doctor).to_be_visible(timeout=PATIENCE_MS)
    found["doctor"] = [doctor.locator("summary").inner_text(), doctor.locator("li").all_inner_texts()]
    page.goto(f"{visit.url}/#{epochs['monday']}")
    checks = page.get_by_role("region", name="Checks").locator("tbody tr")
    expect(checks.first).to_be_visible(timeout=PATIENCE_MS)
    found["checks"] = checks.locator(".check").all_inner_texts()
    page.get_by_label("The other snapshot").select_option("tuesday")
    page.get_by_role("button", name="Compare").click()
    keys = page.get_by_role("region", name="Keys").locator("tbody tr")
    expect(keys.first).to_be_visible(timeout=PATIENCE_MS)
    found["keys"] = [row.locator("td").all_inner_texts() for row in keys.all()]
    page.screenshot(path=visit.folder / "comparison.png", full_page=True)
    return found


def acts(visit: Visit) -> dict[str, Any]:
    """Take a snapshot and abort it; assemble one that is captured."""
    page = visit.page()
    epochs = visit.epochs(page)
    heading, job = page.locator("#detail h2"), page.locator("#detail .job")
    page.locator("#trigger summary").click()
    storage = page.get_by_label("Storage")
    found: dict[str, Any] = {"storage": storage.input_value()}
    storage.fill("/elsewhere")
    page.get_by_role("button", name="Take it").click()
    expect(page.locator("#trigger [role=alert]")).to_contain_text("storage root", timeout=PATIENCE_MS)
    storage.fill(found["storage"])
    page.get_by_role("button", name="Take it").click()
    expect(heading).to_have_text(re.compile("INITIATED"), timeout=PATIENCE_MS)
    found["taken"] = heading.inner_text().split()[0]
    page.get_by_role("button", name="Abort").click()
    page.get_by_role("button", name="Yes, abort it").click()
    expect(heading).to_have_text(re.compile("FAILED"), timeout=PATIENCE_MS)
    found["aborted"] = [job.inner_text(), page.get_by_role("button", name="Abort").count()]
    page.goto(f"{visit.url}/#{epochs['captured']}")
    expect(heading).to_have_text(re.compile("^captured CAPTURED"), timeout=PATIENCE_MS)
    page.get_by_role("button", name="Assemble and verify").click()
    expect(heading).to_have_text(re.compile("VERIFIED"), timeout=PATIENCE_MS)
    expect(job).to_have_text("assembled: VERIFIED", timeout=PATIENCE_MS)
    found["assembled"] = page.get_by_role("button", name="Assemble and verify").count()
    return found


def draws(visit: Visit) -> dict[str, Any]:
    """Go through snapshots of 1, 20 and 100 processes by the keyboard: their diagrams."""
    page = visit.page()
    found: dict[str, Any] = {
        "rows": [row.locator("td").all_inner_texts() for row in page.locator("#snapshots tbody tr").all()],
        "recovery": [row.locator("td").all_inner_texts() for row in page.locator("#recovery tbody tr").all()],
    }
    visit.examine(page, "list")
    heading, svg = page.locator("#detail h2"), page.locator("#detail .diagram svg")
    for name in page.locator("#snapshots tbody td:nth-child(2) a").all_inner_texts():
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(heading).to_have_text(re.compile(f"^{name}"), timeout=PATIENCE_MS)
        expect(svg).to_be_visible(timeout=PATIENCE_MS)
        found[name] = svg.locator(".cut-point").count()
        page.locator("#detail .diagram").screenshot(path=visit.folder / f"page-{name}.png")
        if svg.locator(".message").count():
            visit.examine(page, name)
        if name == "twenty":
            found["gestures"] = _gestures(page)
        page.locator("#detail").focus()
        page.keyboard.press("Escape")
    return found


def _gestures(page: Page) -> dict[str, Any]:
    """Hide a line, collapse an app, filter messages, go through them by the keyboard; then show all of it again."""
    lanes = page.locator("#detail svg g.lane")
    lanes.first.locator(".name").dblclick()
    lanes.nth(8).locator(".name").click(modifiers=["Shift"])
    page.get_by_label("Messages with").fill("order-7")
    found: dict[str, Any] = {
        "collapsed": [text for text in lanes.locator(".name").all_text_contents() if "processes" in text],
        "filtered": page.locator("#detail svg g.message:not([display]) title").all_text_contents(),
        "left": page.locator("#detail .gestures").get_by_role("status").inner_text(),
    }
    page.locator("#detail .diagram").focus()
    page.keyboard.press("ArrowRight")
    found["traced"] = page.locator("#detail svg .traced").count()
    found["chain"] = page.locator("#detail .diagram + p").inner_text()
    page.get_by_role("button", name="Show all", exact=True).click()
    found["again"] = page.locator("#detail svg [display]").count()
    page.locator("#detail summary").click()
    expect(page.get_by_label("Columns").locator("tbody tr").first).to_be_visible(timeout=PATIENCE_MS)
    found["catalog"] = page.get_by_label("Columns").locator("tbody td:first-child").all_inner_texts()
    return found


PARTS: dict[str, Callable[[Visit], dict[str, Any]]] = {
    part.__name__: part for part in (links, contents, acts, draws)
}


def main() -> None:
    """Run one part."""
    part, url, folder = PARTS[sys.argv[1]], sys.argv[2], Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        visit = Visit(browser, url, folder)
        seen = part(visit)
        browser.close()
    sys.stdout.write(json.dumps(seen | {"errors": visit.errors, "serious": visit.serious}))


if __name__ == "__main__":
    main()
