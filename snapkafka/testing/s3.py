"""A real S3 server on this machine (S3Proxy), in one JVM, for as long as a test needs it.

It checks signatures, keeps objects in memory and knows conditional writes. Like the embedded
broker it listens on a free port of 127.0.0.1, and is gone with its owner, whatever ends that (see `watchdog`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from snapkafka.errors import StorageError, TimedOutError
from snapkafka.runtime import jars, java
from snapkafka.testing.embedded import HOST, free_ports
from snapkafka.testing.toolchain import S3_SERVER_JARS

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["EmbeddedS3"]

#: It starts in 2-3 s here.
START_TIMEOUT_S: Final = 60.0


class EmbeddedS3:
    """One server, started by `with`. It knows one user, whose credentials are made up each time."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="snapkafka-s3-"))
        (self.port,) = free_ports(1)
        self.user, self.secret = "snapkafka", secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """What makes Amazon's tools use it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.user,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def make_bucket(self, name: str) -> str:
        """Its URI."""
        import s3fs

        s3fs.S3FileSystem(
            endpoint_url=self.endpoint, key=self.user, secret=self.secret, skip_instance_cache=True
        ).call_s3("create_bucket", Bucket=name)
        return f"s3a://{name}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _start(self) -> None:
        (self.folder / "tmp").mkdir()
        settings = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v4",
            "s3proxy.identity": self.user,
            "s3proxy.credential": self.secret,
            # Amazon's newest clients send checksums in headers that it does not know.
            "s3proxy.ignore-unknown-headers": "true",
            "jclouds.provider": "transient",
            "jclouds.identity": "none",
            "jclouds.credential": "none",
        }
        config = self.folder / "s3proxy.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        command = [
            str(java().executable),
            *("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            # It sends standard error to its logger: one that writes there would go round in a circle.
            f"-Dorg.slf4j.simpleLogger.logFile={self.folder / 'log'}",
            *("-cp", os.pathsep.join(str(jar) for jar in jars(S3_SERVER_JARS))),
            *("org.gaul.s3proxy.Main", "--properties", str(config)),
        ]
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        watchdog = [sys.executable, "-I", str(Path(__file__).with_name("watchdog.py"))]
        self._watchdog = subprocess.Popen(
            [*watchdog, str(os.getpid()), str(self._process.pid), str(self.folder)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._await_ready(self._process)

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if process.poll() is not None:
                raise StorageError(f"S3Proxy ended with status {process.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"S3Proxy did not answer in {START_TIMEOUT_S:g} s: {self._last_words()}",
                    hint="the machine may be overloaded; run it again",
                )
            time.sleep(0.1)

    def _answers(self) -> bool:
        """It refuses whoever does not sign."""
        try:
            urllib.request.urlopen(self.endpoint, timeout=5).close()
        except urllib.error.HTTPError as error:
            with error:
                return error.code == 403
        except OSError:
            pass
        return False

    def _last_words(self) -> str:
        said = (self.folder / name for name in ("output", "log"))
        return "\n".join(file.read_text("utf-8", errors="replace") for file in said if file.exists())[-1_000:]

    def _close(self) -> None:
        for process in (self._process, self._watchdog):
            if process is not None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
