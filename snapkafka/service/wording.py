"""The translation of errors from the command's words into the service's: the one table of its words.

| an error names | a client reads |
|---|---|
| an option that a request has (`--ttl`) | the field or parameter (`ttl_ms`) |
| a command that has a route (`snapkafka list`) | the route (`GET /v1/snapshots`) |
| an option of `snapkafka serve`, or one that no request has | that option with its command |
| a command without a route (`snapkafka resume`) | that command |

Messages contain values of a user (a query, a path), so there an option is translated only at the start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from snapkafka.errors import SnapkafkaError

#: Where a client of REST reads what there is.
DOCUMENT: Final = "/openapi.yaml"
#: Option -> field of a JSON body.
FIELDS: Final[Mapping[str, str]] = {
    "--apps": "apps",
    "--id": "snapshot_id",
    "--invariants": "invariants",
    "--knows-markers": "knows_markers",
    "--parent": "parent_snapshot_id",
    "--record": "record",
    "--retries": "retries",
    "--set": "parameters",
    "--sink": "sinks",
    "--source": "sources",
    "--storage": "target_storage_uri",
    "--strict": "strict",
    "--tables": "tables",
    "--ttl": "ttl_ms",
    "--type": "snapshot_type",
}
#: Option -> parameter of a query string.
PARAMETERS: Final[Mapping[str, str]] = {
    "--at": "at",
    "--keys": "keys",
    "--messages": "messages",
    "--sum": "sum",
    "--wall-clock": "wall_clock",
}
#: Command -> its route.
ROUTE_OF: Final[Mapping[str, str]] = {
    "assemble": "POST /v1/snapshots/{id}/assemble",
    "diff": "GET /v1/snapshots/{id}/diff",
    "draw": "GET /v1/snapshots/{id}/diagram.svg",
    "fork list": "GET /v1/forks",
    "list": "GET /v1/snapshots",
    "query": "POST /v1/snapshots/{id}/query",
    "show": "GET /v1/snapshots/{id}",
    "trigger": "POST /v1/snapshots/trigger",
    "verify": "POST /v1/snapshots/{id}/verify",
}
#: Option that no request has -> the command that has it.
COMMAND_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "--bootstrap", "--foreign-input", "--foreign-topic", "--grpc-port", "--host", "--host-name", "--namespace",
            "--port", "--storage-root", "--tls-certificate", "--tls-key", "--tokens",
        ),
        "serve",
    ),
    **dict.fromkeys(
        (
            "--around", "--avro", "--codecs", "--isolation", "--schema-registry", "--unpickle",
            "--with-inputs",
        ),
        "assemble",
    ),
    "--epoch": "show",
    "--manifest": "verify",
    "--steps": "trace",
    "--unchecked": "query",
}  # fmt: skip
#: What is no option or command by itself -> the same for a client. Applied first, in this order.
PHRASES: Final[Mapping[str, str]] = {
    "see --help": "see {document}",
    "with the output of the command": "with the log of the service",
    "add --wait, or the --id of": "add the snapshot_id of",
    "`snapkafka trigger --wait` returns": "`GET /v1/snapshots/{{id}}/events` ends",
    "--storage DIR": "target_storage_uri",
}

#: A command in backticks: its name, and whatever follows.
_COMMAND: Final = re.compile(
    rf"`snapkafka ({'|'.join(sorted(ROUTE_OF, key=len, reverse=True))})(?: ([^`]*))?`"
)
#: An option outside of any command, and a value that it is given.
_OPTION: Final = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)(?: (\d+|full|incremental)(?![\w.,-]))?")
_SPANS: Final = re.compile(r"(`[^`]*`)")
_LEADING: Final = re.compile(r"(?:invalid )?--[a-z][a-z-]*")


def message(error: SnapkafkaError) -> str:
    """Return the message of an error, for a client."""
    text = _routes(error.message)
    found = _LEADING.match(text)
    return text if found is None else _options(found[0]) + text[found.end() :]


def hint(error: SnapkafkaError, document: str = DOCUMENT) -> str:
    """Return the hint of an error, for a client.

    Args:
        document: the place of the API's description.
    """
    return sentence(error.advice, document)


def sentence(text: str, document: str = DOCUMENT) -> str:
    """Return a text of ours, without values of a user except names, for a client."""
    for phrase, instead in PHRASES.items():
        text = text.replace(phrase, instead.format(document=document))
    parts = _SPANS.split(_routes(text))
    return "".join(part if part.startswith("`") else _options(part) for part in parts)


def _routes(text: str) -> str:
    return _COMMAND.sub(_route, text)


def _route(command: re.Match[str]) -> str:
    """Return the route that does the same as a command; the command itself if the route has no such option."""
    words = (command[2] or "").split()
    options = [word for word in words if word.startswith("--")]
    names = [word for word in words if not word.startswith("--")]
    if any(option not in FIELDS for option in options):
        return command[0]
    route, more = ROUTE_OF[command[1]], ""
    name = " ".join(names)
    if len(names) > 1 and command[1] == "assemble":
        more = f" for each of {', '.join(names)}"
    elif name not in ("", "ID") and "/" not in name:  # one with a slash is named by its epoch
        route = route.replace("{id}", quote(name))
    fields = " and ".join(f'"{FIELDS[option]}": true' for option in options)
    return f"`{route}`{more}" + (f" with {fields}" if fields else "")


def _options(text: str) -> str:
    return _OPTION.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    option, value = found[1], found[2]
    given = "" if value is None else f" {value}"
    if name := FIELDS.get(option):
        return name if value is None else f'"{name}": {value}' if value.isdigit() else f'"{name}": "{value}"'
    if name := PARAMETERS.get(option):
        return name if value is None else f"{name}={value}"
    if command := COMMAND_OF.get(option):
        return f"`snapkafka {command} {option}`{given}"
    return found[0]
