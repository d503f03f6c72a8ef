"""`snapkafka help`: the exit statuses, and the help of a command."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import typer

from snapkafka.cli.present.layout import Table
from snapkafka.cli.running import STATUSES, console, run
from snapkafka.errors import BadInputError

EXIT_STATUS: Final = "exit-status"


def help_(
    context: typer.Context,
    topic: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC...", help=f"{EXIT_STATUS}, or a command such as `fork create`."),
    ],
) -> None:
    """Explain the exit statuses, or show the help of a command."""
    if topic == [EXIT_STATUS]:
        rows = Table("status", "code", "meaning", right=("status",))
        for status, code, meaning in STATUSES:
            rows.add(str(status), code, meaning)
        console.table(rows)
        console.print("A status is 128 plus the number of the signal that ended the command.")
        return
    assert context.parent is not None
    found: Any = context.parent.command
    parent = context.parent
    for name in topic:
        found = run(partial(_part, found, name), as_json=False)
        parent = found.make_context(name, [], parent=parent, resilient_parsing=True)
    print(found.get_help(parent))


async def _part(group: Any, name: str) -> Any:
    """Return a command of a group."""
    found = getattr(group, "commands", {}).get(name)
    if found is None:
        raise BadInputError(f"no help on {name!r}", hint=f"name a command, or {EXIT_STATUS}")
    return found
