"""Files that are renewed while a process runs (certificates, keys, tokens): read again as soon as they have changed."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

logger = logging.getLogger("snapkafka")

T = TypeVar("T")
_Stamp = tuple[tuple[int, int, int] | None, ...]


class Renewed(Generic[T]):
    """A value that is read from files, and read again when one of them has changed. Files that cannot be read are
    logged, and the value stays as it is.

    Args:
        what: the name of the value in the log.
        read: reads the files; raises if they are invalid, also when the value is created.
    """

    def __init__(self, what: str, paths: Sequence[str], read: Callable[[], T]) -> None:
        self._what, self._paths, self._read = what, [path for path in paths if path], read
        self._stamp = self._stamps()
        self._value = read()

    def get(self) -> T:
        """Return the value of the files as they are now."""
        stamp = self._stamps()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._value = self._read()
                logger.info("snapkafka: %s was renewed", self._what)
            except Exception as error:
                logger.warning("snapkafka: %s has changed and is not taken: %s", self._what, error)
        return self._value

    def _stamps(self) -> _Stamp:
        return tuple(map(_stamp, self._paths))


class RenewedContext(ssl.SSLContext):
    """A TLS context whose handshakes use the certificates and keys that lie in their files by then."""

    _renewed: Renewed[ssl.SSLContext]

    @classmethod
    def of(cls, what: str, paths: Sequence[str], make: Callable[[], ssl.SSLContext]) -> RenewedContext:
        """Create the context.

        Args:
            make: creates an ordinary context from the files; raises if they are invalid.
        """
        renewed = Renewed(what, paths, make)
        found = cls(renewed.get().protocol)
        found.check_hostname, found.verify_mode = renewed.get().check_hostname, renewed.get().verify_mode
        found._renewed = renewed
        return found

    def wrap_bio(self, *args: Any, **more: Any) -> ssl.SSLObject:
        """Begin a handshake, as asyncio does."""
        return self._renewed.get().wrap_bio(*args, **more)

    def wrap_socket(self, *args: Any, **more: Any) -> ssl.SSLSocket:
        """Begin a handshake on a socket."""
        return self._renewed.get().wrap_socket(*args, **more)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
