"""A real schema registry on this machine (Apicurio), in one JVM, for as long as a test needs it.

It keeps schemas in memory and answers as Confluent's does below `url`.
"""

import json
import shutil
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

from snapkafka.runtime import jars
from snapkafka.testing import HOST
from tests.servers.jars import REGISTRY
from tests.servers.served import Served


class EmbeddedRegistry(Served):
    """One server, started by `with`."""

    NAME = "the schema registry"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/apis/ccompat/v7"

    def register(
        self,
        subject: str,
        schema: Any,
        *,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
    ) -> int:
        """Register a version of a subject; return its number.

        Args:
            schema: as text, or a value to encode as JSON.
            references: names that it uses, each with its subject and version.
        """
        body = {
            "schema": schema if isinstance(schema, str) else json.dumps(schema),
            "schemaType": kind,
            "references": [
                {"name": name, "subject": of, "version": version} for name, of, version in references
            ],
        }
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with _OPENER.open(request, timeout=30) as response:
            return int(json.load(response)["id"])

    def arguments(self) -> list[str]:
        (packed,) = jars([REGISTRY])
        shutil.unpack_archive(packed, self.folder)
        (program,) = self.folder.glob("*-runner.jar")
        settings = {"quarkus.http.host": HOST, "quarkus.http.port": str(self.port)}
        return ["-Xmx384m", *(f"-D{key}={value}" for key, value in settings.items()), "-jar", str(program)]

    def answers(self) -> bool:
        try:
            with _OPENER.open(f"{self.url}/subjects", timeout=5) as response:
                return bool(json.load(response) == [])
        except (OSError, ValueError):
            return False


#: Whatever proxy the environment names: this is here.
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
