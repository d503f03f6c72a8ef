"""`errors.md`: codes with exit statuses and HTTP statuses, from the tables of the command and of the service."""

from __future__ import annotations

from snapkafka.cli.running import STATUSES
from snapkafka.service.problems import HTTP_STATUS, REFUSALS

from .markdown import code, table


def page() -> str:
    """Return the page."""
    rows = []
    for status, name, meaning in STATUSES:
        rows.append((str(status), code(name if status else "ok"), str(HTTP_STATUS.get(name, "")), meaning))
    refusals = table(("code", "HTTP"), ((code(name), str(status)) for name, status in REFUSALS.items()))
    return f"""# Errors and exit statuses

The command returns the status; `--json` and REST give the code, a message, a hint and the status.
[runbook.md](../guide/runbook.md) states for each code what to do, and lists the codes of failed snapshots and of
`doctor`.

{table(("exit status", "code", "HTTP", "meaning"), rows)}
With `--json` an error is on standard output too:

```json
{{"error": {{"code": "unknown-snapshot", "message": "...", "hint": "...", "exit_status": 5}}}}
```

## Only from REST

{refusals}"""
