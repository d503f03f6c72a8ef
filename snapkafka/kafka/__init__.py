"""The ports on a real Kafka: the ledger, topics and groups. The client library is aiokafka, as in Faust."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .cluster.admin import KafkaTopicAdmin
    from .cluster.group_hold import HOLDER, GroupTakenError
    from .ledger.kafka_ledger import KafkaLedger, topic_name
    from .ledger.reader import LedgerRecreatedError
    from .ledger.reading import LedgerReading, find_captured, opened, read_ledger
    from .ledger.settings import SETTINGS
    from .ledger.tail_marks import LedgerCutShortError
    from .login.connection import Connection
    from .login.security import Security
    from .preflight import compose_trigger
    from .records.bulk import KafkaBulk
    from .records.read import KafkaRecord
else:
    __getattr__ = lazily(__name__)
