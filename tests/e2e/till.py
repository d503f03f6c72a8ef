"""A process that does not speak Kafka: it has cash, and sends coins into a topic by gRPC."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import grpc

from snapkafka.service.grpc_api import snapshot_pb2 as pb
from snapkafka.service.grpc_api import snapshot_pb2_grpc as pb_grpc

__all__ = ["Till"]

CALL_S = 20.0


class Till:
    """Sends while a lock is free; takes the lock to record its state and give it, so that nothing is sent meanwhile."""

    def __init__(self, address: str, node: str, topic: str, cash: int) -> None:
        self.node, self.cash, self.sent = node, cash, 0
        self.cut: list[str] = []
        self.ended = ""
        self._topic = topic
        self._channel = grpc.insecure_channel(address)
        self._stub = pb_grpc.SnapshotServiceStub(self._channel)
        self._lock, self._over = threading.Lock(), threading.Event()
        self._stream = self._stub.Join(pb.JoinRequest(node_id=node, codec="json"))
        first = next(iter(self._stream))
        assert first.WhichOneof("notice") == "joined"
        self.process = first.joined.process
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._hear, self._send)]
        for thread in self._threads:
            thread.start()

    def _hear(self) -> None:
        try:
            for notice in self._stream:
                if notice.WhichOneof("notice") == "marker":
                    self._record(notice.marker.snapshot_id)
        except grpc.RpcError as error:
            self.ended = str(error.code())

    def _record(self, snapshot: str) -> None:
        with self._lock:
            chunks: Sequence[bytes] = [json.dumps({"cash": self.cash}).encode()]
            for number, data in enumerate(chunks):
                flush = pb.FlushRequest(
                    snapshot_id=snapshot, node_id=self.node, state_data=data, chunk=number
                )
                assert self._stub.FlushChannelState(flush, timeout=CALL_S).status == "STORED"
            marker: Any = pb.MarkerRequest(
                snapshot_id=snapshot, sender_node_id=self.node, timestamp_ns=time.time_ns()
            )
            if self._stub.SendMarker(marker, timeout=CALL_S).accepted:
                self.cut.append(snapshot)

    def _send(self) -> None:
        for number in itertools.count():
            if self._over.wait(0.002):
                return
            with self._lock:
                amount = 1 + number % 9
                coin = pb.SendRequest(
                    node_id=self.node,
                    topic=self._topic,
                    key=b"purse-%d" % (number % 50),
                    value=b"%d" % amount,
                )
                self._stub.Send(coin, timeout=CALL_S)
                self.cash -= amount
                self.sent += 1

    def stop(self) -> None:
        """Stop sending, and leave."""
        self._over.set()
        self._threads[1].join(CALL_S)
        self._stream.cancel()
        self._threads[0].join(CALL_S)
        self._channel.close()
