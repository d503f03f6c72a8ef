"""`errors.md`: codes with exit statuses and HTTP statuses, from the error classes and the tables of the service."""

from __future__ import annotations

from snapkafka.cli.running import STATUSES
from snapkafka.errors import COMMAND, SnapkafkaError, all_errors
from snapkafka.service.problems import HTTP_STATUS, REFUSALS

from .markdown import code, table


def page() -> str:
    """Return the page."""
    classes: list[type[SnapkafkaError]] = [*all_errors(), SnapkafkaError]
    errors = {cls.code: cls for cls in classes}
    rows = []
    for status, name, meaning in STATUSES:
        error = errors.get(name)
        http = HTTP_STATUS.get(name)
        rows.append(
            (
                str(status),
                code(name if status else "ok"),
                str(http or ""),
                meaning,
                COMMAND.text(error.hint) if error else "",
            )
        )
    refusals = table(("code", "HTTP"), ((code(name), str(status)) for name, status in REFUSALS.items()))
    return f"""# Errors and exit statuses

The command returns the status; `--json` and REST give the code, a message, a hint and the status.
[runbook.md](../guide/runbook.md) states for each code what to do, and lists the codes of failed snapshots and of
`doctor`.

{table(("exit status", "code", "HTTP", "meaning", "hint"), rows)}
With `--json` an error is on standard output too:

```json
{{"error": {{"code": "unknown-snapshot", "message": "...", "hint": "...", "exit_status": 5}}}}
```

## Only from REST

{refusals}"""
