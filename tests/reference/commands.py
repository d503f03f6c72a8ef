"""`commands.md`: every command with its arguments and options, from the typer app, with the notes beside this."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from snapkafka.cli.verbs import app

from .markdown import code, table

HEAD: Final = ("option", "default", "meaning")
#: An option of so many commands is described once.
COMMON_MIN: Final = 4
#: Command -> its notes in Markdown. `Head` begins the page, `Signals` ends it.
NOTES: Final[dict[str, str]] = dict(
    re.findall(
        r"^# (.+)\n\n((?:(?!^# ).*\n)*)",
        (Path(__file__).parent / "command_notes.md").read_text("utf-8") + "\n",
        re.MULTILINE,
    )
)


def page() -> str:
    """Return the page.

    Raises:
        ValueError: a note is of a command that does not exist.
    """
    group = get_command(app)
    found = dict(commands(group))
    if unknown := NOTES.keys() - found.keys() - {"Head", "Signals"}:
        raise ValueError(f"notes of unknown commands: {sorted(unknown)}")
    rows = {
        name: [row for item in one.params if not item.hidden for row in _rows(item)]
        for name, one in found.items()
    }
    counts = Counter(row for own in rows.values() for row in own)
    common = [row for row, count in counts.items() if count >= COMMON_MIN]
    parts = [f"# Commands\n\n{group.help}\n\n{NOTES['Head']}## Shared options\n\n" + table(HEAD, common)]
    for name, command in found.items():
        parts.append(f"\n## {name}\n\n{command.help}\n\n```\n{_usage(name, command)}\n```\n")
        own = [row for row in rows[name] if row not in common]
        if own:
            parts.append("\n" + table(HEAD, own))
        if shared := [row[0].split()[0].strip("`") for row in rows[name] if row in common]:
            parts.append("\nShared: " + ", ".join(map(code, shared)) + ".\n")
        if notes := NOTES.get(name):
            parts.append(f"\n{notes.rstrip()}\n")
    return "".join(parts) + f"\n## Signals\n\n{NOTES['Signals'].rstrip()}\n"


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its name, those of groups by both names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield above + name, command


def _usage(name: str, command: Any) -> str:
    arguments = [_argument(item) for item in command.params if item.param_type_name == "argument"]
    options = ["[OPTIONS]"] if any(item.param_type_name == "option" for item in command.params) else []
    return " ".join(["snapkafka", name, *options, *arguments])


def _argument(item: Any) -> str:
    return _value(item) if item.required else f"[{_value(item)}]"


def _value(item: Any) -> str:
    """Return the word that stands for the value of an argument or option."""
    return str(item.metavar or item.opts[0].lstrip("-").upper())


def _rows(item: Any) -> Iterator[tuple[str, str, str]]:
    if item.param_type_name == "argument":
        yield code(_value(item)), "", item.help or ""
        return
    names = " ".join([*item.opts, *item.secondary_opts])
    value = "" if item.is_flag else f" {_value(item)}"
    variable = item.envvar or ""
    reported = (item.help or "") + (f" Variable: `{variable}`." if variable else "")
    yield code(names + value), _default(item), reported


def _default(item: Any) -> str:
    value = item.default
    return code(value) if isinstance(value, (str, int, float)) and not item.is_flag else ""
