"""`snapkafka.testing.system`, as users have it in tests of their own services."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.testing import Broker

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "testing.md"


def test_the_example_of_the_guide_runs(kafka: Broker, tmp_path: Path) -> None:
    """Both files as they stand, in a project of their own, where neither Spark nor Java can be found."""
    blocks = re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert [name for name, _ in blocks] == ["shop.py", "test_shop.py"]
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise ImportError('no Spark here')\n")
    here = str(tmp_path)
    env = {"PATH": here, "HOME": here, "PYTHONPATH": os.pathsep.join((here, str(ROOT)))}
    env["SNAPKAFKA_TEST_BOOTSTRAP"] = kafka.bootstrap
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_shop.py", "-p", "no:cacheprovider"],
        cwd=here, env=env, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert "1 passed" in done.stdout
