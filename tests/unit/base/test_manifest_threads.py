"""Threads that read their first manifests at the same time, as a service does: none of them ends the process.

msgspec learns of a type when it is decoded first, and two threads that do so at once read half of what it has learnt.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from snapkafka.manifest import dump
from tests.unit.base.test_manifest import example

PACKAGE = Path(__file__).resolve().parents[3] / "snapkafka"
AT_ONCE = """
import sys, threading
from pathlib import Path
from snapkafka.manifest import load
text, begin = Path(sys.argv[1]).read_text("utf-8"), threading.Barrier(16)
sys.setswitchinterval(1e-5)
found = []
threads = [threading.Thread(target=lambda: (begin.wait(), found.append(load(text).id))) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found))
"""


def test_sixteen_threads_read_their_first_manifest_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(dump(example()), "utf-8")
    for _ in range(5):  # each was a segmentation fault, nine times of ten
        done = subprocess.run(
            [sys.executable, "-c", AT_ONCE, path], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout.strip()) == (0, "16"), done.stderr[-500:]


def test_every_decoder_is_made_when_its_module_is_imported() -> None:
    """Imports have a lock."""
    for path in PACKAGE.rglob("*.py"):
        assert not re.search(r"json\.decode[,(][^\n]*type=", path.read_text("utf-8")), path
