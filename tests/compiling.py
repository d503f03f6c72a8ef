"""`python -m tests.compiling FOLDER`: a copy of the checkout in which what runs for every event is compiled (mypyc).

Compiled and plain are the same sources (`pyproject.toml` names them): who installs a wheel that was built so has the
compiled ones. The copy keeps them apart from the checkout, whose own tests patch what cannot be patched in C.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["COPY", "compiled", "compiler"]

CHECKOUT: Final = Path(__file__).parents[1]
#: Where `make compiled` has it.
COPY: Final = CHECKOUT / "build" / "compiled"


def compiler() -> str | None:
    """The C compiler that a build would use; None where there is none."""
    return shutil.which(os.environ.get("CC", "cc"))


def compiled(folder: Path = COPY) -> Path:
    """Make it anew, a minute or two. Where there is no compiler it is a copy and no more.

    Raises:
        subprocess.CalledProcessError: it could not be compiled; what was said stands above it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (CHECKOUT / name).is_file():  # and not deleted just now
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)
    if compiler() is None:
        return folder
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."],
        cwd=folder,
        check=True,
        env=os.environ | {"HATCH_BUILD_HOOKS_ENABLE": "1"},
    )
    return folder


if __name__ == "__main__":
    print(f"{'compiled' if compiler() else 'no C compiler, so only copied'}: {compiled(Path(sys.argv[1]))}")
