"""A filter of system calls (seccomp) that leaves `connect` on TCP as the only way to open a stream.

Landlock covers `connect` on TCP sockets. A connection can also be opened by sending (TCP Fast Open) or by another
protocol (MPTCP, SMC, SCTP, DCCP), and requests to io_uring pass no filter. All of these are refused as by a kernel
without them; sockets of the file system, TCP, UDP and ICMP work as before.

The program is classic BPF (`seccomp(2)`), assembled from labelled jumps.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
#: Instructions of classic BPF: load a word of the data, and, jump if equal, jump if any bit is set, return.
LD, AND, JEQ, JSET, RET = 0x20, 0x54, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
#: Where the data of a call has its number, its architecture, and the lower half of its arguments.
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
#: A call of the 32-bit kind on x86-64 has this bit in its number.
X32_BIT: Final = 0x40000000

MSG_FASTOPEN, TCP_FASTOPEN_CONNECT = 0x20000000, 30
STREAM, DATAGRAM, KIND_MASK = 1, 2, 0xF
FAMILIES: Final = (1, 16)  # of the file system, netlink
INTERNET: Final = (2, 10)
PROTOCOLS: Final = (0, 1, 6, 17, 58, 136)  # whichever fits, ICMP, TCP, UDP, ICMPv6, UDP-Lite

#: Architecture -> how the kernel names it, and the numbers of its calls.
MACHINES: Final[dict[str, tuple[int, dict[str, int]]]] = {
    "x86_64": (
        0xC000003E,
        {"socket": 41, "sendto": 44, "sendmsg": 46, "setsockopt": 54, "sendmmsg": 307, "io_uring_setup": 425},
    ),
    "aarch64": (
        0xC00000B7,
        {
            "socket": 198,
            "sendto": 206,
            "sendmsg": 211,
            "setsockopt": 208,
            "sendmmsg": 269,
            "io_uring_setup": 425,
        },
    ),
}

#: A label, or an instruction: code, operand, where it jumps to if its condition holds, and if not.
Line = str | tuple[int, int, str, str]


def install_stream_filter(libc: Any) -> None:
    """Filter the calls of this process, and of everything that it becomes or starts; it cannot gain rights any more.

    Raises:
        OSError: the kernel has no such filters, or this architecture is not supported.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(errno.ENOTSUP, f"no filter of system calls for {platform.machine()}")
    program = assembled([*_lines(*machine)])
    count = len(program) // 8
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", count, ctypes.addressof(code))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refuses a filter of system calls")


def assembled(lines: list[Line]) -> bytes:
    """Translate labels into distances."""
    places: dict[str, int] = {}
    instructions: list[tuple[int, int, str, str]] = []
    for line in lines:
        if isinstance(line, str):
            places[line] = len(instructions)
        else:
            instructions.append(line)

    def distance(at: int, label: str) -> int:
        return places[label] - at - 1 if label else 0

    return b"".join(
        struct.pack("HBBI", code, distance(at, yes), distance(at, no), operand)
        for at, (code, operand, yes, no) in enumerate(instructions)
    )


def _lines(architecture: int, calls: dict[str, int]) -> Iterator[Line]:
    yield _load(ARCHITECTURE)
    yield (JEQ, architecture, "known", "foreign")
    yield "foreign"
    yield _refuse(errno.ENOSYS)
    yield "known"
    yield _load(NUMBER)
    yield (JSET, X32_BIT, "foreign x32", "native")
    yield "foreign x32"
    yield _refuse(errno.ENOSYS)
    yield "native"
    for name, number in calls.items():
        yield (JEQ, number, name, f"not {name}")
        yield name
        yield from _of_call(name)
        yield f"not {name}"
    yield "allowed"
    yield (RET, ALLOW, "", "")


def _of_call(name: str) -> Iterator[Line]:
    if name == "socket":
        yield from _of_socket()
    elif name == "setsockopt":
        yield _argument(1)
        yield (JEQ, socket.IPPROTO_TCP, "option of TCP", "other option")
        yield "option of TCP"
        yield _argument(2)
        yield (JEQ, TCP_FASTOPEN_CONNECT, "fast open", "other option")
        yield "fast open"
        yield _refuse(errno.ENOPROTOOPT)
        yield "other option"
        yield (RET, ALLOW, "", "")
    elif name == "io_uring_setup":
        yield _refuse(errno.ENOSYS)
    else:
        yield _argument(2 if name == "sendmsg" else 3)
        yield (JSET, MSG_FASTOPEN, f"{name} opens", f"{name} sends")
        yield f"{name} opens"
        yield _refuse(errno.EOPNOTSUPP)
        yield f"{name} sends"
        yield (RET, ALLOW, "", "")


def _of_socket() -> Iterator[Line]:
    yield _argument(0)
    yield from _one_of(FAMILIES, "good socket", "family")
    yield from _one_of(INTERNET, "internet", "internet family")
    yield _refuse(errno.EAFNOSUPPORT)
    yield "internet"
    yield _argument(1)
    yield (AND, KIND_MASK, "", "")
    yield from _one_of((STREAM, DATAGRAM), "plain kind", "kind")
    yield _refuse(errno.EPROTONOSUPPORT)
    yield "plain kind"
    yield _argument(2)
    yield from _one_of(PROTOCOLS, "good socket", "protocol")
    yield _refuse(errno.EPROTONOSUPPORT)
    yield "good socket"
    yield (RET, ALLOW, "", "")


def _one_of(values: tuple[int, ...], found: str, what: str) -> Iterator[Line]:
    """Return instructions that jump if the loaded value is one of these."""
    for value in values:
        yield (JEQ, value, found, f"{what} is not {value}")
        yield f"{what} is not {value}"


def _load(place: int) -> Line:
    return (LD, place, "", "")


def _argument(number: int) -> Line:
    return _load(ARGUMENTS + 8 * number)


def _refuse(number: int) -> Line:
    return (RET, ERRNO | number, "", "")
