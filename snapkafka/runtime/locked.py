"""`python -m snapkafka.runtime.locked [--allow PORT]... COMMAND...`: a command that cannot open TCP connections.

The kernel enforces this on the command and on all its child processes, whatever their language and code; nothing can
undo it. Listening, UDP and sockets of the file system (`door`) work as before.

| mechanism | where | |
|---|---|---|
| Landlock | Linux 6.7 and later | refuses connections except to the ports of `--allow` and of name servers |
| a network namespace | where it may be created, without `--allow` | has only a loopback of its own |

It is no sandbox: Landlock covers `connect` and not every other way to open a stream (MPTCP, TCP Fast Open, SCTP,
io_uring). It keeps a client that was started by mistake from production. Both are described by the kernel:
`userspace-api/landlock`, `network_namespaces(7)`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

#: Numbers that are the same on every architecture of Linux.
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_VERSION: Final = 1
LANDLOCK_TCP_ABI: Final = 4
LANDLOCK_PORT: Final = 2
CONNECT_TCP: Final = 1 << 1
PR_SET_NO_NEW_PRIVS: Final = 38
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
#: Long answers of name servers come by TCP.
DNS_PORT: Final = 53
#: A command that was not started, as shells have it.
NOT_STARTED: Final = 126
PROBE_S: Final = 30.0
#: Tries to connect.
PROBE: Final = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])))
except OSError:
    print("locked")
"""


class LockError(OSError):
    """A mechanism that this machine lacks."""


def locked(command: Sequence[str], allow: Collection[int] = (), python: str = sys.executable) -> list[str]:
    """Return the words that start a command which cannot open TCP connections.

    Args:
        allow: ports of any host to which it may connect all the same.
        python: one with snapkafka installed.
    """
    return [python, "-m", __name__, *(f"--allow={port}" for port in sorted(allow)), *command]


def lock(allow: Collection[int] = ()) -> None:
    """Forbid this process, and everything that it becomes or starts, to open TCP connections. It must have one thread.

    Raises:
        LockError: this machine has no mechanism for it; each is named.
    """
    problems = []
    for mechanism in (lock_by_landlock, lock_by_namespace):
        try:
            return mechanism(allow)
        except LockError as error:
            problems.append(str(error))
    raise LockError("; ".join(problems))


def lock_problem(allow: Collection[int] = ()) -> str:
    """Test the lock on this machine: a locked process tries to connect to a port of ours. Empty: it could not.

    Returns:
        why commands cannot be locked here.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        try:
            done = subprocess.run(
                locked([sys.executable, "-c", PROBE, port], allow),
                capture_output=True, text=True, timeout=PROBE_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"a trial of it has not ended within {PROBE_S:.0f} s"
    if done.returncode == 0:
        return "" if done.stdout.strip() == "locked" else "a locked process could connect"
    return (done.stderr.strip() or f"a trial of it ended with status {done.returncode}").splitlines()[-1]


def lock_by_landlock(allow: Collection[int]) -> None:
    """Refuse TCP connections except to some ports.

    Raises:
        LockError: the kernel is older, or has Landlock disabled.
    """
    if sys.platform != "linux":
        raise LockError(f"{sys.platform} has no Landlock")
    libc = _libc()
    abi = libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), LANDLOCK_VERSION)
    if abi < LANDLOCK_TCP_ABI:
        raise LockError("Landlock of this kernel does not cover TCP (Linux 6.7 and later)")
    handled = struct.pack("QQ", 0, CONNECT_TCP)  # file system, network
    rules = libc.syscall(LANDLOCK_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    if rules < 0:
        raise LockError(f"Landlock: {_reason()}")
    try:
        for port in {DNS_PORT, *allow}:
            rule = struct.pack("QQ", CONNECT_TCP, port)
            if libc.syscall(LANDLOCK_ADD, rules, LANDLOCK_PORT, rule, 0):
                raise LockError(f"Landlock refuses port {port}: {_reason()}")
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(LANDLOCK_RESTRICT, rules, 0):
            raise LockError(f"Landlock: {_reason()}")
    finally:
        os.close(rules)


def lock_by_namespace(allow: Collection[int]) -> None:
    """Enter a network namespace of our own, without other processes.

    Raises:
        LockError: creating it is unauthorized, or there are allowed ports, which lie outside.
    """
    if allow:
        raise LockError("a network namespace cannot allow ports")
    if sys.platform != "linux":
        raise LockError(f"{sys.platform} has no network namespaces")
    libc, user, group = _libc(), os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET):
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
            raise LockError(f"a network namespace may not be created: {_reason()}")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path(f"/proc/self/{name}").write_text(text)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise LockError(f"a network namespace: {_reason()}")
    with contextlib.suppress(OSError):  # a web server of the command may want it; nobody else
        _start_loopback()


def _start_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _reason() -> str:
    return os.strerror(ctypes.get_errno())


def main(words: Sequence[str]) -> int:
    """Lock this process, and become the command; return an exit status if that fails."""
    allow = []
    while words and words[0].startswith("--allow="):
        allow.append(int(words[0].removeprefix("--allow=")))
        words = words[1:]
    try:
        lock(allow)
        os.execvp(words[0], list(words))
    except OSError as error:
        print(f"{' '.join(words)}: {error}", file=sys.stderr)
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
