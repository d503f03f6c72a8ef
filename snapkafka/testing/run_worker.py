"""A worker of your app with another broker: `python -m snapkafka.testing.run_worker APP BROKER FOLDER`.

The app is imported as by Faust's command; before it starts, its broker, its data folder and its web server are
replaced, whatever its code names: a test must never reach the app's own cluster.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any


def redirect(app: Any, bootstrap: str, folder: str) -> None:
    """Make an app that has not started use another broker, without a login, and another data folder.

    Args:
        app: a `faust.App`.
        bootstrap: `host:port`.
    """
    from yarl import URL

    urls = [URL(f"kafka://{address}") for address in bootstrap.split(",")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Faust's, on settings that were read already
        app.conf.broker = app.conf.broker_consumer = app.conf.broker_producer = urls
        app.conf.broker_credentials = None
        app.conf.datadir = folder
        app.conf.web_enabled = False
    for transport in (app.transport, app.producer_transport):
        transport.url = urls


def main(target: str, bootstrap: str, folder: str) -> None:
    """Run until SIGINT or SIGTERM."""
    from faust.cli.base import find_app
    from faust.cli.faust import cli

    redirect(find_app(target), bootstrap, folder)
    options = ["--loglevel", "warn", "--without-web"]
    cli.main(["--app", target, "--datadir", folder, "worker", *options], prog_name="faust")


if __name__ == "__main__":
    main(*sys.argv[1:])
