"""An agent of the app in `calls` that only autodiscovery finds."""

from __future__ import annotations

from tests.features.apps.calls import app
from tests.features.apps.common import tell

tell(app, "found")
