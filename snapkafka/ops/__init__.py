"""One function per verb: arguments in, a result out, nothing printed. The command, REST and gRPC only translate.

Every verb is a coroutine, takes where the cluster is (a `Connection`, or anything that is a `ports.Cluster`) and the
namespace, and raises `SnapkafkaError`s: `BrokerUnavailableError` where nobody answers, `LedgerUnusableError` where
there is no ledger to read, and what else it says.
"""

from __future__ import annotations

from .assembling import Assembled, assemble, verify
from .doctoring import Advice, Checkup, doctor
from .following import Progress
from .listing import Details, Summary, list_snapshots, show
from .reading import LedgerReading, find_snapshot, read_ledger
from .switching import Switched, pause, resume, retire
from .triggering import trigger

__all__ = [
    "Advice",
    "Assembled",
    "Checkup",
    "Details",
    "LedgerReading",
    "Progress",
    "Summary",
    "Switched",
    "assemble",
    "doctor",
    "find_snapshot",
    "list_snapshots",
    "pause",
    "read_ledger",
    "resume",
    "retire",
    "show",
    "trigger",
    "verify",
]
