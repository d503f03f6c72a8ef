"""Python imports this when it starts: services take a snapshot each other second, by the timer of their workers."""

from functools import partial

import snapkafka

snapkafka.install = partial(snapkafka.install, every=2.0)
