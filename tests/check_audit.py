"""Check what `pip-audit --format json` found: `python tests/check_audit.py build/audit.json`, part of `make audit`.

pip-audit ends with status 0 where PyPI knows none of the packages (an index without advisories, no network): then
nothing was audited, and that is no success.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

#: This package is audited by what it depends on.
OURS: Final = {"snapkafka", "snapkafka-airflow"}


def problems(report: dict[str, Any]) -> list[str]:
    """Return the packages with known vulnerabilities, and those that were not audited, as lines."""
    found = []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            if package["name"] not in OURS:
                found.append(f"{package['name']}: not audited: {package['skip_reason']}")
            continue
        for known in package["vulns"]:
            fixed = ", ".join(known["fix_versions"]) or "no version"
            found.append(f"{package['name']} {package['version']}: {known['id']}, fixed in {fixed}")
    return found if report["dependencies"] else ["no package was audited"]


if __name__ == "__main__":
    lines = problems(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    for line in lines:
        print(line, file=sys.stderr)
    sys.exit(1 if lines else 0)
