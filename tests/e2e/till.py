"""A process that does not speak Kafka: it has cash, sends coins into a topic by gRPC, and receives change."""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc

from snapkafka.service.grpc_api import messages as pb
from snapkafka.service.grpc_server import SESSION_KEY
from tests.worlds.grpc_stub import Stub

CALL_S = 20.0
#: So that change piles up in front of it.
PAUSE_S = 0.004
#: It gives its positions after so many messages.
BATCH = 25


class Till:
    """Sends while a lock is free; takes the lock to record its state and give it, so that nothing is sent meanwhile.

    Args:
        inputs: topics that it receives change from; each third piece of it goes back as a coin.
        positions: by topic and partition, where it goes on.
    """

    def __init__(
        self,
        address: str,
        node: str,
        topic: str,
        cash: int,
        inputs: Sequence[str],
        positions: Mapping[tuple[str, int], int],
    ) -> None:
        self.node, self.cash, self.received, self.ended = node, cash, 0, ""
        self.positions, self.cut = dict(positions), list[str]()
        self._topic = topic
        self._channel = grpc.insecure_channel(address)
        self._stub = Stub(self._channel)
        self._lock, self._over = threading.Lock(), threading.Event()
        starts = {
            name: [pb.Start(partition=n, offset=at) for (of, n), at in positions.items() if of == name]
            for name in inputs
        }
        named = [pb.Input(topic=name, value_codec="json", positions=at) for name, at in starts.items()]
        self._notices = self._stub.Join(pb.JoinRequest(node_id=node, codec="json", inputs=named))
        joined = next(iter(self._notices)).joined
        self.process, self._session = joined.process, ((SESSION_KEY, joined.session),)
        self._messages = self._stub.Receive(pb.ReceiveRequest(node_id=node), metadata=self._session)
        works = self._hear, self._send, self._receive
        self._threads = [threading.Thread(target=self._work, args=(it,), daemon=True) for it in works]
        for thread in self._threads:
            thread.start()

    def _work(self, work: Any) -> None:
        try:
            work()
        except grpc.RpcError as error:
            self.ended = str(error.code())

    def _call(self, name: str, request: Any) -> Any:
        return getattr(self._stub, name)(request, timeout=CALL_S, metadata=self._session)

    def _hear(self) -> None:
        for notice in self._notices:
            if notice.WhichOneof("notice") == "marker":
                with self._lock:
                    self._record(notice.marker.snapshot_id)

    def _record(self, snapshot: str) -> None:
        state = json.dumps({"cash": self.cash}).encode()
        flush = pb.FlushRequest(snapshot_id=snapshot, node_id=self.node, state_data=state)
        assert self._call("FlushChannelState", flush).status == "STORED"
        marker: Any = pb.MarkerRequest(
            snapshot_id=snapshot,
            sender_node_id=self.node,
            timestamp_ns=time.time_ns(),
            positions=self._places(),
        )
        if self._call("SendMarker", marker).accepted:
            self.cut.append(snapshot)

    def _send(self) -> None:
        for number in itertools.count():
            if self._over.wait(0.002):
                return
            with self._lock:
                if self._over.is_set():
                    return
                self._pay(b"purse-%d" % (number % 50), 1 + number % 9)

    def _pay(self, key: bytes, amount: int, cause: Any = None) -> None:
        coin = {"topic": self._topic, "key": key, "value": b"%d" % amount, "cause": cause}
        self._call("Send", pb.SendRequest(node_id=self.node, **coin))
        self.cash -= amount

    def _receive(self) -> None:
        for message in self._messages:
            with self._lock:
                if self._over.is_set():
                    return
                self._take(message)
                if self.received % BATCH == 0:
                    done: Any = pb.ProcessedRequest(node_id=self.node, positions=self._places())
                    self._call("Processed", done)
            if self._over.wait(PAUSE_S):
                return

    def _take(self, message: Any) -> None:
        amount = int(message.value)
        self.cash += amount
        self.received += 1
        if self.received % 3 == 0:
            place = pb.Position(topic=message.topic, partition=message.partition, offset=message.offset)
            self._pay(message.key, amount, place)
        self.positions[message.topic, message.partition] = message.offset + 1

    def _places(self) -> list[Any]:
        places = self.positions.items()
        return [pb.Position(topic=topic, partition=n, offset=at) for (topic, n), at in places]

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """It has no call under way, and makes no more."""
        with self._lock:
            self._over.set()
            yield

    def stop(self) -> None:
        """Stop sending, and leave."""
        self._over.set()
        for thread in self._threads[1:]:
            thread.join(CALL_S)
        self._messages.cancel()
        self._notices.cancel()
        self._threads[0].join(CALL_S)
        self._channel.close()
