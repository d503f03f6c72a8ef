"""R16 in real workers: an aligned snapshot of two apps, two workers each, has no message in flight."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.demo import wait_until
from snapkafka.testing import Broker

from .aligned_system import Load, counted, in_flight, two


@pytest.mark.timeout(400)
def test_r16_an_aligned_snapshot_of_real_workers_has_no_message_in_flight(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """Two apps with two workers each, the second one slower than its load. What was held back is neither lost nor
    processed twice."""
    with two(kafka.bootstrap, namespace, tmp_path, slow_s=0.007) as apps:
        with Load(kafka.bootstrap, f"{apps.id}-in", rate=300) as load:
            ordinary = [apps.snapshot("ordinary-1", align=False)]
            aligned = [apps.snapshot(f"aligned-{n}") for n in range(3)]
            ordinary.append(apps.snapshot("ordinary-2", align=False))
            load.burst = 300  # a second and more of work for each worker, in which no cut can be aligned
            hurried = apps.snapshot("hurried", align_timeout_ms=50)
        for found in aligned:
            assert found.captured is not None and found.captured.alignment is not None
            assert found.captured.alignment.aligned, found.captured.alignment.why
            assert in_flight(found.captured) == 0
        assert any(in_flight(found.captured) for found in ordinary if found.captured), "else nothing is shown"
        assert all(found.captured and found.captured.alignment is None for found in ordinary)
        assert hurried.captured is not None and hurried.captured.alignment is not None
        assert "was not aligned within 50 ms: it waited for " in hurried.captured.alignment.why
        assert in_flight(hurried.captured) > 0
        for role in ("front", "back"):
            log = f"{apps.id}-{role}-counts-changelog"
            wait_until(
                f"{role} to count what was sent",
                lambda: sum(counted(kafka.bootstrap, log).values()) >= sum(load.sent.values()),  # noqa: B023
                timeout_s=120,
                system=apps.system,
                period_s=1,
            )
            assert counted(kafka.bootstrap, log) == dict(load.sent)
