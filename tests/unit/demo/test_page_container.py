"""The service behind the port of a container: it answers there, and ends with its door."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request

from snapkafka.demo.page import PORT
from snapkafka.testing import free_ports
from snapkafka.until import blocking_until

RUN = """
import asyncio, sys
from snapkafka.demo.page import run
sys.exit(asyncio.run(run(sys.argv[3:], port=int(sys.argv[1]), behind=int(sys.argv[2]))))
"""


def test_the_service_answers_at_the_port_of_its_container_and_ends_with_it() -> None:
    port, behind, nobody = free_ports(3)
    arguments = ["--bootstrap", f"127.0.0.1:{nobody}", "--namespace", "demo"]
    command = [sys.executable, "-c", RUN, str(port), str(behind), *arguments]

    def answer(path: str, host: str) -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host})
        try:
            with urllib.request.urlopen(request, timeout=5) as found:
                return int(found.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            blocking_until(lambda: answer("/healthz", "127.0.0.1") == 200, 60, "the service to answer")
            assert answer("/", f"localhost:{PORT}") == 200
            assert answer("/v1/snapshots", "elsewhere.example.com") == 403
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 143
        finally:
            process.kill()
    assert answer("/healthz", "127.0.0.1") == 0
