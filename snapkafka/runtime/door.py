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
import socketserver
import threading
from pathlib import Path
from typing import Any, Final

from snapkafka.errors import BadInputError

#: In the environment of a locked process: where its door is.
DOOR: Final = "SNAPKAFKA_FORK_DOOR"
CONNECTS_WITHIN_S: Final = 20.0
#: A knock is answered at once, by a busy machine a little later.
ANSWERS_WITHIN_S: Final = 30.0
REQUEST_BYTES_MAX: Final = 4_096
#: A door that is closed is noticed by then.
POLL_S: Final = 0.1
#: The shortest bound of any system on the path of such a socket.
PATH_BYTES_MAX: Final = 100


class _Visit(socketserver.StreamRequestHandler):
    """A request, and its answer."""

    server: Door
    timeout = ANSWERS_WITHIN_S

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            try:
                request = json.loads(self.rfile.readline(REQUEST_BYTES_MAX))
                if request["fork"] != self.server.fork:
                    raise ValueError(f"this is a door of fork {self.server.fork}, not of {request['fork']}")
                self.server.joined.set()
                if not request.get("host"):
                    self.request.sendall(b"+")
                    return
                found = socket.create_connection((request["host"], request["port"]), CONNECTS_WITHIN_S)
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.request.sendall(b"-" + str(error).encode())
                return
            with found:
                socket.send_fds(self.request, [b"+"], [found.fileno()])


class Door(socketserver.ThreadingUnixStreamServer):
    """The serving side; use it in a `with` block.

    Args:
        path: of the socket; it must not exist yet.
        fork: of the processes that may pass.

    Raises:
        BadInputError: the path is too long for a socket.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path, fork: str) -> None:
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            raise BadInputError(
                f"{path} is too long for a socket", hint="set TMPDIR to a folder with a shorter path"
            )
        self.path, self.fork = path, fork
        self.joined = threading.Event()
        super().__init__(str(path), _Visit)
        threading.Thread(target=self.serve_forever, args=(POLL_S,), daemon=True).start()

    def server_close(self) -> None:
        """Close the door."""
        self.shutdown()
        super().server_close()
        self.path.unlink(missing_ok=True)


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
