"""The errors that a user can cause or meet, each with a stable code.

`assert` is for our own bugs; a `SnapkafkaError` is for the world: an unreachable broker, an unknown id, a full disk.
Each class has a stable `code` (used by REST, gRPC and logs) and an `exit_status` (of the command). An error has parts:
the `field` that is wrong, the `problem`, and the `hint`, what to do next. Its texts name options and verbs as the
command has them, in every interface. A failed verification is a *result*, not an error, and has an exit status of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, ClassVar, Final

EXIT_OK: Final = 0
#: A snapshot was examined and is not good (INCONSISTENT, UNVERIFIABLE): a result, which the exit status shows as well.
#: No shell or traceback ends with it.
EXIT_NOT_GOOD: Final = 30


class SnapkafkaError(Exception):
    """A failure that a user can cause or meet: one line of what happened, one of what to do.

    Args:
        problem: one line, what happened, with the names involved; after a field, what is wrong with it.
        hint: one line, what to do next.
        field: the option whose value is wrong, by its name at the command.
        facts: the names and numbers of the problem, for programs: values that JSON has.
    """

    #: One sentence, for tables of exit statuses.
    meaning: ClassVar[str]
    exit_status: ClassVar[int]
    code: str
    #: Its statuses over HTTP and gRPC.
    http = 500
    grpc = "INTERNAL"
    hint = ""

    def __init__(self, problem: str, *, hint: str | None = None, field: str = "", **facts: Any) -> None:
        super().__init__(problem)
        self.problem, self.field, self.facts = problem, field, facts
        self.hint = hint or self.hint

    @property
    def message(self) -> str:
        """What happened; a wrong option first, by its name."""
        return f"--{self.field} {self.problem}" if self.field else self.problem

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Reported:
    """An error that one process passes to another, in values that JSON has."""

    code: str
    problem: str
    hint: str
    field: str = ""
    facts: dict[str, Any] = dataclass_field(default_factory=dict)

    @classmethod
    def of(cls, error: SnapkafkaError) -> Reported:
        """Build it from an error."""
        return cls(error.code, error.problem, error.hint, error.field, error.facts)

    def error(self) -> SnapkafkaError:
        """Rebuild the error, of the same class; one of a class that is unknown here is internal."""
        classes = {cls.code: cls for cls in all_errors()}
        kind = classes.get(self.code, InternalError)
        return kind(self.problem, hint=self.hint, field=self.field, **self.facts)


class InternalError(SnapkafkaError):
    meaning = "A bug in snapkafka."
    code, exit_status = "internal", 70
    hint = "please report this with all that was printed or logged"


class BadInputError(SnapkafkaError):
    meaning = "An argument, a file or a setting is invalid."
    code, exit_status, http, grpc = "bad-input", 2, 400, "INVALID_ARGUMENT"
    hint = "see --help"


class BrokerUnavailableError(SnapkafkaError):
    meaning = "No broker answered at the given address."
    code, exit_status, http, grpc = "broker-unavailable", 3, 503, "UNAVAILABLE"
    hint = "check --bootstrap, that the broker runs, its advertised.listeners, and SNAPKAFKA_KAFKA_SECURITY_PROTOCOL"


class LedgerUnusableError(SnapkafkaError):
    meaning = "The ledger is missing, has more than one partition, is compacted, or a right is missing."
    code, exit_status, http, grpc = "ledger-unusable", 4, 503, "UNAVAILABLE"
    hint = "see docs/reference/ledger.md for how to create it"


class UnknownSnapshotError(SnapkafkaError):
    meaning = "No snapshot of that id or epoch is in the ledger or in storage."
    code, exit_status, http, grpc = "unknown-snapshot", 5, 404, "NOT_FOUND"
    hint = "`snapkafka list` lists the snapshots"


class TriggerRefusedError(SnapkafkaError):
    meaning = "A snapshot cannot start: no process runs, snapshots are paused, or too many are open."
    code, exit_status, http, grpc = "trigger-refused", 6, 409, "FAILED_PRECONDITION"
    hint = "`snapkafka doctor` lists what prevents snapshots"


class SnapshotFailedError(SnapkafkaError):
    meaning = "A snapshot started and failed: it was aborted, or not captured in time."
    code, exit_status, http = "snapshot-failed", 7, 409
    hint = "`snapkafka show ID` names the culprit; then trigger again"


class StorageError(SnapkafkaError):
    meaning = "The place for tables and manifests cannot be read or written."
    code, exit_status, http = "storage", 8, 502
    hint = "check --storage and the rights on it; incomplete snapshots are never listed"


class OffsetsGoneError(SnapkafkaError):
    meaning = "Records that the snapshot needs have been deleted from their topic."
    code, exit_status, http, grpc = "offsets-gone", 9, 410, "OUT_OF_RANGE"
    hint = "raise retention.ms of that topic, assemble sooner after the capture, and take a new snapshot"


class TimedOutError(SnapkafkaError):
    meaning = "Something did not happen in time; the message names it."
    code, exit_status, http, grpc = "timed-out", 10, 504, "DEADLINE_EXCEEDED"
    hint = "run it again with a longer time-out; `snapkafka show ID` shows what it waits for"


class InstallError(SnapkafkaError):
    meaning = "`snapkafka.install` was called twice on one app, or with an invalid setting."
    code, exit_status = "install", 11
    hint = "see 'Use it' in README.md"


class DependencyMissingError(SnapkafkaError):
    meaning = "A required part is not installed (an extra, Java, the jars)."
    code, exit_status, http = "dependency-missing", 12, 501
    hint = "install the extra that the message names"


class OutputError(SnapkafkaError):
    meaning = "The output of the command cannot be written: the disk is full."
    code, exit_status = "output", 13
    hint = "the command did its work; run it again with the output elsewhere"


class RestoreRefusedError(SnapkafkaError):
    meaning = "A restore was refused before it changed anything; every reason is named."
    code, exit_status, http = "restore-refused", 14, 409
    hint = "`snapkafka restore ID --dry-run` lists the reasons"


class RestoreFailedError(SnapkafkaError):
    meaning = "A restore did not finish; the same command continues it."
    code, exit_status = "restore-failed", 15
    hint = "run the same command again: it continues; until then the workers of these apps wait"


class ForkRefusedError(SnapkafkaError):
    meaning = "A fork was refused before anything was created or removed; every reason is named."
    code, exit_status, http = "fork-refused", 16, 409
    hint = "`snapkafka fork list` lists the forks"


class ForkFailedError(SnapkafkaError):
    meaning = "Creating or removing a fork did not finish."
    code, exit_status = "fork-failed", 17
    hint = "run `snapkafka fork drop`, and create it again"


class ForkIsolationError(SnapkafkaError):
    meaning = "A process of a fork tried to use a topic, a group, an id or a client outside of the fork."
    code, exit_status = "fork-isolation", 18
    hint = (
        "use topics of the app (`app.topic`), which the fork translates, or start it without SNAPKAFKA_FORK"
    )


# Who cannot log in finds no broker, for everything but the message, the code and the exit status.
class AuthenticationError(BrokerUnavailableError):
    meaning = "The broker or the identity provider rejects the credentials."
    code, exit_status = "authentication-failed", 19
    hint = "check the user name and the password (or the token, or the ticket): see docs/guide/security.md"


class MechanismError(BrokerUnavailableError):
    meaning = "The SASL mechanism is unknown, or not enabled at the broker."
    code, exit_status = "wrong-mechanism", 20
    hint = "set sasl.mechanism to one that the broker has enabled: see docs/guide/security.md"


class CertificateError(BrokerUnavailableError):
    meaning = "A certificate or key is missing, cannot be read, or is not trusted by the other side."
    code, exit_status = "certificate", 21
    hint = "check ssl.ca.location, ssl.certificate.location and ssl.key.location: see docs/guide/security.md"


class PlanChangedError(SnapkafkaError):
    meaning = "The plan changed after it was confirmed; nothing was done."
    code, exit_status, http = "plan-changed", 22, 409
    hint = "run the command again and read the new plan"


class OvertakenError(SnapkafkaError):
    meaning = "Another run or a worker took over a consumer group of this run, which then stopped."
    code, exit_status, http = "overtaken", 23, 409
    hint = "run the same command again: it finishes the rest, if any is left"


def all_errors() -> list[type[SnapkafkaError]]:
    """List every error class by exit status: the one table for the command, REST and docs."""
    first = SnapkafkaError.__subclasses__()
    found = first + [cls for base in first for cls in base.__subclasses__()]
    return sorted((cls for cls in found if "exit_status" in cls.__dict__), key=lambda cls: cls.exit_status)
