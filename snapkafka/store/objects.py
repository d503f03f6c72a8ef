"""Snapshots in object storage: S3 and compatible servers, through fsspec.

Object storage has no renames and no locks. Each assembly writes its tables into a folder of its own, `<id>/run-<32 hex
digits>/`, where they stay; the manifest names them by their paths, and putting it makes all of them appear at once. So
two assemblies of the same snapshot do not meet before the manifest, and one that is killed half-way leaves files that
no manifest names. Only its age distinguishes a dead writer's folder from a living one's (`leftovers`).

The manifest is put under a condition (`If-Match`, `If-None-Match`): it only replaces the one that was read. If a
server knows no such conditions, the last one wins, which names its own files alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import random
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from io import BufferedIOBase
from pathlib import PurePosixPath
from typing import Any, Final, cast

from snapkafka.errors import DependencyMissingError, SnapkafkaError, StorageError
from snapkafka.manifest import Manifest, TableEntry, dump, file_stem

from .base import LEFTOVER_AFTER_S, Folder, Hashed, Leftover, RemoteFolder, Store, manifest_name, same_rows
from .reaching import is_throttled, options, reason

#: Writers that begin at the same moment hit a limit of requests together, and together again when they retry.
JITTER_S: Final = 0.5
#: In the folder of a snapshot, that of one assembly.
RUN: Final = re.compile(r"([^/]+/run-[0-9a-f]{32})/.*", re.DOTALL)
#: As often a manifest is put that somebody else keeps replacing.
PUTS_MAX: Final = 10


class ObjectStore(Store):
    """Manifests and tables below a prefix of a bucket.

    Args:
        uri: `s3a://bucket/prefix`.
        scheme: its name in Spark.

    Raises:
        DependencyMissingError: the library for its protocol is not installed.
    """

    def __init__(self, uri: str, scheme: str) -> None:
        self._uri = uri.rstrip("/")
        self.scheme = scheme
        try:
            from fsspec.core import url_to_fs

            self._fs: Any
            self._fs, root = url_to_fs(self._uri, **options(scheme))
            if scheme == "s3a":
                from s3fs.core import set_custom_error_handler

                set_custom_error_handler(is_throttled)
        except (ImportError, OSError) as error:  # the latter of a library of the system's that is not there
            extra = "snapkafka[s3]" if scheme == "s3a" else "fsspec's support of it"
            raise DependencyMissingError(
                f"storage {uri}: {error}",
                hint=f"pip install '{extra}'" if scheme == "s3a" else f"install {extra}",
            ) from error
        self._root = root.rstrip("/")

    @property
    def uri(self) -> str:
        return self._uri

    def __str__(self) -> str:
        return self._uri

    def _try(self) -> None:
        probe = self._path(f".tmp-{uuid.uuid4().hex}")
        with self._errors("written"):
            self._fs.pipe_file(probe, b"")
            self._fs.rm_file(probe)

    # -- reading ----------------------------------------------------------------------------------------------

    def place(self, path: str) -> str:
        return f"{self._uri}/{path}"

    def spark_uri(self, path: str) -> str:
        return f"{self.scheme}://{self._uri.partition('://')[2]}/{path}"

    @property
    def filesystem(self) -> Any:
        return self._fs

    def text(self, name: str) -> str | None:
        content = self._content(name)
        return None if content is None else content.decode()

    def texts(self) -> dict[str, str]:
        found = {}
        for name, content in self._contents().items():
            with contextlib.suppress(UnicodeDecodeError):
                found[name] = content.decode()
        return found

    def size(self, path: str) -> int | None:
        with self._errors("read"):
            info = self._info(path)
            return None if info is None else int(info["size"])

    def sizes(self, table: TableEntry) -> Mapping[str, int]:
        there = self._below(table.path)  # one request for a thousand of them
        return {file.path: there[file.path] for file in table.files if file.path in there}

    def open(self, path: str) -> BufferedIOBase:
        with self._errors("read"):
            return cast(BufferedIOBase, self._fs.open(self._path(path), "rb"))

    def sha256(self, path: str) -> str:
        with self._errors("read"):
            return super().sha256(path)

    def files_of(self, manifest: Manifest) -> Sequence[str]:
        runs = {run for path in _named(manifest) if (run := _run(path))}
        return [path for path in self._below(file_stem(manifest.id)) if _run(path) in (None, *runs)]

    # -- writing ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def staging(self, snapshot_id: str) -> Iterator[RemoteFolder]:
        stem = file_stem(snapshot_id)
        for left in self._leftovers(stem, older_than_s=LEFTOVER_AFTER_S):
            self.clear(left)
        path = f"{stem}/run-{uuid.uuid4().hex}"
        try:
            yield RemoteFolder(path=path, uri=self.spark_uri(path))
        finally:
            with contextlib.suppress(StorageError):  # then it is found when it is old
                if path not in (self.text(manifest_name(snapshot_id)) or ""):
                    self.clear(Leftover(name=path, bytes=0))

    def put(self, staged: Folder, path: str, content: bytes) -> None:
        assert isinstance(staged, RemoteFolder), "from `staging`"
        with self._errors("written"):
            self._fs.pipe_file(self._path(f"{staged.path}/{path}"), content)

    def publish(self, manifest: Manifest, staged: Folder, *, hashed: Hashed | None = None) -> Manifest:
        assert isinstance(staged, RemoteFolder), "from `staging`"
        time.sleep(random.uniform(0, JITTER_S))
        name = manifest_name(manifest.id)
        for _ in range(PUTS_MAX):
            with self._errors("written"):
                before = self._info(name)
            content = (self._content(name) or b"") if before is not None else b""
            there = same_rows(self, content.decode(errors="replace"), manifest, hashed)
            new = dataclasses.replace(manifest, tables=there.tables) if there is not None else manifest
            with self._errors("written"):
                if self._put(name, dump(new).encode(), before):
                    return new
        raise StorageError(
            f"manifest {self.place(name)} was replaced by others {PUTS_MAX} times while it was written",
            hint="see who else assembles this snapshot, and run it again",
        )

    def _put(self, name: str, content: bytes, before: Mapping[str, Any] | None) -> bool:
        """Put a file where there was none, or in place of the known one; False: there is another one by now."""
        etag = None if before is None else before.get("ETag")
        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"} if before is None else {}
        if self.scheme != "s3a":
            condition = {}
        try:
            self._fs.pipe_file(self._path(name), content, **condition)
        except OSError as error:
            code = _code(error)
            if code in ("PreconditionFailed", "ConditionalRequestConflict", "412", "409"):
                return False
            if not condition or error.errno != errno.ENOSYS:
                raise
            self._fs.pipe_file(self._path(name), content)  # it knows no conditions
        return True

    # -- removing ---------------------------------------------------------------------------------------------

    def bytes_of(self, manifest: Manifest) -> int:
        sizes = self._below(file_stem(manifest.id))
        own = self.size(manifest_name(manifest.id)) or 0
        return own + sum(sizes.get(path, 0) for path in _named(manifest))

    def foreign_files(self, manifest: Manifest) -> Sequence[str]:
        return sorted(set(self.files_of(manifest)) - _named(manifest))

    def remove(self, manifest: Manifest) -> None:
        with self._errors("written"):
            self._delete([manifest_name(manifest.id)])
            named = _named(manifest)
            self._delete(sorted(named & self._below(file_stem(manifest.id)).keys()))
            for run in sorted({run for path in named if (run := _run(path))}):
                self._delete_folders(run)

    def leftovers(self, *, older_than_s: float) -> Sequence[Leftover]:
        return self._leftovers("", older_than_s=older_than_s)

    def clear(self, leftover: Leftover) -> None:
        with self._errors("written"):
            self._delete(sorted(self._below(leftover.name)))
            self._delete_folders(leftover.name)

    def _leftovers(self, folder: str, *, older_than_s: float) -> Sequence[Leftover]:
        """List folders of assemblies that no manifest names and that have not been written to for so long."""
        with self._errors("read"):
            before = datetime.now(UTC).timestamp() - older_than_s
            runs: dict[str, list[Mapping[str, Any]]] = {}
            # Whoever was killed before the first file, or after the last one, has left nothing but folders.
            for path, info in self._found(folder, folders=True).items():
                if run := _run(path):
                    runs.setdefault(run, []).append(info)
            old = {run: files for run, files in runs.items() if max(map(_written, files)) < before}
        if not old:
            return []
        named = b"\n".join(self._contents().values())  # also by what is no manifest of this release
        return [
            Leftover(name=run, bytes=sum(int(file["size"]) for file in files))
            for run, files in sorted(old.items())
            if run.rpartition("/")[2].encode() not in named
        ]

    # -- fsspec -----------------------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _content(self, name: str) -> bytes | None:
        with self._errors("read"):
            try:
                return cast(bytes, self._fs.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def _contents(self) -> Mapping[str, bytes]:
        """Return every file that may be a manifest, by its name."""
        with self._errors("read"):
            places = sorted(item["name"] for item in self._listed() if item["name"].endswith(".json"))
            found = self._fs.cat(places, on_error="return") if places else {}
            for content in found.values():
                if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                    raise content
        # What is an error still was removed just now.
        return {p.rpartition("/")[2]: found[p] for p in places if isinstance(found[p], bytes)}

    def _info(self, path: str) -> Mapping[str, Any] | None:
        """Return the attributes of a file; None: it does not exist."""
        try:
            info: Mapping[str, Any] = self._fs.info(self._path(path))
        except FileNotFoundError:
            return None
        return info if info["type"] == "file" else None

    def _listed(self) -> Sequence[Mapping[str, Any]]:
        """List the entries of the storage itself. A prefix without objects does not exist; a bucket has to."""
        try:
            found: Sequence[Mapping[str, Any]] = self._fs.ls(self._root, detail=True)
        except FileNotFoundError:
            if self.scheme == "s3a":
                self._fs.call_s3("head_bucket", Bucket=self._root.split("/")[0])
            return []
        return [item for item in found if item["type"] == "file"]

    def _found(self, folder: str, *, folders: bool = False) -> Mapping[str, Mapping[str, Any]]:
        """Return all files below a folder, by their paths.

        Args:
            folders: whether to include the empty objects that stand for folders (`_delete_folders`).
        """
        found = self._fs.find(self._path(folder), detail=True)
        return {
            name.removeprefix(f"{self._root}/"): info
            for name, info in found.items()
            if info["type"] == "file" and (folders or not name.endswith("/"))
        }

    def _below(self, folder: str) -> Mapping[str, int]:
        with self._errors("read"):
            return {path: int(info["size"]) for path, info in sorted(self._found(folder).items())}

    def _delete(self, paths: Sequence[str]) -> None:
        with contextlib.suppress(FileNotFoundError):
            if paths:
                self._fs.rm([self._path(path) for path in paths])

    def _delete_folders(self, run: str) -> None:
        """Delete the empty objects, with a slash at the end of their names, that Hadoop's S3A leaves for folders."""
        if self.scheme != "s3a":
            return
        bucket, _, prefix = self._path(run).partition("/")
        more: dict[str, str] = {}
        while True:
            page = self._fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=f"{prefix}/", **more)
            empty = [item["Key"] for item in page.get("Contents", ()) if not item["Size"]]
            for key in (key for key in empty if key.endswith("/")):
                self._fs.call_s3("delete_object", Bucket=bucket, Key=key)
            if not page["IsTruncated"]:
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    @contextlib.contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except SnapkafkaError:
            raise
        except Exception as error:  # each library has errors of its own, without a common base
            why, hint = reason(error)
            raise StorageError(f"storage {self} cannot be {done}: {why}", hint=hint) from error


def _named(manifest: Manifest) -> set[str]:
    """Return the files that a manifest names in its own folder: files of another snapshot do not belong to it."""
    paths = {str(PurePosixPath(file.path)) for table in manifest.tables for file in table.files}
    stem = file_stem(manifest.id)
    return {path for path in paths if path.startswith(f"{stem}/") and ".." not in PurePosixPath(path).parts}


def _run(path: str) -> str | None:
    """Return the folder of the assembly that wrote a file; None: it is in none."""
    found = RUN.fullmatch(path)
    return found[1] if found else None


def _written(info: Mapping[str, Any]) -> float:
    """Return when a file was written, in seconds since 1970; now, if unknown."""
    for name in ("LastModified", "mtime", "last_modified", "created", "updated"):
        when = info.get(name)
        if isinstance(when, datetime):
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        if isinstance(when, (int, float)):
            return float(when)
    return float("inf")


def _code(error: OSError) -> str:
    """Return S3's code of an error."""
    response = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
