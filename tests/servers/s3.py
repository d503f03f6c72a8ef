"""A real S3 server on this machine (S3Proxy), in one JVM, for as long as a test needs it.

It checks signatures, keeps objects in memory and knows conditional writes.
"""

import os
import secrets
import urllib.error
import urllib.request

import pytest
from obstore.exceptions import GenericError
from obstore.store import S3Store

from snapkafka.runtime import jars
from snapkafka.testing import HOST
from tests.servers.jars import S3_SERVER_JARS
from tests.servers.served import Served


class EmbeddedS3(Served):
    """One server, started by `with`. It knows one user, whose credentials are generated each time."""

    NAME = "S3Proxy"

    def __init__(self) -> None:
        super().__init__()
        self.user, self.secret = "snapkafka", secrets.token_hex(16)

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which Amazon's tools use it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.user,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def make_bucket(self, name: str) -> str:
        """Create a bucket; return its URI."""
        # Whose bucket is in the name of its host has no bucket in its path: a bucket is put like an object.
        whole = S3Store(
            "none",
            endpoint=self.endpoint,
            virtual_hosted_style_request=True,
            access_key_id=self.user,
            secret_access_key=self.secret,
            client_options={"allow_http": True},
        )
        with pytest.raises(GenericError):  # the answer has no ETag, as only objects do
            whole.put(name, b"")
        return f"s3a://{name}"

    def arguments(self) -> list[str]:
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
        return [
            "-Xmx256m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            # It sends standard error to its logger: one that writes there would go round in a circle.
            f"-Dorg.slf4j.simpleLogger.logFile={self.folder / 'log'}",
            *("-cp", os.pathsep.join(str(jar) for jar in jars(S3_SERVER_JARS))),
            *("org.gaul.s3proxy.Main", "--properties", str(config)),
        ]

    def answers(self) -> bool:
        """Return whether it answers: it refuses unsigned requests."""
        try:
            urllib.request.urlopen(self.endpoint, timeout=5).close()
        except urllib.error.HTTPError as error:
            with error:
                return error.code == 403
        except OSError:
            pass
        return False
