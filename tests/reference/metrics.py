"""`metrics.md`: what workers, `snapkafka serve` and `snapkafka metrics` give to Prometheus, from what they give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from snapkafka.drivers.metrics import Metrics, families
from snapkafka.ops import Freshness, gauges
from snapkafka.service.metrics import counted, described

from .markdown import code, table


def page() -> str:
    """Return the page."""
    fresh = [
        (code(gauge.name), code(gauge.label), "gauge", gauge.help)
        for gauge in gauges(Freshness(now_ms=0, verdicts={}))
    ]
    head = ("metric", "label", "type", "meaning")
    worker = Metrics(outcomes={"captured": 1})  # type: ignore[arg-type]
    requests = CollectorRegistry(auto_describe=False)
    names = {next(iter(item.describe())).name: tuple(item._labelnames) for item in counted(requests)}
    return f"""# Metrics

## Freshness: what to alert on

{table(head, fresh)}
`snapkafka serve` has them at `/metrics`. `snapkafka metrics` prints them for one namespace; `--output FILE` replaces a
file of node exporter's textfile collector. All have the label `namespace`. An unknown metric is absent: there is no
good snapshot, or the broker does not show how long its topics keep records. `+Inf` seconds restorable: no topic ever
loses what is needed.

`docker/prometheus/rules.yaml` has alert rules, `docker/grafana/dashboards/snapkafka.json` a dashboard.

## Workers

`GET /snapkafka/metrics/` on the web server of each worker; counts are since its start.

{table(head, _rows(families(worker, participating=True, ledger_lag=0), {}))}
## `snapkafka serve`

`GET /metrics`, beside those of freshness.

{table(head, _rows([*requests.collect(), *described()], names))}"""


def _rows(found: Iterable[Any], names: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, str, str]]:
    for family in found:
        name = family.name + ("_total" if family.type == "counter" else "")
        values: dict[str, set[str]] = {}
        for sample in family.samples:
            for label, value in sample.labels.items():
                if label != "le":
                    values.setdefault(label, set()).add(value)
        labels = names.get(family.name) or getattr(family, "_labelnames", ()) or tuple(values)
        reported = family.documentation
        for label in labels:
            if len(values.get(label, ())) > 1:
                reported += f"; {label}: " + ", ".join(code(value) for value in sorted(values[label]))
        yield code(name), " ".join(code(label) for label in labels), family.type, reported
