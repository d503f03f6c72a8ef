"""The broker of an app, for clients of our own."""

from __future__ import annotations

import os
from typing import Any

from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.login.security import Security


def connection_of(app: Any) -> Connection:
    """Return the connection to the app's broker, for our own clients: from `SNAPKAFKA_KAFKA_*` if set, else from the
    app's settings."""
    from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth, server_list

    conf = app.conf
    bootstrap = ",".join(server_list(conf.broker, 9092))
    if settings := Security.from_environment(os.environ):
        return Connection.secured(bootstrap, settings)
    return Connection(
        bootstrap=bootstrap,
        security=dict(credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context)),
    )
