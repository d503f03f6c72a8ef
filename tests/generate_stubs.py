"""Generate the Python stubs of `schemas/snapshot.proto`: `python tests/generate_stubs.py` writes them.

They are committed, so that nobody needs a compiler to install the service; a test compares.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[1]
FOLDER = Path("snapkafka/service/grpc_api")
NAMES = ("snapshot_pb2.py",)


def generate(out: Path) -> Path:
    """Write the stubs below a folder; returns where they lie.

    Raises:
        RuntimeError: the compiler refuses.
    """
    status = protoc.main(
        [
            "protoc",
            f"-I{FOLDER}={ROOT / 'schemas'}",
            f"-I{files('grpc_tools') / '_proto'}",
            f"--python_out={out}",
            f"{FOLDER}/snapshot.proto",
        ]
    )
    if status:
        raise RuntimeError(f"protoc ended with status {status}")
    return out / FOLDER


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = generate(Path(folder))
        for name in NAMES:
            shutil.copy(made / name, ROOT / FOLDER / name)
            sys.stdout.write(f"{FOLDER / name}\n")
