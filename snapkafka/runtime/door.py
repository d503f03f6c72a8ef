"""A door: processes that cannot open TCP connections (`locked`) get connected sockets through it.

It is a socket of the file system. A visitor names its fork, and a broker; the answer is a socket that is connected to
it (`SCM_RIGHTS`, `unix(7)`). Only isolated processes know the protocol, so a request shows that they are isolated.

The request is a line of JSON, `{"fork": "drill-1", "host": "broker", "port": 9092}`; without a host it only knocks.
The answer is `+`, with the socket if one was requested, or `-` and the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any, Final, Self

from snapkafka.errors import BadInputError

#: In the environment of a locked process: where its door is.
DOOR: Final = "SNAPKAFKA_FORK_DOOR"
CONNECTS_WITHIN_S: Final = 20.0
#: A knock is answered at once, by a busy machine a little later.
ANSWERS_WITHIN_S: Final = 30.0
REQUEST_BYTES_MAX: Final = 4_096
#: The shortest bound of any system on the path of such a socket.
PATH_BYTES_MAX: Final = 100


class Door:
    """The serving side; use it in a `with` block.

    Args:
        path: of the socket; it must not exist yet.
        fork: of the processes that may pass.

    Raises:
        BadInputError: the path is too long for a socket.
    """

    def __init__(self, path: Path, fork: str) -> None:
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            raise BadInputError(
                f"{path} is too long for a socket", hint="set TMPDIR to a folder with a shorter path"
            )
        self.path, self.fork = path, fork
        self.joined = threading.Event()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True, name=f"door of {fork}").start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the door."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self._server.close()
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                visitor, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(visitor,), daemon=True).start()

    def _answer(self, visitor: socket.socket) -> None:
        with visitor, contextlib.suppress(OSError):
            visitor.settimeout(ANSWERS_WITHIN_S)
            try:
                request = json.loads(_line(visitor))
                if request["fork"] != self.fork:
                    raise ValueError(f"this is a door of fork {self.fork}, not of {request['fork']}")
                self.joined.set()
                if not request.get("host"):
                    visitor.sendall(b"+")
                    return
                found = socket.create_connection((request["host"], request["port"]), CONNECTS_WITHIN_S)
            except (OSError, ValueError, KeyError, TypeError) as error:
                visitor.sendall(b"-" + str(error).encode())
                return
            with found:
                socket.send_fds(visitor, [b"+"], [found.fileno()])


def knock(path: str, fork: str) -> None:
    """Announce at a door that this process is part of a fork, and isolated.

    Raises:
        OSError: the door does not answer, or belongs to another fork.
    """
    _ask(path, {"fork": fork})


def connect(path: str, fork: str, host: str, port: int) -> socket.socket:
    """Get a socket that is connected to a broker; it does not block.

    Raises:
        OSError: the door does not answer, or the broker cannot be reached from there.
    """
    found = _ask(path, {"fork": fork, "host": host, "port": port})
    if found is None:
        raise OSError(f"no socket to {host}:{port} came through {path}")
    found.setblocking(False)
    return found


def _ask(path: str, request: dict[str, Any]) -> socket.socket | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ANSWERS_WITHIN_S)
        asking.connect(path)
        asking.sendall(json.dumps(request).encode() + b"\n")
        answer, descriptors, _, _ = socket.recv_fds(asking, REQUEST_BYTES_MAX, 1)
        found = [socket.socket(fileno=number) for number in descriptors]
        if answer[:1] == b"+":
            return found[0] if found else None
        raise OSError(answer[1:].decode(errors="replace") or f"{path} was closed")


def _line(visitor: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < REQUEST_BYTES_MAX:
        if not (part := visitor.recv(REQUEST_BYTES_MAX)):
            break
        line += part
    return line
