"""Configure Sphinx: the pages of docs/ as a site (`make docs`). Warnings, such as broken links, are errors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_PROJECT: Final = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]

project = "snapkafka"
version = release = _PROJECT["version"]
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"snapkafka {release}"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
templates_path: list[str] = []
# Headings of three levels can be linked to, by the names that GitHub gives them.
myst_heading_anchors = 3
# No page needs it, and a search for "python" finds the guide and not the standard library.
html_domain_indices = False
html_use_index = False


def setup(app: Sphinx) -> None:
    """Show diagrams, which GitHub draws, and schedules of cron as their text.

    A site that draws diagrams fetches code from other hosts.
    """
    for language in ("mermaid", "cron"):
        app.add_lexer(language, TextLexer)
