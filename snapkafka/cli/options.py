"""Arguments that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["AsJson", "Bootstrap", "Namespace"]

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", envvar="SNAPKAFKA_BOOTSTRAP", help="The broker: host:port, several with commas."
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", envvar="SNAPKAFKA_NAMESPACE", help="The systems that are snapshotted together."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Say the result as JSON.")]
