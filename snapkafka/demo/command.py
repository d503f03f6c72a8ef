"""`snapkafka demo` and `snapkafka broker`: the main use on real parts, and a Kafka, both on this machine alone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from snapkafka.cli.build import command
from snapkafka.cli.running import console, print_json
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError, StorageError
from snapkafka.options import option, switch
from snapkafka.runtime.extras import require_extra
from snapkafka.testing.embedded import EmbeddedKafka
from snapkafka.verbs import Request


class Broker(Request, frozen=True):
    """The options of `broker`."""

    port: Annotated[int, option("--port PORT", "Port for clients, 1 to 65535.", ge=1)] = 9092


class Demo(Request, frozen=True):
    """The options of `demo`."""

    keep: Annotated[bool, switch("Leave it running, with its page, until Ctrl-C: to practise.")] = False
    storage: Annotated[str, option("--storage DIR", "Directory for tables and manifests.")] = "build/demo"
    engine: Annotated[
        Literal["both", "embedded", "spark"],
        option("--engine ENGINE", "`embedded` or `spark` assembles; `both`: and Spark verifies one."),
    ] = "both"


@command("broker")
def broker(asked: Broker) -> None:
    if asked.port > 65_535:
        raise BadInputError(f"must be 1 to 65535, got {asked.port}", field="port")
    with EmbeddedKafka(port=asked.port) as running:
        console.print(f"Kafka runs at {running.bootstrap}. Ctrl-C stops it, and its data goes.")
        while True:
            signal.pause()


@command("demo", own_json=True)
def demo(asked: Demo) -> None:
    require_extra("demo", "the demo")
    from snapkafka.demo.settings import forget_other_systems
    from snapkafka.demo.story import run_story
    from snapkafka.demo.summary import print_report

    forget_other_systems(os.environ)
    storage, started = Path(asked.storage).resolve() / time.strftime("%Y%m%d-%H%M%S"), time.monotonic()
    try:
        storage.mkdir(parents=True)
    except OSError as error:
        raise StorageError(f"{storage}: {error.strerror}") from error
    found = run_story(storage, engine=asked.engine, keep=asked.keep)
    if console.as_json:
        print_json(found)
    else:
        print_report(found, asked.engine)
        console.print(f"Done in {time.monotonic() - started:.0f} s. Nothing is left running.")
    if not all(one.good for one in found.snapshots):
        raise typer.Exit(EXIT_NOT_GOOD)
