"""What Airflow asks of a provider: `provider.yaml`, which lies beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

__all__ = ["get_provider_info"]

#: What only a release has.
OF_RELEASES = ("state", "source-date-epoch", "versions")


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, without its release."""
    found = yaml.safe_load(Path(__file__).with_name("provider.yaml").read_text("utf-8"))
    return {name: value for name, value in found.items() if name not in OF_RELEASES}
