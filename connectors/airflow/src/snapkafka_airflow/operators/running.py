"""Running a verb of `snapkafka.ops` in a task: the same id in each try, nothing left behind, errors by their codes."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.preflight import ID_CHARS_MAX
from snapkafka_airflow.hooks.snapkafka import SnapkafkaHook
from snapkafka_airflow.version_compat import AirflowException, AirflowFailException, BaseOperator

__all__ = ["SnapkafkaBaseOperator", "run_id_of"]

T = TypeVar("T")

#: Codes of errors that another try of the same task would meet again.
HOPELESS: Final = frozenset({"bad-input", "dependency-missing", "offsets-gone"})
#: What stands in a file name, a URI and a shell word as it is.
PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")
DIGEST_CHARS: Final = 10


def run_id_of(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
    """Return the snapshot id of a task in a DAG run: the same in every try, another in every run.

    The digest keeps ids apart whose plain characters are the same.
    """
    parts = [dag_id, run_id, task_id] + ([str(map_index)] if map_index >= 0 else [])
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGEST_CHARS]
    plain = PLAIN.sub("_", ".".join(parts)).strip("-_.")
    return f"{plain[: ID_CHARS_MAX - DIGEST_CHARS - 1]}.{digest}"


class SnapkafkaBaseOperator(BaseOperator):
    """A task that runs verbs of `snapkafka.ops`.

    Args:
        snapkafka_conn_id: the connection, of type `snapkafka`.
        namespace, storage: instead of those of the connection.
    """

    def __init__(
        self,
        *,
        snapkafka_conn_id: str = SnapkafkaHook.default_conn_name,
        namespace: str = "",
        storage: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.snapkafka_conn_id, self.namespace, self.storage = snapkafka_conn_id, namespace, storage
        self._cancel: Callable[[], None] | None = None
        self._killed = threading.Event()

    @property
    def hook(self) -> SnapkafkaHook:
        """The connection that the task names."""
        return SnapkafkaHook(self.snapkafka_conn_id, namespace=self.namespace, storage=self.storage)

    def run_verb(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a verb until it is done or the task is killed; whatever it has started ends with it.

        Raises:
            AirflowFailException: another try would meet the same error.
            AirflowException: it failed, or the task was killed.
        """
        try:
            return asyncio.run(self._cancellable(work))
        except SnapkafkaError as error:
            kind = AirflowFailException if error.code in HOPELESS else AirflowException
            raise kind(f"{error.code}: {error} ({error.hint})") from error
        except asyncio.CancelledError:
            raise AirflowException("the task was killed: what it ran has ended") from None
        finally:
            self._cancel = None

    async def _cancellable(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel) and None
        if self._killed.is_set():
            raise asyncio.CancelledError
        return await work()

    def on_kill(self) -> None:
        """End what the task runs; Airflow calls this on SIGTERM and when the task's time is over."""
        self.log.warning("the task is killed: ending what it runs")
        self._killed.set()
        if self._cancel is not None:
            self._cancel()
