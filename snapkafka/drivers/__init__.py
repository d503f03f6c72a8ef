"""The drivers: they do the I/O for `protocol.WorkerProtocol` and decide nothing. They do not import each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .faust.driver import FaustDriver
    from .faust.fork import Isolation
    from .faust.restores import AppliedRestores
    from .machine_driver import First, MachineDriver
    from .metrics import Metrics, rendered
    from .plain.confluent_clients import Consumer, Producer
    from .plain.participant import PlainDriver
    from .plain.table import Table
    from .remote.inputs import Bounds
    from .remote.participant import Participant
else:
    __getattr__ = lazily(__name__)
