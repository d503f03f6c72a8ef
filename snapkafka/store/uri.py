"""The store for the URI of a storage, or for the place of a manifest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from snapkafka.errors import StorageError
from snapkafka.manifest import Manifest, load
from snapkafka.runtime.machine import expand_home

from .local_files import LocalFiles
from .remote_files import SCHEMES, RemoteFiles
from .store import Store

#: What no URI of an object store may hold: libraries and servers disagree about the place that it means.
AMBIGUOUS: Final = re.compile(r"[?*\[#%\\\s\x00-\x1f]|//|(?:^|/)\.{1,2}(?:/|$)")


def canonical(uri: str) -> str:
    """Return the one form of a path or URI that is checked and used: absolute, without links, `..` or escapes.

    Raises:
        StorageError: the URI of an object store is ambiguous, or a path cannot be followed.
    """
    parts = _split(uri)
    if "://" not in uri or parts.scheme == "file":
        path = unquote(parts.path) if parts.scheme == "file" else uri
        try:
            return str(expand_home(path).resolve())
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a character that no path has
            raise StorageError("the storage's path cannot be resolved", hint="check its links") from error
    if found := AMBIGUOUS.search(uri.partition("://")[2]):
        raise StorageError(
            f"the URI of the storage has {found[0]!r}, which is ambiguous there",
            hint="write SCHEME://BUCKET/PREFIX without ? * [ # % // . and ..",
        )
    return uri


def _split(uri: str) -> SplitResult:
    """Split a URI.

    Raises:
        StorageError: it is none, or has a password, which would be written to the ledger and elsewhere; the error does
            not contain it.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise StorageError(
            "the URI of the storage has a host or bucket that is invalid", hint="write SCHEME://BUCKET/PREFIX"
        ) from None
    if parts.scheme == "file" and "://" not in uri:
        raise StorageError(f"storage {uri} is neither path nor URI", hint="write file:///a/path or /a/path")
    if parts.password:
        raise StorageError(
            f"storage {parts.scheme}://...@{parts.hostname} holds a secret, and a URI is written down",
            hint="set credentials in the environment: AWS_ACCESS_KEY_ID and so on",
        )
    return parts


def open_store(uri: str) -> Store:
    """Return the store at a URI or path.

    Raises:
        StorageError: this release cannot write to that place.
        DependencyMissingError: the library for its protocol is not installed.
    """
    parts = _split(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise StorageError(
                f"{uri} is on another machine ({parts.netloc})", hint="file:///a/path has three slashes"
            )
        return Store(LocalFiles(Path(unquote(parts.path))))
    if parts.scheme in SCHEMES and "://" in uri:
        if not parts.netloc:
            raise StorageError(f"storage {uri} lacks a bucket", hint=f"{parts.scheme}://BUCKET/PREFIX")
        return Store(RemoteFiles(canonical(uri)))
    if "://" in uri:
        raise StorageError(
            f"storage {uri}: {parts.scheme} is not supported",
            hint=f"give a directory, or a URI that begins with one of file, {', '.join(SCHEMES)}",
        )
    if not uri:
        raise StorageError("no storage is given", hint="add --storage DIR, here or with the trigger")
    return Store(LocalFiles(Path(uri)))


def written_down(uri: str) -> str:
    """Return the name of a storage for a record: an absolute path or URI. Empty stays empty.

    Raises:
        StorageError: the URI contains a password.
    """
    _split(uri)
    return str(expand_home(uri).absolute()) if uri and "://" not in uri else uri


def lies_in(storage: str, place: str) -> bool:
    """Return whether a manifest lies in a storage, by their names as records hold them; nothing is opened."""

    def plain(uri: str) -> str:
        parts = _split(uri)
        return unquote(parts.path) if parts.scheme == "file" else uri

    return bool(storage) and plain(place).rpartition("/")[0] == plain(storage).rstrip("/")


def open_manifest(place: str) -> tuple[Store, str]:
    """Return the store of a manifest, and the name of its file there.

    Args:
        place: path or URI.
    """
    if "://" in place:
        folder, _, name = place.rpartition("/")
        return open_store(folder), name
    path = Path(place)
    return Store(LocalFiles(path.parent)), path.name


def read_manifest(place: str) -> tuple[Store, Manifest]:
    """Read a manifest by its path or URI; return its storage and the manifest.

    Raises:
        StorageError: it cannot be read.
        BadInputError: it is not a manifest.
    """
    store, name = open_manifest(place)
    if (text := store.text(name)) is None:
        raise StorageError(f"manifest {place} cannot be read: there is no such file")
    return store, load(text, where=place)
