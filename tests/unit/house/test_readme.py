"""Hold README to what is there: its length, its links, its picture, its service."""

from __future__ import annotations

import ast
import re

from tests.readme import ROOT, service, text


def test_it_is_short() -> None:
    assert len(text().splitlines()) < 130, "a newcomer reads no more"


def test_every_link_leads_somewhere() -> None:
    """Of README and of the pages for contributors; Sphinx checks those of docs/."""
    found = [
        (page, link)
        for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md")
        for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text("utf-8"))
    ]
    assert len(found) > 10
    generated = (ROOT / ".gitignore").read_text("utf-8").split()  # by `make docs`
    assert [
        (page, link) for page, link in found if not (ROOT / link).exists() and f"/{link}" not in generated
    ] == []


def test_every_test_that_a_page_names_is_there() -> None:
    pages = [page.read_text("utf-8") for page in ROOT.glob("docs/**/*.md")]
    named = {name for page in pages for name in re.findall(r"tests/[\w/]+\.py", page)}
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_its_service_is_python_with_its_topics() -> None:
    names = {node.id for node in ast.walk(ast.parse(service())) if isinstance(node, ast.Name)}
    assert {"orders", "payments", "owed", "paid"} <= names
    created = re.search(r"snapkafka topics create (.+?) --", text())
    assert created is not None
    assert created[1].split() == ["orders", "payments"]
