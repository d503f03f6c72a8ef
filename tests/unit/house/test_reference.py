"""The generated pages of docs/reference refuse what nobody has described."""

from __future__ import annotations

import dataclasses

import pytest

from snapkafka.config import Config
from tools import reference


def test_every_page_is_made_of_the_code() -> None:
    pages = reference.pages()
    assert "| `left-late` | unverifiable |" in pages["findings.md"]
    assert "| 9 | `offsets-gone` |" in pages["errors.md"]
    assert "## fork create\n" in pages["commands.md"]


def test_what_nobody_has_described_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclasses.dataclass(frozen=True)
    class Longer(Config):
        pause_s: float = 1.5

    Longer.__doc__ = Config.__doc__
    with monkeypatch.context() as patch:
        patch.setattr(reference, "Config", Longer)
        with pytest.raises(ValueError, match="pause_s"):
            reference.settings_page()
    monkeypatch.delitem(reference.VARIABLES, "SNAPKAFKA_CACHE")
    with pytest.raises(ValueError, match="SNAPKAFKA_CACHE"):
        reference.settings_page()
