"""The check of links sees a page, or a heading, that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check_links import headings, main


def checkout(root: Path, *, readme: str = "", module: str = "") -> Path:
    (root / "docs").mkdir()
    (root / "docs/page.md").write_text("# Page\n\n## Exit statuses\n\n```\n# no heading\n```\n")
    (root / "docs/other.md").write_text(
        "[x](none.md)" if "other.md" in readme else "[x](page.md#exit-statuses)"
    )
    (root / "snapkafka").mkdir()
    (root / "snapkafka/part.py").write_text(module)
    (root / "README.md").write_text(readme)
    for name in ("Makefile", "pyproject.toml"):
        (root / name).write_text("")
    return root


@pytest.mark.parametrize(
    ("readme", "module"),
    [
        ("[x](docs/page.md)", ""),
        ("[x](docs/page.md#exit-statuses)", "see docs/page.md#page"),
        ("[x](https://example.org/nowhere.md)", "see other/docs/none.md"),
    ],
)
def test_links_that_lead_somewhere(tmp_path: Path, readme: str, module: str) -> None:
    assert main(checkout(tmp_path, readme=readme, module=module)) == 0


@pytest.mark.parametrize(
    ("readme", "module", "reported"),
    [
        ("\n[x](docs/none.md)", "", "README.md:2: there is no "),
        ("[x](docs/page.md#no-heading)", "", "README.md:1: page.md has no heading #no-heading"),
        ("[x](docs/other.md)", "", "docs/other.md:1: there is no "),
        ("", "# see docs/none.md", "snapkafka/part.py:1: there is no "),
        ("", "# see docs/page.md#exits", "snapkafka/part.py:1: page.md has no heading #exits"),
    ],
)
def test_a_link_that_leads_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], readme: str, module: str, reported: str
) -> None:
    assert main(checkout(tmp_path, readme=readme, module=module)) == 1
    assert reported in capsys.readouterr().err


def test_headings_have_the_names_that_github_gives_them() -> None:
    assert headings("# Verify `--offline`, again\n## A  b\n") == {"verify---offline-again", "a--b"}
