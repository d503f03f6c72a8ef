"""Open the page in many tabs of one browser: `.venv/web/bin/python tests/e2e/open_tabs.py URL TABS`.

Runs in an environment of its own (`make .venv/web/.ready`). Prints one JSON object: what each tab shows when all are
open; then standard input is awaited for a line; then what each tab shows of the snapshots; then, after the tab that
holds the stream was closed and another line came, what the others show.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PATIENCE_MS = 90_000
ROWS = "#snapshots tbody tr"


def opened(context: BrowserContext, url: str) -> Page:
    """Open a tab that is live."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    expect(page.locator("#live")).to_contain_text("live;", timeout=PATIENCE_MS)
    return page


def rows(pages: list[Page], number: int) -> list[int]:
    """Wait until each tab has so many snapshots; return how many it has."""
    for page in pages:
        expect(page.locator(ROWS)).to_have_count(number, timeout=PATIENCE_MS)
    return [page.locator(ROWS).count() for page in pages]


def report(**found: Any) -> None:
    """Print a line, and wait for one."""
    print(json.dumps(found), flush=True)
    sys.stdin.readline()


def main() -> None:
    """Open the tabs, and watch them."""
    url, tabs = sys.argv[1], int(sys.argv[2])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        context = browser.new_context()
        pages = [opened(context, url) for _ in range(tabs)]
        first = rows(pages, 1)
        report(live=len(pages), rows=first)
        report(rows=rows(pages, first[0] + 1))
        pages.pop(0).close()  # the first one holds the stream
        report(rows=rows(pages, first[0] + 1))
        print(json.dumps({"rows": rows(pages, first[0] + 2)}), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
