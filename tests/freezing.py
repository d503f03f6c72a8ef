"""A broker that stands still, as on a machine that hangs: its connections stay, and nothing comes through them."""

import os
import signal

from snapkafka.testing import EmbeddedKafka


def freeze(broker: EmbeddedKafka) -> None:
    """Suspend it, and return when it is suspended."""
    assert broker.pid is not None, "it runs"
    os.kill(broker.pid, signal.SIGSTOP)
    os.waitpid(broker.pid, os.WUNTRACED)


def thaw(broker: EmbeddedKafka) -> None:
    """Let it go on."""
    if broker.pid is not None:
        os.kill(broker.pid, signal.SIGCONT)
