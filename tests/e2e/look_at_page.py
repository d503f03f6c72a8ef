"""Look at the page in a real Chromium: `.venv/web/bin/python tests/e2e/look_at_page.py URL FOLDER`.

Runs in an environment of its own (`make .venv/web/.ready`). Prints one JSON object: what was seen, what axe found, who
was asked, and what the console said. Screenshots lie in FOLDER.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

#: Debian's; Playwright's own is fetched from elsewhere.
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PATIENCE_MS = 90_000
#: The path of each of these elements.
DRAWN = "all => all.map(one => one.querySelector('path').getAttribute('d'))"


def violations(page: Page, theme: str) -> list[dict[str, Any]]:
    """What axe finds, in short."""
    found = Axe().run(page)
    return [
        {
            "theme": theme,
            "id": item["id"],
            "impact": item["impact"],
            "help": item["help"],
            "nodes": [node["html"][:160] for node in item["nodes"][:3]],
        }
        for item in found.response["violations"]
    ]


def wall_clock(page: Page, name: str, folder: Path) -> dict[str, Any]:
    """Draw the cut at one wall-clock time, and go back to the snapshot's own."""
    page.get_by_label("What if every process").check()
    page.wait_for_selector("#detail .diagram svg .wall", state="attached")
    expect(page.locator("#detail .diagram")).to_contain_text("in flight across it", timeout=PATIENCE_MS)
    page.screenshot(path=folder / f"{name}-wall.png", full_page=True)
    red = page.locator("#detail svg .arrow-backward").first
    found = {
        "backward": page.locator("#detail svg .message.backward").count(),
        "red": red.evaluate("one => getComputedStyle(one).stroke") if red.count() else None,
        "read": page.locator("#detail svg .wall-point").count(),
        "text": page.locator("#detail .diagram svg text").all_text_contents(),
        "violations": violations(page, f"light, wall clock of {name}"),
    }
    page.locator("#detail").focus()  # keys are the page's again
    page.keyboard.press("d")
    found["violations"] += violations(page, f"dark, wall clock of {name}")
    page.screenshot(path=folder / f"{name}-wall-dark.png", full_page=True)
    page.keyboard.press("d")
    page.get_by_label("What if every process").uncheck()
    expect(page.locator("#detail .diagram svg .wall")).to_have_count(0, timeout=PATIENCE_MS)
    page.locator("#detail").focus()
    return found


def gestures(page: Page, folder: Path, name: str) -> dict[str, Any]:
    """Hide a line, collapse an app, filter messages, go through them by the keyboard; then show all of it again."""
    diagram, lanes = page.locator("#detail .diagram"), page.locator("#detail svg g.lane")
    height = page.locator("#detail svg.cut").get_attribute("height")
    lanes.first.locator(".name").dblclick()
    found: dict[str, Any] = {"hidden": page.locator("#detail svg g.lane[display]").count()}
    lanes.nth(8).locator(".name").click(modifiers=["Shift"])
    found["collapsed"] = [text for text in lanes.locator(".name").all_text_contents() if "processes" in text]
    found["points"] = page.locator("#detail svg .cut-point:not([display])").count()
    page.get_by_label("Messages with").fill("order-7")
    found["filtered"] = page.locator("#detail svg g.message:not([display]) title").all_text_contents()
    found["left"] = page.locator("#detail .gestures").get_by_role("status").inner_text()
    page.screenshot(path=folder / f"{name}-gestures.png", full_page=True)
    diagram.focus()
    page.keyboard.press("ArrowRight")
    found["traced"] = page.locator("#detail svg .traced").count()
    found["chain"] = page.locator("#detail .diagram + p").inner_text()
    page.get_by_role("button", name="Show all", exact=True).click()
    found["again"] = page.locator("#detail svg [display]").count()
    found["height"] = (height, page.locator("#detail svg.cut").get_attribute("height"))
    page.get_by_role("button", name="offset").first.click()
    found["witness"] = page.locator("#detail .diagram + p").inner_text()
    page.locator("#detail summary").click()
    expect(page.get_by_label("Columns").locator("tbody tr").first).to_be_visible(timeout=PATIENCE_MS)
    found["catalog"] = page.get_by_label("Columns").locator("tbody td:first-child").all_inner_texts()
    page.locator("#detail").focus()
    return found


def glyphs(page: Page, folder: Path) -> dict[str, Any]:
    """Messages that do not cross the cut: at their two ends, whole while pointed at, and when there are few lines."""
    near = page.locator("#detail svg g.message.near:not([display])")

    def halves() -> int:
        return sum(path.count("M") == 2 for path in near.evaluate_all(DRAWN))

    found: dict[str, Any] = {"near": near.count(), "halves": halves()}
    near.first.scroll_into_view_if_needed()
    x, y, *_ = (float(number) for number in re.findall(r"[\d.]+", near.evaluate_all(DRAWN)[0]))
    place = page.locator("#detail svg.cut").evaluate(
        "(svg, [x, y]) => { const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM()); return [at.x, at.y]; }",
        [x, y],
    )
    page.mouse.move(*place)
    found["pointed"] = halves()
    page.screenshot(path=folder / "hundred-pointed.png", full_page=True)
    page.mouse.move(0, 0)
    found["left"] = halves()
    page.get_by_label("Lines").select_option(index=0)
    page.get_by_role("button", name="Hide", exact=True).click()
    found["fewer"] = (page.locator("#detail svg g.lane:not([display])").count(), halves())
    page.get_by_role("button", name="Show all", exact=True).click()
    found["again"] = halves()
    lanes = page.get_by_label("Processes", exact=True)
    found["rows"] = [lanes.locator("tbody tr").count()]
    lanes.get_by_role("button", name="Show all 100").click()
    found["rows"].append(lanes.locator("tbody tr").count())
    return found


def ending(page: Page, url: str) -> dict[str, Any]:
    """Open the running snapshot, see it wait longer, and have it end: the page hears of it."""
    page.get_by_role("link", name="running", exact=True).click()
    status = page.locator("#detail h2 .status")
    expect(status).to_have_text("CAPTURING", timeout=PATIENCE_MS)
    waits = page.locator("#detail .head li").first
    found: dict[str, Any] = {"waits": [waits.inner_text()]}
    page.locator("#detail svg.cut").evaluate("one => one.setAttribute('data-seen', 'before')")
    expect(waits).not_to_have_text(found["waits"][0], timeout=PATIENCE_MS)
    found["waits"].append(waits.inner_text())
    found["drawn"] = page.locator("#detail svg.cut").get_attribute("data-seen")
    page.request.post(f"{url.rstrip('/')}/v1/snapshots/running/abort", data={})
    expect(status).to_have_text("FAILED", timeout=PATIENCE_MS)
    found["why"] = page.locator("#detail .head ul").inner_text()
    return found


def look(page: Page, url: str, folder: Path) -> dict[str, Any]:
    """Open the list, then each snapshot by the keyboard, in both themes."""
    page.goto(url)
    page.wait_for_selector("#snapshots tbody tr")
    expect(page.locator("#live")).to_have_text(re.compile("^live"), timeout=PATIENCE_MS)
    seen: dict[str, Any] = {
        "columns": page.locator("#snapshots thead th").all_inner_texts(),
        "rows": [row.locator("td").all_inner_texts() for row in page.locator("#snapshots tbody tr").all()],
        "recovery": [row.locator("td").all_inner_texts() for row in page.locator("#recovery tbody tr").all()],
        "details": {},
        "violations": violations(page, "light"),
    }
    page.screenshot(path=folder / "list.png", full_page=True)
    page.get_by_role("button", name="Copy as command").first.click()
    expect(page.locator("#live")).to_contain_text("snapkafka show", timeout=PATIENCE_MS)
    page.keyboard.press("/")  # keys work on a button, too
    expect(page.locator("#filter-id")).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("Escape")
    for number, name in enumerate(page.locator("#snapshots tbody td:nth-child(2) a").all_inner_texts()):
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.locator("#detail h2")).to_have_text(re.compile(f"^{name}"), timeout=PATIENCE_MS)
        page.wait_for_selector("#detail .diagram svg")
        page.screenshot(path=folder / f"{name}.png", full_page=True)
        seen["details"][name] = {
            "headings": page.locator("#detail h3").all_inner_texts(),
            "width": page.locator("#detail .diagram svg").bounding_box(),
            "overflow": page.evaluate("document.documentElement.scrollWidth - innerWidth"),
            "points": page.locator("#detail svg .cut-point").count(),
        }
        page.mouse.move(0, 0)
        page.locator("#detail .diagram").screenshot(path=folder / f"page-{name}.png")
        if name == "twenty":
            seen["gestures"] = gestures(page, folder, name)
        if name == "hundred":
            seen["glyphs"] = glyphs(page, folder)
        if page.get_by_label("What if every process").count():
            found = wall_clock(page, name, folder)
            seen["violations"] += found.pop("violations")
            seen["details"][name]["wall"] = found
        if number == 0:
            seen["violations"] += violations(page, "light, open")
            page.keyboard.press("d")
            seen["violations"] += violations(page, "dark, open")
            page.screenshot(path=folder / f"{name}-dark.png", full_page=True)
            page.keyboard.press("d")
        page.keyboard.press("Escape")
    if "running" in seen["details"]:
        seen["ended"] = ending(page, url)
    page.fill("#filter-id", "no-such-snapshot")
    expect(page.locator("#snapshots tbody tr")).to_have_count(0, timeout=PATIENCE_MS)
    return seen


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    said: list[str] = []
    asked: set[str] = set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(PATIENCE_MS)  # of screenshots, too
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: asked.add(request.url))
        seen = look(page, url, folder)
        browser.close()
    origin = url.rstrip("/")
    seen |= {
        "console": said,
        "others": sorted(u for u in asked if not u.startswith((origin, "data:", "blob:"))),
    }
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
