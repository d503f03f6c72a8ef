"""Archives of Java's classes (AppCDS): Java maps one in the time in which it would load and check thousands of classes.

The second Java of a class path writes its archive when it exits, the header last; later ones map it. Not the first one:
writing takes up to half a minute for Spark, and nobody gains by it who runs it once. Java itself refuses an archive of
another Java, of other jars, or with other bytes than it had, and runs without it. It does not survive one that was cut
short afterwards: its size is noted when it is first seen whole.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from snapkafka.errors import DependencyMissingError

from .homes import cache_dir

#: Of one purpose; that of Spark takes 170 MB. Each Java, and each set of jars, needs one.
KEPT_MAX: Final = 4
#: One that nobody has mapped for so long gives way to another.
UNUSED_S: Final = 7 * 24 * 3600
#: Else Java reports to standard output that it does without an archive.
QUIET: Final = "-Xlog:cds*=off"
#: How an archive is mapped: if it is fit, and once its bytes were checked.
MAPPED: Final = ("-Xshare:auto", "-XX:+VerifySharedSpaces", QUIET)


def archive_options(purpose: str, java_home: Path, jars: Iterable[Path], *, record: bool = True) -> list[str]:
    """Return the options with which Java maps the archive of these jars; without one, those to write it at exit,
    from the second Java on.

    Args:
        purpose: the part of the archive's name that people read.
        java_home: of the Java that runs.
        jars: its class path, or what stands for it.
        record: whether to write a missing one.
    """
    try:
        archive = cache_dir() / "classes" / f"{purpose}-{_key(java_home, jars)}.jsa"
        if _is_whole(archive):
            with contextlib.suppress(PermissionError):  # another user's
                os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", *MAPPED]
        if not record:
            return []
        archive.parent.mkdir(parents=True, exist_ok=True)
        try:
            archive.with_suffix(".used").touch(exist_ok=False)
            return []  # it may be the only one
        except FileExistsError:
            pass
        others = {path: path.stat().st_mtime for path in archive.parent.glob(f"{purpose}-*.jsa")}
        unused = [path for path, mapped in others.items() if mapped < time.time() - UNUSED_S]
        for old in (*unused, archive):
            old.unlink(missing_ok=True)
            _noted(old).unlink(missing_ok=True)
        if len(others.keys() - {*unused, archive}) >= KEPT_MAX:
            return []
    except (OSError, DependencyMissingError):  # no cache, or not ours to write
        return []
    return [f"-XX:ArchiveClassesAtExit={archive}", QUIET]


def _key(java_home: Path, jars: Iterable[Path]) -> str:
    """Name the state of the files: a Java or a jar that is replaced needs another archive."""
    files = (java_home / "lib" / "modules", *jars)
    states = ((str(path), (it := path.stat()).st_size, it.st_mtime_ns) for path in files)
    return sha256(repr(sorted(states)).encode()).hexdigest()[:12]


def _is_whole(archive: Path) -> bool:
    try:
        with archive.open("rb") as content:
            if not any(content.read(4)):
                return False
        size = str(archive.stat().st_size)
    except FileNotFoundError:
        return False
    with contextlib.suppress(FileExistsError), _noted(archive).open("x") as noted:
        noted.write(size)
    return _noted(archive).read_text() == size


def _noted(archive: Path) -> Path:
    return archive.with_suffix(".size")
