"""`snapkafka.testing.system`, as users have it in tests of their own services."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from snapkafka.errors import BadInputError
from snapkafka.testing import Broker, RunningSystem
from tests.e2e import tested_shop as shop

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "testing.md"
CUSTOMERS = ("ann", "bob", "cid")
MONEY = """
SELECT (SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM state WHERE table_name = 'ordered') AS ordered,
       (SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM state WHERE table_name = 'paid') AS paid,
       (SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM messages WHERE topic = 'tested-to-pay') AS between
"""


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


@pytest.mark.nightly
def test_a_snapshot_is_consistent_and_can_be_asked(snapkafka_system: Callable[..., RunningSystem]) -> None:
    s = snapkafka_system(shop.orders, f"{shop.__name__}:payments", workers=2)
    for customer in CUSTOMERS:
        s.send("tested-new-orders", *range(1, 101), key=customer)
    s.wait_until("an order to be taken", lambda: not s.snapshot().assembled.idle)
    first, snapshot = s.snapshot(), s.snapshot()
    assert 0 < first.epoch < snapshot.epoch
    assert snapshot.tables("processes").num_rows == 4
    with pytest.raises(BadInputError, match="sate"):
        snapshot.tables("sate")
    found = snapshot.assert_consistent()
    assert found.verdict.startswith("VERIFIED")
    (money,) = snapshot.query(MONEY)
    assert money["ordered"] == money["paid"] + money["between"]

    def all_paid() -> bool:
        (later,) = s.snapshot().query(MONEY)
        return bool(later["paid"] == 3 * 5_050)

    s.wait_until("all orders to be paid", all_paid, timeout_s=120)
